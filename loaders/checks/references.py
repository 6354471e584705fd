"""Checks between rows: ids twice, ids that lead nowhere, and splits and figures that must agree at both ends.

Figures that were measured elsewhere are left out: their origin may round, or have timed a pair apart from its kernels.
"""

from __future__ import annotations

import bisect
import itertools
import math
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence

import polars
import pyarrow as pa
import pyarrow.compute as pc

from kbench.loaders.checks import columns
from kbench.loaders.checks.columns import Issue, rows_where
from kbench.loaders.corpus.configs import Config
from kbench.loaders.splits import HELD_OUT
from kbench.schemas import Status

Part = tuple[str, pa.Table]
"""A file's name and its rows."""
SEPARATOR = "\x1f"
"""Between the columns of a key; no id or name holds it."""


def columns_of(parts: Iterable[Part], columns: Sequence[str]) -> pa.Table:
    """Some columns of all parts."""
    return pa.concat_tables([table.select(columns) for _, table in parts])


def joined(columns: Sequence[pa.ChunkedArray]) -> pa.ChunkedArray:
    """Columns as one key; null where one of them is."""
    return columns[0] if len(columns) == 1 else pc.binary_join_element_wise(*columns, SEPARATOR)


class Lookup:
    """A table whose rows are found by a key; of rows with the same key, the first."""

    def __init__(self, table: pa.Table, key: Sequence[str]) -> None:
        self.table = table
        self._keys = joined([table.column(name) for name in key]).combine_chunks()

    def rows(self, *key: pa.ChunkedArray) -> pa.ChunkedArray:
        """For each key the number of its row; null where there is none."""
        return pc.index_in(joined(key), value_set=self._keys, skip_nulls=True)

    def column(self, name: str, rows: pa.ChunkedArray) -> pa.ChunkedArray:
        """A column's values in those rows; null where the row is."""
        return self.table.column(name).take(rows)


def reference_issues(parts: Mapping[str, list[Part]]) -> Iterator[Issue]:
    """What is wrong between the rows of different files."""
    yield from _lost(parts)
    yield from _disagreements(parts)
    yield from _unknown_workloads(parts)
    yield from _lost_parents(parts["live"])
    yield from _strange_splits(parts)
    yield from _event_gaps(parts["events"])


def duplicates(config: Config, parts: list[Part]) -> Iterator[Issue]:
    """Rows whose key an earlier row already has."""
    if not parts:
        return
    keys = columns_of(parts, config.key)
    numbered = keys.append_column("row", pa.array(range(keys.num_rows)))
    first = numbered.group_by(list(config.key)).aggregate([("row", "min")]).column("row_min")
    if len(first) == keys.num_rows:
        return
    repeated = pc.invert(pc.is_in(numbered.column("row"), value_set=first.combine_chunks()))
    starts = list(itertools.accumulate((table.num_rows for _, table in parts), initial=0))
    for row in pc.indices_nonzero(repeated).to_pylist()[: columns.REPORTED_ROWS]:
        at = bisect.bisect_right(starts, row) - 1
        value = [keys.column(name)[row].as_py() for name in config.key]
        field, shown = ("+".join(config.key), value) if len(value) > 1 else (config.key[0], value[0])
        yield Issue(parts[at][0], row - starts[at], field, shown, "is a duplicate; ids must be unique")


REFERENCES = {
    "parent_id": ("kernels", "kernel_id", "parent"),
    "kernel_id": ("kernels", "kernel_id", "kernel"),
    "anchor_id": ("kernels", "kernel_id", "anchor"),
    "candidate_id": ("kernels", "kernel_id", "candidate"),
    "problem_id": ("problems", "problem_id", "problem"),
    "env_id": ("environments", "env_id", "environment"),
}
"""Columns that point at other rows: the config they point into, the column there, and what the row is."""
SELF_CONTAINED = ("live",)
"""Configs that hold the kernels they point at."""
SEARCH = ("study", "run_id")
"""What names a search of a live study."""


def _unlisted(
    part: Part, key: Sequence[str], listed: pa.Array, message: str, asked: pa.ChunkedArray | None = None
) -> Iterator[Issue]:
    """Rows whose key is none of those listed; one that holds a null points at nothing, and some rows are not asked."""
    file, table = part
    values = joined([table.column(name) for name in key])
    wrong = pc.and_(pc.is_valid(values), pc.invert(pc.is_in(values, value_set=listed)))
    field = key[-1]
    yield from rows_where(wrong if asked is None else pc.and_(wrong, asked), file, field, table.column(field), message)


def _lost(parts: Mapping[str, list[Part]]) -> Iterator[Issue]:
    for column, (target, key, what) in REFERENCES.items():
        if not parts[target]:
            # A corpus may hold kernels alone; what it does not hold cannot be pointed into.
            continue
        ids = columns_of(parts[target], [key]).column(key).combine_chunks()
        for config in parts:
            if (config in SELF_CONTAINED and target == "kernels") or (config, column) == (target, key):
                continue
            for part in parts[config]:
                if column in part[1].column_names:
                    yield from _unlisted(part, [column], ids, f"the {what} is not in the corpus")


AGREEMENTS = (
    *(("kernels", config, "kernel_id", "problem_id") for config in ("measurements", "repeats", "plans", "counters")),
    *(("kernels", config, column, "problem_id")
      for config in ("pairs", "questions") for column in ("anchor_id", "candidate_id")),
    *(("problems", config, "problem_id", "family") for config in ("kernels", "pairs", "questions", "live")),
)  # fmt: skip
"""Config that is pointed into, config and column that point, and what must be the same in both rows."""


