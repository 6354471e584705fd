"""A folder keeps what must not be lost: forecasts that a run reads or does not make, and what an author wrote."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from kbench.benchmark.cli import evaluate
from kbench.benchmark.surrogates.forecasts import read_forecasts
from kbench.schemas import UserError

MODEL = """
from kbench.schemas import Forecast

class Model:
    def __init__(self, size=1):
        pass

    def forecast(self, queries):
        return [Forecast(query_id=q.query_id, probabilities=(0.125,) * 8) for q in queries]
"""
WORDS = {"authors": ["Ada"], "license": "MIT", "hardware": "a desk", "training_data": "none", "contamination": "no",
         "name": "my own", "version": "7", "organisation": "home", "links": ["https://example.org/"]}  # fmt: skip


@pytest.fixture
def model(tmp_path: Path) -> str:
    path = tmp_path / "model.py"
    path.write_text(MODEL)
    return str(path)


def call(corpus_path: Path, *arguments: object) -> str:
    every = ["--dataset", corpus_path, "--resamples", 10, "--tracks", "forecast", "--no-report", *arguments]
    return CliRunner().invoke(evaluate, [str(argument) for argument in every], catch_exceptions=False).output


def described(folder: Path) -> dict[str, Any]:
    """What an author makes of submission.json."""
    data: dict[str, Any] = json.loads((folder / "submission.json").read_text()) | WORDS
    (folder / "submission.json").write_text(json.dumps(data))
    return data


def rows(folder: Path) -> int:
    return int(read_forecasts(folder / "forecasts.parquet").num_rows)


@pytest.fixture
def mine(corpus_path: Path, tmp_path: Path, model: str) -> Path:
    """A folder with the forecasts of the model."""
    call(corpus_path, "--surrogate", model, "--out", tmp_path / "mine")
    return tmp_path / "mine"


def test_another_run_keeps_what_the_author_wrote(corpus_path: Path, mine: Path, model: str) -> None:
    written = described(mine)
    call(corpus_path, "--surrogate", model, "--out", mine)
    again = json.loads((mine / "submission.json").read_text())
    assert {name: again[name] for name in WORDS} == {name: written[name] for name in WORDS}


def test_an_entry_is_told_what_comes_next_and_was_replaced(corpus_path: Path, in_folder: Path, model: str) -> None:
    out = Path("leaderboard/submissions/mine")
    said = call(corpus_path, "--surrogate", model, "--out", out)
    steps = f"kbench leaderboard check {out} --dataset {corpus_path}\n  kbench leaderboard build --out site"
    fields = "authors, license, hardware, training_data, contamination, and correct kind and open_weights,"
    assert f"next:\n  fill in {fields} in {out / 'submission.json'}\n  {steps}" in said
    assert "replaced" not in said
    assert "replaced" not in call(corpus_path, "--surrogate", model, "--out", out), "every answer was stored"
    Path(model).write_text(MODEL + "# changed\n")
    assert "forecasts of model 1 replaced; for an entry" in call(corpus_path, "--surrogate", model, "--out", out)


def test_an_entry_that_is_described_stays_as_it_is(corpus_path: Path, tmp_path: Path, mine: Path, model: str) -> None:
    described(mine)
    same_name = tmp_path / "elsewhere" / "model.py"
    same_name.parent.mkdir()
    same_name.write_text(MODEL)
    before = {path.name: path.read_bytes() for path in mine.iterdir() if path.is_file()}
    for arguments in (["uniform"], [model, "--surrogate-arg", "size=2"], [same_name]):
        with pytest.raises(UserError, match="entry of another surrogate or arguments"):
            call(corpus_path, "--surrogate", *arguments, "--out", mine)
    # One that was made elsewhere has no results beside it.
    (mine / "results.json").unlink()
    before.pop("results.json")
    for surrogate in (model, "prior"):
        with pytest.raises(UserError, match="entry of another surrogate"):
            call(corpus_path, "--surrogate", surrogate, "--out", mine)
    assert {path.name: path.read_bytes() for path in mine.iterdir() if path.is_file()} == before


def test_metadata_that_cannot_be_read_is_not_replaced(corpus_path: Path, mine: Path, model: str) -> None:
    (mine / "submission.json").write_text('{"name": "half')
    with pytest.raises(UserError, match="fix it or remove it"):
        call(corpus_path, "--surrogate", model, "--out", mine)
    assert (mine / "submission.json").read_text() == '{"name": "half'


def test_the_forecasts_that_are_scored_are_not_replaced(corpus_path: Path, tmp_path: Path) -> None:
    out = tmp_path / "mine"
    call(corpus_path, "--surrogate", "prior", "--out", out)
    before = (out / "forecasts.parquet").read_bytes()
    for spec in (out, out / "forecasts.parquet"):
        with pytest.raises(UserError, match="holds the forecasts to be scored"):
            call(corpus_path, "--surrogate", spec, "--out", out, "--limit", 5)
    assert (out / "forecasts.parquet").read_bytes() == before


def test_forecasts_of_the_other_form_get_no_second_file_beside_them(corpus_path: Path, tmp_path: Path) -> None:
    (tmp_path / "forecasts.jsonl").write_text("{}")
    with pytest.raises(UserError, match=r"holds forecasts\.jsonl"):
        call(corpus_path, "--surrogate", "prior", "--out", tmp_path)


def test_a_trial_replaces_no_larger_run(corpus_path: Path, tmp_path: Path) -> None:
    whole, trial = tmp_path / "whole", tmp_path / "trial"
    call(corpus_path, "--surrogate", "prior", "--out", whole)
    count = rows(whole)
    (whole / "results.json").unlink()
    with pytest.raises(UserError, match=f"holds forecasts of {count} queries and this run asks 5"):
        call(corpus_path, "--surrogate", "prior", "--out", whole, "--limit", 5)
    assert rows(whole) == count
    for limit in (5, 9):
        call(corpus_path, "--surrogate", "prior", "--out", trial, "--limit", limit)
        assert rows(trial) == limit
    for more in ([], ["--split", "validation"]):
        with pytest.raises(UserError, match="holds forecasts of 9 queries and this run asks 5"):
            call(corpus_path, "--surrogate", "prior", "--out", trial, "--limit", 5, *more)
    assert rows(trial) == 9


def test_two_surrogates_of_one_folder_are_refused_at_once(corpus_path: Path, tmp_path: Path, model: str) -> None:
    (tmp_path / "other").mkdir()
    other = tmp_path / "other" / "model.py"
    other.write_text(MODEL)
    for beside in ("--surrogate", "--compare"):
        with pytest.raises(UserError, match="are both called 'model'"):
            call(corpus_path, "--surrogate", model, beside, other, "--out", tmp_path / "o")
    assert not (tmp_path / "o").exists()


def test_a_log_stays_where_nothing_is_asked_anew(corpus_path: Path, tmp_path: Path, model: str) -> None:
    log = tmp_path / "o" / "surrogate.log"
    for word in ("one", "one", "two"):
        Path(model).write_text(MODEL.replace("        return", f"        print({word!r})\n        return"))
        call(corpus_path, "--surrogate", model, "--out", log.parent)
        assert {*log.read_text().split()} == {word}


def test_a_file_leaves_a_built_in_s_results(corpus_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    call(corpus_path, "--surrogate", "length")
    results = (tmp_path / "runs/evaluate/length/results.json").read_bytes()
    (tmp_path / "length.py").write_text(MODEL)
    call(corpus_path, "--surrogate", "length.py")
    assert (tmp_path / "runs/evaluate/length/results.json").read_bytes() == results
    assert (tmp_path / "runs/evaluate/length-file/results.json").is_file()
    with pytest.raises(UserError, match="'runs' holds no forecasts"):
        call(corpus_path, "--surrogate", "runs")


def test_an_interruption_keeps_all(corpus_path: Path, mine: Path, model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    before = (mine / "forecasts.parquet").read_bytes()
    Path(model).write_text(MODEL + "# changed, so that it is asked again\n")

    def interrupt(*given: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("kbench.benchmark.surrogates.process.ProcessSurrogate.forecast", interrupt)
    result = CliRunner().invoke(
        evaluate, ["--dataset", str(corpus_path), "--surrogate", model, "--out", str(mine), "--no-report",
                   "--tracks", "forecast", "--resamples", "10"],
    )  # fmt: skip
    assert result.exit_code == 130
    assert (mine / "forecasts.parquet").read_bytes() == before


def test_each_kind_of_run_has_a_default_folder_of_its_own(corpus_path: Path, in_folder: Path, model: str) -> None:
    whole = in_folder / "runs" / "evaluate" / "model"
    call(corpus_path, "--surrogate", model)
    before = {path.name: path.read_bytes() for path in whole.iterdir() if path.is_file()}
    asked = {
        "model-core": ["--subset", "core"], "model-8-shots": ["--shots", 8], "model-limit-9": ["--limit", 9],
        "model-validation": ["--split", "validation"], "model-core-2-shots-limit-5": ["--limit", 5, "--shots", 2,
                                                                                      "--subset", "core"],
        "model-size=-1": ["--surrogate-arg", "size=-1"], "model-13174f0d": ["--surrogate-arg", "size=a/b"],
    }  # fmt: skip
    for name, arguments in asked.items():
        call(corpus_path, "--surrogate", model, *arguments)
        assert (whole.parent / name / "results.json").is_file(), name
    assert {path.name: path.read_bytes() for path in whole.iterdir() if path.is_file()} == before


def test_the_report_of_an_earlier_run_does_not_stay_beside_other_figures(corpus_path: Path, tmp_path: Path) -> None:
    every = ["--dataset", str(corpus_path), "--surrogate", "prior", "--resamples", "10", "--tracks", "forecast"]
    CliRunner().invoke(evaluate, [*every, "--out", str(tmp_path)], catch_exceptions=False)
    assert (tmp_path / "report.html").is_file()
    CliRunner().invoke(evaluate, [*every, "--out", str(tmp_path), "--no-report"], catch_exceptions=False)
    assert not (tmp_path / "report.html").exists()


def test_the_file_of_results_says_what_the_command_prints(corpus_path: Path, tmp_path: Path) -> None:
    """With what is known only once all are scored: the comparison."""
    arguments = ["--dataset", str(corpus_path), "--surrogate", "prior", "--compare", "uniform", "--resamples", "10"]
    printed = (
        CliRunner().invoke(evaluate, [*arguments, "--out", str(tmp_path), "--json"], catch_exceptions=False).stdout
    )
    written = json.loads((tmp_path / "results.json").read_text())
    assert written == json.loads(printed)
    assert written["comparison"]["against"] == "uniform"
    assert "Compared with uniform" in (tmp_path / "report.html").read_text()
    assert "Compared with" not in (tmp_path / "compared" / "uniform" / "report.html").read_text()
