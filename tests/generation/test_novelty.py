"""Near-copies of measured kernels cost no GPU time; ideas of the best kernels reach later requests."""

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from kbench.benchmark.llm.batch import WaitingForResponsesError
from kbench.benchmark.problems.registry import problem, problems
from kbench.generation.campaign.drive import recorded_states
from kbench.generation.campaign.plan import CampaignSpec, runs_of
from kbench.generation.cli import generate
from kbench.generation.log import read_log, record_environments
from kbench.generation.proposers.llm.prompt import messages, strategies
from kbench.generation.search.proposal import Ask, ProposalTask, near_duplicate, refuse_source
from kbench.generation.search.settings import Budget
from kbench.generation.search.state import BestKnown, KernelOutcome, Operator, idea_of
from kbench.schemas import Backend, Status

from .conftest import parent, settings_for
from .test_exchange import Exchange, kernel_text
from .test_executors import ENVIRONMENT

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
