import dataclasses
import json
import random
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from faults.endpoints import completion, serving
from hypothesis import given, settings
from hypothesis import strategies as st

from kbench.benchmark.llm.batch import BatchFiles, WaitingForResponsesError, read_responses
from kbench.benchmark.llm.chat import Body, ChatModel, Reply
from kbench.benchmark.llm.endpoint import Endpoint
from kbench.benchmark.llm.extract import LONGEST_REPLY, NoKernelError, extract
from kbench.benchmark.problems.registry import problem
from kbench.generation.campaign.campaign import CampaignProgress, Drive
from kbench.generation.campaign.drive import drive, recorded_states, wait_for_responses
from kbench.generation.executors.replay import ReplayExecutor
from kbench.generation.proposers.genome.proposer import GenomeProposer
from kbench.generation.proposers.llm.llm import LlmProposer, note_of, proposer_from_environment
from kbench.generation.proposers.llm.prompt import LONGEST_USER_TEXT, messages
from kbench.generation.proposers.mixed import MixedProposer
from kbench.generation.search.proposal import Ask, ProposalTask
from kbench.generation.search.settings import Budget
from kbench.generation.search.state import BestReference, KernelOutcome, Node, Operator, WorkloadFigure
from kbench.schemas import Backend, MissingDependencyError, Status, UserError

from .conftest import PROBLEM, Recorded, parent, searched, settings_for, ticking

KERNEL = "import torch\n\n\ndef run(x):\n    return torch.empty_like(x)\n"
TASK = ProposalTask(PROBLEM, Backend.TRITON, lambda key: False, '{"gpu": "NVIDIA H200", "sm_count": 132}')


def fenced(code: str, language: str = "python") -> str:
    return f"I vectorise the loads.\n\n```{language}\n{code}```\n"


@pytest.mark.parametrize(
    "reply", [fenced(KERNEL), KERNEL, fenced(KERNEL, ""), fenced(KERNEL).replace("```", "~~~~"), fenced(KERNEL) * 2]
)
def test_every_way_to_write_one_kernel_is_understood(reply: str) -> None:
    assert extract(reply, 1) == KERNEL


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        ("", "no code"),
        ("I am sorry, I cannot write this kernel.", "no code"),
        (fenced("print('hello')\n"), "no kernel: no code block defines run"),
        (fenced("def run(x:\n"), "no kernel: no code block is valid Python"),
        (fenced(KERNEL) + fenced(KERNEL.replace("empty", "zeros")), "several kernels: 2"),
        (fenced("def run(q, k, v):\n    return q\n"), "other problem: run takes 3 inputs"),
        ("x" * 10_000_000, "too long"),
        (fenced("\ud800" + KERNEL), "not text"),
        ("```python\n" + KERNEL, "no code"),
    ],
    ids=["nothing", "prose", "no run", "broken", "two files", "other problem", "10 MB", "not UTF-8", "unclosed"],
)
def test_what_is_no_kernel_is_refused_with_its_reason(reply: str, reason: str) -> None:
    with pytest.raises(NoKernelError) as caught:
        extract(reply, 1)
    assert str(caught.value).startswith(reason)


@settings(max_examples=300, deadline=None)
@given(st.text(max_size=400) | st.text(alphabet="`~\n drefun(x):py", max_size=200))
def test_no_reply_makes_the_extractor_fail_otherwise(text: str) -> None:
    found = reason = ""
    try:
        found = extract(text, 1)
    except NoKernelError as error:
        reason = str(error)
    assert "def run" in found or ":" in reason


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "none")


ASKED: Body = {"model": "m", "messages": [{"role": "user", "content": "hello"}]}


class Scripted:
    """A model that answers from a list, over and over."""

    def __init__(self, replies: Sequence[Reply]) -> None:
        self.replies, self.at = replies, 0

    def ask(self, bodies: Sequence[Body], /, *, tokens_left: int | None = None) -> list[Reply]:
        found = [self.replies[(self.at + i) % len(self.replies)] for i in range(len(bodies))]
        self.at += len(bodies)
        return found


def asking(how: Drive, chat: ChatModel) -> Drive:
    """A search of recorded kernels whose proposer is a language model."""
    return dataclasses.replace(how, proposer_for=lambda settings: LlmProposer(chat, "m"))


