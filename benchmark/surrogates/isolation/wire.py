"""How queries and forecasts cross a process boundary: one JSON object a line, texts shared rather than repeated."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from typing import Any

from kbench.schemas import Backend, Forecast, Pair, PairKind, Query, to_dict

QUERY_FIELDS = tuple(field.name for field in dataclasses.fields(Query))


def pack_queries(queries: Sequence[Query]) -> dict[str, Any]:
    """Queries as a table of distinct texts and rows of positions in it: pairs of one problem share most of theirs."""
    texts: dict[str, int] = {}
    rows = [[texts.setdefault(str(getattr(q, name)), len(texts)) for name in QUERY_FIELDS] for q in queries]
    return {"texts": list(texts), "rows": rows}


def unpack_queries(packed: dict[str, Any]) -> list[Query]:
    """The queries again."""
    texts, queries = packed["texts"], []
    for row in packed["rows"]:
        values = {name: texts[index] for name, index in zip(QUERY_FIELDS, row, strict=True)}
        values |= {"backend": Backend(values["backend"]), "kind": PairKind(values["kind"])}
        queries.append(Query(**values))
    return queries


def pack_training(train: Sequence[tuple[Query, Pair]]) -> dict[str, Any]:
    """Training material."""
    return {"queries": pack_queries([query for query, _ in train]), "pairs": [to_dict(pair) for _, pair in train]}


def unpack_training(packed: dict[str, Any]) -> list[tuple[Query, Pair]]:
    """The training material again."""
    pairs = [
        Pair(**row | {"backend": Backend(row["backend"]), "kind": PairKind(row["kind"])}) for row in packed["pairs"]
    ]
    return list(zip(unpack_queries(packed["queries"]), pairs, strict=True))


def pack_forecasts(forecasts: Sequence[Any]) -> list[dict[str, Any]]:
    """Forecasts as plain values.

    Raises:
        TypeError: something else was returned.
    """
    for item in forecasts:
        if not isinstance(item, Forecast):
            raise TypeError(f"forecast(queries) returned {type(item).__name__}; it must return kbench Forecast objects")
    return [_plain(item) for item in forecasts]


def _plain(forecast: Forecast) -> dict[str, Any]:
    row = to_dict(forecast)
    # numpy numbers are what most models have at hand; JSON knows only Python's.
    return {name: _python(value) for name, value in row.items() if value is not None}


def _python(value: Any) -> Any:
    if isinstance(value, list):
        return [_python(item) for item in value]
    if hasattr(value, "tolist"):
        return value.tolist()
    return value


def line(message: dict[str, Any]) -> bytes:
    """One message; Python's NaN and Infinity are let through so that the reader can refuse them by name."""
    return json.dumps(message).encode() + b"\n"
