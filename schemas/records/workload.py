"""Workload: one named size of a problem."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from kbench.schemas.record import Count, Name, Record


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Workload(Record):
    """One named size of a problem: parameters, seed, and what it must at least compute and move."""

    TYPE: ClassVar[str] = "workload"
    VERSION: ClassVar[str] = "1.0.0"

    name: Name
    """Name within the problem, such as `large`; `tiny` is for CPU checks and is never timed."""
    params_json: str
    """Shape parameters as a JSON object with sorted keys, such as {"cols": 4096, "rows": 8192}."""
    inputs: tuple[str, ...]
    """Each input as dtype[shape], such as float32[8192,4096]; a Python scalar as its value."""
    outputs: tuple[str, ...]
    """Each output as dtype[shape]."""
    seed: Count
    """Base seed from which inputs are drawn."""
    flops: Count
    """Arithmetic operations any correct kernel must do (a multiply-add counts two)."""
    min_bytes: Count
    """Fewest bytes that must cross device memory: each input read once, each output written once."""
