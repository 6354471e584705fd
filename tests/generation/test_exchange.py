"""A campaign whose kernels a language model writes through Batch files: one exchange for each generation."""

import dataclasses
import json
import random
import re
import shutil
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from records import filled

from kbench.benchmark.llm.batch import BatchFiles, WaitingForResponsesError
from kbench.benchmark.problems import problem
from kbench.generation.assembly.assemble import Recipe, assemble
from kbench.generation.campaign.campaign import Drive
from kbench.generation.campaign.drive import WAITING, drive, recorded_states
from kbench.generation.campaign.plan import CampaignSpec, runs_of
from kbench.generation.campaign.status import render, summaries
from kbench.generation.executors.executor import Result
from kbench.generation.executors.replay import ReplayExecutor, recorded_references
from kbench.generation.log import read_log
from kbench.generation.proposers.llm.llm import LlmProposer
from kbench.generation.search.methods.catalogue import MOST_REPAIRS, with_repairs
from kbench.generation.search.settings import Budget, RunSettings
from kbench.generation.search.state import FRESH, KernelOutcome, Node, Operator, ProposalRequest, RunState
from kbench.loaders.corpus.corpus import Corpus
from kbench.loaders.corpus.places import shipped
from kbench.schemas import Environment, KernelSource, ReferenceTime, Status, UserError
from kbench.schemas.ids import content_hash

from .conftest import measurement, parent, settings_for, ticking
from .test_executors import ENVIRONMENT

PROBLEMS = ("gelu_tanh", "softmax", "rms_norm")
SPEC = CampaignSpec(
    problems=PROBLEMS, methods=("evolve",), proposer="llm", seeds=3, batch=3, budget=Budget(measurements=8)
)
RUNS = runs_of(SPEC)[0]
MOST_EXCHANGES = 60
FAILED = KernelOutcome(Status.INCORRECT, "off by one", None, None)


class FakeGpu(ReplayExecutor):
    """Measures by what a kernel's text says of itself."""

    def __init__(self) -> None:
        super().__init__({})
        self.measured: list[str] = []
        self.place = ENVIRONMENT
        self.waiting: list[KernelSource] = []

    def submit(self, kernels: Sequence[KernelSource]) -> None:
        self.waiting.extend(kernels)

    def collect(self, timeout_s: float) -> list[Result]:
        queue, self.waiting = self.waiting, []
        self.measured += [kernel.kernel_id for kernel in queue]
        return [self.result(kernel) for kernel in queue]

    def result(self, kernel: KernelSource) -> Result:
        found = re.search(r"STATUS, SPEED = '(\w+)', ([\d.]+)", kernel.source)
        key = kernel.kernel_id
        return Result(key, (measurement(key, kernel.problem_id, Status(found[1]), float(found[2])),))

    def environments(self) -> list[Environment]:
        return [self.place]


def kernel_text(key: str, status: str = "ok") -> str:
    speed = 1 + int(key[:4], 16) / 2**16
    return f"KEY = 'k{key}'\nSTATUS, SPEED = {status!r}, {speed}\n\n\ndef run(*inputs):\n    return inputs\n"


Answerer = Callable[[dict[str, Any]], dict[str, Any]]


def answer_as(status: str) -> Answerer:
    def answer(request: dict[str, Any]) -> dict[str, Any]:
        key = request["custom_id"]
        return {"custom_id": key, "text": f"```python\n{kernel_text(key, status)}```"}

    return answer


def reply(request: dict[str, Any]) -> dict[str, Any]:
    """A fifth of the answers is no kernel, two fifths are kernels that fail, the rest is correct; in both forms."""
    key = request["custom_id"]
    draw = int(key[-4:], 16) % 5
    status = "ok" if draw > 2 else ("incorrect" if draw == 2 else "compile_error")
    text = "I cannot." if draw == 0 else f"A change.\n\n```python\n{kernel_text(key, status)}```\n"
    if draw % 2:
        usage = {"prompt_tokens": 30, "completion_tokens": 12}
        body = {"choices": [{"message": {"content": text}}], "model": "scribe", "usage": usage}
        return {"custom_id": key, "response": {"status_code": 200, "body": body}}
    return {"custom_id": key, "text": text, "model": "scribe", "usage": {"input_tokens": 30, "output_tokens": 12}}


