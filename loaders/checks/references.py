"""Checks of rows that point at others: ids twice, ids that lead nowhere, and what must agree at both ends."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from kbench.loaders.checks import columns
from kbench.loaders.checks.columns import Issue, rows_where
from kbench.loaders.corpus.configs import Config

Part = tuple[str, pa.Table]
"""A file's name and its rows."""
SEPARATOR = "\x1f"
"""Between the columns of a key; no id or name holds it."""


def whole(parts: Iterable[Part], columns: Sequence[str]) -> pa.Table:
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
    yield from _strange_problems(parts)
    yield from _unknown_workloads(parts)
    yield from _families(parts)
    yield from _lost_parents(parts["live"])
    yield from _strange_splits(parts)
    yield from _event_gaps(parts["events"])


def _locate(parts: list[Part], row: int) -> tuple[str, int]:
    for file, table in parts:
        if row < table.num_rows:
            return file, row
        row -= table.num_rows
    raise IndexError(row)


def duplicates(config: Config, parts: list[Part]) -> Iterator[Issue]:
    """Rows whose key an earlier row already has."""
    if not parts:
        return
    keys = whole(parts, config.key)
    numbered = keys.append_column("row", pa.array(range(keys.num_rows)))
    first = numbered.group_by(list(config.key)).aggregate([("row", "min")]).column("row_min")
    if len(first) == keys.num_rows:
        return
    repeated = pc.invert(pc.is_in(numbered.column("row"), value_set=first.combine_chunks()))
    for row in pc.indices_nonzero(repeated).to_pylist()[: columns.REPORTED_ROWS]:
        file, local = _locate(parts, row)
        value = [keys.column(name)[row].as_py() for name in config.key]
        field, shown = ("+".join(config.key), value) if len(value) > 1 else (config.key[0], value[0])
        yield Issue(file, local, field, shown, "is a duplicate; ids must be unique")


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


def _lost(parts: Mapping[str, list[Part]]) -> Iterator[Issue]:
    for column, (target, key, what) in REFERENCES.items():
        if not parts[target]:
            # A corpus may hold kernels alone; what it does not hold cannot be pointed into.
            continue
        ids = whole(parts[target], [key]).column(key).combine_chunks()
        for config in parts:
            if config in SELF_CONTAINED and target == "kernels":
                continue
            for file, table in parts[config] if (config, column) != (target, key) else ():
                if column in table.column_names:
                    values = table.column(column)
                    lost = pc.and_(pc.is_valid(values), pc.invert(pc.is_in(values, value_set=ids)))
                    yield from rows_where(lost, file, column, values, f"the {what} is not in the corpus")


OWNERS = (
    ("measurements", "kernel_id"),
    ("repeats", "kernel_id"),
    ("plans", "kernel_id"),
    ("counters", "kernel_id"),
    ("pairs", "anchor_id"),
    ("pairs", "candidate_id"),
    ("questions", "anchor_id"),
    ("questions", "candidate_id"),
)
"""config, column: rows that are of the problem of the kernel they point at."""


def _strange_problems(parts: Mapping[str, list[Part]]) -> Iterator[Issue]:
    """Rows of another problem than their kernel's."""
    if not parts["kernels"]:
        return
    kernels = Lookup(whole(parts["kernels"], ["kernel_id", "problem_id"]), ["kernel_id"])
    for config, column in OWNERS:
        for file, table in parts[config]:
            problem = table.column("problem_id")
            wrong = pc.not_equal(problem, kernels.column("problem_id", kernels.rows(table.column(column))))
            yield from rows_where(wrong, file, "problem_id", problem, f"differs from the problem of its {column}")


def workloads(problems: list[Part]) -> pa.Table:
    """The timed sizes of every problem, by problem_id and workload."""
    table = whole(problems, ["problem_id", "workloads"])
    names = pc.struct_field(pc.list_flatten(table.column("workloads")), "name")
    owners = table.column("problem_id").take(pc.list_parent_indices(table.column("workloads")))
    return pa.table({"problem_id": owners, "workload": names})


