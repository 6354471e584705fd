"""What the benchmark asks and is told: pairs, queries, forecasts, scores, submissions."""

from __future__ import annotations

import dataclasses
import itertools
import math
from enum import StrEnum
from typing import Annotated, ClassVar

from kbench.schemas import bins
from kbench.schemas.errors import UserError
from kbench.schemas.record import Count, Limit, Name, NonNegative, Positive, Probability, Record, Sha
from kbench.schemas.records.kernels import AuthorClass, Backend


class PairKind(StrEnum):
    """What the anchor is to the candidate; `reference` is the PyTorch reference itself.

    A question calls the same kinds otherwise. Comparing with its words is refused: it would always be false.
    """

    REFERENCE = "reference"
    PARENT_EDIT = "parent_edit"
    SIBLING = "sibling"

    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        if isinstance(other, str) and other in QUESTION_WORDS:
            fix = f"compare with {QUESTION_WORDS[other]!r}"
            raise UserError(f"query.kind is never {str(other)!r}, which is a word of question.kind; {fix}")
        return str.__eq__(self, other)

    def __ne__(self, other: object) -> bool:
        return not self == other


QUESTION_WORDS = {"edit": "parent_edit", "pair": "sibling", "level": "reference"}
"""What a query calls each kind of question."""


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


class QuestionKind(StrEnum):
    """What a question compares a kernel with."""

    EDIT = "edit"
    """The kernel it was made from, by the same author class."""
    PAIR = "pair"
    """Another kernel of the same author class, neither made from the other."""
    LEVEL = "level"
    """The PyTorch reference; the questions of one pool are ranked against each other."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Question(Record):
    """One question of the benchmark: how much faster is the candidate than the anchor?"""

    TYPE: ClassVar[str] = "question"
    VERSION: ClassVar[str] = "1.0.0"

    question_id: Sha
    """Hash of kernels, GPU and workload; says nothing about the answer."""
    kind: QuestionKind
    """edit, pair or level."""
    author: AuthorClass
    """Author class of the candidate; the anchor's too, unless it is the reference."""
    problem_id: Name
    """The problem both solve."""
    family: Name
    """The problem's family."""
    backend: Backend
    """Backend of the candidate; the anchor's too, unless it is the reference."""
    gpu: str
    """GPU both were measured on."""
    workload: Name | None
    """The workload asked about; null for all of them (geometric mean)."""
    split: str
    """train, validation, test, test_near or test_seen."""
    core: bool
    """Whether it belongs to the fixed part of its split for models that cost money."""
    anchor_id: Sha | None
    """The anchor kernel; null for the PyTorch reference."""
    candidate_id: Sha
    """The candidate kernel."""
    pool: str | None
    """For kind level, the pool that the candidate is ranked in; else null."""
    known_ids: tuple[Sha, ...]
    """Measured kernels of the problem that the question may show, in order; on the same GPU no question of the problem
    is about them or about a kernel with their structure."""
    speedup: Positive | None
    """The answer: anchor time over candidate time. Null in a private edition."""
    speedup_low: Positive | None
    """Lower end of its 95 % interval."""
    speedup_high: Positive | None
    """Upper end of its 95 % interval."""
    bin: Annotated[int, Limit(minimum=1, maximum=8)] | None
    """Bin of the speedup (kbench.schemas.bins)."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class KnownKernel(Record):
    """A kernel of the query's problem and GPU that was measured before the question is asked."""

    TYPE: ClassVar[str] = "known_kernel"
    VERSION: ClassVar[str] = "1.0.0"

    source: str
    """Source without comments and docstrings."""
    backend: Backend
    """Its backend."""
    speedup: Positive
    """Its measured speedup over the PyTorch reference."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Query(Record):
    """What a surrogate is asked: how much faster is the candidate than the anchor?

    `kbench.schemas.json_schema(kbench.Query)` says what each field means.
    """

    TYPE: ClassVar[str] = "query"
    VERSION: ClassVar[str] = "1.2.0"

    query_id: Sha
    """Opaque identifier; says nothing about the answer."""
    problem_id: Name
    """The problem both kernels solve."""
    family: Name
    """The problem's family."""
    problem_text: str
    """The problem's prompt: what is computed, shapes, dtypes, reference source."""
    workloads_json: str
    """The timed workloads: names, inputs, outputs, flops and bytes, as JSON."""
    backend: Backend
    """The candidate's backend."""
    kind: PairKind
    """What the anchor is to the candidate."""
    anchor_source: str
    """Anchor source without comments and docstrings; the reference's source for kind reference."""
    candidate_source: str
    """Candidate source without comments and docstrings."""
    gpu: str
    """GPU name."""
    gpu_facts_json: str
    """Public facts of the GPU: capability, SM count, memory, L2, bandwidth, peaks, as JSON."""
    known: tuple[KnownKernel, ...] = ()
    """Up to eight kernels of the same problem and GPU with their speedups, neither the asked ones nor variants of
    them; empty unless the question is asked with shots."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Forecast(Record):
    """A surrogate's answer: a distribution over the eight bins, or a failure with its reason.

    `kbench.schemas.json_schema(kbench.Forecast)` says what each field means.
    """

    TYPE: ClassVar[str] = "forecast"
    VERSION: ClassVar[str] = "1.0.0"

    query_id: Sha
    """The query answered."""
    repeat: Count = 0
    """Which repeat, from 0."""
    probabilities: tuple[float, ...] | None = None
    """Eight probabilities, bins 1 to 8, that sum to one; null when the surrogate failed."""
    speedup: Positive | None = None
    """Optional point forecast of S."""
    p_valid: Probability | None = None
    """Optional probability that the candidate compiles, runs and is right."""
    confidence: Probability | None = None
    """Optional own confidence for deferral; when null, the largest probability serves."""
    failure: str | None = None
    """Why there is no answer; null when there is one."""
    raw_sum: NonNegative | None = None
    """Sum of the probabilities as given, before they were normalised."""
    input_tokens: Count | None = None
    """Tokens read, for language models."""
    output_tokens: Count | None = None
    """Tokens written, for language models."""
    elapsed_s: NonNegative | None = None
    """Seconds spent on this answer."""

    @classmethod
    def from_speedup(cls, query_id: str, speedup: float, spread_octaves: float) -> Forecast:
        """A forecast of a model that predicts one number: log2 of the speedup is normal around it.

        Args:
            query_id: the query answered.
            speedup: the point forecast of S.
            spread_octaves: standard deviation of log2 S: 1.5 times the median error on held-out problems does well.
        """
        if not (0 < speedup < math.inf and 0 < spread_octaves < math.inf):
            raise UserError(f"speedup {speedup!r} and spread {spread_octaves!r} must be positive finite numbers")
        places = [(math.log2(edge) - math.log2(speedup)) / spread_octaves for edge in bins.EDGES]
        below = [0.0, *(0.5 + 0.5 * math.erf(place / math.sqrt(2)) for place in places), 1.0]
        shares = tuple(high - low for low, high in itertools.pairwise(below))
        return cls(query_id=query_id, probabilities=shares, speedup=speedup)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Score(Record):
    """One metric of one surrogate on one track and slice, with its bootstrap interval."""

    TYPE: ClassVar[str] = "score"
    VERSION: ClassVar[str] = "1.1.0"

    track: Name
    """The track's name in kbench.benchmark.tracks."""
    metric: Name
    """The metric's name in kbench.benchmark.metrics."""
    slice: str
    """`all`, or facet=value such as family=matmul."""
    value: float | None
    """The figure; null when the slice has too few rows to define it."""
    low: float | None
    """Lower end of the 95 % bootstrap interval clustered by problem."""
    high: float | None
    """Upper end."""
    ceiling: float | None
    """What a re-measurement would score; null where the idea does not apply."""
    rows: Count
    """Queries behind the figure."""


