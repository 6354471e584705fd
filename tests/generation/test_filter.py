"""Which candidates are measured: those that a surrogate ranks high or doubts, and no near-copies of measured ones."""

import dataclasses
import json
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner

from kbench.benchmark.llm.batch import WaitingForResponsesError
from kbench.benchmark.problems.registry import problem, problems
from kbench.generation.campaign.campaign import Drive
from kbench.generation.campaign.drive import drive, recorded_states
from kbench.generation.campaign.plan import CampaignSpec, runs_of
from kbench.generation.campaign.status import render as render_report
from kbench.generation.campaign.status import summaries
from kbench.generation.cli import generate
from kbench.generation.log import read_log, record_environments
from kbench.generation.proposers.llm.prompt import messages, strategies
from kbench.generation.search.guide import Guess, OnlineGuide, decide
from kbench.generation.search.proposal import Ask, ProposalTask, near_duplicate, refuse_source
from kbench.generation.search.settings import Budget, FilterSettings
from kbench.generation.search.state import BestKnown, KernelOutcome, Node, Operator, idea_of
from kbench.schemas import Backend, Forecast, Query, Status
from kbench.schemas.ids import content_hash

from .conftest import GENES, made_up, parent, settings_for
from .test_exchange import Exchange, kernel_text
from .test_executors import ENVIRONMENT

SETTINGS = FilterSettings(surrogate="x", draw=4, unsure_share=0.5, confidence=0.5)


def forecast(key: str, best: int, sure: float = 0.9, **more: object) -> Forecast:
    rest = (1 - sure) / 7
    probabilities = tuple(sure if number == best else rest for number in range(1, 9))
    return Forecast(query_id=content_hash(key), probabilities=probabilities, **more)


def chosen(forecasts: dict[str, Forecast], keep: int, settings: FilterSettings = SETTINGS) -> dict[str, str]:
    decisions = decide(list(forecasts), [Guess(one) for one in forecasts.values()], settings, keep)
    return {decision["kernel_id"]: decision["why"] for decision in decisions if decision["measure"]}


def silent(count: int) -> dict[str, Forecast]:
    return {f"x{i}": Forecast(query_id=content_hash(f"x{i}"), failure="no idea") for i in range(count)}


FAST, MID, SLOW = forecast("fast", 8), forecast("mid", 6), forecast("slow", 1)
UNSURE = forecast("unsure", 1, sure=0.2)


@pytest.mark.parametrize(
    ("asked", "keep", "share", "measured"),
    [
        ({"slow": SLOW, "mid": MID, "fast": FAST}, 2, 0.5, {"mid": "rank", "fast": "rank"}),
        ({"fast": FAST, "mid": MID, "unsure": UNSURE}, 2, 0.5, {"fast": "rank", "unsure": "unsure"}),
        ({"fast": FAST, "unsure": UNSURE}, 1, 0.0, {"fast": "rank"}),
        (
            {f"u{i}": UNSURE for i in range(3)} | {f"f{i}": FAST for i in range(3)}, 4, 0.5,
            {"u0": "unsure", "u1": "unsure", "f0": "rank", "f1": "rank"},
        ),
        (
            silent(2) | {"fast": FAST, "mid": MID}, 3, 0.5,
            {"x0": "no forecast", "x1": "no forecast", "fast": "rank"},
        ),
        (
            {"a": forecast("a", 2, confidence=0.1), "b": FAST, "c": forecast("c", 7)}, 2, 0.5,
            {"a": "unsure", "b": "rank"},
        ),
    ],
    ids=["rank without doubt", "an unsure one ranked low", "no share", "a bounded share", "silence first",
         "own confidence before the largest probability"],
)  # fmt: skip
def test_places_go_to_silent_unsure_and_highly_ranked_candidates(
    asked: dict[str, Forecast], keep: int, share: float, measured: dict[str, str]
) -> None:
    assert chosen(asked, keep, dataclasses.replace(SETTINGS, unsure_share=share)) == measured


def test_candidates_without_a_forecast_take_no_more_places_than_there_are() -> None:
    asked = silent(5) | {"fast": forecast("fast", 8)}
    decisions = decide(list(asked), [Guess(one) for one in asked.values()], SETTINGS, 2)
    assert chosen(asked, 2) == {"x0": "no forecast", "x1": "no forecast"}
    assert {d["why"] for d in decisions if not d["measure"]} == {"no place", "below"}


