"""`kbench evaluate` as a user meets it."""

import dataclasses
import functools
import html.parser
import inspect
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import kbench
from kbench.benchmark.cli import evaluate, parse_arguments
from kbench.benchmark.evaluate.options import GROUPS, Options
from kbench.benchmark.questions.build import check_selection
from kbench.benchmark.surrogates.forecasts import read_forecasts
from kbench.schemas import Submission, UserError, from_dict

EXAMPLE = Path(__file__).parents[2] / "examples" / "my_model.py"


def call(corpus_path: Path, *arguments: str) -> Result:
    every = ["--dataset", str(corpus_path), "--resamples", "50", *arguments]
    return CliRunner().invoke(evaluate, every, catch_exceptions=False)


def test_json_has_the_documented_form(corpus_path: Path, in_folder: Path) -> None:
    found = json.loads(call(corpus_path, "--surrogate", "prior", "--json", "--no-report").stdout)
    assert found["surrogate"] == "prior"
    assert re.fullmatch("[0-9a-f]{16,64}", found["dataset"])
    assert set(found["tracks"]) == {"forecast", "edit", "rank", "select"}
    for metrics in found["tracks"].values():
        for figure in metrics.values():
            assert set(figure) == {"value", "low", "high", "ceiling", "floor"}
    assert found["cost"]["forecasts"] == found["queries"]
    assert found["failures"]["count"] == 0


def test_out_holds_everything_and_is_a_submission(corpus_path: Path, tmp_path: Path) -> None:
    out = tmp_path / "mine"
    result = call(corpus_path, "--surrogate", "length", "--out", str(out))
    assert "* skill" in result.stdout
    assert "ceiling" in result.stdout
    results = json.loads((out / "results.json").read_text())
    submission = from_dict(Submission, json.loads((out / "submission.json").read_text()))
    assert submission.dataset_fingerprint == results["dataset"]
    assert read_forecasts(out / "forecasts.parquet").num_rows == results["queries"]
    again = json.loads(
        call(corpus_path, "--surrogate", str(out), "--json", "--no-report", "--out", str(tmp_path / "b")).stdout
    )
    assert again["tracks"]["forecast"] == results["tracks"]["forecast"]
    assert again["surrogate"] == "mine"


def test_report_is_self_contained_and_escapes_what_it_quotes(corpus_path: Path, tmp_path: Path) -> None:
    model = tmp_path / "model.py"
    model.write_text(
        "from kbench.schemas import Forecast\n"
        "class M:\n"
        "    def forecast(self, queries):\n"
        "        bad = [Forecast(query_id=q.query_id, failure='<script>alert(1)</script>') for q in queries[1:]]\n"
        "        return [Forecast(query_id=queries[0].query_id, probabilities=(0.125,) * 8), *bad]\n"
    )
    call(corpus_path, "--surrogate", str(model), "--out", str(tmp_path / "o"))
    text = (tmp_path / "o" / "report.html").read_text()
    assert "<script" not in text
    assert "&lt;script&gt;" in text
    assert "Content-Security-Policy" in text
    outside = re.findall(r"(?:src|href)\s*=\s*[\"'](?!#|data:)([^\"']+)", text)
    assert outside == []
    for title in ("Reliability", "Confusion", "Risk and coverage", "Regret", "Families", "Worst misses"):
        assert title in text
    html.parser.HTMLParser().feed(text)


def test_the_report_shows_what_has_values_alone_and_the_best_first(corpus_path: Path, tmp_path: Path) -> None:
    call(corpus_path, "--surrogate", "nearest", "--out", str(tmp_path))
    text = (tmp_path / "report.html").read_text()
    assert "Level skill" not in text, "without shots it has no value"
    assert ">nan<" not in text
    assert '<code class="soft">problem_sign_aurc</code>' in text, "the name that the terminal and files use"
    rows = re.findall(r"<tr><td>(\w+)</td><td>[\d,]+</td><td>(-?[\d.]+)</td>", text.split("Problem by problem")[1])
    assert len(rows) == 4
    skills = [float(skill) for _, skill in rows]
    assert skills == sorted(skills, reverse=True)
    with_shots = tmp_path / "shots"
    call(corpus_path, "--surrogate", "nearest", "--out", str(with_shots), "--shots", "2")
    assert "Level skill" in (with_shots / "report.html").read_text()