class Exchange:
    """A campaign, its files, and everything that was ever asked."""

    def __init__(self, folder: Path) -> None:
        self.run, self.gpu = folder / "run", FakeGpu()
        self.files = BatchFiles(requests=folder / "requests.jsonl", responses=folder / "responses.jsonl")
        self.asked: list[str] = []

    def go(self, runs: Sequence[RunSettings] = RUNS, **changes: Any) -> str | None:
        """Run the command; what it says when it waits."""
        files = BatchFiles(requests=self.files.requests, responses=self.files.responses)
        proposer = LlmProposer(files, "m")
        how = Drive(executor=self.gpu, clock=ticking, proposer_for=lambda settings: proposer)
        try:
            drive(self.run, runs, dataclasses.replace(how, **changes))
        except WaitingForResponsesError as error:
            return str(error)
        return None

    def requests(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.files.requests.read_text().splitlines()]

    def answer(self, chosen: Callable[[int], bool] = lambda place: True, answer: Answerer = reply) -> None:
        with self.files.responses.open("a") as stream:
            for place, request in enumerate(self.requests()):
                if chosen(place):
                    self.asked.append(request["custom_id"])
                    stream.write(json.dumps(answer(request)) + "\n")

    def finish(self, chosen: Callable[[int], bool] = lambda place: True) -> dict[str, RunState]:
        for _ in range(MOST_EXCHANGES):
            if self.go() is None:
                return recorded_states(self.run)
            self.answer(chosen)
        raise AssertionError("the campaign does not end")


def courses(states: dict[str, RunState]) -> dict[str, tuple[dict[str, Node], str | None]]:
    return {run_id: (dict(state.nodes), state.stopped) for run_id, state in states.items()}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Exchange:
    exchange = Exchange(tmp_path_factory.mktemp("whole"))
    exchange.finish()
    return exchange


@pytest.fixture
def exchange(tmp_path: Path) -> Exchange:
    return Exchange(tmp_path)


def test_all_searches_of_a_generation_ask_in_one_file(exchange: Exchange) -> None:
    for _ in range(2):
        message = exchange.go() or ""
        assert message.startswith(f"18 requests of 6 searches wait in {exchange.files.requests}; 0 kernels")
        assert str(exchange.files.responses) in message
        assert len(exchange.requests()) == 18
    exchange.answer()
    answered = set(exchange.asked)
    assert "of 6 searches wait" in (exchange.go() or "")
    assert exchange.gpu.measured
    assert not answered & {request["custom_id"] for request in exchange.requests()}
    assert {state.step for state in recorded_states(exchange.run).values()} == {1}


def test_open_requests_of_another_campaign_are_not_overwritten(exchange: Exchange, tmp_path: Path) -> None:
    exchange.go()
    exchange.run = tmp_path / "other"
    with pytest.raises(UserError, match="holds 18 open requests of another campaign"):
        exchange.go([dataclasses.replace(settings, label="other") for settings in RUNS])
    assert len(exchange.requests()) == 18


def test_a_campaign_goes_on_over_generations_until_its_budgets_are_spent(whole: Exchange) -> None:
    states = recorded_states(whole.run)
    assert len(states) == 6
    assert {state.charge.measurements for state in states.values()} == {8}
    assert min(state.step for state in states.values()) >= 3
    assert len(whole.asked) == len(set(whole.asked)) == sum(state.charge.tokens for state in states.values()) / 42
    assert len(whole.gpu.measured) == len(set(whole.gpu.measured)) == 48
    assert sum(state.proposal_failures.get("no code", 0) for state in states.values()) > 0


