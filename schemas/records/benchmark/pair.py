"""Pair: a question about two kernels, with its measured answer."""

from __future__ import annotations

import dataclasses
from enum import StrEnum
from typing import Annotated, ClassVar

from kbench.schemas.record import Limit, Name, Positive, Record, Sha
from kbench.schemas.records.kernel import Backend


class PairKind(StrEnum):
    """What the anchor is to the candidate; `reference` is the PyTorch reference itself."""

    REFERENCE = "reference"
    PARENT_EDIT = "parent_edit"
    SIBLING = "sibling"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Pair(Record):
    """A question about an anchor and a candidate on one GPU, with its measured answer."""

    TYPE: ClassVar[str] = "pair"
    VERSION: ClassVar[str] = "1.1.0"

    pair_id: Sha
    """Hash of anchor, candidate, GPU and kind; says nothing about the answer."""
    problem_id: Name
    """The problem both solve."""
    family: Name
    """The problem's family."""
    backend: Backend
    """The candidate's backend."""
    gpu: str
    """GPU both were measured on."""
    anchor_id: Sha | None
    """The anchor kernel; null when the anchor is the PyTorch reference."""
    candidate_id: Sha
    """The candidate kernel."""
    kind: PairKind
    """reference, parent_edit or sibling."""
    speedup: Positive
    """S = anchor time over candidate time."""
    speedup_low: Positive | None
    """Lower end of its 95 % interval; null when the origin states none."""
    speedup_high: Positive | None
    """Upper end of its 95 % interval; null when the origin states none."""
    bin: Annotated[int, Limit(minimum=1, maximum=8)]
    """Bin of the speedup (kbench.schemas.bins)."""
    split: str
    """train, validation, test or test_seen."""
    origin: str
    """Where the row comes from: kbench, or the imported dataset with revision."""
