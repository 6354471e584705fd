"""Checks of what rows say of the same thing: pairs, questions and their kernels, kernels and their measurements.

What was measured elsewhere is left out: its origin may round, or have timed a pair apart from its kernels.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Mapping

import polars
import pyarrow as pa
import pyarrow.compute as pc

from kbench.loaders.checks.columns import Issue, rows_where
from kbench.loaders.checks.references import Lookup, Part, whole, workloads
from kbench.loaders.splits.problems import HELD_OUT
from kbench.schemas import Status

OURS = "kbench"
"""Origin of rows that this project measured."""
EXACT = 1e-6
"""Relative difference allowed. Figures are copied or computed in double precision, so true ones differ by far less."""
FIGURES = ("runtime_us", "speedup")


def figure_issues(parts: Mapping[str, list[Part]]) -> Iterator[Issue]:
    """Speedups and splits of pairs and questions, and figures of kernels, that the rows they come from contradict."""
    if parts["kernels"]:
        kernels = Lookup(
            whole(parts["kernels"], ["kernel_id", "gpu", "split", "origin", *FIGURES]), ["kernel_id", "gpu"]
        )
        for file, table in parts["pairs"] + parts["questions"]:
            if "origin" in table.column_names:
                ours = _ours(table)
            else:
                rows = kernels.rows(table.column("candidate_id"), table.column("gpu"))
                ours = pc.equal(kernels.column("origin", rows), OURS)
            yield from _pair_speedups(file, table, kernels, ours)
            yield from _pair_splits(file, table, kernels, ours)
    if parts["measurements"]:
        columns = ["kernel_id", "problem_id", "gpu", "workload", "status", *FIGURES]
        sizes = workloads(parts["problems"]) if parts["problems"] else None
        means = _means(whole(parts["measurements"], columns), sizes)
        for file, table in parts["kernels"]:
            yield from _kernel_figures(file, table, means)
    for file, table in parts["live"]:
        yield from _live_figures(file, table)


def _live_figures(file: str, table: pa.Table) -> Iterator[Issue]:
    """Live kernels whose speedup is not that of their workloads."""
    rows = zip(
        *(table.column(name).to_pylist() for name in ("status", "speedup", "workloads", "speedups")), strict=True
    )
    wrong = [not _live_figure_holds(*row) for row in rows]
    message = "must be the geometric mean of its speedups, one for every workload, and null unless status is ok"
    yield from rows_where(pa.array(wrong, pa.bool_()), file, "speedup", table.column("speedup"), message)


def _live_figure_holds(
    status: str | None, speedup: float | None, workloads: list[str] | None, speedups: list[float | None] | None
) -> bool:
    if workloads is None or speedups is None or len(workloads) != len(speedups):
        return False
    measured = [value for value in speedups if value is not None and value > 0.0]
    if status != Status.OK:
        return speedup is None
    if speedup is None or len(measured) != len(workloads) or not measured:
        return False
    return math.isclose(speedup, statistics.geometric_mean(measured), rel_tol=EXACT)


def _ours(table: pa.Table) -> pa.ChunkedArray:
    """Rows that this project measured."""
    return pc.equal(table.column("origin"), OURS)


def _differs(found: pa.ChunkedArray, expected: pa.ChunkedArray) -> pa.ChunkedArray:
    return pc.greater(pc.abs(pc.subtract(pc.divide(found, expected), 1.0)), EXACT)


def _pair_speedups(file: str, table: pa.Table, kernels: Lookup, ours: pa.ChunkedArray) -> Iterator[Issue]:
    anchors = kernels.rows(table.column("anchor_id"), table.column("gpu"))
    candidates = kernels.rows(table.column("candidate_id"), table.column("gpu"))
    ratio = pc.divide(kernels.column("runtime_us", anchors), kernels.column("runtime_us", candidates))
    against_reference = pc.is_null(table.column("anchor_id"))
    expected = pc.if_else(against_reference, kernels.column("speedup", candidates), ratio)
    speedup = table.column("speedup")
    message = "disagrees with its kernels: anchor time over candidate time, or the candidate's speedup"
    wrong = pc.and_(ours, _differs(speedup, expected))
    if "workload" in table.column_names:
        # A kernel's row knows nothing of a single workload.
        wrong = pc.and_(wrong, pc.is_null(table.column("workload")))
    yield from rows_where(wrong, file, "speedup", speedup, message)


def _pair_splits(file: str, table: pa.Table, kernels: Lookup, ours: pa.ChunkedArray) -> Iterator[Issue]:
    """The column form of kbench.loaders.splits.pair_split."""
    order = pa.array(HELD_OUT)
    ends = (kernels.rows(table.column(name), table.column("gpu")) for name in ("anchor_id", "candidate_id"))
    ranks = [pc.index_in(kernels.column("split", rows), value_set=order, skip_nulls=True) for rows in ends]
    split = table.column("split")
    wrong = pc.not_equal(pc.index_in(split, value_set=order), pc.max_element_wise(*ranks))
    message = "must be the more held out of its kernels' splits"
    yield from rows_where(pc.and_(ours, wrong), file, "split", split, message)


def _means(measurements: pa.Table, sizes: pa.Table | None) -> Lookup:
    """Geometric means over the correct workloads, by kernel and GPU.

    A corpus may hold measurements of some workloads only, and then says nothing of a kernel's mean over all.

    Args:
        measurements: the measurements.
        sizes: problem_id and workload of all timed sizes; None when unknown, and then none is missed.
    """
    col, kernel = polars.col, ["kernel_id", "gpu"]
    timed = polars.DataFrame(measurements).filter(col("status") == Status.OK.value)
    if sizes is not None:
        listed = polars.DataFrame(sizes)
        on_listed = timed.join(listed, on=["problem_id", "workload"], how="semi")
        measured = on_listed.group_by(kernel).agg(measured=col("workload").n_unique())
        needed = listed.group_by("problem_id").agg(needed=col("workload").n_unique())
        every = timed.join(measured, on=kernel, how="left").join(needed, on="problem_id", how="left")
        timed = every.filter(col("measured").fill_null(0) >= col("needed").fill_null(0))
    means = timed.group_by(kernel).agg(col(FIGURES).log().mean().exp())
    schema = pa.schema({**dict.fromkeys(kernel, pa.string()), **dict.fromkeys(FIGURES, pa.float64())})
    return Lookup(means.to_arrow(compat_level=polars.CompatLevel.oldest()).cast(schema), kernel)


def _kernel_figures(file: str, table: pa.Table, means: Lookup) -> Iterator[Issue]:
    rows = means.rows(table.column("kernel_id"), table.column("gpu"))
    for name in FIGURES:
        figure = table.column(name)
        wrong = pc.and_(_ours(table), _differs(figure, means.column(name, rows)))
        message = "differs from the geometric mean of the kernel's measurements"
        yield from rows_where(wrong, file, name, figure, message)
