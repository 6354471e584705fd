import dataclasses
import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from kbench.benchmark.llm.batch import WaitingForResponsesError
from kbench.generation.assembly.assemble import Recipe, assemble
from kbench.generation.campaign.campaign import Drive
from kbench.generation.campaign.drive import drive, recorded_states
from kbench.generation.cli import generate
from kbench.generation.executors.replay import ReplayExecutor
from kbench.generation.log import LogWriter, read_environments, read_log
from kbench.generation.proposers import mixed
from kbench.generation.proposers.genome.proposer import GenomeProposer
from kbench.generation.search.settings import Budget
from kbench.schemas import InfrastructureError, UserError

from .conftest import FAMILY, PROBLEM, Recorded, replaying, settings_for
from .test_campaign import Refusing
from .test_executors import ENVIRONMENT


@pytest.fixture(autouse=True)
def _small_family(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(mixed.PROPOSERS, "genome", lambda: GenomeProposer({FAMILY.name: FAMILY}))


@pytest.fixture(scope="module")
def recording_folder(tmp_path_factory: pytest.TempPathFactory, recorded: Recorded) -> Path:
    """A run folder that measured every kernel of the family; it is only read."""
    folder = tmp_path_factory.mktemp("search") / "recorded"
    how = replaying(recorded, GenomeProposer({FAMILY.name: FAMILY}))
    drive(folder, [settings_for("random", batch=200, budget=Budget(measurements=3 * len(recorded)))], how)
    return folder


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(generate, [str(a) for a in arguments], standalone_mode=False)


def search(recording_folder: Path, out: Path, *more: str) -> Result:
    return run(
        "--problem", PROBLEM, "--backend", "triton", "--budget", "8",
        "--executor", "replay", "--recorded", recording_folder, "--out", out, *more,
    )  # fmt: skip


def test_a_search_runs_and_reports_as_json(recording_folder: Path, tmp_path: Path) -> None:
    result = search(recording_folder, tmp_path / "run", "--method", "puct", "--json")
    assert result.exception is None
    summary = json.loads(result.stdout)
    assert summary["runs"] == 1
    assert summary["measured"] + summary["lost"] >= 8


def test_status_shows_what_was_found_and_spent(recording_folder: Path, tmp_path: Path) -> None:
    search(recording_folder, tmp_path / "run")
    rows = json.loads(run("status", tmp_path / "run", "--json").stdout)
    assert rows[0]["problem"] == PROBLEM
    assert rows[0]["measurements_left"] == 0
    assert rows[0]["best_speedup"] > 0
    assert "budget spent" in run("status", tmp_path / "run").stdout
    assert run("status", tmp_path / "run" / "events.jsonl").stdout == run("status", tmp_path / "run").stdout


def test_status_of_a_log_without_a_run_says_so(tmp_path: Path) -> None:
    (tmp_path / "events.jsonl").touch()
    assert run("status", tmp_path).stdout == "no run has begun yet\n"


def test_status_finds_the_logs_below_a_recipes_folder(recording_folder: Path, tmp_path: Path) -> None:
    search(recording_folder, tmp_path / "runs" / "small")
    one = run("status", tmp_path / "runs" / "small").stdout
    assert run("status", tmp_path).stdout == run("status", tmp_path / "runs").stdout == one


def test_status_tells_a_live_search_from_a_stopped_one(recording_folder: Path, tmp_path: Path) -> None:
    search(recording_folder, tmp_path / "run")
    log = tmp_path / "run" / "events.jsonl"
    log.write_text("".join(log.read_text().splitlines(keepends=True)[:-1]))
    assert "  stopped; the same command resumes it\n" in run("status", tmp_path / "run").stdout
    with LogWriter(tmp_path / "run"):
        assert "  live\n" in run("status", tmp_path / "run").stdout


def test_an_interrupted_search_says_how_it_goes_on(
    recording_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("kbench.generation.campaign.drive.drive", interrupted)
    done = search(recording_folder, tmp_path / "run")
    assert done.stderr.endswith("kbench: interrupted; the same command resumes it\n")
    assert done.return_value == 130


def test_a_budget_below_what_is_spent_is_said(recording_folder: Path, tmp_path: Path) -> None:
    search(recording_folder, tmp_path / "run", "--budget", "12")
    done = search(recording_folder, tmp_path / "run", "--budget", "4")
    assert "the budget was spent before this command: measurements 12 of 4" in done.stdout


def test_status_needs_no_texts_that_a_shipped_log_leaves_out() -> None:
    rows = json.loads(run("status", Path(__file__).parents[2] / "docs/evidence/runs/hard-1", "--json").stdout)
    assert sum(row["measurements"] for row in rows) > 100
    assert max(row["best_speedup"] or 0 for row in rows) > 1


def test_a_surrogate_filters_and_its_decisions_are_logged(recording_folder: Path, tmp_path: Path) -> None:
    result = search(recording_folder, tmp_path / "run", "--surrogate", "online", "--budget", "16")
    assert result.exception is None
    filtered = [entry for entry in read_log(tmp_path / "run") if entry.kind == "candidates_filtered"]
    assert filtered
    decisions = filtered[0].payload["decisions"]
    assert sum(decision["measure"] for decision in decisions) == 8
    assert len(decisions) == 32
    assert "; filtered by online\n" in run("status", tmp_path / "run").stdout


def test_a_replay_names_what_was_not_recorded_and_fails_when_nothing_was(tmp_path: Path, how: Drive) -> None:
    for name, measurements in (("most", 500), ("some", 200), ("one", 1)):
        budget = Budget(measurements=measurements)
        drive(tmp_path / name, [settings_for("random", seeds=1, batch=50, budget=budget)], how)
    found = search(tmp_path / "most", tmp_path / "run", "--budget", "40")
    assert found.exception is None
    assert "kernels are not among the 500 recorded ones: " in found.stderr
    lost = search(tmp_path / "some", tmp_path / "lost", "--budget", "40")
    assert isinstance(lost.exception, UserError)
    assert str(lost.exception).startswith("most kernels were lost: ")
    assert "A replay needs a log of the same search" in str(lost.exception)
    nothing = search(tmp_path / "one", tmp_path / "other")
    assert isinstance(nothing.exception, UserError)
    assert str(nothing.exception).startswith("nothing was replayed: ")
    assert run("status", tmp_path / "other").stdout.endswith(
        "8 kernels proposed, not measured; the same command resumes it\n1 run: measured: nothing measured\n"
    )
    assert "kernels lost\n1 run: measured: ok" in run("status", tmp_path / "run").stdout
    # Given up after its first kernels; what differs and what is left are said.
    assert len(recorded_states(tmp_path / "other")[next(iter(recorded_states(tmp_path / "other")))].nodes) == 8
    assert "was recorded with method 'random' and not 'evolve', seeds 1 and not 8" in str(nothing.exception)
    assert "The run folder keeps the log of this attempt" in str(nothing.exception)


def test_the_kernels_of_a_corpus_are_a_pool(recording_folder: Path, tmp_path: Path) -> None:
    assemble(Recipe(runs=(recording_folder,)), tmp_path / "corpus")
    found = search(tmp_path / "corpus", tmp_path / "run")
    assert found.exception is None
    assert "8 kernels, " in found.stdout
    assert "lost 0" in found.stdout
    of_a_run = search(recording_folder, tmp_path / "other", "--proposer", "pool")
    assert "proposer 'pool' draws kernels of a corpus" in str(of_a_run.exception)
    by_a_model = search(tmp_path / "corpus", tmp_path / "other", "--proposer", "llm")
    assert "cannot answer proposer 'llm'" in str(by_a_model.exception)
    campaign = {"problems": [PROBLEM], "backends": ["triton"], "methods": ["random"], "proposer": "pool"}
    (tmp_path / "c.json").write_text(json.dumps(campaign))
    words = ["--campaign", tmp_path / "c.json", "--executor", "replay", "--recorded", tmp_path / "corpus"]
    assert "12 kernels, " in run(*words, "--out", tmp_path / "campaign").stdout


def test_a_log_is_no_pool_and_says_so(recording_folder: Path, tmp_path: Path) -> None:
    refused = str(search(recording_folder, tmp_path / "run", "--proposer", "pool").exception)
    assert f"and {str(recording_folder)!r} is a log: name the corpus" in refused


def test_a_folder_of_kernels_is_measured_as_it_is(tmp_path: Path, recording_folder: Path) -> None:
    kernels = tmp_path / "kernels"
    kernels.mkdir()
    nodes = next(iter(recorded_states(recording_folder).values())).rewarded()[:3]
    for number, node in enumerate(nodes):
        (kernels / f"{PROBLEM}__triton__k{number}.py").write_text(node.source)
    result = run(
        "--from-folder", kernels, "--proposer", "llm", "--executor", "replay", "--recorded", recording_folder,
        "--out", tmp_path / "run", "--json",
    )  # fmt: skip
    assert result.exception is None
    (state,) = recorded_states(tmp_path / "run").values()
    assert state.settings.search_method == "written"
    assert {node.proposer for node in state.nodes.values()} == {"llm"}
    assert {node.kernel_id for node in state.rewarded()} == {node.kernel_id for node in nodes}


CAMPAIGN = ["--campaign", "c.json"]
FOLDER = ["--from-folder", "kernels"]
PROBLEM_ALONE = ["--problem", PROBLEM, "--backend", "triton", "--budget", "8"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([*CAMPAIGN, "--method", "puct"], "--method changes nothing with --campaign; the campaign file sets it"),
        ([*CAMPAIGN, "--budget", "8"], "--budget changes nothing with --campaign"),
        ([*CAMPAIGN, "--seed", "0"], "--seed changes nothing with --campaign"),
        ([*CAMPAIGN, "--variants", "2"], "--variants changes nothing with --campaign; leave it out"),
        ([*FOLDER, "--backend", "cuda"], "--backend changes nothing with --from-folder"),
        ([*FOLDER, "--surrogate", "online"], "--surrogate changes nothing with --from-folder"),
        ([*FOLDER, "--method", "puct"], "--method changes nothing without --variants"),
        ([*PROBLEM_ALONE, "--variants", "2"], "--variants changes nothing with --problem"),
        ([*PROBLEM_ALONE, "--recorded", "x"], "--recorded changes nothing with --executor local"),
        ([*PROBLEM_ALONE, "--executor", "replay", "--gpu", "1"], "--gpu changes nothing with --executor replay"),
    ],
)
def test_an_option_that_would_change_nothing_is_refused(arguments: list[str], message: str, tmp_path: Path) -> None:
    result = run(*arguments, "--out", tmp_path / "run")
    assert isinstance(result.exception, UserError)
    assert message in str(result.exception)


def test_without_a_gpu_one_line_says_what_can_be_done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kbench.harness.commands.doctor.gpu_count", lambda: 0)
    result = run("--problem", PROBLEM, "--backend", "triton", "--budget", "8", "--out", tmp_path / "run")
    assert isinstance(result.exception, InfrastructureError)
    assert "kbench generate study CORPUS" in str(result.exception)
    assert "\n" not in str(result.exception)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--proposer", "genom"], "unknown proposer 'genom'; did you mean 'genome'"),
        (["--proposer", "pool"], "proposer 'pool' draws kernels of a corpus"),
        (["--proposer", "llm"], "set KBENCH_LLM_MODEL"),
        (["--surrogate", "statik"], "did you mean 'static'"),
    ],
)
def test_a_wrong_name_is_said_before_the_gpu_is_looked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], message: str
) -> None:
    monkeypatch.setattr("kbench.harness.commands.doctor.gpu_count", lambda: 0)
    monkeypatch.delenv("KBENCH_LLM_MODEL", raising=False)
    result = run("--problem", PROBLEM, "--backend", "triton", "--budget", "8", "--out", tmp_path / "run", *words)
    assert message in str(result.exception)


