"""What one row of each training format holds. Every row names its split, and no file mixes two."""

from __future__ import annotations

import dataclasses
from typing import Annotated, ClassVar

from kbench.schemas import Backend, QuestionKind, Record, Status
from kbench.schemas.record import Count, Limit, Name, Positive, Sha


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Message(Record):
    """One turn of a chat."""

    TYPE: ClassVar[str] = "message"
    VERSION: ClassVar[str] = "1.0.0"

    role: str
    """system, user or assistant."""
    content: str
    """Its text."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class TrainingRow(Record):
    """What every format says: the prompt and where the row belongs."""

    TYPE: ClassVar[str] = "training_row"
    VERSION: ClassVar[str] = "1.0.0"

    prompt: tuple[Message, ...]
    """System and user message."""
    problem_id: Name
    """The problem asked about."""
    family: Name
    """The problem's family."""
    backend: Backend
    """Backend of the kernels."""
    gpu: str
    """GPU of the measurements."""
    split: str
    """Split of every kernel in the row."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Preference(TrainingRow):
    """Two correct kernels of one problem whose intervals of runtime do not touch."""

    TYPE: ClassVar[str] = "preference"

    chosen: tuple[Message, ...]
    """The faster kernel as an answer."""
    rejected: tuple[Message, ...]
    """The slower kernel as an answer."""
    margin: Positive
    """log2 of slower time over faster time."""
    question_id: Sha
    """The question it comes from."""
    chosen_id: Sha
    """The faster kernel."""
    rejected_id: Sha
    """The slower kernel."""
    chosen_speedup: Positive
    """Speedup of the faster kernel over the PyTorch reference."""
    rejected_speedup: Positive
    """Speedup of the slower kernel over the PyTorch reference."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ForecastPrompt(TrainingRow):
    """A question about two kernels, with its measured answer beside it."""

    TYPE: ClassVar[str] = "forecast_prompt"

    question_id: Sha
    """The question."""
    kind: QuestionKind
    """edit, pair or level, as in the dataset's questions."""
    speedup: Positive
    """Measured S = anchor time over candidate time."""
    speedup_low: Positive | None
    """Lower end of its 95 % interval."""
    speedup_high: Positive | None
    """Upper end of its 95 % interval."""
    bin: Annotated[int, Limit(minimum=1, maximum=8)]
    """Bin of the speedup."""
    workload: str | None
    """The workload asked about; null for all of them."""
    core: bool
    """Whether the question is in core."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class WritePrompt(TrainingRow):
    """A problem to write a kernel for, with the best speedup measured."""

    TYPE: ClassVar[str] = "write_prompt"

    best_speedup: Positive | None
    """Best speedup of the split's kernels; null when none is correct."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Demonstration(TrainingRow):
    """A problem and one of its best kernels."""

    TYPE: ClassVar[str] = "demonstration"

    completion: tuple[Message, ...]
    """The kernel as an answer."""
    kernel_id: Sha
    """The kernel."""
    rank: Annotated[int, Limit(minimum=1)]
    """1 for the best of its problem, backend and GPU."""
    speedup: Positive
    """Its measured speedup over the PyTorch reference."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ScoredKernel(TrainingRow):
    """A problem, a measured kernel and its score."""

    TYPE: ClassVar[str] = "scored_kernel"

    completion: tuple[Message, ...]
    """The kernel as an answer."""
    kernel_id: Sha
    """The kernel."""
    score: float
    """As kbench.benchmark.rewards.kernel_score: log2 of the speedup, lower than any for a failed kernel."""
    status: Status
    """The verdict."""
    speedup: Positive | None
    """Its measured speedup over the PyTorch reference; null when it failed."""
    speedup_low: Positive | None
    """Lower end of its 95 % interval."""
    speedup_high: Positive | None
    """Upper end of its 95 % interval."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Candidate(Record):
    """One kernel that a search step measured."""

    TYPE: ClassVar[str] = "candidate"
    VERSION: ClassVar[str] = "1.0.0"

    kernel_id: Sha
    """The kernel."""
    source: str
    """Its source."""
    proposer: str
    """Who wrote it."""
    operator: str | None
    """fresh, mutate, cross or repair; null when the corpus has no events of the run."""
    parent_ids: tuple[Sha, ...]
    """The kernels it was derived from: none for a seed."""
    edit: str | None
    """What was changed, in the proposer's words."""
    diff: str | None
    """Unified diff from the first parent; null for a seed, or when that parent is not in this export."""
    status: Status
    """The verdict."""
    speedup: Positive | None
    """Its measured speedup over the PyTorch reference; null when it failed."""
    speedup_low: Positive | None
    """Lower end of its 95 % interval."""
    speedup_high: Positive | None
    """Upper end of its 95 % interval."""
    parent_speedup: Positive | None
    """Speedup of the first parent; null without one in this export."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class SearchStep(TrainingRow):
    """One step of a search: what was tried and what came of it."""

    TYPE: ClassVar[str] = "search_step"

    run_id: str
    """The search."""
    search_method: str
    """What chose the parents."""
    step: Count
    """Number of the step within the run."""
    best_before: Positive | None
    """Best speedup of the run's exported kernels before the step; null while none is correct."""
    best_after: Positive | None
    """The same after the step."""
    candidates: tuple[Candidate, ...]
    """Measured kernels, by id."""
