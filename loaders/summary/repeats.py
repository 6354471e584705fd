"""Repeats: how far measurements made again lie from those a corpus was made of."""

from __future__ import annotations

import dataclasses

import numpy
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kbench.loaders.corpus.corpus import Corpus

SHORT_US = 20.0
"""Below this the clock's own spread counts, so short kernels are told apart."""
KEY = ("kernel_id", "gpu", "workload")
COLUMNS = (*KEY, "status", "runtime_us", "runtime_low_us", "runtime_high_us")

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
    again = corpus.table("repeats", columns=list(COLUMNS))
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
    for batch in corpus.select("measurements", columns=[*COLUMNS, "started_at"]).batches():
        parts.append(pa.Table.from_batches([batch]).filter(pc.is_in(batch.column("kernel_id"), value_set=wanted)))
    found = pa.concat_tables(parts).sort_by("started_at")
    kept = found.group_by(list(KEY), use_threads=False).aggregate(
        [(name, "first") for name in COLUMNS if name not in KEY]
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