@pytest.mark.parametrize("share", [2, 3])
def test_the_course_does_not_depend_on_which_answers_come_first(
    exchange: Exchange, whole: Exchange, share: int
) -> None:
    states = exchange.finish(lambda place: place % share == 0)
    assert courses(states) == courses(recorded_states(whole.run))
    assert sorted(exchange.asked) == sorted(whole.asked)


def test_a_campaign_killed_at_any_byte_asks_and_measures_the_rest_alone(tmp_path: Path, whole: Exchange) -> None:
    log = (whole.run / "events.jsonl").read_bytes()
    for cut in range(0, len(log), len(log) // 9):
        exchange = Exchange(tmp_path / str(cut))
        exchange.run.mkdir(parents=True)
        (exchange.run / "events.jsonl").write_bytes(log[:cut])
        shutil.copy(whole.files.responses, exchange.files.responses)
        done = log[: log.rfind(b"\n", 0, cut) + 1].count(b"kernel_measured")
        assert courses(exchange.finish()) == courses(recorded_states(whole.run))
        assert exchange.asked == []
        assert len(exchange.gpu.measured) == 48 - done


@pytest.mark.parametrize("damage", [lambda text: text[: len(text) // 2], lambda text: text + '{"custom_id": "old"}\n'])
def test_the_file_of_requests_holds_those_that_wait(exchange: Exchange, damage: Callable[[str], str]) -> None:
    exchange.go()
    text = exchange.files.requests.read_text()
    exchange.files.requests.write_text(damage(text))
    exchange.go()
    assert sorted(exchange.files.requests.read_text().splitlines()) == sorted(text.splitlines())


@pytest.mark.usefixtures("ticks")
def test_a_campaign_cut_short_keeps_the_requests_it_did_not_come_to(exchange: Exchange) -> None:
    exchange.go()
    before = {request["custom_id"] for request in exchange.requests()}
    exchange.answer(lambda place: place < 6, broken)
    assert "; 2 searches could not continue in this call; run the same command again to get their next requests" in (
        exchange.go(deadline_s=10) or ""
    )
    left = before - set(exchange.asked)
    assert {request["custom_id"] for request in exchange.requests()} == left
    assert sum(row["open_requests"] for row in summaries(exchange.run)) == len(left)
    assert (exchange.go() or "").startswith("18 requests of 6 searches wait")


def test_a_command_that_measures_nothing_says_what_it_proposed(exchange: Exchange) -> None:
    assert "; 0 kernels proposed, not measured; put responses" in (exchange.go(measure=False) or "")
    exchange.answer(answer=answer_as("ok"))
    proposer = LlmProposer(exchange.files, "m")
    how = Drive(executor=exchange.gpu, clock=ticking, proposer_for=lambda settings: proposer, measure=False)
    assert drive(exchange.run, RUNS, how).result().startswith("18 kernels proposed, not measured (kbench data ass")
    shutil.rmtree(exchange.run)
    exchange.files.responses.unlink()
    exchange.go()
    exchange.answer(lambda place: place == 0, answer_as("ok"))
    message = exchange.go(measure=False) or ""
    assert message.startswith("17 requests of 6 searches wait")
    assert "could not continue" not in message
    assert exchange.gpu.measured == []


def test_a_response_to_no_request_is_said_and_one_to_an_earlier_request_is_not(exchange: Exchange) -> None:
    for _ in range(2):
        assert "custom_id" not in (exchange.go(RUNS[:1]) or "")
        exchange.answer(answer=answer_as("ok"))
    with exchange.files.responses.open("a") as stream:
        stream.write(json.dumps({"custom_id": "mistyped", "text": "?"}) + "\n")
    message = exchange.go(RUNS[:1]) or ""
    assert "requests of 1 search wait" in message
    assert message.endswith("; 1 response has a custom_id of no request: mistyped")
    exchange.answer(answer=answer_as("ok"))
    assert exchange.go(RUNS[:1]) is None
    assert exchange.requests() == []
    (row,) = summaries(exchange.run)
    (exchange.run / WAITING).write_text(json.dumps({row["run_id"]: ["earlier"]}))
    assert summaries(exchange.run) == [row], "of a search that has stopped"


def test_requests_tell_recorded_references_where_none_lie_in_the_run_folder(exchange: Exchange) -> None:
    gpu = ENVIRONMENT.gpu
    figures = {"workload": problem("softmax").sizes[0].name, "reference_us": 70.0, "compiled_us": 61.25}
    reference = filled(ReferenceTime, problem_id="softmax", gpu=gpu, **figures)
    exchange.go(measure=False, references=[reference])
    told = [json.dumps(request) for request in exchange.requests()]
    assert sum("best reference 61.25 us" in text for text in told) == 6
    assert recorded_references(shipped())


def test_a_response_that_is_still_being_written_counts_once_it_is_whole(exchange: Exchange) -> None:
    exchange.go(RUNS[:1])
    exchange.answer()
    text = exchange.files.responses.read_text()
    exchange.files.responses.write_text(text[:-20])
    assert (exchange.go(RUNS[:1]) or "").startswith("1 request of 1 search waits in ")
    exchange.files.responses.write_text(text)
    exchange.go(RUNS[:1])
    assert recorded_states(exchange.run)[RUNS[0].run_id].step == 1


def test_another_machine_of_the_same_gpu_type_asks_the_same(exchange: Exchange) -> None:
    exchange.go()
    before = exchange.files.requests.read_bytes()
    exchange.gpu.place = dataclasses.replace(ENVIRONMENT, env_id=content_hash("another"), copy_bandwidth_gbs=1.0)
    exchange.go()
    assert exchange.files.requests.read_bytes() == before


def test_who_answered_and_what_it_cost_is_in_the_log(whole: Exchange, exchange: Exchange) -> None:
    entries = [entry for entry in read_log(whole.run) if entry.kind in ("candidate_proposed", "proposal_failed")]
    assert {entry.payload["recipe"]["model"] for entry in entries} == {"scribe"}
    assert {(entry.payload["input_tokens"], entry.payload["output_tokens"]) for entry in entries} == {(30, 12)}
    exchange.go(RUNS[:1])
    rows = [{"custom_id": one["custom_id"], "text": "no", "date": "2026-03-01"} for one in exchange.requests()]
    exchange.files.responses.write_text("".join(json.dumps(row) + "\n" for row in rows))
    exchange.go(RUNS[:1])
    recipe = next(entry.payload["recipe"] for entry in read_log(exchange.run) if entry.kind == "proposal_failed")
    asked = next(iter(exchange.requests()))["body"]["messages"]
    assert recipe["input_characters"] == pytest.approx(sum(len(one["content"]) for one in asked), abs=400)
    assert (recipe["model"], recipe["date"], recipe["output_characters"]) == ("m", "2026-03-01", 2)


def broken(request: dict[str, Any]) -> dict[str, Any]:
    """Wrong unless it is a repair."""
    key, prompt = request["custom_id"], request["body"]["messages"][1]["content"]
    status = "ok" if "Find the cause and fix it" in prompt else "incorrect"
    return {"custom_id": key, "text": f"The bound was wrong.\n\n```python\n{kernel_text(key, status)}```\n"}


@pytest.mark.parametrize("method", ["hill_climb", "evolve", "puct"])
def test_failed_kernels_become_parents_that_are_repaired(tmp_path: Path, method: str) -> None:
    spec = CampaignSpec(
        problems=PROBLEMS[:1], methods=(method,), proposer="llm", seeds=3, batch=3, budget=Budget(measurements=15)
    )
    exchange, runs = Exchange(tmp_path), runs_of(spec)[0]
    prompts = []
    while exchange.go(runs) is not None:
        prompts += [one["body"]["messages"][1]["content"] for one in exchange.requests()]
        exchange.answer(answer=broken)
    shown = next(prompt for prompt in prompts if "Find the cause and fix it" in prompt)
    assert "It failed: incorrect.\n```\nmade up incorrect\n```" in shown
    assert "STATUS, SPEED = 'incorrect'" in shown
    for state in recorded_states(exchange.run).values():
        repaired = [node for node in state.nodes.values() if (node.recipe or {})["operator"] == "repair"]
        assert repaired
        for node in repaired:
            assert state.nodes[node.parent_id].reward is None
            assert (node.reward is not None, node.edit) == (True, "The bound was wrong.")
    operators = {
        request["operator"]
        for entry in read_log(exchange.run) if entry.kind == "step_started" for request in entry.payload["requests"]
    }  # fmt: skip
    assert {"fresh", "repair"} <= operators


@pytest.mark.parametrize(
    ("method", "proposer", "correct", "repairs"),
    [("evolve", "llm", 0, True), ("puct", "llm", 3, True), ("evolve", "genome", 0, False), ("random", "llm", 0, False)],
    ids=["none correct", "some correct", "genome", "random"],
)
def test_repairs_are_for_models_told_of_failures(method: str, proposer: str, correct: int, repairs: bool) -> None:
    nodes = {}
    for place in range(correct + 2):
        outcome = KernelOutcome(Status.OK, None, 1.0, 1.0) if place < correct else FAILED
        nodes[f"k{place}"] = parent("source", kernel_id=f"k{place}", outcome=outcome)
    state = RunState(run_id="r", settings=settings_for(method, proposer=proposer), nodes=nodes, step=1)
    planned = with_repairs(state, (ProposalRequest(Operator.MUTATE, "k0"),) * 40, random.Random(0))
    chosen = Counter(one.parent_id for one in planned if one.operator is Operator.REPAIR)
    assert dict(chosen) == ({f"k{correct}": MOST_REPAIRS, f"k{correct + 1}": MOST_REPAIRS} if repairs else {})


ARMS = runs_of(
    CampaignSpec(
        label="arms", independent=True, problems=("softmax",), backends=("triton",), proposer="llm", seeds=2, batch=2,
        methods=("random", "evolve", "evolve+surrogate"), budget=Budget(measurements=6), surrogate="llm", draw=2,
        against_parent=True, unsure_share=0.0,
    )
)[0]  # fmt: skip


def test_arms_share_first_kernels_and_a_model_filters_children(
    exchange: Exchange, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KBENCH_LLM_FORECAST_MODEL", "seer")
    monkeypatch.setenv("KBENCH_LLM_FORECAST_BATCH", str(tmp_path / "forecasts"))
    asked, told = tmp_path / "forecasts" / "requests.jsonl", tmp_path / "forecasts" / "responses.jsonl"
    exchange.go(ARMS)
    assert len(exchange.requests()) == 2, "three arms ask for the same two kernels"
    correct = answer_as("ok")
    exchange.answer(answer=correct)
    waits = ""
    for _ in range(MOST_EXCHANGES):
        if exchange.go(ARMS) is None:
            break
        waits += render(summaries(exchange.run))
        exchange.answer(answer=correct)
        for request in map(json.loads, asked.read_text().splitlines()) if asked.is_file() else ():
            better = "k0" in request["body"]["messages"][1]["content"].split("KEY = '")[-1][:2]
            shares = {str(number): float(number == (8 if better else 1)) for number in range(1, 9)}
            with told.open("a") as stream:
                stream.write(json.dumps({"custom_id": request["custom_id"], "text": json.dumps(shares)}) + "\n")
    states = list(recorded_states(exchange.run).values())
    assert {state.charge.measurements for state in states} == {6}
    firsts = [{node.kernel_id for node in state.nodes.values() if node.step == 0} for state in states]
    assert firsts[0] == firsts[1] == firsts[2]
    assert [sum(node.skipped for node in state.nodes.values()) > 0 for state in states] == [False, False, True]
    assert states[2].failed_forecasts == 0
    assert re.search(r"  waits for \d+ forecasts; the same command resumes it; filtered by llm\n", waits)


def test_answers_fit_when_requests_are_worded_otherwise(exchange: Exchange, monkeypatch: pytest.MonkeyPatch) -> None:
    exchange.go()
    exchange.answer()
    words = [{"role": role, "content": "Write a kernel."} for role in ("system", "user")]
    monkeypatch.setattr("kbench.generation.proposers.llm.llm.messages", lambda task, ask: words)
    exchange.go()
    assert {state.step for state in recorded_states(exchange.run).values()} == {1}


def test_a_step_that_nobody_has_answered_is_planned_again_for_another_batch(exchange: Exchange) -> None:
    exchange.go()
    exchange.answer()
    exchange.go()
    larger = [dataclasses.replace(settings, batch=4) for settings in RUNS]
    for _ in range(2):
        exchange.go(larger)
    states = recorded_states(exchange.run).values()
    assert {len(state.requests) for state in states} == {4}
    planned = [entry.run_id for entry in read_log(exchange.run) if entry.kind == "step_started" and entry.step == 1]
    assert Counter(planned) == {state.run_id: 2 for state in states}


def test_the_failed_child_of_the_fastest_kernel_is_repaired_first_and_not_once_it_was() -> None:
    ok = {key: KernelOutcome(Status.OK, None, 1.0, speed) for key, speed in (("slow", 1.0), ("fast", 2.0))}
    nodes = {key: parent(key, kernel_id=key, outcome=outcome) for key, outcome in ok.items()}
    for above in ok:
        nodes[f"of {above}"] = parent("c", kernel_id=f"of {above}", parent_id=above, outcome=FAILED, step=1)
    state = RunState(run_id="r", settings=settings_for("evolve", proposer="llm"), nodes=nodes, step=2)

    def repaired(state: RunState) -> list[str | None]:
        planned = with_repairs(state, (ProposalRequest(Operator.MUTATE, "fast"),) * 40, random.Random(0))
        return [one.parent_id for one in planned if one.operator is Operator.REPAIR]

    assert repaired(state)[0] == "of fast"
    mended = parent("d", kernel_id="d", parent_id="of fast", outcome=ok["slow"], step=2, operator=Operator.REPAIR)
    assert set(repaired(dataclasses.replace(state, nodes={**nodes, "d": mended}))) == {"of slow"}


def test_a_restart_of_a_climb_stays_fresh() -> None:
    nodes = {
        "good": parent("a", kernel_id="good", outcome=KernelOutcome(Status.OK, None, 1.0, 1.0)),
        "bad": parent("b", kernel_id="bad", outcome=FAILED),
    }
    state = RunState(run_id="r", settings=settings_for("hill_climb", proposer="llm"), nodes=nodes, step=9)
    assert with_repairs(state, (FRESH,) * 40, random.Random(0)) == (FRESH,) * 40


def test_repairs_and_who_answered_reach_the_corpus(whole: Exchange, tmp_path: Path) -> None:
    ledger = assemble(Recipe(runs=(whole.run,)), tmp_path / "corpus")
    corpus = Corpus.open(tmp_path / "corpus")
    kernels = corpus.table("kernels").to_pylist()
    assert {(row["proposer"], row["model"], row["lineage"]) for row in kernels} == {("llm", "scribe", None)}
    generations = {row["kernel_id"]: row["generation"] for row in kernels}
    assert {generations[row["parent_id"]] + 1 == row["generation"] for row in kernels if row["parent_id"]} == {True}
    assert ledger.by_model == {"scribe": len(whole.asked)}
    assert ledger.tokens == 42 * len(whole.asked)
    assert "replies: scribe" in ledger.text()
    failed = {row["kernel_id"] for row in kernels if row["status"] != "ok"}
    assert {row["parent_id"] for row in kernels} & failed
    payloads = [json.loads(row["payload_json"]) for row in corpus.table("events").to_pylist()]
    recipes = [payload["recipe"] for payload in payloads if "recipe" in payload]
    assert {recipe["model"] for recipe in recipes} == {"scribe"}
    assert "repair" in {recipe["operator"] for recipe in recipes}