def test_example_model_runs_and_beats_nothing_by_magic(corpus_path: Path, tmp_path: Path) -> None:
    assert len(EXAMPLE.read_text().splitlines()) < 110
    arguments = ["--surrogate", str(EXAMPLE), "--surrogate-arg", "sharpness=2", "--out", str(tmp_path / "o")]
    found = json.loads(call(corpus_path, *arguments, "--json", "--no-report").stdout)
    assert found["surrogate"] == "my_model"
    assert found["failures"]["count"] == 0
    assert found["arguments"] == {"sharpness": 2}


FITTED = """
class Surrogate:
    inputs, batch_size = "source", 64
    def __init__(self, sharpness=1): self.sharpness = sharpness
    def fit(self, pairs): self.pairs = sum(1 for _ in pairs)
    def forecast(self, queries):
        from kbench.schemas import Forecast
        return [Forecast(query_id=one.query_id, probabilities=(0.125,) * 8, speedup=1.0) for one in queries]
"""


def test_second_run_reuses_every_forecast(corpus_path: Path, tmp_path: Path) -> None:
    (model := tmp_path / "model.py").write_text(FITTED)
    spec, out = f"{model}:Surrogate", str(tmp_path / "o")
    arguments = ["--surrogate", spec, "--out", out, "--json", "--no-report", "--limit", "30"]
    first, second = (json.loads(call(corpus_path, *arguments).stdout) for _ in range(2))
    assert (first["cost"]["reused"], second["cost"]["reused"]) == (0, 30)
    assert first["tracks"] == second["tracks"]
    arguments.remove("--json")
    assert "fitting" not in call(corpus_path, *arguments).stderr, "nobody is asked"
    other = call(corpus_path, *arguments, "--surrogate-arg", "sharpness=3")
    assert "fitting" in other.stderr
    assert "(0 reused)" in other.stdout


def test_several_surrogates_share_one_table(corpus_path: Path, tmp_path: Path) -> None:
    arguments = ["--surrogate", "uniform", "--surrogate", "prior", "--out", str(tmp_path / "o"), "--no-report"]
    result = call(corpus_path, *arguments)
    head = next(line for line in result.stdout.splitlines() if "95 % interval" in line)
    assert head.split()[0] == "prior"
    assert head.split()[-1] == "uniform"
    assert (tmp_path / "o" / "uniform" / "results.json").is_file()
    both = json.loads(call(corpus_path, *arguments, "--json").stdout)
    assert [entry["surrogate"] for entry in both["surrogates"]] == ["uniform", "prior"]


def test_compare_says_who_is_better(corpus_path: Path, tmp_path: Path) -> None:
    arguments = ["--surrogate", "nearest", "--compare", "uniform", "--out", str(tmp_path / "o"), "--no-report"]
    assert "nearest minus uniform, paired by problem" in call(corpus_path, *arguments).stdout
    found = json.loads(call(corpus_path, *arguments, "--json").stdout)["comparison"]
    assert found["tracks"]["forecast"]["rps"]["verdict"] == "better"
    assert (tmp_path / "o" / "compared" / "uniform" / "results.json").is_file(), "no part of the entry"


def test_stored_forecasts_of_an_entry_have_its_name(corpus_path: Path, tmp_path: Path) -> None:
    call(corpus_path, "--surrogate", "prior", "--out", str(tmp_path / "some-folder"))
    file = tmp_path / "some-folder" / "submission.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"name": "my prior?"}))
    given = ("--surrogate", str(tmp_path / "some-folder"), "--compare", "length", "--out", str(tmp_path / "again"))
    text = call(corpus_path, *given).stdout
    assert "my prior? minus length" in text
    assert "some-folder" not in text
    assert json.loads((tmp_path / "again" / "submission.json").read_text())["name"] == "my prior"