def _disagreements(parts: Mapping[str, list[Part]]) -> Iterator[Issue]:
    """Rows of another problem than their kernel's, or of another family than their problem's."""
    for target, config, column, field in AGREEMENTS:
        if parts[target] and parts[config]:
            key = REFERENCES[column][1]
            targets = Lookup(columns_of(parts[target], [key, field]), [key])
            what = f"the problem of its {column}" if field == "problem_id" else "the problem's family"
            for file, table in parts[config]:
                wrong = pc.not_equal(table.column(field), targets.column(field, targets.rows(table.column(column))))
                yield from rows_where(wrong, file, field, table.column(field), f"differs from {what}")


def workloads(problems: list[Part]) -> pa.Table:
    """The timed sizes of every problem, by problem_id and workload."""
    table = columns_of(problems, ["problem_id", "workloads"])
    names = pc.struct_field(pc.list_flatten(table.column("workloads")), "name")
    owners = table.column("problem_id").take(pc.list_parent_indices(table.column("workloads")))
    return pa.table({"problem_id": owners, "workload": names})


def _unknown_workloads(parts: Mapping[str, list[Part]]) -> Iterator[Issue]:
    """Times of ours on a workload that their problem does not have; other people name theirs as they like."""
    if not parts["problems"]:
        return
    problems = columns_of(parts["problems"], ["problem_id"])
    listed_workloads = joined(workloads(parts["problems"]).columns).combine_chunks()
    message = "the problem has no workload of this name"
    for part in parts["measurements"] + parts["repeats"] + parts["references"]:
        _, table = part
        listed = pc.is_in(table.column("problem_id"), value_set=problems.column("problem_id").combine_chunks())
        ours = pc.is_valid(table.column("env_id")) if "env_id" in table.column_names else listed
        yield from _unlisted(part, ["problem_id", "workload"], listed_workloads, message, pc.and_(ours, listed))
    for file, table in parts["live"]:
        names = table.column("workloads")
        problem = table.column("problem_id").take(pc.list_parent_indices(names))
        strange = pc.invert(pc.is_in(joined([problem, pc.list_flatten(names)]), value_set=listed_workloads))
        rows = pc.is_in(
            pa.array(range(table.num_rows)), value_set=pc.list_parent_indices(names).filter(strange).combine_chunks()
        )
        yield from rows_where(rows, file, "workloads", names, message)


def _lost_parents(live: list[Part]) -> Iterator[Issue]:
    """Kernels of a search whose parents the same search did not measure."""
    if not live:
        return
    measured = joined(columns_of(live, [*SEARCH, "kernel_id"]).columns).combine_chunks()
    for part, column in itertools.product(live, ("parent_id", "other_id")):
        yield from _unlisted(part, [*SEARCH, column], measured, "the parent is not in its search")


def _strange_splits(parts: Mapping[str, list[Part]]) -> Iterator[Issue]:
    """Live kernels in a split that no kernel of their problem is in, such as test where a surrogate may train on it."""
    if not parts["kernels"]:
        return
    kernels = columns_of(parts["kernels"], ["problem_id", "split"])
    listed = kernels.column("problem_id").combine_chunks()
    sides = joined(kernels.columns).combine_chunks()
    for part in parts["live"]:
        asked = pc.is_in(part[1].column("problem_id"), value_set=listed)
        message = "no kernel of the problem is in this split"
        yield from _unlisted(part, ["problem_id", "split"], sides, message, asked)


def _event_gaps(parts: Sequence[Part]) -> Iterator[Issue]:
    """Runs whose events are not numbered from 0 without gaps."""
    if not parts:
        return
    counted = (
        columns_of(parts, ["run_id", "index"]).group_by("run_id").aggregate([("index", "max"), ("index", "count")])
    )
    for run in counted.to_pylist():
        if run["index_max"] != run["index_count"] - 1:
            message = (
                f"run {run['run_id']!r} has {run['index_count']} events; they must be numbered from 0 without gaps"
            )
            yield Issue(parts[0][0], None, "index", run["index_max"], message)


OURS = "kbench"
"""Origin of rows that this project measured."""
EXACT = 1e-6
"""Relative difference allowed. Figures are copied or computed in double precision, so true ones differ by far less."""
FIGURES = ("runtime_us", "speedup")


def figure_issues(parts: Mapping[str, list[Part]]) -> Iterator[Issue]:
    """Speedups and splits of pairs and questions, and figures of kernels, that the rows they come from contradict."""
    if parts["kernels"]:
        kernels = Lookup(
            columns_of(parts["kernels"], ["kernel_id", "gpu", "split", "origin", *FIGURES]), ["kernel_id", "gpu"]
        )
        for file, table in parts["pairs"] + parts["questions"]:
            if "origin" in table.column_names:
                ours = pc.equal(table.column("origin"), OURS)
            else:
                rows = kernels.rows(table.column("candidate_id"), table.column("gpu"))
                ours = pc.equal(kernels.column("origin", rows), OURS)
            yield from _pair_speedups(file, table, kernels, ours)
            yield from _pair_splits(file, table, kernels, ours)
    if parts["measurements"]:
        columns = ["kernel_id", "problem_id", "gpu", "workload", "status", *FIGURES]
        sizes = workloads(parts["problems"]) if parts["problems"] else None
        means = _means(columns_of(parts["measurements"], columns), sizes)
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
    """Pairs and questions whose split is not the more held out of their kernels'; an anchor may be the reference."""
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
    ours = pc.equal(table.column("origin"), OURS)
    for name in FIGURES:
        figure = table.column(name)
        wrong = pc.and_(ours, _differs(figure, means.column(name, rows)))
        message = "differs from the geometric mean of the kernel's measurements"
        yield from rows_where(wrong, file, name, figure, message)