def test_a_candidate_that_was_passed_over_may_come_again(run_folder: Path, how: Drive) -> None:
    settings = settings_for("random", filter=FilterSettings(surrogate="online", draw=8), seeds=40, batch=40)
    drive(run_folder, [dataclasses.replace(settings, budget=Budget(measurements=120))], how)
    proposed = [e.payload["kernel_id"] for e in read_log(run_folder) if e.kind == "candidate_proposed"]
    measured = [e.payload["kernel_id"] for e in read_log(run_folder) if e.kind == "kernel_measured"]
    assert len(set(proposed)) < len(proposed)
    assert len(set(measured)) == len(measured) == 120


class Raising:
    """A surrogate that fails."""

    def forecast(self, queries: Sequence[Query]) -> Sequence[Forecast]:
        raise RuntimeError("out of order")


def test_a_surrogate_that_raises_costs_counted_forecasts_and_not_the_search(run_folder: Path, how: Drive) -> None:
    settings = settings_for("random", filter=FilterSettings(surrogate="prior", draw=2))
    progress = drive(run_folder, [settings], dataclasses.replace(how, surrogate_for=lambda name: Raising()))
    decisions = [d for e in read_log(run_folder) if e.kind == "candidates_filtered" for d in e.payload["decisions"]]
    assert {d["forecast"]["failure"] for d in decisions} == {"RuntimeError: out of order"}
    (state,) = recorded_states(run_folder).values()
    assert state.charge.measurements == progress.measured == 24
    assert state.stopped == "budget spent: measurements 24 of 24"
    told = "40 forecasts failed, the first: RuntimeError: out of order"
    assert progress.result().endswith(told)
    assert progress.line().endswith(told)
    rows = summaries(run_folder)
    assert (rows[0]["failed_forecasts"], rows[0]["forecast_failure"]) == (40, "RuntimeError: out of order")
    assert told in render_report(rows)


class Telling:
    """A surrogate that remembers what it was asked."""

    def __init__(self) -> None:
        self.queries: list[Query] = []

    def forecast(self, queries: Sequence[Query]) -> Sequence[Forecast]:
        self.queries.extend(queries)
        return [forecast("", 5).__class__(query_id=q.query_id, probabilities=(0.125,) * 8) for q in queries]


def test_queries_carry_no_comment_and_the_problem(run_folder: Path, how: Drive) -> None:
    surrogate = Telling()
    settings = settings_for("random", filter=FilterSettings(surrogate="prior", draw=2))
    drive(run_folder, [settings], dataclasses.replace(how, surrogate_for=lambda name: surrogate))
    assert surrogate.queries
    assert all("#" not in query.candidate_source for query in surrogate.queries)
    assert {query.problem_id for query in surrogate.queries} == {"gelu_tanh"}


def measured(key: str, genome: dict[str, object], speedup: float | None) -> Node:
    status = Status.OK if speedup else Status.INCORRECT
    outcome = KernelOutcome(status, None, None, speedup)
    return parent(key, kernel_id=key, recipe={"family": "f", "genome": genome}, outcome=outcome)