def test_dry_run_asks_nothing_and_estimates(corpus_path: Path, in_folder: Path) -> None:
    arguments = ["--surrogate", "llm", "--surrogate-arg", "model=m", "--surrogate-arg", "price_in=2.5", "--dry-run"]
    plan = json.loads(call(corpus_path, *arguments, "--json").stdout)
    assert plan["surrogates"][0]["requests"] == plan["queries"]
    assert plan["surrogates"][0]["price_estimate"] > 0
    assert 0 < plan["tracks"]["edit"] < plan["tracks"]["forecast"], "edits alone, not every pair"
    text = call(corpus_path, *arguments).stdout
    assert "queries on test" in text
    assert "400 output tokens per request assumed" in text
    assert "US dollars" in text
    assert "read once" not in text, "does not depend on --shots"
    assert not (in_folder / "runs").exists()


@pytest.mark.parametrize("repeats", [0, -1, 101])
def test_surrogate_with_a_number_of_repeats_that_cannot_be_is_refused(
    corpus_path: Path, in_folder: Path, repeats: int
) -> None:
    (in_folder / "model.py").write_text(f"class M:\n    repeats = {repeats}\n    def forecast(self, q): return []\n")
    with pytest.raises(UserError, match=f"has repeats {repeats}; it must be 1 to 100"):
        call(corpus_path, "--surrogate", "model.py")


def test_python_takes_every_setting_of_the_command_with_its_default() -> None:
    taken = inspect.signature(kbench.evaluate).parameters
    for field in dataclasses.fields(Options):
        assert taken[field.name].default == (None if field.name == "arguments" else field.default), field.name
    options = {parameter.name for parameter in evaluate.params}
    assert {field.name for field in dataclasses.fields(Options)} < options


@pytest.mark.parametrize("given", [object, object()])
def test_an_object_in_place_of_a_name_is_refused_with_the_reason(given: object) -> None:
    with pytest.raises(UserError, match="write it to a file and give the path"):
        kbench.evaluate(given)  # type: ignore[arg-type]  # what a notebook's user tries first


def test_a_single_name_in_python_is_no_list_of_letters() -> None:
    given = Options(tracks="forecast, rank", problems="softmax", allow_env=["A"])  # type: ignore[arg-type]
    assert (given.tracks, given.problems, given.allow_env) == (("forecast", "rank"), ("softmax",), ("A",))
    assert check_selection("edit,forecast", "test", None, None, 0) == ("forecast", "edit")
    with pytest.raises(UserError, match="did you mean 'forecast'"):
        Options(tracks="forcast").check()  # type: ignore[arg-type]


