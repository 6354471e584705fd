"""Imported corpora are corpora: merged, asked about, tested on by what was trained elsewhere, exported again."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from kbench.benchmark.evaluate.command import UNTRAINED, EvaluateCommand
from kbench.benchmark.evaluate.options import SHIPPED, Options
from kbench.benchmark.training.cli import export as export_command
from kbench.loaders.checks.validate import validate
from kbench.loaders.cli import data
from kbench.loaders.corpus.corpus import Corpus, load
from kbench.loaders.corpus.merge import AGAIN, TWIN, merge
from kbench.loaders.exporters import export
from kbench.loaders.importers.formats import sniff
from kbench.loaders.importers.reader import ImportSettings, Report
from kbench.loaders.importers.run import import_files
from kbench.schemas import UserError

from .conftest import Run, foreign


@pytest.fixture(scope="module")
def corpora(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A small corpus of each kind of source."""
    base = tmp_path_factory.mktemp("sources")
    rows = [row | {"task_id": n, "custom_code": f"{row['custom_code']}# {n}"} for n in range(1, 13)
            for row in foreign.cuda_l1_rows()[:1]]  # fmt: skip
    (base / "a100.json").write_text("\n".join(json.dumps(row) for row in rows))
    samples = {str(n): [foreign.sample(True, True, 1.0 + k + n / 9, kernel=f"{foreign.TRITON}x = {n}, {k}\n")
                        for k in range(4)] for n in range(1, 4)}  # fmt: skip
    (base / "eval_results.json").write_text(json.dumps(samples))
    paths = {"cuda-l1": base / "a100.json", "kernelbench-eval": base / "eval_results.json"}
    for name in ("kernel-tuner", "flashinfer-trace", "gpu-mode"):
        make, file = foreign.MAKERS[name]
        paths[name] = make(base / file)
    for name, path in paths.items():
        import_files(name, [path], base / f"out-{name}", ImportSettings())
    return {name: base / f"out-{name}" for name in paths}


def run(corpus: Path, surrogate: str, out: Path, train: str | None = None) -> Any:
    options = Options(dataset=str(corpus), train=train, resamples=20)
    return EvaluateCommand([surrogate], options, out=out, report=False).run()


@pytest.mark.parametrize("name", ["flashinfer-trace", "gpu-mode"])
def test_an_import_without_comparisons_says_so(corpora: dict[str, Path], tmp_path: Path, name: str) -> None:
    """No speedup is stated, and no two kernels of a problem are of one language."""
    assert validate(Corpus.open(corpora[name])) == []
    with pytest.raises(UserError, match="states no questions"):
        run(corpora[name], "prior", tmp_path)


@pytest.mark.parametrize("name", ["cuda-l1", "kernelbench-eval", "kernel-tuner"])
def test_every_other_import_can_be_evaluated(corpora: dict[str, Path], tmp_path: Path, name: str) -> None:
    assert validate(Corpus.open(corpora[name])) == []
    answer = run(corpora[name], "prior", tmp_path)
    assert UNTRAINED in answer.text
    assert answer.values["baseline"] == "uniform"
    assert answer.values["queries"] > 0


def test_what_needs_training_says_so_in_one_line(corpora: dict[str, Path], tmp_path: Path) -> None:
    with pytest.raises(UserError, match="'nearest' needs training pairs, and the corpus has no train split"):
        run(corpora["cuda-l1"], "nearest", tmp_path)


def test_training_on_the_shipped_dataset_scores_transfer(corpora: dict[str, Path], tmp_path: Path) -> None:
    answer = run(corpora["cuda-l1"], "prior", tmp_path / "shipped", SHIPPED)
    alone = run(corpora["cuda-l1"], "prior", tmp_path / "alone")
    assert UNTRAINED not in answer.text
    assert answer.values["baseline"] == "training frequencies"
    assert answer.values["queries"] == alone.values["queries"]
    assert answer.values["tracks"]["forecast"] != alone.values["tracks"]["forecast"]


