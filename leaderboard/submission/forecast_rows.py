"""The rules of a forecasts file: its values, its repeats, and which queries it must answer."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from kbench.benchmark.metrics.arrays import Booleans
from kbench.benchmark.surrogates.ask import INTERRUPTED
from kbench.benchmark.surrogates.forecasts import NUMBERS, REPEATS, allowed, column_of, described
from kbench.benchmark.tracks import pairs_only
from kbench.leaderboard.submission.archive import FORECAST_FILES
from kbench.leaderboard.submission.untrusted import Flaw, read_forecasts, shown
from kbench.schemas import DataError, Forecast, Submission, bins, json_schema

if TYPE_CHECKING:
    import pyarrow as pa

MOST_TIMES = 2
"""Rows read for each one asked for, so that repeated and unknown ones can be named; files with more are refused."""
SHOWN_ROWS = 5
"""Rows named for each kind of problem; the rest are counted."""
SUM_TOLERANCE = 1e-6
LONGEST_REASON = 500
"""Characters of a failure's reason: what `kbench evaluate` keeps of it."""


@dataclasses.dataclass(frozen=True, slots=True)
class Expected:
    """What a submission must answer, known without any label."""

    fingerprint: str
    query_ids: Sequence[str]
    pair_ids: Sequence[str] | None = None
    """Those that the pair tracks ask; an entry for these tracks alone needs to answer no others."""
    other_ids: Sequence[str] = ()
    """Queries that may be answered and do not count: the rest of a split of which only a part is asked."""
    split: str = ""
    elsewhere: Mapping[str, Sequence[str]] = dataclasses.field(default_factory=dict)
    """Queries of other splits, by split, so that forecasts of the wrong one are recognised."""

    def required(self, submission: Submission | None) -> set[str]:
        """The queries an entry must answer, by the tracks it is for."""
        pairs_alone = submission is not None and pairs_only(submission.tracks)
        return set(self.pair_ids) if pairs_alone and self.pair_ids is not None else set(self.query_ids)


OF_A_PART = (
    "an entry on core or with known kernels is checked with --subset core [--shots 8], and lies in "
    "leaderboard/submissions/core or core-8-shots, or beside the results.json of its evaluation"
)


def check_forecasts(
    files: Mapping[str, bytes], submission: Submission | None, expected: Expected | None
) -> tuple[pa.Table | None, list[Flaw]]:
    """The forecasts of a submission, where they can be read, and everything wrong with them.

    Args:
        files: the submission's, by name.
        submission: its metadata, where that is right.
        expected: what it must answer; None checks the values alone.
    """
    import pyarrow as pa

    names = [name for name in FORECAST_FILES if name in files]
    if len(names) != 1:
        value = "missing" if not names else "given twice"
        return None, [Flaw("forecasts", "file", value, f"give exactly one of {' or '.join(FORECAST_FILES)}")]
    name = names[0]
    try:
        table = read_forecasts(files[name], name)
    except DataError as error:
        return None, [Flaw(name, "file", "unreadable", str(error))]
    if expected is not None:
        repeats = submission.repeats if submission is not None else REPEATS
        most = (len(expected.query_ids) + len(expected.other_ids)) * repeats
        if table.num_rows > max([MOST_TIMES * most, *map(len, expected.elsewhere.values())]):
            fix = f"give one row per query and repeat, {most:,} in all"
            return None, [Flaw(name, "rows", f"{table.num_rows:,}", fix)]
    # Of each query and repeat; Python objects of all rows would take ten times the table's memory.
    keys = pa.table({"query_id": table.column("query_id"), "repeat": table.column("repeat").fill_null(0)})
    rows = keys.group_by(["query_id", "repeat"], use_threads=False).aggregate([([], "count_all")])
    flaws = [*_value_flaws(table, name), *_text_flaws(table, name), *_count_flaws(table, rows, name, submission)]
    if expected is not None:
        flaws += _query_flaws(rows, name, expected, submission)
    return table, flaws


def _count_flaws(table: pa.Table, rows: pa.Table, name: str, submission: Submission | None) -> Iterator[Flaw]:
    """Repeats unlike the stated ones, rows that are no answers, and queries that more than one row answers."""
    import pyarrow.compute as pc

    repeats = np.asarray(table.column("repeat").fill_null(0))
    if not len(repeats):
        yield Flaw(name, "rows", "0", "a submission answers every query")
    elif submission is not None and (submission.repeats != int(repeats.max()) + 1 or repeats.min() != 0):
        value = f"{int(repeats.min())}…{int(repeats.max())}"
        yield Flaw(name, "repeat", value, f"submission.json states {submission.repeats} repeats, numbered from 0")
    # Rows of an evaluation that was interrupted say that they failed.
    if unasked := pc.sum(pc.equal(table.column("failure"), INTERRUPTED)).as_py():
        fix = "run the same `kbench evaluate` again, which goes on where it stopped"
        yield Flaw(name, "failure", f"{unasked:,} rows {INTERRUPTED!r}", fix)
    for row in rows.sort_by([("count_all", "descending")]).slice(0, 1).to_pylist():
        if row["count_all"] > 1:
            yield Flaw(name, "query_id", f"{shown(row['query_id'])} repeat {row['repeat']} twice", "keep one row each")


