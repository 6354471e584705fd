"""How far a corpus's figures can be trusted: interval widths, the second clock, the roofline floor, the references."""

from __future__ import annotations

import dataclasses
import math
import statistics
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import numpy
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kbench.loaders.corpus.corpus import Corpus

COLUMNS = (
    "kernel_id", "problem_id", "workload", "runtime_us", "runtime_low_us", "runtime_high_us", "floor_us",
    "second_clock_us", "clocks_disagree", "speedup", "gpu", "ruler_us",
)  # fmt: skip
WAVERING = 1.2
"""A reference wavers when the 5th and 95th percentile of its time lie further apart than by this factor."""
LEAST = 20
"""Fewest measurements to say so."""


@dataclasses.dataclass(frozen=True, slots=True)
class Noise:
    """Half-widths of 95 % intervals of the measurements in one decade of runtime."""

    low_us: float
    """The decade's lower end; it reaches to ten times that."""
    measurements: int
    median: float
    """As a share of the runtime."""
    p95: float
    median_us: float


@dataclasses.dataclass(frozen=True, slots=True)
class Compared:
    """One measurement taken by two clocks."""

    kernel_id: str
    problem_id: str
    workload: str
    runtime_us: float
    second_clock_us: float
    disagree: bool
    ruled: bool
    """Whether the launch overhead was timed too: earlier rows were flagged without allowing for the marks' distance."""

    @property
    def gap_us(self) -> float:
        """Event timer minus CUPTI."""
        return self.runtime_us - self.second_clock_us


@dataclasses.dataclass(frozen=True, slots=True)
class Wavering:
    """A reference whose time differs between the measurements it served as anchor for."""

    problem_id: str
    workload: str
    gpu: str
    measurements: int
    low_us: float
    """5th percentile."""
    median_us: float
    high_us: float
    """95th percentile."""


@dataclasses.dataclass(frozen=True, slots=True)
class Trust:
    """What the measurements say about themselves."""

    noise: tuple[Noise, ...]
    compared: tuple[Compared, ...]
    """By runtime."""
    floors: int
    """Timed measurements with a roofline floor."""
    below_floor: int
    nearest_floor: float | None
    """The smallest runtime over its floor."""
    wavering: tuple[Wavering, ...] = ()
    """References that waver, by problem."""

    @property
    def disagreements(self) -> tuple[Compared, ...]:
        """Where the clocks differ by more than the harness's bound."""
        return tuple(one for one in self.compared if one.disagree)

    @property
    def median_gap_us(self) -> float:
        """How far the two clocks lie apart, in the median."""
        return statistics.median(one.gap_us for one in self.compared)

    @property
    def median_gap_share(self) -> float:
        """How far they lie apart without that constant, as a share of the runtime, in the median."""
        constant = self.median_gap_us
        return statistics.median(abs(one.gap_us - constant) / one.runtime_us for one in self.compared)


def trust_of(corpus: Corpus) -> Trust:
    """Read the measurements' figures, a batch at a time."""
    widths: dict[int, list[npt.NDArray[numpy.float64]]] = defaultdict(list)
    compared: list[Compared] = []
    ratios: list[npt.NDArray[numpy.float64]] = []
    anchors: dict[tuple[str, str, str], list[float]] = defaultdict(list)
    for batch in corpus.select("measurements", columns=list(COLUMNS)).batches():
        runtime, low, high, floor = (
            batch.column(name).to_numpy(zero_copy_only=False).astype(float)
            for name in ("runtime_us", "runtime_low_us", "runtime_high_us", "floor_us")
        )
        right = numpy.isfinite(runtime) & (runtime > 0)
        known = right & numpy.isfinite(low) & numpy.isfinite(high)
        pairs = numpy.stack([(high - low)[known] / 2 / runtime[known], runtime[known]], axis=1)
        decades = numpy.floor(numpy.log10(pairs[:, 1])).astype(int)
        for decade in numpy.unique(decades):
            widths[int(decade)].append(pairs[decades == decade])
        bounded = right & numpy.isfinite(floor) & (floor > 0)
        ratios.append(runtime[bounded] / floor[bounded])
        compared += [_compared(row) for row in _twice_timed(batch)]
        for key, anchor_us in _anchors(batch, runtime):
            anchors[key].append(anchor_us)
    over = numpy.concatenate(ratios) if ratios else numpy.empty(0)
    return Trust(
        noise=tuple(_noise(decade, numpy.concatenate(parts)) for decade, parts in sorted(widths.items())),
        compared=tuple(sorted(compared, key=lambda one: (one.runtime_us, one.kernel_id))),
        floors=len(over),
        below_floor=int((over < 1).sum()),
        nearest_floor=float(over.min()) if len(over) else None,
        wavering=tuple(found for key, times in sorted(anchors.items()) if (found := _wavering(key, times)) is not None),
    )


def _anchors(batch: Any, runtime: npt.NDArray[numpy.float64]) -> Iterator[tuple[tuple[str, str, str], float]]:
    """The reference's time of each speedup."""
    speedup = batch.column("speedup").to_numpy(zero_copy_only=False).astype(float)
    names = zip(*(batch.column(name).to_pylist() for name in ("problem_id", "workload", "gpu")), strict=True)
    for key, anchor_us in zip(names, speedup * runtime, strict=True):
        if numpy.isfinite(anchor_us):
            yield key, float(anchor_us)