def test_merged_corpora_hold_every_row_once(corpora: dict[str, Path], tmp_path: Path) -> None:
    paths = list(corpora.values())
    done = merge(paths, tmp_path / "all")
    assert validate(Corpus.open(tmp_path / "all")) == []
    assert done.rows["kernels"] == sum(load(path).count() for path in paths)
    again = merge([tmp_path / "all", paths[0]], tmp_path / "again")
    assert Corpus.open(tmp_path / "again").fingerprint == Corpus.open(tmp_path / "all").fingerprint
    assert again.left_out[f"kernels: {AGAIN}"] == load(paths[0]).count()
    assert "kbench measured none of them" in (tmp_path / "all" / "README.md").read_text()


def test_twins_in_other_splits_go_out(corpora: dict[str, Path], tmp_path: Path, run_import: Callable[..., Any]) -> None:
    row = foreign.cuda_l1_rows()[0] | {"task_id": 50}
    (tmp_path / "h100.json").write_text(json.dumps(row))
    twin, _ = run_import(None, tmp_path / "h100.json", split="train")
    done = merge([corpora["cuda-l1"], twin], tmp_path / "both")
    assert done.left_out[f"kernels: {TWIN}"] == 1
    assert validate(Corpus.open(tmp_path / "both")) == []
    assert load(tmp_path / "both", config="measurements").count() == 12


def test_corpora_are_imported_whole_and_refused_beside_files(corpora: dict[str, Path], tmp_path: Path) -> None:
    def imported(*paths: Path) -> Result:
        return CliRunner().invoke(data, ["import", *map(str, paths), "--out", str(tmp_path / "out"), "--json"])

    (tmp_path / "file.json").write_text("{}")
    assert "is none; import that first" in str(imported(corpora["cuda-l1"], tmp_path / "file.json").exception)
    damaged = shutil.copytree(corpora["cuda-l1"], tmp_path / "damaged")
    next(damaged.rglob("*.parquet")).write_bytes(b"PAR1")
    assert "damaged" in str(imported(damaged).exception)
    assert json.loads(imported(corpora["cuda-l1"]).stdout)["rows"]["kernels"] == load(corpora["cuda-l1"]).count()
    assert Corpus.open(tmp_path / "out").fingerprint == Corpus.open(corpora["cuda-l1"]).fingerprint


def figures(folder: Path, config: str = "kernels") -> list[tuple[Any, ...]]:
    rows = load(folder, config=config).to_arrow().to_pylist()
    return sorted((row["gpu"], row["status"], round(row["runtime_us"] or 0, 6)) for row in rows)


@pytest.mark.parametrize(("form", "config"), [("t4", "kernels"), ("flashinfer-trace", "measurements")])
def test_two_formats_survive_the_round_trip(run_import: Run, tmp_path: Path, form: str, config: str) -> None:
    make, name = foreign.MAKERS[form]
    path, back = make(tmp_path / name), tmp_path / f"back{Path(name).suffix}"
    first = run_import(None, path)[0].rename(tmp_path / "first")
    words = [str(first), "-o", str(back), "--format", form, "--config", config]
    result = CliRunner().invoke(export_command, words if form != "t4" else words[:-2])
    assert result.exit_code == 0, result.exception
    assert sniff(back) == form
    second, _ = run_import(None, back)
    assert figures(first) == figures(second)
    assert figures(first, "measurements") == figures(second, "measurements")
    sources = [sorted(load(one).to_arrow().column("source").to_pylist()) for one in (first, second)]
    assert form != "t4" or sources[0] == sources[1]


def test_rows_that_do_not_fit_a_format_are_refused(imported: tuple[Path, Report], tmp_path: Path) -> None:
    with pytest.raises(UserError, match="takes one problem on one GPU"):
        export(load(imported[0], where="status is not None"), tmp_path / "x.json", "t4")
    with pytest.raises(UserError, match="takes whole rows of --config measurements"):
        export(load(imported[0]), tmp_path / "x.jsonl", "flashinfer-trace")
    assert list(tmp_path.iterdir()) == []