Text = Annotated[str, Limit(pattern=r"^[^\x00-\x08\x0b-\x1f\x7f‪-‮⁦-⁩]{1,2000}$")]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Submission(Record):
    """Metadata of a leaderboard entry, stored as submission.json beside its forecasts."""

    TYPE: ClassVar[str] = "submission"
    VERSION: ClassVar[str] = "1.2.0"

    schema_version: str
    """Version of this schema."""
    name: Annotated[str, Limit(pattern=r"^[A-Za-z0-9][A-Za-z0-9 ._+-]{0,63}$")]
    """The surrogate's name."""
    version: Annotated[str, Limit(pattern=r"^[A-Za-z0-9][A-Za-z0-9._+-]{0,31}$")]
    """The surrogate's version."""
    authors: tuple[Text, ...]
    """Who made it."""
    organisation: Text | None
    """Where."""
    license: Text
    """Licence of the surrogate, SPDX where one fits."""
    links: tuple[Annotated[str, Limit(pattern=r"^https://[^\s<>\"']{1,500}$")], ...]
    """Paper, code, model; https only."""
    kind: Annotated[str, Limit(pattern="^(baseline|statistical|language_model|hybrid|human)$")]
    """baseline, statistical, language_model, hybrid or human."""
    open_weights: bool
    """Whether anyone can run it."""
    inputs: Annotated[str, Limit(pattern="^(source|source\\+compiler)$")]
    """What it looks at: source, or source+compiler (registers, spills, PTX)."""
    hardware: Text
    """What it ran on."""
    training_data: Text
    """What it was trained on."""
    contamination: Text
    """Could it have seen the test kernels or problems? Say so."""
    total_seconds: NonNegative | None
    """Wall seconds for all forecasts."""
    total_tokens: Count | None
    """Tokens for all forecasts."""
    dataset_fingerprint: Sha
    """The dataset forecast."""
    tracks: tuple[Annotated[str, Limit(pattern="^(forecast|edit|rank|select)$")], ...]
    """Tracks the forecasts are for."""
    repeats: Annotated[int, Limit(minimum=1, maximum=100)]
    """How many repeats the forecasts hold."""
    created_at: str
    """ISO 8601 date."""
