"""Content fingerprint: equal rows, equal fingerprint, however they are ordered, sharded or compressed.

A row's hash is SHA-256 over its columns' exact values; rows are summed modulo 2^256, so that appending needs only the
new rows and compaction changes nothing. A column that joined its config in a later schema version counts only where it
is set, so that rows written before keep their hashes.
"""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Collection, Iterable, Iterator, Mapping

import pyarrow as pa
import pyarrow.compute as pc

from kbench.schemas.ids import content_hash

MODULUS = 2**256
BATCH_ROWS = 16_384


def rows_hash(table: pa.Table, later: Collection[str] = ()) -> int:
    """Sum of the row hashes.

    Args:
        table: the rows.
        later: columns that joined the config after its first schema version.
    """
    total = 0
    for start in range(0, table.num_rows, BATCH_ROWS):
        part = table.slice(start, BATCH_ROWS).combine_chunks()
        columns = [_as_text(part.column(name)) for name in part.column_names if name not in later]
        rows = pc.binary_join_element_wise(*columns, pa.scalar("\x1f", pa.large_string()))
        for name in sorted(set(later) & set(part.column_names)):
            rows = pc.binary_join_element_wise(
                rows, _where_set(name, part.column(name)), pa.scalar("", pa.large_string())
            )
        total += sum(int.from_bytes(hashlib.sha256(row).digest(), "big") for row in _slices(rows))
    return total % MODULUS


def _slices(rows: pa.Array) -> Iterator[memoryview]:
    """Each text's bytes without a copy: a Python object for each would take longer than hashing it."""
    _, offsets, data = rows.buffers()
    view = memoryview(data)
    starts = memoryview(offsets).cast("q")[rows.offset : rows.offset + len(rows) + 1].tolist()
    return (view[start:end] for start, end in itertools.pairwise(starts))


def _as_text(column: pa.ChunkedArray) -> pa.Array:
    """Each value as `length:text`, null as `-`; the length keeps columns from running into one another."""
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if isinstance(array, pa.ChunkedArray):
        array = array.chunk(0) if array.num_chunks else pa.array([], array.type)
    text = pc.cast(_spell(array), pa.large_string())
    lengths = pc.cast(pc.binary_length(text), pa.large_string())
    joined = pc.binary_join_element_wise(lengths, text, pa.scalar(":", pa.large_string()))
    return pc.fill_null(joined, "-")


def _where_set(name: str, column: pa.ChunkedArray) -> pa.Array:
    """Each value with the column's name before it; nothing for null."""
    head = pa.scalar(f"\x1f{name}=", pa.large_string())
    joined = pc.binary_join_element_wise(head, _as_text(column), pa.scalar("", pa.large_string()))
    return pc.if_else(pc.is_valid(column.combine_chunks()), joined, pa.scalar("", pa.large_string()))


def _spell(array: pa.Array) -> pa.Array:
    kind = array.type
    if pa.types.is_floating(kind):
        # The bits, not a decimal spelling, which could differ between library versions.
        return pc.cast(pc.cast(array, pa.float64()).view(pa.int64()), pa.string())
    if pa.types.is_list(kind) and not pa.types.is_nested(kind.value_type):
        parts = pc.fill_null(_spell(array.values), "-")
        lists = pa.ListArray.from_arrays(array.offsets, pc.cast(parts, pa.string()))
        joined = pc.binary_join(lists, ",")
        return pc.if_else(pc.is_valid(array), joined, None)
    if pa.types.is_nested(kind):
        values = array.to_pylist()
        compact = json.JSONEncoder(sort_keys=True, separators=(",", ":"))
        return pa.array([None if value is None else compact.encode(value) for value in values], pa.string())
    return pc.cast(array, pa.string())


def config_hash(config: str, columns: Iterable[str], rows: int, total: int) -> str:
    """A config's content hash from its summed row hashes."""
    return content_hash("config", config, *columns, str(rows), f"{total:064x}")


def corpus_fingerprint(config_hashes: Mapping[str, str]) -> str:
    """The corpus's fingerprint from its configs' hashes."""
    return content_hash("corpus", *(f"{name}={value}" for name, value in sorted(config_hashes.items())))


def dataset_version(content: str, schema_version: str) -> str:
    """The major version of the columns, then a number that changes with the content: `datasets` takes it into its cache
    key, and so never serves rows of an earlier state of the folder."""
    return f"{schema_version.split('.')[0]}.{int(content[:5], 16)}.0"