def test_the_guide_of_a_search_learns_genes_and_expects_improvement_near_the_best() -> None:
    rng = random.Random(0)
    genomes = [{gene.name: rng.choice(gene.choices) for gene in GENES} for _ in range(100)]
    nodes = [measured(f"k{at}", genome, made_up(genome)[1] or None) for at, genome in enumerate(genomes)]
    known, asked = nodes[:60], [node for node in nodes[60:] if node.reward]
    found = OnlineGuide().guess(known, asked, [content_hash(node.kernel_id) for node in asked], lambda nodes: [])
    pairs = [(guess.forecast.speedup or 0, node.reward or 0) for guess, node in zip(found, asked, strict=True)]
    agree = [(x[0] > y[0]) == (x[1] > y[1]) for x in pairs for y in pairs if abs(x[1] - y[1]) > 0.2]
    assert sum(agree) / len(agree) > 0.85
    gains = sorted(zip((guess.improvement or 0.0 for guess in found), asked, strict=True), key=lambda one: -one[0])
    rewards = sorted(node.reward or 0.0 for node in asked)
    assert (gains[0][1].reward or 0.0) > rewards[len(rewards) * 3 // 4]
    assert all(gain >= 0 for gain, _ in gains)


def test_a_prior_orders_candidates_before_much_is_measured_and_is_overruled_by_measurements() -> None:
    sizes = {f"k{size}": {"size": size} for size in range(16)}
    asked = [measured(key, genome, None) for key, genome in sizes.items()]
    names = [content_hash(node.kernel_id) for node in asked]

    class BySize:
        inputs = "source"

        def forecast(self, queries: Sequence[Query]) -> list[Forecast]:
            at_least = [Forecast(query_id=q.query_id, probabilities=(0.125,) * 8, p_valid=1.0) for q in queries]
            speedups = [2.0 ** (int(q.candidate_source) / 4) for q in queries]
            return [dataclasses.replace(one, speedup=s) for one, s in zip(at_least, speedups, strict=True)]

    def asks(nodes: Sequence[Node]) -> list[Any]:
        sizes = [node.recipe["genome"]["size"] for node in nodes if node.recipe]
        return [SimpleNamespace(query_id=content_hash(str(size)), candidate_source=str(size)) for size in sizes]

    def best(known: list[Node]) -> int:
        found = OnlineGuide(BySize()).guess(known, asked, names, asks)
        return max(range(16), key=lambda at: found[at].forecast.speedup or 0.0)

    assert best([measured("a", {"size": 7}, 1.0)]) == 15
    assert best([measured(f"m{size}", {"size": size}, 2.0 ** (-size / 4)) for size in range(0, 16, 2)]) < 4


SOURCE = (Path(__file__).parents[2] / "examples" / "kernels" / "softmax__triton__whole_row.py").read_text()
CORRECT = parent(SOURCE, kernel_id="a" * 32, outcome=KernelOutcome(Status.OK, None, 1.0, 2.0))
FAILED = parent(SOURCE, kernel_id="b" * 32, outcome=KernelOutcome(Status.INCORRECT, "wrong", None, None))


def test_a_kernel_of_the_other_backend_is_no_candidate() -> None:
    assert refuse_source(SOURCE, Backend.TRITON) is None
    assert refuse_source(SOURCE, Backend.CUDA) == "other backend: 'triton.jit' in a cuda kernel"


def test_a_kernel_with_other_numbers_repeats_a_correct_one_and_may_repair_a_failed_one() -> None:
    text = SOURCE.replace("num_warps=8", "num_warps=4").replace("axis=0", "axis=00")
    assert text != SOURCE
    assert "similarity 1.000" in (near_duplicate(text, [FAILED, CORRECT]) or "")
    assert near_duplicate(text, [FAILED]) is None
    for node in (CORRECT, FAILED):
        assert "but for comments" in (near_duplicate("# idea: the same again\n" + SOURCE, [node]) or "")
    other_algorithm = SOURCE.replace("tl.max(", "tl.min(").replace("tl.exp(", "tl.exp2(1.5 * ")
    assert near_duplicate(other_algorithm, [CORRECT]) is None


def answer_with(text: Callable[[str], str]) -> Callable[[dict[str, Any]], dict[str, Any]]:
    return lambda request: {"custom_id": request["custom_id"], "text": f"```python\n{text(request['custom_id'])}```\n"}


def test_a_near_copy_is_logged_and_not_measured_whichever_search_measured_it(tmp_path: Path) -> None:
    runs = [settings_for(name, proposer="llm", seeds=1, batch=1) for name in ("evolve", "hill_climb")]
    exchange = Exchange(tmp_path)
    exchange.go(runs[:1])
    exchange.answer(answer=answer_with(lambda key: "# idea: rows\n" + kernel_text("f" * 32)))
    exchange.go(runs[:1])
    assert len(exchange.gpu.measured) == 1
    exchange.go(runs)
    exchange.answer(answer=answer_with(lambda key: kernel_text("f" * 32).replace("1.9", "1.8")))
    exchange.go(runs)
    refused = [entry.payload for entry in read_log(exchange.run) if entry.kind == "proposal_failed"]
    assert len(exchange.gpu.measured) == 1
    assert [one["reason"].split(":")[0] for one in refused] == ["near-duplicate"] * 2
    assert {one["recipe"]["model"] for one in refused} == {"m"}
    assert all(state.proposal_failures == {"near-duplicate": 1} for state in recorded_states(exchange.run).values())


def test_the_best_idea_of_a_cell_is_told_and_stays_while_a_request_waits(tmp_path: Path) -> None:
    runs = [settings_for(name, proposer="llm", seeds=1, batch=1) for name in ("hill_climb", "puct", "random")]
    exchange = Exchange(tmp_path)
    exchange.go(runs)
    exchange.answer(answer=answer_with(lambda key: f"# idea: plan {key[:4]}\n" + kernel_text(key)))
    exchange.go(runs)
    told = [state.best_known for state in recorded_states(exchange.run).values()]
    known = [best for best in told if best is not None]
    assert known
    assert told[2] is None, "random search is the baseline that learns nothing"
    before = {one["custom_id"] for one in exchange.requests()}
    exchange.answer(lambda place: place == 0, answer_with(lambda key: "# idea: new best\n" + kernel_text("f" * 32)))
    exchange.go(runs)
    assert len(before & {one["custom_id"] for one in exchange.requests()}) == 2


def request(problem_id: str, backend: Backend, **more: Any) -> str:
    task = ProposalTask(problem_id, backend, lambda key: False)
    fields = {"operator": Operator.FRESH, "parent": None, "other": None, "rng": random.Random(0)} | more
    return messages(task, Ask(**fields))[1]["content"]


def test_an_idea_is_the_first_comment_line() -> None:
    assert idea_of("# idea: split K over clusters\nimport torch\n") == "split K over clusters"
    assert idea_of("import torch\n# idea: late\n") is None
    best = BestKnown("c" * 32, 3.21, "split K over clusters")
    assert "3.21 times PyTorch. Its idea: split K" in request("softmax", Backend.CUDA, best_known=best)
    shown = parent(SOURCE, kernel_id="c" * 32, outcome=CORRECT.outcome)
    assert "split K" not in request("softmax", Backend.CUDA, best_known=best, parent=shown, operator=Operator.MUTATE)


@pytest.mark.parametrize("backend", [Backend.TRITON, Backend.CUDA])
def test_strategies_suit_the_problem_and_rotate(backend: Backend) -> None:
    assert not any("split" in text or "plit K" in text for text in strategies(problem("relu"), backend))
    assert any("split K" in text for text in strategies(problem("matmul_tensor3d"), backend))
    assert not any("wgmma" in text or "tl.dot" in text for text in strategies(problem("softmax"), backend))
    texts = strategies(problem("conv2d_square"), backend)
    asked = [request("conv2d_square", backend, turn=turn) for turn in range(len(texts))]
    assert all(text in one for text, one in zip(texts, asked, strict=True))
    assert "Strategy" not in request("softmax", backend, operator=Operator.REPAIR, parent=FAILED)


def test_requests_of_a_backend_share_one_system_text_and_stay_short() -> None:
    for backend in (Backend.TRITON, Backend.CUDA):
        texts = [
            messages(ProposalTask(name, backend, lambda key: False), Ask(Operator.FRESH, None, None, random.Random(0)))
            for name in problems()
        ]
        assert len({system["content"] for system, _ in texts}) == 1
        assert len(texts[0][0]["content"]) < 8_000
        assert max(len(user["content"]) for _, user in texts) < 6_000


def test_requests_are_written_for_the_gpu_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KBENCH_LLM_MODEL", "m")
    monkeypatch.setenv("KBENCH_LLM_BATCH", str(tmp_path / "batch"))
    (tmp_path / "facts").mkdir()
    record_environments(tmp_path / "facts", [ENVIRONMENT])
    spec = {"problems": ["softmax"], "methods": ["random", "puct"], "proposer": "llm", "seeds": 1, "batch": 1}
    (tmp_path / "llm.json").write_text(json.dumps(spec))
    out = ["--out", str(tmp_path / "run"), "--json"]
    command = [
        "--campaign",
        str(tmp_path / "llm.json"),
        "--executor",
        "none",
        "--recorded",
        str(tmp_path / "facts"),
        *out,
    ]
    result = CliRunner().invoke(generate, command, standalone_mode=False)
    assert isinstance(result.exception, WaitingForResponsesError)
    said = json.loads(result.stdout)
    assert (said["runs"], said["requests"], said["waiting"]) == (4, 4, 4)
    lines = [json.loads(line) for line in Path(said["requests_file"]).read_text().splitlines()]
    answers = [
        {"custom_id": one["custom_id"], "text": f"```python\n{kernel_text(one['custom_id'])}```"} for one in lines
    ]
    Path(said["responses_file"]).write_text("".join(json.dumps(one) + "\n" for one in answers[:3]))
    later = CliRunner().invoke(generate, command, standalone_mode=False)
    assert json.loads(later.stdout)["requests"] == 1
    shown = CliRunner().invoke(generate, ["status", str(tmp_path / "run")], standalone_mode=False)
    assert "4 runs: 1 request open, 3 answered; measured: nothing measured" in shown.output
    exchange = Exchange(tmp_path)
    exchange.files.requests, exchange.files.responses = (
        Path(said[name]) for name in ("requests_file", "responses_file")
    )
    runs = runs_of(CampaignSpec(**spec, budget=Budget(measurements=12)))[0]
    exchange.go(runs)
    assert len(exchange.gpu.measured) == 3
