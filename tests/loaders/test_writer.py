"""Writing is atomic, appends, compacts, and gives equal content an equal fingerprint."""

import json
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from kbench.loaders.checks.validate import validate
from kbench.loaders.corpus import writer as writer_module
from kbench.loaders.corpus.configs import config
from kbench.loaders.corpus.corpus import Corpus, load
from kbench.loaders.corpus.fingerprint import rows_hash
from kbench.loaders.corpus.merge import STRANGE, merge
from kbench.loaders.corpus.writer import CorpusWriter, compact, config_table, refresh
from kbench.schemas import DataError, UserError

from .conftest import make_environment, make_kernel, make_live, make_measurement, make_problem

SOURCE = str(Path(__file__).parents[2] / "src")


def test_appending_keeps_what_was_there(corpus_path: Path) -> None:
    before = Corpus.open(corpus_path)
    with CorpusWriter(corpus_path) as writer:
        writer.append("kernels", [make_kernel(1000)])
    after = Corpus.open(corpus_path)
    assert after.rows("kernels") == before.rows("kernels") + 1
    assert after.fingerprint != before.fingerprint
    assert after.manifest.config_hashes["pairs"] == before.manifest.config_hashes["pairs"]


def test_a_release_stays_until_rows_change(corpus_path: Path) -> None:
    with CorpusWriter(corpus_path) as writer:
        writer.release = "9.1.0"
    for step in (refresh, compact):
        step(corpus_path)
        assert Corpus.open(corpus_path).manifest.release == "9.1.0"
    with CorpusWriter(corpus_path) as writer:
        writer.append("kernels", [make_kernel(1000)])
    assert Corpus.open(corpus_path).manifest.release is None
    assert "release" not in json.loads((corpus_path / "manifest.json").read_text())


def test_compaction_keeps_rows_and_fingerprint(corpus_path: Path, monkeypatch: Any) -> None:
    for number in range(1000, 1004):
        with CorpusWriter(corpus_path) as writer:
            writer.append("kernels", [make_kernel(number)])
    before = Corpus.open(corpus_path)
    rows = sorted(map(str, load(corpus_path).records()))
    assert len(before.files()) == 7
    assert compact(corpus_path) == before.fingerprint
    assert len(Corpus.open(corpus_path).files()) == 3
    assert sorted(map(str, load(corpus_path).records())) == rows
    monkeypatch.setattr(writer_module, "SHARD_ROWS", 8)
    with CorpusWriter(corpus_path) as writer:
        writer.append("kernels", [make_kernel(2000)])
    grown = Corpus.open(corpus_path).fingerprint
    assert compact(corpus_path) == grown


def test_the_fingerprint_ignores_order_and_sharding(tmp_path: Path) -> None:
    rows = [make_kernel(number) for number in range(12)]
    with CorpusWriter(tmp_path / "one") as writer:
        writer.append("kernels", rows)
    for part in (rows[7:], rows[:7]):
        with CorpusWriter(tmp_path / "two") as writer:
            writer.append("kernels", part)
    assert Corpus.open(tmp_path / "one").fingerprint == Corpus.open(tmp_path / "two").fingerprint


@pytest.mark.parametrize(
    "changes",
    [
        {"runtime_us": 1.0000000000000002},
        {"source": "x"},
        {"error": ""},
        {"step": 1},
        {"edit": "-"},
        {"registers": None},
    ],
)
def test_the_fingerprint_sees_every_change(changes: dict[str, Any]) -> None:
    kernel = make_kernel(0, runtime_us=1.0, error=None, edit=None)
    changed = make_kernel(0, **({"runtime_us": 1.0, "error": None, "edit": None} | changes))
    assert rows_hash(config_table("kernels", [kernel])) != rows_hash(config_table("kernels", [changed]))


def test_the_fingerprint_reads_lists_and_structs() -> None:
    measurement = make_measurement(make_kernel(0))
    other = make_measurement(make_kernel(0), anchor_us=(2.5, 1.5))
    assert rows_hash(config_table("measurements", [measurement])) != rows_hash(config_table("measurements", [other]))
    table = config_table("measurements", [measurement, other, measurement])
    assert rows_hash(table.slice(1, 1)) == rows_hash(config_table("measurements", [other]))
    one, same = (rows_hash(config_table("problems", [make_problem("relu")])) for _ in range(2))
    assert one == same


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({}, {"ruler_us": 3.25}),
        ({"ruler_us": 3.25}, {"ruler_us": 3.5}),
        ({"ruler_us": 3.25}, {"shift_us": 3.25}),
        ({"shift_us": None}, {"shift_us": 0.0}),
    ],
)
def test_the_fingerprint_sees_a_later_column_where_it_is_set(one: dict[str, Any], other: dict[str, Any]) -> None:
    later = config("measurements").later
    assert later == {"ruler_us", "shift_us", "trust", "not_restored"}
    first, second = (make_measurement(make_kernel(0), **changes) for changes in (one, other))
    assert rows_hash(config_table("measurements", [first]), later) != rows_hash(
        config_table("measurements", [second]), later
    )