def test_a_search_survives_every_kind_of_bad_reply_and_charges_its_tokens(run_folder: Path, how: Drive) -> None:
    bad = [
        "", "no code here", fenced("def f(): pass\n"), fenced(KERNEL) + fenced(KERNEL.replace("empty", "zeros")),
        fenced("def run(a, b):\n    return a\n"), "y" * (LONGEST_REPLY + 1), fenced("\udcff" + KERNEL),
    ]  # fmt: skip
    replies = [Reply(text=text, input_tokens=10, output_tokens=5) for text in bad]
    replies += [
        Reply(failure="timeout: no reply within 300 s"),
        Reply(text=fenced(KERNEL), input_tokens=10, output_tokens=5),
    ]
    settings = settings_for("random", proposer="llm", seeds=9, batch=9)
    state = searched(run_folder, settings, asking(how, Scripted(replies)))
    assert set(state.proposal_failures) == {
        "no code", "no kernel", "several kernels", "other problem", "too long", "not text", "timeout", "duplicate",
    }  # fmt: skip
    assert state.charge.tokens == state.step * 8 * 15
    assert state.stopped == "nothing new in 4 steps"


def test_beside_genes_a_search_waits_for_a_language_model_and_goes_on_when_it_answers(
    run_folder: Path, recorded: Recorded, proposer: GenomeProposer, tmp_path: Path
) -> None:
    files = BatchFiles(requests=tmp_path / "requests.jsonl", responses=tmp_path / "responses.jsonl")
    mixed = MixedProposer(proposer, LlmProposer(files, "m"))
    settings = settings_for("evolve", proposer="genome+llm", budget=Budget(measurements=16))
    written = 0
    for _ in range(12):
        how = Drive(executor=ReplayExecutor(recorded), clock=ticking, proposer_for=lambda s: mixed)
        try:
            drive(run_folder, [settings], how)
            break
        except WaitingForResponsesError as waiting:
            for key in waiting.unanswered.bodies:
                written += 1
                text = fenced(f"# idea: {written}\n{KERNEL}x{written} = 0\n")
                with files.responses.open("a") as out:
                    out.write(json.dumps({"custom_id": key, "text": text}) + "\n")
    (state,) = recorded_states(run_folder).values()
    assert (state.stopped or "").startswith("budget spent")
    made = [node for node in state.nodes.values() if node.proposer == "llm"]
    assert 0 < len(made) <= written
    assert {node.proposer for node in state.nodes.values() if node.step == 0} == {"genome"}


def test_a_token_budget_is_never_passed_and_goes_on_when_raised(run_folder: Path, how: Drive) -> None:
    with serving(lambda call: (200, completion(fenced(KERNEL)), {})) as server:
        search = asking(how, Endpoint(base_url=server.url))
        for tokens in (300, 8000):
            settings = settings_for("random", proposer="llm", seeds=8, batch=8, budget=Budget(tokens=tokens))
            state = searched(run_folder, settings, search)
            assert (state.stopped or "").startswith("budget spent: tokens") == (tokens == 300)
            assert state.charge.tokens <= tokens
            assert (server.calls > 0) == (tokens == 8000)


def test_replies_that_the_log_does_not_know_are_not_paid_for_again(run_folder: Path, how: Drive) -> None:
    with serving(lambda call: (200, completion(fenced(KERNEL)), {})) as server:
        for _ in range(2):
            drive(run_folder, [settings_for("random", proposer="llm")], asking(how, Endpoint(base_url=server.url)))
            (run_folder / "events.jsonl").unlink()
            asked = server.calls
        assert asked == len((run_folder / "replies.jsonl").read_bytes().splitlines())


def test_a_prompt_tells_problem_parent_figures_roofline_and_device(run_folder: Path, how: Drive) -> None:
    state = searched(run_folder, settings_for("random"), how)
    parent = state.best()
    system, user = messages(TASK, Ask(Operator.MUTATE, parent, None, random.Random(0)))
    told = ("GELU", "Workload large", parent.source.strip(), "times as fast as PyTorch", "us, PyTorch 100.00 us")
    assert all(part in user["content"] for part in (*told, "32 registers per thread", "0 bytes spilled", "Strategy"))
    shared = ("one Python code block", "NVIDIA H200", "132", "# idea:", "NOTE:")
    assert all(part in system["content"] for part in shared)


