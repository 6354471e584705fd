"""Metric: everything about one figure, from which tables, reports, docs and the CLI derive; and the rows it reads."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable
from typing import Any

import numpy as np

from kbench.benchmark.metrics.arrays import Booleans, Floats, Ints
from kbench.benchmark.metrics.bootstrap import Bootstrap, Figure
from kbench.benchmark.tracks import Track
from kbench.schemas import bins

Bounds = tuple[float | None, float | None]
FULL = 64
"""Questions from which a problem counts fully; one with fewer counts in proportion: its figure is mostly luck."""
DECIDED = 0.02
"""Least distance of the speedup from one: below it, which kernel is faster is noise."""
FASTER = bins.EDGES.index(1.0) + 1
"""Position of the first bin in which the candidate is at least as fast as the anchor."""


class Better(enum.StrEnum):
    """Which end of a metric is the good one."""

    HIGH = "high"
    LOW = "low"


class Ceiling(enum.StrEnum):
    """What the score of a second measurement of the same kernels means."""

    SHOWN = "shown"
    """What a perfect forecaster would score; shown beside the value."""
    BINDING = "binding"
    """Shown, and an entry that beats it is flagged: labels can be looked up, noise cannot be forecast."""


class Shown(enum.IntEnum):
    """How widely a metric is shown; each level includes those before it."""

    FILES = 0
    TERMINAL = 1
    BOARD = 2


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """One metric of one track."""

    name: str
    """Key in every file, unique within its track."""
    track: Track
    label: str
    """Heading of its column."""
    meaning: str
    """One sentence for readers."""
    better: Better
    figure: Callable[[Bootstrap, Any], Figure | None]
    """Value and draws, from the track's rows (see `rows.py`); None where the rows cannot say."""
    bounds: Bounds = (0.0, 1.0)
    """Least and greatest value; None where there is no bound."""
    headline: bool = False
    """Whether the track is ranked by it; one metric per track."""
    shown: Shown = Shown.FILES
    ceiling: Ceiling = Ceiling.SHOWN
    sliced: bool = False
    """Whether it is also computed for every slice of an evaluation."""
    decimals: int = 3
    """Digits after the point wherever people read it."""

    def measured(self, bootstrap: Bootstrap, rows: Any) -> Figure | None:
        """The figure, with an interval for as many clusters as the rows have."""
        figure = self.figure(bootstrap, rows)
        return None if figure is None else dataclasses.replace(figure, level=bootstrap.level)

    @property
    def sign(self) -> float:
        """Times this, a higher value is always the better one."""
        return 1.0 if self.better is Better.HIGH else -1.0

    @property
    def arrow(self) -> str:
        """The good direction as one character."""
        return "↑" if self.better is Better.HIGH else "↓"

    def text(self, value: float | None, sign: str = "") -> str:
        """A value for people; a dash where there is none."""
        return "–" if value is None else f"{value:{sign}z.{self.decimals}f}"


