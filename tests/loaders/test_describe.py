"""The card, the Croissant metadata and the exports say what the data says."""

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import yaml
from click.testing import CliRunner

from kbench.benchmark.training.cli import export as export_command
from kbench.loaders.card.card import render_card
from kbench.loaders.card.croissant import croissant
from kbench.loaders.corpus.configs import CONFIGS
from kbench.loaders.corpus.corpus import Corpus, load
from kbench.loaders.corpus.writer import CorpusWriter
from kbench.loaders.exporters import export
from kbench.schemas import UserError, arrow_schema
from kbench.schemas.bins import LABELS
from kbench.schemas.ids import kernel_id


def front_matter(path: Path) -> Any:
    return yaml.safe_load((path / "README.md").read_text().split("---\n")[1])


def test_the_card_lists_every_config_with_its_files_and_version(corpus_path: Path) -> None:
    corpus = Corpus.open(corpus_path)
    configs = {config["config_name"]: config for config in front_matter(corpus_path)["configs"]}
    assert list(configs) == list(CONFIGS)
    assert configs["kernels"]["default"] is True
    for name, config in configs.items():
        listed = {path for split in config["data_files"] for path in split["path"]}
        assert listed == {entry.path for entry in corpus.files(name)}
        assert config["version"] == corpus.manifest.versions()[name]


def test_the_cards_features_are_what_datasets_would_write(corpus_path: Path) -> None:
    import datasets

    for entry in front_matter(corpus_path)["dataset_info"]:
        schema = arrow_schema(CONFIGS[entry["config_name"]].record)
        assert entry["features"] == datasets.Features.from_arrow_schema(schema)._to_yaml_list()


def test_a_changed_row_changes_only_its_configs_version(corpus_path: Path, build: Any) -> None:
    before = Corpus.open(corpus_path).manifest.versions()
    with CorpusWriter(corpus_path) as writer:
        writer.append("kernels", [build.kernel(99)])
    after = Corpus.open(corpus_path).manifest.versions()
    assert [name for name in before if before[name] != after[name]] == ["kernels"]


def test_the_cards_counts_are_the_datas(corpus_path: Path) -> None:
    card = render_card(Corpus.open(corpus_path))
    assert card == (corpus_path / "README.md").read_text()
    for status in ("ok", "compile_error"):
        assert f"| {status} | {load(corpus_path, status=status).count()} |" in card
    assert f"| NVIDIA H200 | {load(corpus_path, gpu='H200').count()} |" in card
    assert Corpus.open(corpus_path).fingerprint in card
    assert all(label in card for label in LABELS)


def test_mlcroissant_accepts_the_metadata_and_reads_rows_through_it(
    corpus_path: Path, fresh_python: Callable[[str], str]
) -> None:
    pytest.importorskip("mlcroissant", reason="an optional group: pip install 'kbench-gpu[croissant]'")
    out = fresh_python(
        "import json, mlcroissant\n"
        f"dataset = mlcroissant.Dataset(jsonld={str(corpus_path / 'croissant.json')!r})\n"
        "issues = dataset.metadata.ctx.issues\n"
        "rows = {record.id: sum(1 for _ in dataset.records(record.id)) for record in dataset.metadata.record_sets}\n"
        "print(json.dumps([sorted(issues.errors), sorted(issues.warnings), rows]))\n"
    )
    corpus = Corpus.open(corpus_path)
    assert json.loads(out) == [[], [], {name: corpus.rows(name) for name in corpus.configs}]


def test_the_metadata_names_every_file_and_says_what_must_be_said(corpus_path: Path) -> None:
    corpus = Corpus.open(corpus_path)
    metadata = croissant(corpus)
    assert metadata["conformsTo"][0] == "http://mlcommons.org/croissant/1.1"
    hashes = {item["@id"]: item["sha256"] for item in metadata["distribution"] if "sha256" in item}
    assert hashes == {entry.path: entry.sha256 for name in corpus.configs for entry in corpus.files(name)}
    said = {"dataLimitations", "dataBiases", "personalSensitiveInformation", "dataUseCases", "dataSocialImpact"}
    assert {f"rai:{name}" for name in said | {"hasSyntheticData"}} <= set(metadata)
    assert "genome" in metadata["prov:wasGeneratedBy"]
    assert "kbench" in metadata["prov:wasDerivedFrom"]


@pytest.mark.parametrize("config", ["kernels", "measurements", "problems"])
def test_exports_hold_the_selected_rows(corpus_path: Path, tmp_path: Path, config: str) -> None:
    selection = load(corpus_path, config=config)
    rows = selection.to_arrow().to_pylist()
    done: list[int] = []
    for ending in ("parquet", "jsonl", "csv"):
        assert export(selection, tmp_path / f"x.{ending}", advance=done.append) == len(rows)
    assert sum(done) == 3 * len(rows)
    assert pq.read_table(tmp_path / "x.parquet").to_pylist() == rows
    assert [json.loads(line) for line in (tmp_path / "x.jsonl").read_text().splitlines()] == rows
    with (tmp_path / "x.csv").open(newline="") as file:
        read = list(csv.DictReader(file))
    assert [row["problem_id"] for row in read] == [row["problem_id"] for row in rows]
    if config == "measurements":
        assert [json.loads(row["samples_us"] or "null") for row in read] == [row["samples_us"] for row in rows]


def test_an_export_that_fails_leaves_nothing_behind(corpus_path: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="unknown export format 'xlsx'"):
        export(load(corpus_path), tmp_path / "x.xlsx")
    with pytest.raises(UserError, match=r"cannot be written: .*; choose another target"):
        export(load(corpus_path), tmp_path / "missing" / "x.csv")
    (tmp_path / "out").mkdir()
    with pytest.raises(UserError, match="cannot read"):
        export(load(corpus_path, where="1 + 1"), tmp_path / "out" / "x.csv")
    assert list((tmp_path / "out").iterdir()) == []


def test_kernels_become_files_whose_ids_are_the_same_when_read_back(corpus_path: Path, tmp_path: Path) -> None:
    out = tmp_path / "kernels"
    result = CliRunner().invoke(export_command, [str(corpus_path), "--format", "files", "--out", str(out), "--json"])
    rows = load(corpus_path).to_arrow().to_pylist()
    assert json.loads(result.stdout)["rows"] == len(rows)
    listed = [json.loads(line) for line in (out / "manifest.jsonl").read_text().splitlines()]
    assert [(line["kernel_id"], line["status"], line["runtime_us"]) for line in listed] == [
        (row["kernel_id"], row["status"], row["runtime_us"]) for row in rows
    ]
    assert {path.name for path in out.iterdir()} == {"manifest.jsonl", *(line["file"] for line in listed)}
    for line in listed:
        problem, backend, start = Path(line["file"]).stem.split("__")
        found = kernel_id(problem, backend, (out / line["file"]).read_text())
        assert found == line["kernel_id"]
        assert found.startswith(start)
    with pytest.raises(UserError, match="exists and is not an empty folder"):
        export(load(corpus_path), out, "files")
    with pytest.raises(UserError, match="takes whole rows of the config 'kernels'"):
        export(load(corpus_path, config="pairs"), tmp_path / "pairs", "files")
