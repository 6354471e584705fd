"""How far a corpus's figures can be trusted: interval widths, the second clock, the roofline floor, the references."""

from __future__ import annotations

from types import SimpleNamespace

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


def trust_of(corpus: Corpus) -> SimpleNamespace:
    """What the measurements say about themselves; their figures are read a batch at a time.

    Returns:
        `noise`, half-widths of the 95 % intervals by decade of the runtime; of the measurements that two clocks took,
        `compared`, `disagreements`, `median_gap_us` and `median_gap_share`; of those with a roofline floor, `floors`,
        `below_floor` and `nearest_floor`; and `wavering`, references whose time differs between the measurements that
        they served as anchor for.
    """
    col = polars.col
    runtime, half_width = col("runtime_us"), (col("runtime_high_us") - col("runtime_low_us")) / 2
    figures = gathered(
        corpus.select("measurements", columns=FIGURES),
        col(NAMES).cast(polars.Categorical),
        runtime,
        (half_width / runtime).alias("noise"),
        polars.when(col("floor_us") > 0).then(runtime / col("floor_us")).alias("over_floor"),
        # The reference's time is that of each kernel times its speedup.
        (col("speedup") * runtime).alias("anchor_us"),
    )
    timed = figures.filter(_known("runtime_us"), runtime > 0)
    over = timed.filter(_known("over_floor"))["over_floor"]
    both = corpus.table("measurements", columns=CLOCKS, where="second_clock_us is not null and runtime_us is not null")
    # Rows without a ruler were flagged without allowing for the distance of the event timer's marks.
    compared = polars.DataFrame(both).with_columns(
        gap_us=runtime - col("second_clock_us"), ruled=col("ruler_us").is_not_null()
    )
    median_gap = compared["gap_us"].median()
    # A constant distance of the marks is no disagreement: what is left of it, as a share of the runtime.
    gap_shares = compared.select((col("gap_us") - median_gap).abs() / runtime).to_series()
    share = col("noise")
    shares = {"measurements": polars.len(), "median": share.median(), "p95": share.quantile(0.95, "linear")}
    by_decade = timed.filter(_known("noise")).group_by((10.0 ** runtime.log10().floor()).alias("low_us"))
    noise = by_decade.agg(**shares, median_us=(share * runtime).median()).sort("low_us")
    return SimpleNamespace(
        noise=noise.to_dicts(),
        compared=len(compared),
        disagreements=compared.filter("clocks_disagree").sort("runtime_us", "kernel_id").to_dicts(),
        median_gap_us=median_gap,
        median_gap_share=gap_shares.median(),
        floors=len(over),
        below_floor=int((over < 1).sum()),
        nearest_floor=over.min(),
        wavering=_wavering(figures.filter(_known("anchor_us"))).to_dicts(),
    )


def _known(*names: str) -> polars.Expr:
    """Where figures are there and finite."""
    return polars.all_horizontal(polars.col(names).is_finite().fill_null(False))


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


def repeats_of(corpus: Corpus) -> SimpleNamespace | None:
    """Compare a corpus's repeats with its measurements; None when it lacks either.

    Returns:
        how many `kernels` were repeated and which `share` of all that is, `measurements`, those with the `same_status`,
        and `groups` by runtime, long kernels first. A group has the absolute logarithms of the ratios (`median` and
        `p95`), the median of the logarithms (`bias`: above zero when the repeat took longer), and the share that
        differs by no more than both 95 % intervals allow, the root of their squares (`agreeing`).
    """
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
            groups.append(SimpleNamespace(low_us=least, high_us=most, **row))
    kernels = both["kernel_id"].n_unique()
    every = pc.count_distinct(corpus.table("kernels", columns=["kernel_id"]).column(0)).as_py()
    return SimpleNamespace(
        kernels=kernels,
        share=kernels / max(1, every),
        measurements=len(both),
        same_status=int((both["status"] == both["status_first"]).sum()),
        groups=groups,
    )
