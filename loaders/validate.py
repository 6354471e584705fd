"""Validate a corpus: each file by columns, then what rows say about one another."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from kbench.loaders import column_checks as columns
from kbench.loaders.column_checks import Issue, rows_where
from kbench.loaders.configs import CONFIGS, WHOLE, Config
from kbench.loaders.corpus import Corpus
from kbench.loaders.fingerprint import rows_hash
from kbench.loaders.manifest import FileEntry
from kbench.loaders.shards import read_parquet
from kbench.schemas import DataError, arrow_schema
from kbench.schemas.bins import EDGES
from kbench.schemas.ids import kernel_id

Part = tuple[str, pa.Table]
"""A file's name and its rows."""


def validate(corpus: Corpus, advance: Callable[[int], object] = lambda _: None) -> list[Issue]:
    """Everything wrong with a corpus; empty when it is sound.

    Args:
        corpus: the corpus.
        advance: told how many rows were looked at since the last call.
    """
    issues: list[Issue] = []
    parts: dict[str, list[Part]] = {name: [] for name in CONFIGS}
    for name in corpus.configs:
        for path, entry in corpus.select(name).files:
            table, found = _read(CONFIGS[name], path, entry)
            issues += found
            if table is not None:
                parts[name].append((str(path), table))
                issues += _file_issues(CONFIGS[name], str(path), entry, table)
            advance(entry.rows)
    for name in corpus.configs:
        issues += _duplicates(CONFIGS[name], parts[name])
    issues += _references(parts)
    issues += _families(parts)
    issues += _event_gaps(parts["events"])
    return issues


def _read(config: Config, path: Path, entry: FileEntry) -> tuple[pa.Table | None, list[Issue]]:
    try:
        table = read_parquet(path)
    except DataError as error:
        return None, [Issue(str(path), None, None, None, str(error).removeprefix(f"{path} "))]
    issues = list(columns.schema_issues(config, table.schema, str(path)))
    if issues:
        return None, issues
    for field in arrow_schema(config.record):
        if field.name not in table.column_names:
            table = table.append_column(field, pa.nulls(table.num_rows, field.type))
    table = table.select(arrow_schema(config.record).names)
    if table.num_rows != entry.rows:
        issues.append(Issue(str(path), None, "rows", table.num_rows, f"the manifest says {entry.rows}"))
    elif f"{rows_hash(table, config.later):064x}" != entry.rows_hash:
        issues.append(Issue(str(path), None, None, None, "the content differs from what the manifest's hash says"))
    return table, issues


def _file_issues(config: Config, file: str, entry: FileEntry, table: pa.Table) -> Iterator[Issue]:
    yield from columns.column_issues(config, table, file)
    yield from columns.status_issues(table, file)
    yield from columns.interval_issues(table, file)
    if config.is_split:
        split = table.column("split")
        allowed = list(config.splits) if entry.split == WHOLE else [entry.split]
        strange = pc.invert(pc.is_in(split, value_set=pa.array(allowed)))
        yield from rows_where(strange, file, "split", split, f"must be {' or '.join(allowed)} in this file")
    if config.name == "kernels":
        yield from _kernel_ids(file, table)
    if config.name == "pairs":
        yield from _bins(file, table)


def _kernel_ids(file: str, table: pa.Table) -> Iterator[Issue]:
    names = ("problem_id", "backend", "source", "kernel_id")
    rows = zip(*(table.column(name).to_pylist() for name in names), strict=True)
    wrong = [None not in row and kernel_id(*row[:3]) != row[3] for row in rows]
    message = "must be the hash of problem, backend and source"
    yield from rows_where(pa.array(wrong, pa.bool_()), file, "kernel_id", table.column("kernel_id"), message)


def _bins(file: str, table: pa.Table) -> Iterator[Issue]:
    import numpy

    speedup = pc.fill_null(table.column("speedup"), float("nan")).to_numpy()
    expected = numpy.searchsorted(numpy.asarray(EDGES), speedup, side="right") + 1
    wrong = pc.and_(pc.not_equal(table.column("bin"), pa.array(expected)), pc.is_finite(table.column("speedup")))
    message = "disagrees with the speedup (see kbench.schemas.bins)"
    yield from rows_where(wrong, file, "bin", table.column("bin"), message)


