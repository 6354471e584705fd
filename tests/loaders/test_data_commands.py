"""The `kbench data` commands: JSON for programs, lines for people, exit codes for scripts."""

import dataclasses
import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from kbench.cli import cli
from kbench.loaders.corpus import places
from kbench.loaders.corpus.corpus import Corpus, load
from kbench.loaders.corpus.writer import CorpusWriter, refresh
from kbench.loaders.hub.commands import FORMATS
from kbench.loaders.importers.formats import NAMES
from kbench.loaders.splits import cluster_id
from kbench.schemas import Kernel, UserError, from_dict

from .conftest import make_kernel


def run(*arguments: object) -> Result:
    return CliRunner().invoke(cli, ["data", *map(str, arguments)])


def test_info_counts_a_corpus(corpus_path: Path) -> None:
    facts = json.loads(run("info", corpus_path, "--json").output)
    assert facts["kernels"] == facts["measurements"] == 40
    assert facts["problems"] == 4
    assert facts["backends"] == {"cuda": 20, "triton": 20}
    assert sum(facts["gpus"].values()) == sum(facts["search_methods"].values()) == sum(facts["statuses"].values()) == 40
    assert facts["fingerprint"] == Corpus.open(corpus_path).fingerprint
    shown = run("info", corpus_path).output
    assert re.search(r"backends \(kernels\) +cuda 20, triton 20", shown)
    assert facts["fingerprint"] in shown


def test_info_without_a_shipped_corpus_is_one_clear_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(places, "shipped", lambda: tmp_path / "none")
    result = run("info")
    assert isinstance(result.exception, UserError)
    assert str(result.exception).startswith("no corpus is shipped with this install")
    assert result.exception.exit_code == 2


def test_query_filters_and_limits(corpus_path: Path) -> None:
    result = run(
        "query", corpus_path, "--problem", "softmax", "--problem", "gelu", "--gpu", "h200", "--where", "step > 3",
        "--columns", "problem_id,step,source", "--limit", 5, "--json",
    )  # fmt: skip
    rows = json.loads(result.output)
    assert len(rows) == 5
    assert {row["problem_id"] for row in rows} <= {"softmax", "gelu"}
    assert all(row["step"] > 3 for row in rows)
    shown = run("query", corpus_path, "--columns", "problem_id,source", "--limit", 2).output.splitlines()
    assert shown[0].split() == ["problem_id", "source"]
    assert run("query", corpus_path, "--status", "timeout").output.splitlines() == ["0 of 0 rows"]


def test_query_sorts_with_nulls_last_and_shows_only_chosen_columns(corpus_path: Path) -> None:
    asked = ("query", corpus_path, "--columns", "speedup", "--sort", "-speedup, step", "--limit", 0, "--json")
    found = [row["speedup"] for row in json.loads(run(*asked).output)]
    timed = [value for value in found if value is not None]
    assert timed == sorted(timed, reverse=True)
    assert found == timed + [None] * (40 - len(timed))
    assert len(timed) < 40
    mixed = "rows of several GPUs are mixed"
    assert mixed in run("query", corpus_path).stderr
    assert mixed not in run("query", corpus_path, "--gpu", "h200").stderr
    assert "did you mean 'speedup'" in str(run("query", corpus_path, "--sort", "speeup").exception)


def test_query_shows_people_the_telling_columns_and_those_of_the_condition(corpus_path: Path) -> None:
    shown = run("query", corpus_path, "--where", "step > 3", "--limit", 2)
    assert shown.stdout.splitlines()[0].split() == [
        "kernel_id", "problem_id", "backend", "gpu", "search_method", "step", "status", "runtime_us", "speedup",
    ]  # fmt: skip
    rows = json.loads(run("query", corpus_path, "--limit", 1, "--json").stdout)
    assert f"{len(rows[0]) - 9} columns are not shown" in shown.stderr
    problems = run("query", corpus_path, "--config", "problems", "--limit", 1)
    assert "not shown" not in problems.stderr


def test_help_of_the_group_cuts_no_line_of_ours_and_names_every_import_format() -> None:
    lines = run("--help").output.splitlines()[1:]
    assert [line for line in lines if line.endswith("...") and "assemble" not in line] == []
    assert [name for name in NAMES if name not in FORMATS] == []


@pytest.mark.parametrize("ending", ["parquet", "jsonl", "csv"])
def test_export_writes_what_matches(corpus_path: Path, tmp_path: Path, ending: str) -> None:
    target = tmp_path / f"out.{ending}"
    result = run("export", corpus_path, "--backend", "cuda", "-o", target, "--json")
    assert json.loads(result.stdout) == {"rows": 20, "path": str(target)}
    assert target.stat().st_size > 0
    replaced = f"20 rows written to {target}, which was replaced\n"
    assert run("export", corpus_path, "--backend", "cuda", "-o", target).stdout == replaced
    assert "rows of several GPUs are mixed" in result.stderr
    one = ("--gpu", "h200", "-o", target)
    assert "mixed" not in run("export", corpus_path, "--backend", "cuda", *one).stderr