def _query_flaws(rows: pa.Table, name: str, expected: Expected, submission: Submission | None) -> list[Flaw]:
    answered = rows.column("query_id").to_pylist()
    allowed_ids = {*expected.query_ids, *expected.other_ids}
    flaws = []
    unknown = sorted({str(query) for query in answered if query not in allowed_ids})
    for split, ids in expected.elsewhere.items():
        if unknown and set(unknown) <= set(ids):
            fix = f"these answer split {split}; entries answer {expected.split}: run kbench evaluate without --split"
            return [Flaw(name, "query_id", f"{len(unknown):,} queries", fix)]
    if unknown:
        fix = "these are not queries of this dataset; export them with `kbench leaderboard export-queries`"
        flaws.append(Flaw(name, "query_id", f"{shown(unknown[0])} and {len(unknown) - 1} more unknown", fix))
    required = expected.required(submission)
    wanted = len(required) * (submission.repeats if submission is not None else 1)
    present = sum(query in required for query in answered)
    if present < wanted:
        missing = sorted(required - set(answered))
        example = f", such as {missing[0]}" if missing else ""
        fix = f"answer every query in every repeat{example}; a row with `failure` set is an answer too; {OF_A_PART}"
        flaws.append(Flaw(name, "rows", f"{wanted - present:,} of {wanted:,} missing", fix))
    return flaws


def _value_flaws(table: pa.Table, name: str) -> Iterator[Flaw]:
    """Distributions that are none, and numbers beyond their field's limits."""
    for fix, rows in _wrong_distributions(table).items():
        yield from _row_flaws(table, name, "probabilities", rows, fix)
    for field in NUMBERS:
        stated = np.asarray(table.column(field).is_valid())
        yield from _row_flaws(table, name, field, stated & ~allowed(field, column_of(table, field)), described(field))


def _text_flaws(table: pa.Table, name: str) -> Iterator[Flaw]:
    """Names that are no query's, and reasons that are long or hold what cannot be seen."""
    import pyarrow as pa
    import pyarrow.compute as pc

    ids, reasons = (table.column(field).cast(pa.large_string()) for field in ("query_id", "failure"))
    named = pc.match_substring_regex(ids, json_schema(Forecast)["properties"]["query_id"]["pattern"]).fill_null(False)
    yield from _row_flaws(table, name, "query_id", ~np.asarray(named), "give the id of a query, 32 hex digits")
    length = pc.utf8_length(reasons)
    plain = pc.and_(
        pc.utf8_is_printable(reasons), pc.and_(pc.greater(length, 0), pc.less_equal(length, LONGEST_REASON))
    )
    fix = f"give a reason of 1 to {LONGEST_REASON} characters that can be seen"
    yield from _row_flaws(table, name, "failure", ~np.asarray(plain.fill_null(True)), fix)


def _wrong_distributions(table: pa.Table) -> dict[str, Booleans]:
    """Rows that state no failure must hold eight finite probabilities that sum to one; those that do not, by fix."""
    import pyarrow as pa

    column = table.column("probabilities").combine_chunks()
    lengths = np.asarray(column.value_lengths().fill_null(-1))
    answered = ~np.asarray(table.column("failure").is_valid())
    right = lengths == bins.COUNT
    values = np.full((len(lengths), bins.COUNT), np.nan)
    picked = column.filter(pa.array(right)).flatten()
    values[right] = np.asarray(picked.fill_null(float("nan"))).reshape(-1, bins.COUNT)
    with np.errstate(invalid="ignore", over="ignore"):
        return {
            f"give {bins.COUNT} probabilities, or a failure": answered & ~right,
            "use finite numbers": (answered & right & ~np.isfinite(values).all(axis=1)) | _not_finite(column),
            "probabilities are at least 0": answered & (values < 0).any(axis=1),
            "make them sum to one": answered & (np.abs(values.sum(axis=1) - 1.0) > SUM_TOLERANCE),
        }


def _not_finite(column: pa.ListArray) -> Booleans:
    """Lists that hold NaN or an infinity, which JSON cannot; also where a failure is stated."""
    import pyarrow.compute as pc

    parents = np.asarray(pc.list_parent_indices(column))
    odd = np.asarray(pc.invert(pc.is_finite(column.flatten())).fill_null(False))
    return np.isin(np.arange(len(column)), parents[odd])


def _row_flaws(table: pa.Table, name: str, field: str, rows: Booleans, fix: str) -> Iterator[Flaw]:
    at = np.flatnonzero(rows)
    for row in at[:SHOWN_ROWS]:
        yield Flaw(name, f"row {row} {field}", shown(table.column(field)[int(row)].as_py()), fix)
    if len(at) > SHOWN_ROWS:
        yield Flaw(name, field, f"wrong in {len(at):,} rows", fix)
