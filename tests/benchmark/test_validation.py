"""Choosing between models: on validation, with what has learned from train alone."""

import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from kbench.benchmark.cli import evaluate
from kbench.benchmark.evaluate.progress import TerminalProgress
from kbench.benchmark.questions.corpus_view import benchmark_of
from kbench.benchmark.questions.transfer import WithoutValidation
from kbench.benchmark.surrogates.forecasts import read_forecasts
from kbench.loaders.corpus.corpus import Corpus

MODEL = """
class Model:
    def fit(self, train):
        self.splits = {str(question.split) for _, question in train}

    def forecast(self, queries):
        place = {"train": 0, "train validation": 7}[" ".join(sorted(self.splits))]
        return [[float(at == place) for at in range(8)] for _ in queries]
"""


def call(corpus_path: Path, *arguments: object) -> tuple[str, str]:
    every = ["--dataset", corpus_path, "--resamples", 5, "--tracks", "forecast", "--no-report", *arguments]
    done = CliRunner().invoke(evaluate, [str(argument) for argument in every], catch_exceptions=False)
    return done.stdout, done.stderr


@pytest.mark.parametrize(("split", "learned"), [("test", "train and validation"), ("validation", "train")])
def test_what_is_asked_about_is_not_learned_from(corpus_path: Path, tmp_path: Path, split: str, learned: str) -> None:
    (tmp_path / "model.py").write_text(MODEL)
    out = tmp_path / "out"
    said, told = call(corpus_path, "--surrogate", tmp_path / "model.py", "--split", split, "--out", out)
    assert said.splitlines()[0].endswith(f"learned from: {learned}")
    assert re.search(rf"fitting model on [\d,]+ pairs of {learned} …", told)
    assert json.loads((out / "results.json").read_text())["learned_from"] == learned.split(" and ")
    shares = read_forecasts(out / "forecasts.parquet").column("probabilities").to_pylist()
    assert {row.index(1.0) for row in shares} == {0 if split == "validation" else 7}


@pytest.mark.parametrize(
    ("spec", "said"),
    [("prior", None), ("nearest", None), ("static", "warning: static has learned from the validation problems"),
     ("model.py", "note: kbench cannot know what model learned from")],
)  # fmt: skip
def test_a_model_that_saw_validation_says_so(corpus_path: Path, in_folder: Path, spec: str, said: str | None) -> None:
    Path("model.py").write_text(
        "class Model:\n    def forecast(self, queries):\n        return [[0.125] * 8 for _ in queries]\n"
    )
    lines = call(corpus_path, "--surrogate", spec, "--split", "validation")[0].splitlines()
    if said is None:
        assert lines[0].endswith("learned from: train")
        assert lines[1] == ""
    else:
        assert lines[1].startswith(said)
    (results,) = Path("runs").rglob("*-validation/results.json")
    assert json.loads(results.read_text())["note"] == (lines[1] or None)
    assert "flatter" not in call(corpus_path, "--surrogate", spec)[0]


def test_a_built_in_that_reads_the_corpus_sees_no_validation_row(corpus_path: Path) -> None:
    corpus = benchmark_of(Corpus.open(corpus_path))
    view = WithoutValidation(corpus)
    for name in ("kernels", "questions"):
        splits = {row["split"] for row in view.table(name, columns=["split"]).to_pylist()}
        assert splits == {row["split"] for row in corpus.table(name, columns=["split"]).to_pylist()} - {"validation"}
        assert view.table(name, split="validation").num_rows == 0
        assert not list(view.batches(name, columns=["split"], split=["validation"]))
    assert view.fingerprint == corpus.fingerprint


def test_a_fit_that_takes_minutes_says_so(corpus_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kbench.benchmark.evaluate.evaluate.MINUTE_S", 0.2)
    (tmp_path / "slow.py").write_text(
        MODEL.replace("def fit(self, train):", "def fit(self, train):\n        __import__('time').sleep(1)")
    )
    _, told = call(corpus_path, "--surrogate", tmp_path / "slow.py", "--out", tmp_path / "out", "--limit", 5)
    assert "fitting for 2 min; what it prints is in surrogate.log …" in told
    assert "fitting for 30 min" not in told
    assert "@kbench.cached keeps slow functions' results" not in told
    monkeypatch.setattr("kbench.benchmark.evaluate.evaluate.SLOW_FIT_S", 0.1)
    _, told = call(corpus_path, "--surrogate", tmp_path / "slow.py", "--out", tmp_path / "other", "--limit", 5)
    assert "@kbench.cached keeps slow functions' results" in told


def test_a_long_stage_says_how_long(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    times = iter([10.0, 22.5, 22.5, 22.7, 22.7])
    monkeypatch.setattr("kbench.benchmark.evaluate.progress.time.perf_counter", lambda: next(times))
    progress = TerminalProgress()
    for name in ("fitting on train", "scoring", "probes"):
        progress.stage(name)
    assert capsys.readouterr().err.splitlines() == ["fitting on train …", "  12.5 s", "scoring …", "probes …"]
