"""A folder and its files: card and manifest must speak of the same rows, and a file says which config it is of."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from kbench.benchmark.problems.foreign.user_code import import_file
from kbench.loaders.checks.validate import validate
from kbench.loaders.cli import data
from kbench.loaders.corpus import shards as shards_module
from kbench.loaders.corpus.configs import CONFIGS
from kbench.loaders.corpus.corpus import Corpus, load
from kbench.loaders.corpus.places import shipped
from kbench.loaders.corpus.writer import CorpusWriter, refresh
from kbench.loaders.exporters import export
from kbench.loaders.hub.repository import push
from kbench.schemas import DataError
from kbench.schemas.files import versions


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda card: None, "the card is missing or cannot be read"),
        (lambda card: card.replace("pairs/train-", "pairs/other-"), "config 'pairs' names pairs/other-"),
        (
            lambda card: card.split("- config_name: tuning")[0] + "dataset_info:" + card.split("dataset_info:", 1)[1],
            "config 'tuning' leaves out tuning/",
        ),
        (lambda card: "---\n[\n---\n", "the card is missing or cannot be read"),
    ],
)
def test_a_card_of_other_rows_is_noticed(corpus_path: Path, damage: Callable[[str], str | None], message: str) -> None:
    card = corpus_path / "README.md"
    damaged = damage(card.read_text())
    card.unlink() if damaged is None else card.write_text(damaged)
    issues = validate(Corpus.open(corpus_path))
    assert [issue.file for issue in issues] == [str(corpus_path / "README.md")]
    assert issues[0].message.startswith(message)
    assert issues[0].message.endswith(f"rewrite it with: kbench data info {corpus_path} --card write")
    with pytest.raises(DataError, match="the corpus does not validate"):
        push(corpus_path, "owner/name", dry_run=True)
    refresh(corpus_path)
    assert validate(Corpus.open(corpus_path)) == []


@pytest.mark.parametrize(
    ("changes", "field"),
    [({"sha256": "0" * 64}, "sha256"), ({"bytes": 1}, "bytes"), ({"rows": 1}, "rows"),
     ({"values": {"problem_id": ["nope"]}}, "problem_id"), ({"values": {"backend": ["cuda"]}}, "backend"),
     ({"values": {"samples_us": []}}, "samples_us")],
)  # fmt: skip
def test_a_file_is_held_against_the_manifest(corpus_path: Path, changes: dict[str, Any], field: str) -> None:
    path = corpus_path / "manifest.json"
    manifest = json.loads(path.read_text())
    set_in_file(**changes)(manifest)
    path.write_text(json.dumps(manifest))
    found = validate(Corpus.open(corpus_path, check_files=False))
    assert [issue.field for issue in found if issue.field != "fingerprint" and "README" not in issue.file] == [field]


def set_in_file(**changes: Any) -> Callable[[dict[str, Any]], object]:
    return lambda manifest: manifest["configs"]["kernels"]["files"][0].update(changes)


FILE = "a file of config 'kernels'"
MANIFESTS: list[tuple[str, Callable[[dict[str, Any]], object], str]] = [
    ("size as text", set_in_file(bytes="1"), f"{FILE}.bytes is '1' (str); it must be int"),
    ("rows true", set_in_file(rows=True), f"{FILE}.rows is True (bool); it must be int"),
    ("rows negative", set_in_file(rows=-1), f"{FILE}.rows is -1; it must be at least 0"),
    ("hash that is none", set_in_file(rows_hash="zz"), f"{FILE}.rows_hash is 'zz'; it must match [0-9a-f]{{64}}"),
    ("path as number", set_in_file(path=3), f"{FILE}.path is 3 (int); it must be str"),
    ("path outside", set_in_file(path="../x.parquet"), "path is '../x.parquet', not a file in the folder"),
    ("companion outside", lambda m: m["companions"].update({"/etc/x": "0" * 64}), "path is '/etc/x', not a file in"),
    ("values as list", set_in_file(values=[]), "it is not what a manifest is (AttributeError: "),
    ("value as number", set_in_file(values={"gpu": [1]}), f"{FILE}.values holds what is no text"),
    ("unknown field", set_in_file(zz=1), f"{FILE} has unknown field 'zz'"),
    ("missing field", lambda m: m["configs"]["kernels"]["files"][0].pop("rows"), f"{FILE}.rows is missing"),
    ("files as text", lambda m: m["configs"]["pairs"].update(files="x"), "it is not what a manifest is ("),
    ("configs as list", lambda m: m.update(configs=[]), "it is not what a manifest is ("),
    ("no configs", lambda m: m.pop("configs"), "it is not what a manifest is (KeyError: 'configs')"),
    ("fingerprint as list", lambda m: m.update(fingerprint=[]), "it is not what a manifest is (TypeError: "),
    ("strange release", lambda m: m.update(release="2\x1b[2J"), "release is '2\\x1b[2J', neither a hash nor a number"),
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
    assert f"is damaged: {message}" in str(caught.value)
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


def test_what_was_verified_is_not_read_again(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Corpus.open(small, verified=True)
    monkeypatch.setattr(shards_module, "row_groups", lambda path: pytest.fail("read again"))
    assert Corpus.open(small, verified=True).rows("questions") == 600


def test_a_home_without_space_costs_nothing(small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("KBENCH_HOME", str(tmp_path / "file" / "home"))
    assert Corpus.open(small, verified=True).rows("questions") == 600


def unmarked(path: Path, target: Path) -> Path:
    """A copy as files were written before they named their config."""
    target.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pq.read_table(path).replace_schema_metadata(None), target)
    return target


def shard(corpus: Path, config: str) -> Path:
    return next((corpus / config).glob("*.parquet"))


def test_a_file_says_its_config_wherever_it_lies(corpus_path: Path, tmp_path: Path) -> None:
    for config in ("repeats", "measurements"):
        moved = Path(shutil.copy(shard(corpus_path, config), tmp_path / f"{config}.parquet"))
        assert Corpus.open(moved).configs == (config,)
    in_the_wrong_folder = tmp_path / "measurements" / "moved.parquet"
    in_the_wrong_folder.parent.mkdir()
    shutil.copy(shard(corpus_path, "repeats"), in_the_wrong_folder)
    assert Corpus.open(in_the_wrong_folder).configs == ("repeats",)


def test_an_exported_file_says_its_config_too(corpus_path: Path, tmp_path: Path) -> None:
    export(load(corpus_path, config="repeats"), tmp_path / "out.parquet")
    assert load(tmp_path / "out.parquet", config="repeats").count() == 2


def test_a_folder_may_name_the_config(corpus_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = unmarked(shard(corpus_path, "repeats"), tmp_path / "repeats" / "old.parquet")
    assert Corpus.open(path).configs == ("repeats",)
    monkeypatch.chdir(path.parent)
    assert Corpus.open("old.parquet").configs == ("repeats",)


def test_a_folder_of_a_config_with_other_columns_says_nothing(corpus_path: Path, tmp_path: Path) -> None:
    path = unmarked(shard(corpus_path, "pairs"), tmp_path / "repeats" / "old.parquet")
    assert Corpus.open(path).configs == ("pairs",)


FINGERPRINTS = {
    "1.0.0": "063f24a8f40e7f42e8456bfce52f602d",
    "1.1.0": "95762e8c89cc7d1d2514ec301a81a44a",
    "1.2.0": "02810955a63294748ba44c1938d72930",
    "1.3.0": "7ac357e4fe9876a1c07e8915f890aa25",
}


@pytest.mark.parametrize("version", FINGERPRINTS)
def test_a_corpus_of_every_version_opens_and_validates(version: str, old_corpora: Path) -> None:
    assert sorted(path.name for path in old_corpora.iterdir()) == sorted(versions()) == sorted(FINGERPRINTS)
    corpus = Corpus.open(old_corpora / version)
    assert corpus.fingerprint == FINGERPRINTS[version]
    later = ("plans", "references", "counters", "live", "questions", "tuning")
    since = {"repeats": "1.3.0", **dict.fromkeys(later, "1.4.0")}
    assert corpus.configs == tuple(name for name in CONFIGS if version >= since.get(name, ""))
    assert validate(corpus) == []
    for name in corpus.configs:
        assert sum(1 for _ in corpus.select(name).records()) == corpus.rows(name) > 0


@pytest.mark.parametrize("version", ["1.0.0", "1.1.0"])
def test_old_rows_written_again_keep_their_fingerprint(version: str, tmp_path: Path, old_corpora: Path) -> None:
    old = Corpus.open(old_corpora / version)
    with CorpusWriter(tmp_path / "again") as writer:
        for name in old.configs:
            writer.append(name, old.table(name))
    again = Corpus.open(tmp_path / "again")
    assert again.fingerprint == old.fingerprint
    assert validate(again) == []
    assert again.table("measurements").column("ruler_us").null_count == old.rows("measurements")


def test_a_column_an_older_file_lacks_reads_as_null(corpus_path: Path, tmp_path: Path) -> None:
    victim = next((corpus_path / "kernels").glob("train-*.parquet"))
    older = tmp_path / "older.parquet"
    pq.write_table(pq.read_table(victim).drop(["license"]), older)
    selection = load([older])
    assert selection.to_arrow().column("license").null_count == selection.count() == 20
    assert selection.to_polars().collect()["license"].null_count() == 20