def percent(share: float) -> str:
    """A share as metric names carry it: 05 for 0.05."""
    return f"{round(100 * share):02d}"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class PairRows:
    """Tracks forecast and select: forecasts of pairs, one repeat after the other."""

    probabilities: Floats
    confidence: Floats
    bins: Ints
    failed: Booleans
    """Where there is no answer and the uniform forecast stands in."""
    kind_prior: Floats
    """[rows, 8]: bin frequencies of the training pairs of the row's kind: the baseline of skill."""
    level: Booleans
    """Where the anchor is the PyTorch reference."""
    edit: Booleans
    """Where the anchor is the kernel that the candidate was made from."""
    one_workload: Booleans
    """Where the question is about one workload."""
    cell: Ints
    """A number for author class and backend, across which kernels are not compared."""
    speedup: Floats
    """The measured speedup."""
    score: Floats
    """log2 of the forecast speedup: what orders candidates (`kbench.benchmark.scoring.rows`)."""
    measure_seconds: float | None = None
    """GPU-seconds one measurement takes; None when it is not known."""
    full: int = 1
    """Questions from which a problem counts fully; with 1, all problems count alike."""
    repeats: int = 1
    """Forecasts of each question."""
    _columns: dict[tuple[Callable[..., Floats], str], Floats] = dataclasses.field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    @classmethod
    def all_answered(cls, probabilities: Floats, truth: Ints, prior: Floats, seconds: float | None = None) -> PairRows:
        """Forecasts of one kind of pair between kernels, without a failure, as sure as their most probable bin."""
        return cls(
            probabilities=probabilities,
            confidence=probabilities.max(axis=1),
            bins=truth,
            failed=np.zeros(len(truth), dtype=np.bool_),
            kind_prior=np.tile(prior, (len(truth), 1)),
            level=np.zeros(len(truth), dtype=np.bool_),
            edit=np.zeros(len(truth), dtype=np.bool_),
            one_workload=np.zeros(len(truth), dtype=np.bool_),
            cell=np.zeros(len(truth), dtype=np.int64),
            speedup=np.array([bins.center(number) for number in truth.tolist()]),
            score=np.zeros(len(truth)),
            measure_seconds=seconds,
        )

    def take(self, rows: Ints) -> PairRows:
        """The rows at these positions."""
        columns = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        parts: dict[str, Any] = {name: one[rows] for name, one in columns.items() if isinstance(one, np.ndarray)}
        part = dataclasses.replace(self, **parts)
        part._columns.update({key: column[rows] for key, column in self._columns.items()})
        return part

    def narrow(self) -> PairRows:
        """The same without distributions, for metrics whose columns are there: taking parts is then quick."""
        none = self.probabilities[:, :0]
        same = dataclasses.replace(self, probabilities=none, kind_prior=none)
        same._columns.update(self._columns)
        return same

    def column(self, of: Callable[[Floats, Ints], Floats], forecasts: str = "probabilities") -> Floats:
        """What a function makes of each row's distribution and bin: computed once, and taken along into parts."""
        key = of, forecasts
        if key not in self._columns:
            self._columns[key] = of(getattr(self, forecasts), self.bins)
        return self._columns[key]

    def problem_counts(self, bootstrap: Bootstrap, kept: Booleans) -> Floats:
        """How much each problem counts, up to 1, by its questions among the rows kept."""
        questions = np.bincount(bootstrap.index, kept, bootstrap.count) / self.repeats
        return np.minimum(questions, self.full) / self.full

    @property
    def decided(self) -> Booleans:
        """Where one kernel is faster than the other."""
        return np.abs(self.speedup - 1.0) > DECIDED

    @property
    def p_faster(self) -> Floats:
        """Probability that the candidate is at least as fast as the anchor."""
        return self.probabilities[:, FASTER:].sum(axis=1)

    @property
    def sign_confidence(self) -> Floats:
        """Confidence in 'faster' or in 'slower'; 0 for a failure, whose stand-in would lean to one of them."""
        return np.where(self.failed, 0.0, np.maximum(self.p_faster, 1.0 - self.p_faster))

    @property
    def sign_loss(self) -> Floats:
        """1 where 'faster or slower' is answered wrongly, ½ where it is left open."""
        chance = self.p_faster
        right = np.where(np.abs(chance - 0.5) < 1e-12, 0.5, (chance > 0.5) == (self.bins > FASTER))
        return 1.0 - right


@dataclasses.dataclass(frozen=True, slots=True)
class Pool:
    """The correct kernels of one problem on one GPU."""

    scores: Floats
    """Forecasts; higher means faster."""
    runtimes: Floats

    @property
    def speeds(self) -> Floats:
        """Speed relative to the pool's best kernel."""
        return self.runtimes.min() / self.runtimes


@dataclasses.dataclass(frozen=True, slots=True)
class PoolRows:
    """Track rank: one row per pool and repeat."""

    pools: tuple[Pool, ...]


def mean_over_pairs(rows_of: Callable[[Floats, Ints], Floats]) -> Callable[[Bootstrap, PairRows], Figure]:
    """The figure of a metric that is a mean over pairs of `rows_of(probabilities, bins)`."""
    return lambda bootstrap, rows: bootstrap.mean(rows.column(rows_of))


def mean_over_pools(of_pool: Callable[[Pool], float]) -> Callable[[Bootstrap, PoolRows], Figure]:
    """The figure of a metric that is a mean over pools."""
    return lambda bootstrap, rows: bootstrap.mean(np.array([of_pool(pool) for pool in rows.pools]))
