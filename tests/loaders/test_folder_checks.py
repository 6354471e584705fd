"""Card and manifest must speak of the same rows; a manifest that is not one is a single line, never a traceback."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from kbench.benchmark.problems.foreign.user_code import import_file
from kbench.loaders.checks.validate import validate
from kbench.loaders.cli import data
from kbench.loaders.corpus import shards as shards_module
from kbench.loaders.corpus.corpus import Corpus
from kbench.loaders.corpus.places import shipped
from kbench.loaders.corpus.shards import read_parquet
from kbench.loaders.corpus.writer import CorpusWriter, refresh
from kbench.loaders.hub.repository import push
from kbench.schemas import DataError


def change_card(path: Path, old: str, new: str) -> None:
    card = path / "README.md"
    assert old in card.read_text()
    card.write_text(card.read_text().replace(old, new))


def card_without(path: Path) -> None:
    (path / "README.md").unlink()


def card_of_other_files(path: Path) -> None:
    change_card(path, "pairs/train-", "pairs/other-")


def card_less_a_config(path: Path) -> None:
    text = (path / "README.md").read_text()
    start = text.index("- config_name: tuning")
    (path / "README.md").write_text(text[:start] + text[text.index("dataset_info:") :])


def card_of_another_version(path: Path) -> None:
    change_card(path, Corpus.open(path).manifest.versions()["kernels"], "1.2.3")


def card_that_is_no_yaml(path: Path) -> None:
    (path / "README.md").write_text("---\n[\n---\n")


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (card_without, "the card is missing or cannot be read"),
        (card_of_other_files, "config 'pairs' names pairs/other-"),
        (card_less_a_config, "config 'tuning' leaves out tuning/"),
        (card_of_another_version, "config 'kernels' has version 1.2.3, its rows have "),
        (card_that_is_no_yaml, "the card is missing or cannot be read"),
    ],
)
def test_a_card_that_disagrees_with_the_manifest_is_noticed_by_validate_and_push(
    corpus_path: Path, damage: Callable[[Path], None], message: str
) -> None:
    damage(corpus_path)
    issues = validate(Corpus.open(corpus_path))
    assert [issue.file for issue in issues] == [str(corpus_path / "README.md")]
    assert issues[0].message.startswith(message)
    assert issues[0].message.endswith(f"rewrite it with: kbench data info {corpus_path} --card write")
    with pytest.raises(DataError, match="the corpus does not validate"):
        push(corpus_path, "owner/name", dry_run=True)
    refresh(corpus_path)
    assert validate(Corpus.open(corpus_path)) == []


def test_a_fingerprint_that_is_not_the_rows_is_noticed(corpus_path: Path) -> None:
    manifest = corpus_path / "manifest.json"
    true = Corpus.open(corpus_path).fingerprint
    manifest.write_text(manifest.read_text().replace(true, "0" * 32))
    assert [(issue.field, issue.value) for issue in validate(Corpus.open(corpus_path))] == [("fingerprint", "0" * 32)]


@pytest.mark.parametrize(
    ("changes", "field"),
    [({"sha256": "0" * 64}, "sha256"), ({"bytes": 1}, "bytes"), ({"rows": 1}, "rows"),
     ({"values": {"problem_id": ["nope"]}}, "problem_id"), ({"values": {"backend": ["cuda"]}}, "backend"),
     ({"values": {"samples_us": []}}, "samples_us")],
)  # fmt: skip
def test_what_the_manifest_says_of_a_file_is_held_against_the_file(
    corpus_path: Path, changes: dict[str, Any], field: str
) -> None:
    path = corpus_path / "manifest.json"
    manifest = json.loads(path.read_text())
    set_in_file(**changes)(manifest)
    path.write_text(json.dumps(manifest))
    found = validate(Corpus.open(corpus_path, check_files=False))
    assert [issue.field for issue in found if issue.field != "fingerprint" and "README" not in issue.file] == [field]


def set_in_file(**changes: Any) -> Callable[[dict[str, Any]], object]:
    return lambda manifest: manifest["configs"]["kernels"]["files"][0].update(changes)


MANIFESTS: list[tuple[str, Callable[[dict[str, Any]], object], str]] = [
    ("size as text", set_in_file(bytes="1"), "bytes is '1', not a whole number"),
    ("rows as text", set_in_file(rows="1"), "rows is '1', not a whole number"),
    ("rows true", set_in_file(rows=True), "rows is True, not a whole number"),
    ("rows negative", set_in_file(rows=-1), "rows is -1, less than 0"),
    ("hash that is none", set_in_file(rows_hash="zz"), "rows_hash is 'zz', not 64 hex digits"),
    ("hash as number", set_in_file(sha256=5), "sha256 is 5, not text"),
    ("path as number", set_in_file(path=3), "path is 3, not text"),
    ("path outside", set_in_file(path="../x.parquet"), "path is '../x.parquet', not a file in the folder"),
    ("values as list", set_in_file(values=[]), "values of a file is [], not an object"),
    ("value as number", set_in_file(values={"gpu": [1]}), "a value of 'gpu' is 1, not text"),
    ("unknown field", set_in_file(zz=1), "a file's field 'zz' is unknown"),
    ("missing field", lambda m: m["configs"]["kernels"]["files"][0].pop("rows"), "a file's field 'rows' is missing"),
    ("files as text", lambda m: m["configs"]["pairs"].update(files="x"), "files of config 'pairs' is 'x', not a list"),
    ("configs as list", lambda m: m.update(configs=[]), "configs is [], not an object"),
    ("no configs", lambda m: m.pop("configs"), "configs is None, not an object"),
    ("fingerprint as list", lambda m: m.update(fingerprint=[]), "fingerprint is [], not text"),
]  # fmt: skip


@pytest.mark.parametrize(("change", "message"), [case[1:] for case in MANIFESTS], ids=[case[0] for case in MANIFESTS])
def test_a_damaged_manifest_is_one_line_that_names_what_is_wrong(
    corpus_path: Path, change: Callable[[dict[str, Any]], object], message: str
) -> None:
    path = corpus_path / "manifest.json"
    manifest = json.loads(path.read_text())
    change(manifest)
    path.write_text(json.dumps(manifest))
    with pytest.raises(DataError) as caught:
        Corpus.open(corpus_path)
    assert f"is damaged: {message}; fetch the corpus again" in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("content", "message"),
    [(b"\xff\xfe\x00", "is not text in UTF-8"), (b"[" * 100_000, "is not JSON"), (b"[]", "has format []")],
)
def test_a_manifest_that_is_no_manifest_is_one_line(corpus_path: Path, content: bytes, message: str) -> None:
    (corpus_path / "manifest.json").write_bytes(content)
    with pytest.raises(DataError) as caught:
        Corpus.open(corpus_path)
    assert message in str(caught.value)
    result = CliRunner().invoke(data, ["validate", str(corpus_path), "--json"])
    assert result.exit_code == 1
    assert message in json.loads(result.output)["errors"][0]["message"]


SCRIPT = Path(__file__).parents[2] / "tests/support/faults/tampering.py"
tampering = import_file(SCRIPT)


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("small") / "corpus"
    with CorpusWriter(folder) as writer:
        for split in ("train", "test"):
            writer.append("questions", Corpus.open(shipped()).table("questions", split=split).slice(0, 300))
    tampering.describe(folder)
    return folder


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KBENCH_HOME", str(tmp_path / "home"))


@pytest.mark.parametrize("name", [name for name in tampering.CASES if not name.startswith("bit ")] + ["bit 0 flipped"])
def test_a_tampered_corpus_is_refused(name: str, small: Path, tmp_path: Path) -> None:
    assert tampering.try_case(name, small, tmp_path) is not None


def test_a_shard_that_is_a_pipe_is_refused_without_waiting_for_it(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "x.parquet")
    with pytest.raises(DataError, match="is a pipe"):
        read_parquet(tmp_path / "x.parquet")


def test_what_was_verified_is_not_read_again(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Corpus.open(small, verified=True)
    monkeypatch.setattr(shards_module, "row_groups", lambda path: pytest.fail("read again"))
    assert Corpus.open(small, verified=True).rows("questions") == 600


def test_a_home_that_cannot_be_written_costs_nothing_else(
    small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("KBENCH_HOME", str(tmp_path / "file" / "home"))
    assert Corpus.open(small, verified=True).rows("questions") == 600