@pytest.mark.parametrize(
    ("form", "name"), [("parquet", "k.xlsx"), ("jsonl", "k.csv"), ("csv", "k.gz"), ("t4", "k.txt")]
)
def test_export_refuses_a_name_of_another_format(corpus_path: Path, tmp_path: Path, form: str, name: str) -> None:
    error = run("export", corpus_path, "--format", form, "-o", tmp_path / name).exception
    assert isinstance(error, UserError)
    assert f"--format {form} writes no .{name.removeprefix('k.')} file" in str(error)
    assert not (tmp_path / name).exists()
    unknown = run("export", corpus_path, "--format", "jsonl", "-o", tmp_path / "rows.of-mine")
    assert unknown.exit_code == 0, "an ending that is not known promises nothing"


def test_export_to_standard_output(corpus_path: Path) -> None:
    lines = run("export", corpus_path, "--columns", "step", "--where", "step < 3", "-o", "-").output.splitlines()
    assert sorted(json.loads(line)["step"] for line in lines) == [0, 1, 2]


def test_validate_says_ok_or_what_is_wrong(corpus_path: Path) -> None:
    assert json.loads(run("validate", corpus_path, "--json").output) == {"ok": True, "errors": []}
    assert run("validate", corpus_path).output == "ok\n"
    with CorpusWriter(corpus_path) as writer:
        writer.append("kernels", [make_kernel(50, runtime_us=-1.0, status="ok", error=None)])
    result = run("validate", corpus_path, "--json")
    assert result.exit_code == 1
    report = json.loads(result.output)
    assert report["ok"] is False
    assert {"file", "row", "field", "value", "message"} == set(report["errors"][0])
    assert next((e["row"], e["value"]) for e in report["errors"] if e["field"] == "runtime_us") == (0, -1.0)
    assert ", row 0: runtime_us is -1.0: must be more than 0" in run("validate", corpus_path).output


def test_card_is_written_by_a_bare_name(corpus_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setenv("KBENCH_HOME", str(tmp_path))
    assert run("info", corpus_path, "--card", "print").output == (corpus_path / "README.md").read_text()
    assert json.loads(run("info", corpus_path, "--card", "print", "--json").output)["license"] == "cc-by-4.0"
    (corpus_path / "README.md").write_text("old")
    written = json.loads(run("info", corpus_path.name, "--card", "write", "--json").output)
    assert written == {"path": str(corpus_path), "fingerprint": Corpus.open(corpus_path).fingerprint}
    assert (corpus_path / "README.md").read_text() != "old"
    assert list(Path.cwd().iterdir()) == []


def test_card_is_not_put_into_a_hub_cache(corpus_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.snapshot_download", lambda *_, **__: str(corpus_path))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    result = run("info", "owner/name", "--card", "write")
    assert isinstance(result.exception, UserError)
    assert "lies in the Hub's cache, whose files stay as they were fetched" in str(result.exception)
    assert [path.name for path in tmp_path.iterdir()] == ["corpus"]


def test_card_is_written_into_a_corpus_folder_only(corpus_path: Path, tmp_path: Path) -> None:
    shard = next((corpus_path / "kernels").glob("*.parquet"))
    for paths in ((shard,), (corpus_path, corpus_path)):
        result = run("info", *paths, "--card", "write")
        assert isinstance(result.exception, UserError)
        assert "--card write takes one corpus folder" in str(result.exception)
    with pytest.raises(UserError, match="is not a corpus"):
        refresh(tmp_path / "nothing")
    assert not (tmp_path / "nothing").exists()


def test_splits_are_proved_or_refuted(corpus_path: Path) -> None:
    result = run("validate", corpus_path, "--splits", "--json")
    assert result.exit_code == 1, result.exception
    found = json.loads(result.stdout)
    assert {v["rule"] for v in found["violations"]} >= {"twin"}
    shown = run("validate", corpus_path, "--splits").stdout
    assert all(f"\n{name}: " in shown for name in found["splits"][0] if name not in ("split", "problems", "kernels"))
    rows = (from_dict(Kernel, row) for row in load(corpus_path).to_arrow().to_pylist())
    kernels = [dataclasses.replace(row, split="train", cluster_id=cluster_id(row.structure_id)) for row in rows]
    with CorpusWriter(corpus_path) as writer:
        writer.replace("kernels", kernels)
        writer.replace("pairs", [])
        writer.replace("questions", [])
    sound = json.loads(run("validate", corpus_path, "--splits", "--json").stdout)
    assert (sound["ok"], sound["violations"]) == (True, [])
    proved = run("validate", corpus_path, "--splits")
    assert proved.stdout.endswith("ok: 40 kernels, no near-duplicates across splits\n")
    assert proved.stderr.startswith("reading the sources of 40 rows;"), "it says at once what it is at"