def _wavering(key: tuple[str, str, str], times: list[float]) -> Wavering | None:
    low, median, high = (float(value) for value in numpy.quantile(times, (0.05, 0.5, 0.95)))
    if len(times) < LEAST or high <= WAVERING * low:
        return None
    return Wavering(*key, len(times), low, median, high)


def _noise(decade: int, rows: npt.NDArray[numpy.float64]) -> Noise:
    shares = rows[:, 0]
    return Noise(
        low_us=math.pow(10, decade),
        measurements=len(rows),
        median=float(numpy.median(shares)),
        p95=float(numpy.quantile(shares, 0.95)),
        median_us=float(numpy.median(shares * rows[:, 1])),
    )


def _twice_timed(batch: Any) -> list[dict[str, Any]]:
    import pyarrow.compute as pc

    chosen = pc.and_(pc.is_valid(batch.column("second_clock_us")), pc.is_valid(batch.column("runtime_us")))
    rows: list[dict[str, Any]] = batch.filter(chosen).to_pylist()
    return rows


def _compared(row: dict[str, Any]) -> Compared:
    return Compared(
        row["kernel_id"], row["problem_id"], row["workload"], row["runtime_us"], row["second_clock_us"],
        bool(row["clocks_disagree"]), row["ruler_us"] is not None,
    )  # fmt: skip


SHORT_US = 20.0
"""Below this the clock's own spread counts, so short kernels are told apart."""
KEY = ("kernel_id", "gpu", "workload")
REPEATED = (*KEY, "status", "runtime_us", "runtime_low_us", "runtime_high_us")

Column = npt.NDArray[numpy.float64]


@dataclasses.dataclass(frozen=True, slots=True)
class Agreement:
    """Differences of the measurements within one range of runtimes."""

    low_us: float
    high_us: float
    measurements: int
    median: float
    """Of the absolute logarithm of the ratio."""
    p95: float
    bias: float
    """Median of the logarithm itself: above zero when the repeat took longer."""
    overlapping: float
    """Share of the measurements whose two 95 % intervals have a point in common."""


@dataclasses.dataclass(frozen=True, slots=True)
class Repeats:
    """What repeating showed."""

    kernels: int
    share: float
    """Of the corpus's kernels."""
    measurements: int
    same_status: int
    groups: tuple[Agreement, ...]
    """Long kernels first."""


def repeats_of(corpus: Corpus) -> Repeats | None:
    """Compare a corpus's repeats with its measurements; None when it lacks either."""
    if not {"repeats", "measurements"} <= set(corpus.configs):
        return None
    again = corpus.table("repeats", columns=list(REPEATED))
    both = again.join(_first(corpus, again), list(KEY), join_type="inner", right_suffix="_first")
    runtime, first, low, high, low_first, high_first = (
        both.column(name).to_numpy(zero_copy_only=False).astype(float)
        for name in (
            "runtime_us", "runtime_us_first", "runtime_low_us", "runtime_high_us", "runtime_low_us_first",
            "runtime_high_us_first",
        )
    )  # fmt: skip
    timed = numpy.isfinite(runtime) & numpy.isfinite(first)
    meet = (low <= high_first) & (low_first <= high)
    groups = []
    for least, most in ((SHORT_US, numpy.inf), (0.0, SHORT_US)):
        chosen = timed & (first >= least) & (first < most)
        if chosen.any():
            groups.append(_agreement(least, most, numpy.log(runtime[chosen] / first[chosen]), meet[chosen]))
    kernels = len(pc.unique(both.column("kernel_id")))
    return Repeats(
        kernels=kernels,
        share=kernels / max(1, pc.count_distinct(corpus.table("kernels", columns=["kernel_id"]).column(0)).as_py()),
        measurements=both.num_rows,
        same_status=pc.sum(pc.equal(both.column("status"), both.column("status_first"))).as_py() or 0,
        groups=tuple(groups),
    )


def _first(corpus: Corpus, again: pa.Table) -> pa.Table:
    """The measurements of the repeated kernels, the oldest of each workload, a batch at a time."""
    wanted = pc.unique(again.column("kernel_id"))
    parts = []
    for batch in corpus.select("measurements", columns=[*REPEATED, "started_at"]).batches():
        parts.append(pa.Table.from_batches([batch]).filter(pc.is_in(batch.column("kernel_id"), value_set=wanted)))
    found = pa.concat_tables(parts).sort_by("started_at")
    kept = found.group_by(list(KEY), use_threads=False).aggregate(
        [(name, "first") for name in REPEATED if name not in KEY]
    )
    return kept.rename_columns([name.removesuffix("_first") for name in kept.column_names])


def _agreement(least: float, most: float, ratios: Column, meet: npt.NDArray[numpy.bool_]) -> Agreement:
    sizes = numpy.abs(ratios)
    return Agreement(
        low_us=least,
        high_us=most,
        measurements=len(ratios),
        median=float(numpy.median(sizes)),
        p95=float(numpy.quantile(sizes, 0.95)),
        bias=float(numpy.median(ratios)),
        overlapping=float(meet.mean()),
    )