FACTS = '{"gpu": "G", "copy_bandwidth_gbs": 4000, "matmul_peak_tflops": 800, "l2_bytes": 1000000}'


def told(**ask: Any) -> str:
    fields = {"operator": Operator.MUTATE, "parent": None, "other": None, "rng": random.Random(0)} | ask
    return messages(dataclasses.replace(TASK, gpu_facts_json=FACTS), Ask(**fields))[1]["content"]


def test_a_request_tells_limits_history_and_what_was_tried() -> None:
    def kernel(key: str, edit: str, speed: float | None) -> Node:
        status = Status.OK if speed else Status.COMPILE_ERROR
        figures = (WorkloadFigure("large", "ok", 50.0, speed, 25.0), WorkloadFigure("small", "ok", 10.0, speed, 1.0))
        outcome = KernelOutcome(status, None, 1.0, speed, figures if speed else ())
        return parent(f"source of {key}", kernel_id=key, edit=edit, outcome=outcome)

    first, second = kernel("a", "tile rows", 1.5), kernel("b", "two rows per block", 2.0)
    failed, other = kernel("c", "cluster", None), kernel("d", "split rows", 1.8)
    references = {"large": BestReference("torch.compile", 60.0)}
    text = told(
        parent=second, ancestors=(first,), tried=(failed,), archive=(second, other), references=references, turn=1
    )
    for part in (
        "large: no kernel below", "best reference 60 us (torch.compile)", "1.20 times the best reference",
        "limit 25.00 us (50% of it reached)", "- 1.5 times PyTorch: tile rows", "- failed, compile_error: cluster",
        "- 1.8 times PyTorch: split rows", "furthest from the limit on small",
    ):  # fmt: skip
        assert part in text
    assert "source of d" not in text
    assert "Strategy" not in text, "every second change follows the measurements alone"
    assert "source of d" in told(parent=second, other=other, operator=Operator.CROSS)
    assert "by another idea than those above" in told(archive=(second,), operator=Operator.FRESH)
    assert "Other ideas" not in told(parent=failed, archive=(second,), operator=Operator.REPAIR)


def test_a_second_kernel_is_cut_where_the_request_grows_too_long() -> None:
    one, two = (parent("x = 1\n" * lines, kernel_id="a" * 32) for lines in (1500, 1500))
    assert len(told(parent=one, other=two, operator=Operator.CROSS)) < LONGEST_USER_TEXT + 500


@pytest.mark.parametrize(
    ("reply", "note"),
    [
        (fenced(KERNEL) + "\nNOTE: wider loads", "wider loads"),
        (f"**Note:** first\n{fenced(KERNEL)}\n**NOTE:** wider loads\n", "wider loads"),
        (fenced("# idea: rows stay in registers\n" + KERNEL), "rows stay in registers"),
        (fenced("# NOTE: in the code\n" + KERNEL), "I vectorise the loads."),
        (KERNEL, "import torch"),
    ],
    ids=["note", "two notes", "idea", "prose", "bare"],
)
def test_an_authors_note_is_kept(reply: str, note: str) -> None:
    assert note_of(reply, extract(reply, 1)) == note


@pytest.mark.parametrize("backend", [Backend.TRITON, Backend.CUDA])
def test_a_prompt_tells_the_rules_of_planning_and_the_adversarial_inputs(backend: Backend) -> None:
    task = ProposalTask("softmax", backend, lambda key: False)
    system, user = (one["content"] for one in messages(task, Ask(Operator.FRESH, None, None, random.Random(0))))
    own = {
        Backend.TRITON: ("triton.autotune", "TensorDescriptor", "warp_specialize"),
        Backend.CUDA: ("cluster=", "cooperative=", "TensorMap", "wgmma", "cp.async.bulk", "sm_90a"),
    }
    for part in (*own[backend], "never on values", "Every other torch operator is refused", "constant rows and ties"):
        assert part in system
    assert all(case.stresses in user for case in problem("softmax").cases)


ERRORS = [
    {"error": {"code": "batch_expired"}, "response": None},
    {"error": None, "response": {"status_code": 500, "body": {"error": "oops"}}},
    {"error": None, "response": None},
    {},
]