def test_the_last_line_tells_this_command_and_the_search_in_all(recording_folder: Path, tmp_path: Path) -> None:
    search(recording_folder, tmp_path / "run", "--batch", "3")
    assert [entry.payload["settings"]["batch"] for entry in read_log(tmp_path / "run") if not entry.index] == [3]
    later = search(recording_folder, tmp_path / "run", "--batch", "3", "--budget", "10")
    assert later.stdout.startswith("this command: 2 kernels, ")
    assert "lost 0; the search in all: 10 kernels, best " in later.stdout
    assert later.stdout.endswith("x; budget spent: measurements 10 of 10\n")
    cut = search(recording_folder, tmp_path / "cut", "--deadline", "1e-9")
    assert cut.stdout.endswith("0 kernels, best -; not ended (the same command goes on)\n")


def test_a_search_whose_proposer_cannot_be_reached_says_what_it_did_and_fails(
    recording_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(mixed.PROPOSERS, "genome", lambda: Refusing({}))  # type: ignore[attr-defined]
    result = search(recording_folder, tmp_path / "run", "--json")
    assert isinstance(result.exception, InfrastructureError)
    assert "1 of 1 runs cannot go on, the first because of: connection error: refused" in str(result.exception)
    assert list(json.loads(result.stdout)["halted"].values()) == ["connection error: refused"]


def test_errors_wait_for_other_answers(recording_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KBENCH_LLM_MODEL", "m")
    monkeypatch.setenv("KBENCH_LLM_BATCH", str(tmp_path))
    options = ("--proposer", "llm", "--budget", "1")
    assert isinstance(search(recording_folder, tmp_path / "run", *options).exception, WaitingForResponsesError)
    (asked,) = [json.loads(line)["custom_id"] for line in (tmp_path / "requests.jsonl").read_text().splitlines()]
    (tmp_path / "responses.jsonl").write_text(json.dumps({"custom_id": asked, "error": {"code": "expired"}}) + "\n")
    for _ in range(2):
        failure = search(recording_folder, tmp_path / "run", *options).exception
        assert isinstance(failure, WaitingForResponsesError)
        assert failure.exit_code == 3
        assert f"the first: {asked} (got error {{'code': 'expired'}})" in str(failure)
    with (tmp_path / "responses.jsonl").open("a") as stream:
        stream.write(json.dumps({"custom_id": asked, "txt": "?"}) + "\n")
    failure = search(recording_folder, tmp_path / "run", *options).exception
    assert "no text in a field 'text', and no field 'response'; the line has custom_id, txt)" in str(failure)
    with (tmp_path / "responses.jsonl").open("a") as stream:
        stream.write(json.dumps({"custom_id": asked, "text": "I give up."}) + "\n")
    failure = search(recording_folder, tmp_path / "run", *options).exception
    assert isinstance(failure, WaitingForResponsesError)
    assert asked not in str(failure)
    assert "; 1 reply gave no kernel, the first: no code" in str(failure)
    (state,) = recorded_states(tmp_path / "run").values()
    assert (state.step, dict(state.proposal_failures)) == (1, {"no code": 1})


def test_a_recorded_corpus_explains_its_environments(tmp_path: Path, how: Drive, recorded: Recorded) -> None:
    known = dataclasses.replace(how, executor=ReplayExecutor(recorded, [ENVIRONMENT]))
    drive(tmp_path / "first", [settings_for("random", batch=50, budget=Budget(measurements=200))], known)
    assemble(Recipe(runs=(tmp_path / "first",)), tmp_path / "corpus")
    # It proposes other kernels than the first one; what was replayed still says where.
    assert "most kernels were lost" in str(
        search(tmp_path / "corpus", tmp_path / "second", "--proposer", "genome").exception
    )
    assert read_environments(tmp_path / "second") == [ENVIRONMENT]