def test_a_target_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with (
        pytest.raises(UserError, match=r"cannot be written: .*; choose another target"),
        CorpusWriter(tmp_path / "file"),
    ):
        pass
    with pytest.raises(UserError, match=r"cannot be written: .*; choose another target"), CorpusWriter("/proc/corpus"):
        pass


def test_a_folder_with_other_things_in_it_is_refused(tmp_path: Path) -> None:
    (tmp_path / "thesis.doc").write_text("")
    with pytest.raises(UserError, match=r"holds 'thesis\.doc' and is not a corpus"), CorpusWriter(tmp_path):
        pass


def test_a_second_writer_is_refused(corpus_path: Path) -> None:
    code = textwrap.dedent(f"""
        import sys
        sys.path.insert(0, {SOURCE!r})
        from kbench.loaders.corpus.writer import CorpusWriter
        try:
            CorpusWriter({str(corpus_path)!r}).__enter__()
        except ValueError as error:
            print(error)
    """)
    with CorpusWriter(corpus_path):
        out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert "is being changed by another process" in out


def test_records_of_another_type_or_split_are_refused(corpus_path: Path) -> None:
    with pytest.raises(DataError, match="config 'pairs' takes pair records, got Kernel"):
        CorpusWriter(corpus_path).append("pairs", [make_kernel(1)])
    with pytest.raises(DataError, match="split is 'dev'"), CorpusWriter(corpus_path) as writer:
        writer.append("kernels", [make_kernel(1, split="dev")])


@pytest.mark.parametrize(
    ("column", "values", "message"),
    [
        ("step", ["a"], "column 'step' of config 'kernels' is string; it must be int64"),
        ("extra", [1], "config 'kernels' has no column 'extra'"),
        ("source", [1], "column 'source' of config 'kernels' is int64; it must be string"),
    ],
)
def test_a_table_has_its_config_s_columns(corpus_path: Path, column: str, values: list[Any], message: str) -> None:
    table = config_table("kernels", [make_kernel(1)])
    table = table.drop([column]) if column in table.column_names else table
    with pytest.raises(DataError, match=message):
        CorpusWriter(corpus_path).append("kernels", table.append_column(column, pa.array(values)))
    with pytest.raises(DataError, match="config 'kernels' needs the column 'gpu'"):
        CorpusWriter(corpus_path).append("kernels", config_table("kernels", [make_kernel(1)]).drop(["gpu"]))


def test_hugging_face_datasets_never_serves_stale_rows(corpus_path: Path, fresh_python: Callable[[str], str]) -> None:
    code = (
        f"import datasets\nprint(sorted(datasets.load_dataset({str(corpus_path)!r}, 'kernels', split='test')['step']))"
    )
    assert fresh_python(code) == f"{[number for number in range(40) if number % 4 == 3]}\n"
    with CorpusWriter(corpus_path) as writer:
        writer.replace("kernels", [make_kernel(3, step=7777)])
    assert fresh_python(code) == "[7777]\n"


def test_live_kernels_change_their_own_hash_and_not_the_fingerprint(corpus_path: Path) -> None:
    before = Corpus.open(corpus_path)
    with CorpusWriter(corpus_path) as writer:
        writer.append("live", [make_live(7)])
    after = Corpus.open(corpus_path)
    assert after.rows("live") == before.rows("live") + 1
    assert after.manifest.config_hashes["live"] != before.manifest.config_hashes["live"]
    assert after.manifest.versions()["live"] != before.manifest.versions()["live"]
    assert after.fingerprint == before.fingerprint


def test_merged_live_searches_are_of_one_corpus_and_of_no_training_problem(corpus_path: Path, tmp_path: Path) -> None:
    same, trained = tmp_path / "same", tmp_path / "trained"
    with CorpusWriter(same) as writer:
        writer.append("problems", [make_problem("matmul_square")])
        writer.append("live", [make_live(5), make_live(6)])
    with CorpusWriter(trained) as writer:
        writer.append("problems", [make_problem("matmul_square")])
        writer.append("environments", [make_environment()])
        writer.append("kernels", [make_kernel(3, split="train", cluster_id="ab" * 16)])
    merged = merge([corpus_path, same], tmp_path / "first")
    assert merged.rows["live"] == Corpus.open(corpus_path).rows("live")
    assert validate(Corpus.open(tmp_path / "first")) == []
    merged = merge([trained, same], tmp_path / "second")
    assert merged.rows["live"] == 0
    assert merged.left_out[f"live: {STRANGE}"] == 2
