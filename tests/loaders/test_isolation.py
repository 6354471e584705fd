"""Foreign files are read in a process of its own, which may die, be left halfway, or be asked twice at once."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kbench.loaders.storage.isolation import Reader
from kbench.loaders.storage.parquet_stream import BATCH_ROWS, open_parquet, read_schema
from kbench.schemas import DataError, UserError


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("parquet") / "x.parquet"
    pq.write_table(pa.table({"a": range(3 * BATCH_ROWS), "b": ["x"] * (3 * BATCH_ROWS)}), target)
    return target


def test_rows_come_in_batches_with_the_columns_asked_for(path: Path) -> None:
    schema, tables = open_parquet(path, ["a", "no such column"])
    assert schema.names == ["a", "b"]
    found = list(tables)
    assert [table.num_rows for table in found] == [BATCH_ROWS] * 3
    assert pa.concat_tables(found).column("a").to_pylist() == list(range(3 * BATCH_ROWS))


def test_a_reader_that_was_left_halfway_does_not_stop_the_next(path: Path) -> None:
    _, halfway = open_parquet(path)
    next(halfway)
    assert read_schema(path).names == ["a", "b"], "another file can be read meanwhile"
    assert sum(table.num_rows for table in halfway) == 2 * BATCH_ROWS


def test_a_file_that_is_not_parquet_or_not_there_is_one_line(path: Path, tmp_path: Path) -> None:
    (tmp_path / "half.parquet").write_bytes(path.read_bytes()[:-20])
    with pytest.raises(DataError, match=r"half\.parquet: cannot be read as Parquet"):
        read_schema(tmp_path / "half.parquet")
    with pytest.raises(UserError, match="does not exist"):
        read_schema(tmp_path / "none.parquet")
    assert read_schema(path).names == ["a", "b"]


def test_a_reader_that_dies_says_so_whatever_it_was_reading(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dying = "import os, signal\n\ndef parse(data):\n    os.kill(os.getpid(), signal.SIGKILL)\n"
    (tmp_path / "dying_parser.py").write_text(dying)
    monkeypatch.syspath_prepend(str(tmp_path))
    reader = Reader("dying_parser:parse")
    with pytest.raises(DataError, match=r"^rows\.jsonl cannot be read \(the reader was ended by SIGKILL\)$"):
        reader.read(b"{}", "rows.jsonl")
    reader.close()


def test_a_reader_that_does_not_start_says_so_and_can_be_asked_again() -> None:
    reader = Reader("no_such_module:parse")
    for _ in range(2):
        with pytest.raises(DataError, match=r"^x\.parquet cannot be read \(the reader (ended|did not start)\)$"):
            reader.read(bytes(1 << 20), "x.parquet")