@pytest.mark.parametrize("error", ERRORS, ids=["error", "status", "neither", "bare"])
def test_an_error_response_answers_nothing_and_a_reply_wins_over_it(tmp_path: Path, error: dict[str, Any]) -> None:
    files = BatchFiles(requests=tmp_path / "requests.jsonl", responses=tmp_path / "responses.jsonl")
    other: Body = {"model": "m", "messages": [{"role": "user", "content": "and you"}]}
    with pytest.raises(WaitingForResponsesError) as caught:
        files.ask([ASKED, other])
    files.write(caught.value.unanswered.bodies)
    good, bad = (json.loads(line)["custom_id"] for line in files.requests.read_text().splitlines())
    rows = [{"custom_id": good, "text": "yes"}, {"custom_id": good} | error, {"custom_id": bad} | error]
    files.responses.write_text("".join(json.dumps(row) + "\n" for row in rows))
    with pytest.raises(WaitingForResponsesError) as caught:
        files.ask([ASKED, other])
    with pytest.raises(
        WaitingForResponsesError,
        match=rf"^1 request of 1 search waits .*; 1 was answered with an error, the first: {bad} \(got error .*\)$",
    ):
        wait_for_responses([caught.value.unanswered], CampaignProgress())
    assert [json.loads(line)["custom_id"] for line in files.requests.read_text().splitlines()] == [bad]
    with files.responses.open("a") as stream:
        stream.write(json.dumps({"custom_id": bad, "text": "no"}) + "\n")
    assert [reply.text for reply in files.ask([ASKED, other])] == ["yes", "no"]
    assert read_responses(files.responses).errors == {}


def test_without_a_model_or_the_openai_package_the_fix_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KBENCH_LLM_MODEL", raising=False)
    monkeypatch.delenv("KBENCH_LLM_BATCH", raising=False)
    with pytest.raises(UserError, match="set KBENCH_LLM_MODEL"):
        proposer_from_environment()
    monkeypatch.setenv("KBENCH_LLM_MODEL", "m")
    monkeypatch.setitem(sys.modules, "openai", None)
    with pytest.raises(MissingDependencyError, match="or set KBENCH_LLM_BATCH to a folder"):
        proposer_from_environment()


@pytest.mark.parametrize(
    ("variable", "value", "reason"),
    [("OPENAI_API_KEY", "", "Missing credentials"), ("OPENAI_BASE_URL", "http://127.0.0.1:abc/v1", "Invalid port")],
)
def test_a_client_that_cannot_be_is_the_users_mistake_before_anything_is_written(
    run_folder: Path, how: Drive, monkeypatch: pytest.MonkeyPatch, variable: str, value: str, reason: str
) -> None:
    monkeypatch.setenv("KBENCH_LLM_MODEL", "m")
    monkeypatch.setenv(variable, value)
    with pytest.raises(UserError, match=rf"^no client for the language model \({reason}.*; set OPENAI_API_KEY"):
        drive(run_folder, [settings_for("random", proposer="llm")], Drive(executor=how.executor))
    assert not run_folder.exists()


@pytest.mark.parametrize(
    "failure", ["connection error: refused", "endpoint error: HTTP 401: no such key", "timeout: no reply within 300 s"]
)
def test_a_search_that_nobody_answers_halts_and_goes_on_later(run_folder: Path, how: Drive, failure: str) -> None:
    model = Scripted([Reply(failure=failure)])
    search = asking(how, model)
    progress = drive(run_folder, [settings_for("random", proposer="llm")], search)
    assert list(progress.halted.values()) == [failure]
    model.replies = [Reply(text=fenced(KERNEL))]
    assert drive(run_folder, [settings_for("random", proposer="llm")], search).halted == {}
    (state,) = recorded_states(run_folder).values()
    assert [node.step for node in state.nodes.values()] == [0]
    assert state.proposal_failures[failure.split(":")[0]] == 4


def test_a_prompt_that_the_server_refuses_does_not_halt_the_run(run_folder: Path, how: Drive) -> None:
    model = Scripted([Reply(failure="request refused: HTTP 400"), *[Reply(text=fenced(KERNEL))] * 9])
    progress = drive(run_folder, [settings_for("random", proposer="llm", seeds=1, batch=1)], asking(how, model))
    (state,) = recorded_states(run_folder).values()
    assert progress.halted == {}
    assert state.proposal_failures["request refused"] == 1
    assert [node.step for node in state.nodes.values()] == [1]