def test_help_lists_every_option_under_a_heading() -> None:
    text = CliRunner().invoke(evaluate, ["--help"]).stdout
    assert [line[:-1] for line in text.splitlines() if re.fullmatch(r"[A-Z][a-z ]+:", line)] == [*GROUPS, "Options"]
    assert "[default: forecast," in text.replace("\n", " ").replace("  ", "")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--surrogate", "statik"], "did you mean 'static'"),
        (["--surrogate", "nowhere.py"], "does not exist"),
        (["--surrogate", "prior", "--compare", "priro"], "did you mean 'prior'"),
        (["--surrogate", "prior", "--surrogate-arg", "x=1"], "has no argument"),
        (["--surrogate", str(EXAMPLE), "--surrogate-arg", "x=1"], "has no argument"),
        (["--surrogate", str(EXAMPLE), "--surrogate-arg", "sharpness=abc"], "'abc'; it must be a number"),
        (["--surrogate", f"{EXAMPLE}:MyModle"], "did you mean 'MyModel'"),
        (["--surrogate", f"calibrated:{EXAMPLE}:MyModle"], "did you mean 'MyModel'"),
        (["--surrogate", str(EXAMPLE), "--problem", "softmx"], "unknown problem"),
        (["--surrogate", "prior", "--max-cost", "1"], "limit the surrogate llm"),
        (["--surrogate", "prior", "--gpu", "a", "--held-out-gpu", "b"], "leave --gpu out"),
        (["--surrogate", "prior", "--split", "val"], "did you mean 'validation'"),
    ],
)
def test_a_mistake_is_refused_before_the_corpus_is_read(
    corpus_path: Path, in_folder: Path, arguments: list[str], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kbench.benchmark.questions.build.build_questions", None)
    monkeypatch.setattr("kbench.benchmark.surrogates.process.ProcessSurrogate", None)
    with pytest.raises(UserError, match=message):
        call(corpus_path, *arguments)


def test_arguments_become_numbers_flags_and_text() -> None:
    found = parse_arguments(["a=1", "b=0.5", "c=true", "d=hello", "e=[1]", "f=x=y"])
    assert found == {"a": 1, "b": 0.5, "c": True, "d": "hello", "e": "[1]", "f": "x=y"}
    with pytest.raises(UserError, match="twice"):
        parse_arguments(["a=1", "a=2"])


SLOW = """
import time
from kbench.schemas import Forecast

class Slow:
    def forecast(self, queries):
        time.sleep(0.2)
        return [Forecast(query_id=q.query_id, probabilities=(0.125,) * 8) for q in queries]
"""


def test_ctrl_c_keeps_what_is_done(corpus_path: Path, tmp_path: Path) -> None:
    model, out = tmp_path / "slow.py", tmp_path / "o"
    model.write_text(SLOW)
    command = [sys.executable, "-m", "kbench", "evaluate", "--dataset", str(corpus_path), "--surrogate", str(model)]
    command += ["--out", str(out), "--no-report", "--resamples", "20", "--batch-size", "2"]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    process = subprocess.Popen(
        command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
        # A test run started in the background ignores interrupts, and children inherit that.
        preexec_fn=functools.partial(signal.signal, signal.SIGINT, signal.SIG_DFL),
    )  # fmt: skip
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and not any(path.stat().st_size for path in out.glob("cache/*")):
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert b"run the same command to go on" in errors
    (kept,) = out.glob("cache/*")
    assert 2 <= len(kept.read_text().splitlines()) < 100


def test_ctrl_c_while_scoring_says_how_to_go_on(
    corpus_path: Path, in_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*given: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("kbench.benchmark.evaluate.evaluate.score", interrupted)
    result = CliRunner().invoke(evaluate, ["--dataset", str(corpus_path), "--surrogate", "prior"])
    assert result.exit_code == 130
    assert "run the same command to go on" in result.stderr


def test_surrogate_that_answers_nothing_has_no_scores_and_exit_code_1(corpus_path: Path, tmp_path: Path) -> None:
    model, out = tmp_path / "mute.py", tmp_path / "o"
    model.write_text("class Mute:\n    def forecast(self, queries):\n        raise ValueError('not today')\n")
    arguments = ["--surrogate", str(model), "--out", str(out), "--no-report", "--limit", "8"]
    result = call(corpus_path, *arguments)
    assert result.exit_code == 1
    assert result.stdout == ""
    assert "mute answered none of 8 queries: ValueError: not today" in result.stderr
    assert not (out / "results.json").exists()
    many = call(corpus_path, "--surrogate", str(model), "--no-report", "--out", str(tmp_path / "many"))
    assert "ValueError: not today" in many.stderr, "not that the rest was not asked"
    assert "20 times in a row: ValueError: not today" in next((tmp_path / "many" / "cache").iterdir()).read_text()
    model.write_text("import os\nclass Mute:\n    def forecast(self, queries):\n        os._exit(7)\n")
    call(corpus_path, "--surrogate", str(model), "--no-report", "--out", str(tmp_path / "dead"))
    kept = next((tmp_path / "dead" / "cache").iterdir()).read_text()
    assert "3 times in a row: its process ended with exit code 7" in kept, "each further call may cost a whole fit"
    beside = call(corpus_path, *arguments, "--surrogate", "prior")
    assert beside.exit_code == 1
    assert "prior on test" in beside.stdout
    assert "mute" not in beside.stdout
    assert json.loads(call(corpus_path, *arguments, "--json").stdout).keys() == {"unanswered"}


def test_writing_requests_is_no_failure(corpus_path: Path, tmp_path: Path) -> None:
    requests = tmp_path / "requests.jsonl"
    arguments = ["--surrogate", "llm", "--surrogate-arg", "model=m", "--surrogate-arg", f"requests_file={requests}"]
    out = str(tmp_path / "it's here")
    result = call(corpus_path, *arguments, "--out", out, "--limit", "8", "--tracks", "forecast,select")
    assert result.exit_code == 0
    assert "scoring" not in result.stderr
    assert len(requests.read_text().splitlines()) == 8
    first, told, command = result.stdout.splitlines()
    assert first == f"8 requests written to {requests}"
    assert str(tmp_path / "responses.jsonl") in told
    words = shlex.split(command)
    assert words[:4] == ["kbench", "evaluate", "--surrogate", "llm"]
    assert f"responses_file={tmp_path / 'responses.jsonl'}" in words
    assert not any("requests_file" in word for word in words)
    answered(requests, tmp_path / "responses.jsonl", 8)
    done = CliRunner().invoke(evaluate, words[2:], catch_exceptions=False)
    assert (done.exit_code, "llm m on test" in done.stdout, "warning" in done.stdout) == (0, True, False)


def answered(requests: Path, responses: Path, count: int) -> None:
    """Have the first requests answered."""
    text = json.dumps({"probabilities": [0.125] * 8})
    rows = [json.loads(line)["custom_id"] for line in requests.read_text().splitlines()[:count]]
    responses.write_text("".join(json.dumps({"custom_id": row, "text": text}) + "\n" for row in rows))


@pytest.mark.parametrize(("answers", "code"), [(39, 0), (30, 0), (19, 1)])
def test_a_run_that_mostly_failed_says_so_first(corpus_path: Path, tmp_path: Path, answers: int, code: int) -> None:
    requests, responses, out = tmp_path / "requests.jsonl", tmp_path / "responses.jsonl", tmp_path / "out"
    shared = ["--limit", "40", "--out", str(out), "--surrogate", "llm", "--surrogate-arg", "model=m", "--surrogate-arg"]
    call(corpus_path, *shared, f"requests_file={requests}")
    answered(requests, responses, answers)
    with responses.open("a") as file:
        file.write(json.dumps({"custom_id": f"{'f' * 32}:0", "text": "?"}) + "\n")
    result = call(corpus_path, *shared, f"responses_file={responses}")
    results = json.loads((out / "results.json").read_text())
    assert result.exit_code == code
    assert "1 answers to queries that were not asked were ignored" in result.stdout
    assert results["model"] == "m"
    if answers == 39:
        assert results["warning"] is results["among_answered"] is None
        return
    assert result.stdout.splitlines()[0] == results["warning"]
    assert results["warning"].startswith(f"warning: {40 - answers} of 40 forecasts of llm ")
    assert results["warning"].partition("; ")[0] in (out / "report.html").read_text()
    assert "headlines among the answered queries alone" in result.stdout
    # Every answer is the uniform forecast, which is what a query without an answer counts as.
    assert results["among_answered"]["forecast"] < 0
    assert (f"llm gave {answers} of 40 forecasts" in result.stderr) is bool(code)


def test_written_requests_are_no_failures_beside_answers(corpus_path: Path, tmp_path: Path) -> None:
    requests, responses = tmp_path / "requests.jsonl", tmp_path / "responses.jsonl"
    shared = ["--limit", "20", "--surrogate", "llm", "--surrogate-arg", "model=m", "--no-report"]
    shared += ["--out", str(tmp_path / "out"), "--surrogate-arg", f"requests_file={requests}"]
    call(corpus_path, *shared)
    answered(requests, responses, 4)
    result = call(corpus_path, *shared, "--surrogate-arg", f"responses_file={responses}")
    assert result.exit_code == 0
    assert f"16 requests written to {requests}" in result.stdout
    assert len(requests.read_text().splitlines()) == 16


def test_answers_to_core_alone_are_scored_on_core(corpus_path: Path, tmp_path: Path) -> None:
    requests, responses = tmp_path / "requests.jsonl", tmp_path / "responses.jsonl"
    shared = ["--surrogate", "llm", "--surrogate-arg", "model=m", "--no-report", "--surrogate-arg"]
    call(corpus_path, *shared, f"requests_file={requests}", "--subset", "core", "--out", str(tmp_path / "a"))
    answered(requests, responses, 10**6)
    whole = call(corpus_path, *shared, f"responses_file={responses}", "--out", str(tmp_path / "b"))
    assert "the answers are exactly those to core: add --subset core" in whole.stdout.splitlines()[0]
    core = call(corpus_path, *shared, f"responses_file={responses}", "--subset", "core", "--out", str(tmp_path / "c"))
    assert "add --subset core" not in core.stdout
    assert core.exit_code == 0


@pytest.mark.parametrize(
    ("model", "name", "version"),
    [
        ("Qwen/Qwen2.5-7B", "Qwen2.5-7B", None),
        ("gpt-4o-2024-08-06", "gpt-4o-2024-08-06", "2024-08-06"),
        ("@cf/odd:name!", "odd-name", None),
    ],
)
def test_an_entry_of_a_language_model_is_the_model_s(
    corpus_path: Path, tmp_path: Path, model: str, name: str, version: str | None
) -> None:
    requests, responses = tmp_path / "requests.jsonl", tmp_path / "responses.jsonl"
    shared = ["--limit", "40", "--surrogate", "llm", "--surrogate-arg", f"model={model}", "--no-report"]
    shared += ["--out", str(tmp_path / "out"), "--surrogate-arg"]
    call(corpus_path, *shared, f"requests_file={requests}")
    answered(requests, responses, 40)
    assert f"llm {model} on test" in call(corpus_path, *shared, f"responses_file={responses}").stdout
    entry = from_dict(Submission, json.loads((tmp_path / "out" / "submission.json").read_text()))
    assert entry.name == name
    assert entry.version == version or (version is None and re.fullmatch(r"\d{4}-\d\d-\d\d", entry.version))
    assert entry.authors[0].startswith("unknown: ")
    assert entry.license.startswith("unknown: ")
    assert "correct kind and open_weights, which are guesses" in entry.license


def test_a_wrong_argument_names_the_nearest_and_all(corpus_path: Path, tmp_path: Path, in_folder: Path) -> None:
    model = tmp_path / "mine.py"
    model.write_text(
        "class M:\n    def __init__(self, depth=1):\n        pass\n    def forecast(self, q):\n        pass\n"
    )
    for spec, given, said in (
        ("llm", "temprature=0", "no argument 'temprature'; did you mean 'temperature'? it takes model, base_url"),
        ("static", "retrian=true", "no argument 'retrian'; did you mean 'retrain'? it takes "),
        ("uniform", "x=1", "surrogate 'uniform' has no argument 'x'; it takes none"),
        (str(model), "dept=2", "no argument 'dept'; did you mean 'depth'? it takes depth"),
    ):
        with pytest.raises(UserError, match=re.escape(said)):
            call(corpus_path, "--surrogate", spec, "--surrogate-arg", given)