def _locate(parts: list[Part], row: int) -> tuple[str, int]:
    for file, table in parts:
        if row < table.num_rows:
            return file, row
        row -= table.num_rows
    raise IndexError(row)


def _duplicates(config: Config, parts: list[Part]) -> Iterator[Issue]:
    """Rows whose key an earlier row already has."""
    if not parts:
        return
    whole = pa.concat_tables([table.select(list(config.key)) for _, table in parts])
    numbered = whole.append_column("row", pa.array(range(whole.num_rows)))
    first = numbered.group_by(list(config.key)).aggregate([("row", "min")]).column("row_min")
    if len(first) == whole.num_rows:
        return
    repeated = pc.invert(pc.is_in(numbered.column("row"), value_set=first.combine_chunks()))
    for row in pc.indices_nonzero(repeated).to_pylist()[: columns.REPORTED_ROWS]:
        file, local = _locate(parts, row)
        value = [whole.column(name)[row].as_py() for name in config.key]
        field, shown = ("+".join(config.key), value) if len(value) > 1 else (config.key[0], value[0])
        yield Issue(file, local, field, shown, "is a duplicate; ids must be unique")


REFERENCES = (
    ("kernels", "parent_id", "kernels", "kernel_id", "the parent is not in the corpus"),
    ("kernels", "env_id", "environments", "env_id", "the environment is not in the corpus"),
    ("kernels", "problem_id", "problems", "problem_id", "the problem is not in the corpus"),
    ("measurements", "kernel_id", "kernels", "kernel_id", "the kernel is not in the corpus"),
    ("measurements", "env_id", "environments", "env_id", "the environment is not in the corpus"),
    ("repeats", "kernel_id", "kernels", "kernel_id", "the kernel is not in the corpus"),
    ("repeats", "env_id", "environments", "env_id", "the environment is not in the corpus"),
    ("pairs", "anchor_id", "kernels", "kernel_id", "the anchor is not in the corpus"),
    ("pairs", "candidate_id", "kernels", "kernel_id", "the candidate is not in the corpus"),
)
"""config, column, config it points into, column there, what is wrong when nothing is there."""


def _references(parts: dict[str, list[Part]]) -> Iterator[Issue]:
    for config, column, target, key, message in REFERENCES:
        if not parts[target]:
            # A corpus may hold kernels alone; what it does not hold cannot be pointed into.
            continue
        known = pa.concat_arrays([chunk for _, table in parts[target] for chunk in table.column(key).chunks])
        for file, table in parts[config]:
            values = table.column(column)
            lost = pc.and_(pc.is_valid(values), pc.invert(pc.is_in(values, value_set=known)))
            yield from rows_where(lost, file, column, values, message)


def _families(parts: dict[str, list[Part]]) -> Iterator[Issue]:
    """Kernels and pairs whose family is not their problem's."""
    family_of: dict[Any, Any] = {}
    for _, table in parts["problems"]:
        family_of |= dict(zip(table.column("problem_id").to_pylist(), table.column("family").to_pylist(), strict=True))
    for file, table in parts["kernels"] + parts["pairs"]:
        pairs = zip(table.column("problem_id").to_pylist(), table.column("family").to_pylist(), strict=True)
        wrong = [family_of.get(problem, family) != family for problem, family in pairs]
        message = "differs from the problem's family"
        yield from rows_where(pa.array(wrong, pa.bool_()), file, "family", table.column("family"), message)


def _event_gaps(parts: list[Part]) -> Iterator[Issue]:
    """Runs whose events are not numbered from 0 without gaps."""
    if not parts:
        return
    whole = pa.concat_tables([table.select(["run_id", "index"]) for _, table in parts])
    counted = whole.group_by("run_id").aggregate([("index", "max"), ("index", "count")])
    for run in counted.to_pylist():
        if run["index_max"] != run["index_count"] - 1:
            message = (
                f"run {run['run_id']!r} has {run['index_count']} events; they must be numbered from 0 without gaps"
            )
            yield Issue(parts[0][0], None, "index", run["index_max"], message)
