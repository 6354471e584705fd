"""How far a corpus's figures can be trusted: interval widths, the second clock, the roofline floor, the references."""

from __future__ import annotations

import dataclasses
import statistics
from typing import Any

import polars
import pyarrow.compute as pc

from kbench.loaders.corpus.corpus import Corpus
from kbench.loaders.summary.coverage import gathered

NAMES = ("problem_id", "workload", "gpu")
FIGURES = (*NAMES, "runtime_us", "runtime_low_us", "runtime_high_us", "floor_us", "speedup")
CLOCKS = ("kernel_id", "problem_id", "workload", "runtime_us", "second_clock_us", "clocks_disagree", "ruler_us")
WAVERING = 1.2
"""A reference wavers when the 5th and 95th percentile of its time lie further apart than by this factor."""
LEAST = 20
"""Fewest measurements to say so."""


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
class Trust:
    """What the measurements say about themselves."""

    noise: tuple[dict[str, Any], ...]
    """Half-widths of the 95 % intervals, by decade of the runtime: `low_us` (the decade's lower end), `measurements`,
    `median` and `p95` as a share of the runtime, `median_us`."""
    compared: tuple[Compared, ...]
    """By runtime."""
    floors: int
    """Timed measurements with a roofline floor."""
    below_floor: int
    nearest_floor: float | None
    """The smallest runtime over its floor."""
    wavering: tuple[dict[str, Any], ...] = ()
    """References whose time differs between the measurements they served as anchor for: `problem_id`, `workload`,
    `gpu`, `measurements`, and the 5th, 50th and 95th percentile as `low_us`, `median_us` and `high_us`."""

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
    runtime, half_width = polars.col("runtime_us"), (polars.col("runtime_high_us") - polars.col("runtime_low_us")) / 2
    figures = gathered(
        corpus.select("measurements", columns=FIGURES),
        polars.col(NAMES).cast(polars.Categorical),
        runtime,
        (half_width / runtime).alias("noise"),
        polars.when(polars.col("floor_us") > 0).then(runtime / polars.col("floor_us")).alias("over_floor"),
        # The reference's time is that of each kernel times its speedup.
        (polars.col("speedup") * runtime).alias("anchor_us"),
    )
    timed = figures.filter(_known("runtime_us"), runtime > 0)
    over = timed.filter(_known("over_floor"))["over_floor"]
    nearest = over.min()
    both = corpus.table("measurements", columns=CLOCKS, where="second_clock_us is not null and runtime_us is not null")
    compared = [
        Compared(
            **{name: row[name] for name in CLOCKS[:5]},
            disagree=bool(row["clocks_disagree"]),
            ruled=row["ruler_us"] is not None,
        )
        for row in both.to_pylist()
    ]
    return Trust(
        noise=tuple(_noise(timed.filter(_known("noise"))).to_dicts()),
        compared=tuple(sorted(compared, key=lambda one: (one.runtime_us, one.kernel_id))),
        floors=len(over),
        below_floor=int((over < 1).sum()),
        nearest_floor=nearest if isinstance(nearest, float) else None,
        wavering=tuple(_wavering(figures.filter(_known("anchor_us"))).to_dicts()),
    )


def _known(*names: str) -> polars.Expr:
    """Where figures are there and finite."""
    return polars.all_horizontal(polars.col(names).is_finite().fill_null(False))


def _noise(timed: polars.DataFrame) -> polars.DataFrame:
    decade, noise = 10.0 ** polars.col("runtime_us").log10().floor(), polars.col("noise")
    shares = {"measurements": polars.len(), "median": noise.median(), "p95": noise.quantile(0.95, "linear")}
    grouped = timed.group_by(decade.alias("low_us"))
    return grouped.agg(**shares, median_us=(noise * polars.col("runtime_us")).median()).sort("low_us")


def _wavering(anchors: polars.DataFrame) -> polars.DataFrame:
    low, median, high = (polars.col("anchor_us").quantile(share, "linear") for share in (0.05, 0.5, 0.95))
    references = anchors.group_by(NAMES).agg(measurements=polars.len(), low_us=low, median_us=median, high_us=high)
    apart = polars.col("high_us") > WAVERING * polars.col("low_us")
    names = polars.col(NAMES).cast(polars.String)
    return references.filter(apart, polars.col("measurements") >= LEAST).with_columns(names).sort(NAMES)


SHORT_US = 20.0
"""Below this the clock's own spread counts, so short kernels are told apart."""
KEY = ("kernel_id", "gpu", "workload")
REPEATED = (*KEY, "status", "runtime_us", "runtime_low_us", "runtime_high_us")


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
    agreeing: float
    """Share of the measurements that differ by no more than both 95 % intervals allow: the root of their squares."""


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
    col = polars.col
    again = polars.DataFrame(corpus.table("repeats", columns=REPEATED))
    ids = again["kernel_id"].unique().to_list()
    rows = polars.DataFrame(corpus.table("measurements", columns=[*REPEATED, "started_at"], kernel_id=ids))
    # Of several measurements on a workload, the oldest.
    first = rows.sort("started_at", maintain_order=True).unique(KEY, keep="first", maintain_order=True)
    both = again.join(first, on=KEY, suffix="_first")
    ratio = (col("runtime_us") / col("runtime_us_first")).log()
    halves = [(col(f"runtime_high_us{of}") / col(f"runtime_low_us{of}")).log() / 2 for of in ("", "_first")]
    agree = ratio.abs() <= (halves[0] ** 2 + halves[1] ** 2).sqrt()
    compared = both.filter(_known("runtime_us", "runtime_us_first")).select(
        "runtime_us_first", ratio=ratio, agree=agree.fill_null(False)
    )
    groups = []
    for least, most in ((SHORT_US, float("inf")), (0.0, SHORT_US)):
        part = compared.filter(col("runtime_us_first") >= least, col("runtime_us_first") < most)
        if len(part):
            (row,) = part.select(
                measurements=polars.len(), median=col("ratio").abs().median(),
                p95=col("ratio").abs().quantile(0.95, "linear"), bias=col("ratio").median(),
                agreeing=col("agree").mean(),
            ).to_dicts()  # fmt: skip
            groups.append(Agreement(least, most, **row))
    kernels = both["kernel_id"].n_unique()
    every = pc.count_distinct(corpus.table("kernels", columns=["kernel_id"]).column(0)).as_py()
    return Repeats(
        kernels=kernels,
        share=kernels / max(1, every),
        measurements=len(both),
        same_status=int((both["status"] == both["status_first"]).sum()),
        groups=tuple(groups),
    )
