"""What a compiler can say of an unmeasured kernel. The benchmark compiles nothing itself: a compiler is passed to it.

Compiling runs foreign text, so it belongs to the harness, which has the sandbox. The kbench command passes the
harness's compiler to whatever asks surrogates.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Protocol

from kbench.schemas import KernelSource


@dataclasses.dataclass(frozen=True, slots=True)
class CompilerFacts:
    """Figures of a compiled kernel: the largest over its device functions."""

    registers: int
    shared_bytes: int
    spill_bytes: int
    instructions: Mapping[str, int] | None = None
    """Counts of PTX instructions by class, including `total`; None without PTX."""


class Compiler(Protocol):
    """Compiles kernels and runs none."""

    def __call__(self, kernels: Sequence[KernelSource], capability: str, /) -> Sequence[CompilerFacts | None]:
        """Facts of each kernel for a compute capability such as 9.0; None where it does not compile."""
        ...
