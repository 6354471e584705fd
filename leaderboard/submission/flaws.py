"""Flaws of a submission, and those of its forecasts' values: distributions, and numbers beyond their field's limits."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from kbench.benchmark.metrics.arrays import Booleans
from kbench.benchmark.surrogates.forecasts import NUMBERS, allowed, column_of, described
from kbench.leaderboard.submission.untrusted import shown
from kbench.schemas import bins


@dataclasses.dataclass(frozen=True, slots=True)
class Flaw:
    """One problem of a submission."""

    file: str
    field: str
    value: str
    message: str

    def __str__(self) -> str:
        return f"{self.file}: {self.field} is {self.value}; {self.message}"


if TYPE_CHECKING:
    import pyarrow as pa

SHOWN_ROWS = 5
"""Rows named for each kind of problem; the rest are counted."""
SUM_TOLERANCE = 1e-6


def value_flaws(table: pa.Table, name: str) -> Iterator[Flaw]:
    """Everything wrong with single values of a forecasts table.

    Args:
        table: forecasts with the record's columns.
        name: the file they came in.
    """
    for fix, rows in _wrong_distributions(table).items():
        yield from _row_flaws(table, name, "probabilities", rows, fix)
    for field in NUMBERS:
        given = np.asarray(table.column(field).is_valid())
        yield from _row_flaws(table, name, field, given & ~allowed(field, column_of(table, field)), described(field))


def _wrong_distributions(table: pa.Table) -> dict[str, Booleans]:
    """Rows that state no failure must hold eight finite probabilities that sum to one; those that do not, by fix."""
    column = table.column("probabilities").combine_chunks()
    lengths = np.asarray(column.value_lengths().fill_null(-1))
    answered = ~np.asarray(table.column("failure").is_valid())
    right = lengths == bins.COUNT
    values = np.full((len(lengths), bins.COUNT), np.nan)
    picked = column.filter(_boolean(right)).flatten()
    values[right] = np.asarray(picked.fill_null(float("nan"))).reshape(-1, bins.COUNT)
    with np.errstate(invalid="ignore", over="ignore"):
        return {
            f"give {bins.COUNT} probabilities, or a failure": answered & ~right,
            "use finite numbers": answered & right & ~np.isfinite(values).all(axis=1),
            "probabilities are at least 0": answered & (values < 0).any(axis=1),
            "make them sum to one": answered & (np.abs(values.sum(axis=1) - 1.0) > SUM_TOLERANCE),
        }


def _boolean(mask: Booleans) -> Any:
    import pyarrow as pa

    return pa.array(mask)


def _row_flaws(table: pa.Table, name: str, field: str, rows: Booleans, fix: str) -> Iterator[Flaw]:
    at = np.flatnonzero(rows)
    for row in at[:SHOWN_ROWS]:
        yield Flaw(name, f"row {row} {field}", shown(table.column(field)[int(row)].as_py()), fix)
    if len(at) > SHOWN_ROWS:
        yield Flaw(name, field, f"wrong in {len(at):,} rows", fix)