def _unknown_workloads(parts: Mapping[str, list[Part]]) -> Iterator[Issue]:
    """Times of ours on a workload that their problem does not have; other people name theirs as they like."""
    if not parts["problems"]:
        return
    problems = whole(parts["problems"], ["problem_id"])
    listed_workloads = joined(workloads(parts["problems"]).columns).combine_chunks()
    for file, table in parts["measurements"] + parts["repeats"] + parts["references"]:
        problem, workload = table.column("problem_id"), table.column("workload")
        listed = pc.is_in(problem, value_set=problems.column("problem_id").combine_chunks())
        ours = pc.is_valid(table.column("env_id")) if "env_id" in table.column_names else listed
        asked = pc.and_(ours, listed)
        strange = pc.and_(asked, pc.invert(pc.is_in(joined([problem, workload]), value_set=listed_workloads)))
        yield from rows_where(strange, file, "workload", workload, "the problem has no workload of this name")
    for file, table in parts["live"]:
        names = table.column("workloads")
        problem = table.column("problem_id").take(pc.list_parent_indices(names))
        strange = pc.invert(pc.is_in(joined([problem, pc.list_flatten(names)]), value_set=listed_workloads))
        rows = pc.is_in(
            pa.array(range(table.num_rows)), value_set=pc.list_parent_indices(names).filter(strange).combine_chunks()
        )
        yield from rows_where(rows, file, "workloads", names, "the problem has no workload of this name")


def _families(parts: Mapping[str, list[Part]]) -> Iterator[Issue]:
    """Kernels, live ones too, pairs and questions whose family is not their problem's."""
    if not parts["problems"]:
        return
    problems = Lookup(whole(parts["problems"], ["problem_id", "family"]), ["problem_id"])
    for file, table in parts["kernels"] + parts["pairs"] + parts["questions"] + parts["live"]:
        family = table.column("family")
        wrong = pc.not_equal(family, problems.column("family", problems.rows(table.column("problem_id"))))
        yield from rows_where(wrong, file, "family", family, "differs from the problem's family")


def _lost_parents(live: list[Part]) -> Iterator[Issue]:
    """Kernels of a search whose parents the same search did not measure."""
    if not live:
        return
    measured = Lookup(whole(live, [*SEARCH, "kernel_id"]), [*SEARCH, "kernel_id"])
    for (file, table), column in itertools.product(live, ("parent_id", "other_id")):
        values = table.column(column)
        parent_rows = measured.rows(*(table.column(name) for name in SEARCH), values)
        lost = pc.and_(pc.is_valid(values), pc.is_null(parent_rows))
        yield from rows_where(lost, file, column, values, "the parent is not in its search")


def _strange_splits(parts: Mapping[str, list[Part]]) -> Iterator[Issue]:
    """Live kernels in a split that no kernel of their problem is in, such as test where a surrogate may train on it."""
    if not parts["kernels"]:
        return
    kernels = whole(parts["kernels"], ["problem_id", "split"])
    listed = kernels.column("problem_id").combine_chunks()
    splits_of_problems = joined([kernels.column("problem_id"), kernels.column("split")]).combine_chunks()
    for file, table in parts["live"]:
        problem, split = table.column("problem_id"), table.column("split")
        strange = pc.invert(pc.is_in(joined([problem, split]), value_set=splits_of_problems))
        wrong = pc.and_(pc.is_in(problem, value_set=listed), strange)
        yield from rows_where(wrong, file, "split", split, "no kernel of the problem is in this split")


def _event_gaps(parts: Sequence[Part]) -> Iterator[Issue]:
    """Runs whose events are not numbered from 0 without gaps."""
    if not parts:
        return
    counted = whole(parts, ["run_id", "index"]).group_by("run_id").aggregate([("index", "max"), ("index", "count")])
    for run in counted.to_pylist():
        if run["index_max"] != run["index_count"] - 1:
            message = (
                f"run {run['run_id']!r} has {run['index_count']} events; they must be numbered from 0 without gaps"
            )
            yield Issue(parts[0][0], None, "index", run["index_max"], message)
