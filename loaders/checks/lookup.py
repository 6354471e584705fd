"""Rows of one table found by the ids that another holds, whole columns at a time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pyarrow as pa
import pyarrow.compute as pc

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
