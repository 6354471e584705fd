"""What a surrogate's `forecast` may return, and the forecasts in it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from kbench.benchmark.surrogates.protocol import accept, failure
from kbench.schemas import DataError, Forecast, Query, from_dict

FORMS = "return Forecast objects, dictionaries of their fields, or an array of shape (n, 8), one row for each query"


def answer_rows(given: Any, asked: Sequence[Query]) -> list[Any]:
    """What `forecast` returned, as forecasts or their fields; what names no query answers the one at its place.

    Raises:
        TypeError: it is neither Forecast objects, nor dictionaries of their fields, nor an array of shape (n, 8).
    """
    if isinstance(given, Iterable) and not isinstance(given, str | bytes | Mapping):
        rows = list(given)
        if all(isinstance(row, Forecast) for row in rows):
            return rows
        if len(rows) == len(asked):
            return [_row(row, query) for row, query in zip(rows, asked, strict=True)]
        if all(isinstance(row, Mapping) and "query_id" in row for row in rows):
            return [dict(row) for row in rows]
        raise TypeError(f"forecast(queries) returned {len(rows)} rows for {len(asked)} queries; return one for each")
    raise TypeError(f"forecast(queries) returned {type(given).__name__}; {FORMS}")


def _row(row: Any, query: Query) -> Any:
    if isinstance(row, Forecast):
        return row
    if isinstance(row, Mapping):
        return {"query_id": query.query_id} | dict(row)
    if (isinstance(row, Sequence) and not isinstance(row, str | bytes)) or getattr(row, "ndim", None) == 1:
        return {"query_id": query.query_id, "probabilities": list(row)}
    raise TypeError(f"forecast(queries) returned a row of type {type(row).__name__}; {FORMS}")


def checked(row: Mapping[str, Any]) -> Forecast:
    """The forecast with these fields; a failure that says why where they make none."""
    try:
        probabilities = row.get("probabilities")
        if isinstance(probabilities, list):
            # Whole numbers are fine as probabilities; `accept` names what is no number.
            numeric = all(isinstance(v, int | float) and not isinstance(v, bool) for v in probabilities)
            row = {**row, "probabilities": [float(v) for v in probabilities] if numeric else probabilities}
        return accept(from_dict(Forecast, row))
    except DataError as error:
        repeat = row.get("repeat", 0)
        return failure(row["query_id"], str(error), repeat if isinstance(repeat, int) else 0)
