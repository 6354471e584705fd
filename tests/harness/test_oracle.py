"""The judge asks the process that holds the answers over a socket: what it is told, and whose fault a silence is."""

import contextlib
import dataclasses
import errno
import resource
import select
import socket
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from kbench.benchmark.problems import problem
from kbench.benchmark.problems.compare import Comparison, compare, torch_statistics
from kbench.benchmark.problems.definition import Tolerance
from kbench.benchmark.problems.inputs import TensorSpec
from kbench.harness.bench import judge, oracle
from kbench.harness.bench.context import ProblemContext
from kbench.harness.bench.fused_compare import ROWS, TYPES, Judged, Pair, all_statistics, compare_together
from kbench.harness.bench.judge import ALIGNMENT, LocalJudge, RemoteJudge
from kbench.harness.bench.reference_inputs import Drawing, ReferenceInputs
from kbench.harness.device.device import POISON_BYTE, CpuDevice
from kbench.harness.device.driver import DriverError
from kbench.harness.isolate.protocol import KEY_BYTES
from kbench.schemas import InfrastructureError

KEY = b"k" * KEY_BYTES
DEFINITION = problem("cross_entropy_fwd_bwd")
SIZE = DEFINITION.tiny


class FakeOracle:
    """Remembers what it was asked and gives the answers it was told to give."""

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []
        self.answers: list[dict[str, Any]] = []
        self.forgot = False

    def answer(self, request: Mapping[str, Any]) -> dict[str, Any]:
        self.asked.append(dict(request))
        if request["problem_id"] == "no_such_problem":
            raise KeyError("no_such_problem")
        return self.answers.pop(0) if self.answers else {"ready": True}

    def forget(self) -> None:
        self.forgot = True


Served = tuple[FakeOracle, str, socket.socket]
CONNECTIONS: list[RemoteJudge] = []


def connected(address: str, key: bytes = KEY) -> RemoteJudge:
    """A judge whose connection ends with the test."""
    CONNECTIONS.append(RemoteJudge(address, key))
    return CONNECTIONS[-1]


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    listener, address = socket.socket(socket.AF_UNIX), str(tmp_path / "socket")
    listener.bind(address)
    listener.listen()
    here, there = socket.socketpair()
    fake = FakeOracle()
    thread = threading.Thread(target=oracle.serve, args=(fake, listener, there, KEY), daemon=True)
    thread.start()
    yield fake, address, here
    while CONNECTIONS:
        CONNECTIONS.pop()._channel.close()
    here.close()
    thread.join(10.0)
    assert not thread.is_alive()
    listener.close()
    there.close()


def drawn(case: str | None = None) -> ReferenceInputs:
    return ReferenceInputs(DEFINITION, SIZE, Drawing(5, case), "cpu")


MANY = 1200
"""More than select can tell apart."""


def test_who_connects_and_says_nothing_keeps_nobody_from_an_answer(served: Served) -> None:
    fake, address, _ = served
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    early = connected(address)
    early.expect(DEFINITION, SIZE, [drawn()])
    with contextlib.ExitStack() as stack:
        stack.callback(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 2 * MANY), hard))
        ends = [stack.enter_context(socket.socket(socket.AF_UNIX)) for _ in range(MANY)]
        for end in ends:
            end.connect(address)
        late = connected(address)
        for one in (late, early):
            one.expect(DEFINITION, SIZE, [drawn()])
        assert late._channel.fileno() > MANY
        assert ends[0].recv(1) == b"", "the oldest made room"
    assert len(fake.asked) == 3


def test_connections_that_are_not_too_many_may_be_silent(served: Served) -> None:
    _, address, _ = served
    with contextlib.ExitStack() as stack:
        ends = [stack.enter_context(socket.socket(socket.AF_UNIX)) for _ in range(oracle.SILENT - 1)]
        for end in ends:
            end.connect(address)
        # Once this is answered, all before it were taken in.
        connected(address).expect(DEFINITION, SIZE, [drawn()])
        ends[0].setblocking(False)
        with pytest.raises(BlockingIOError):
            ends[0].recv(1)


def test_a_connection_that_cannot_be_taken_in_ends_nothing(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    fake, address, _ = served
    real, failures = socket.socket.accept, iter([errno.EMFILE, errno.ECONNABORTED])

    def accept(listener: socket.socket) -> Any:
        for failure in failures:
            raise OSError(failure, "cannot be accepted")
        return real(listener)

    monkeypatch.setattr(socket.socket, "accept", accept)
    connected(address).expect(DEFINITION, SIZE, [drawn()])
    assert len(fake.asked) == 1


def test_inputs_are_named_by_their_seed_and_case_and_never_sent(served: Served) -> None:
    fake, address, _ = served
    asks = connected(address)
    case = DEFINITION.cases[0].name
    asks.expect(DEFINITION, SIZE, [drawn(), drawn(case)])
    named = {"op": "expect", "problem_id": DEFINITION.id, "size": SIZE.name}
    assert fake.asked == [named | {"items": [{"seed": 5, "case": each} for each in (None, case)]}]


def host_memory(monkeypatch: pytest.MonkeyPatch, free: int = 1 << 40) -> list[tuple[Any, ...]]:
    """The driver's calls, which a list takes; so many bytes can be allocated at a time."""
    calls: list[tuple[Any, ...]] = []

    def call(name: str, *arguments: Any) -> Any:
        calls.append((name, *arguments))
        if name == "cuMemAlloc" and arguments[0] > free:
            raise DriverError("cuMemAlloc: CUDA_ERROR_OUT_OF_MEMORY")
        return {"cuMemAlloc": 4096, "cuIpcGetMemHandle": SimpleNamespace(reserved=b"\x01\x02")}.get(name)

    monkeypatch.setattr(judge, "call", call)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    return calls


def test_outputs_go_through_shared_memory_and_the_verdict_comes_back(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake, address, _ = served
    calls = host_memory(monkeypatch)
    wrong = {"ok": False, "reason": "wrong", "max_abs_error": 1.5, "max_rel_error": None}
    fake.answers = [{"comparisons": [wrong, wrong | {"ok": True}]}]
    outputs = tuple(torch.zeros(n) for n in (3, 5))
    asks = connected(address)
    found = asks.compare(DEFINITION, SIZE, [(drawn(), outputs), (drawn(), outputs[:1])])
    assert found == [Comparison(False, "wrong", 1.5, None), Comparison(True, "wrong", 1.5, None)]
    (asked,) = fake.asked
    assert (asked["op"], asked["handle"]) == ("compare", "0102")
    assert [item["offsets"] for item in asked["items"]] == [[0, ALIGNMENT], [2 * ALIGNMENT]]
    copies = [arguments for name, *arguments in calls if name == "cuMemcpyDtoD"]
    wanted = ((0, outputs[0], 12), (ALIGNMENT, outputs[1], 20), (2 * ALIGNMENT, outputs[0], 12))
    assert copies == [[4096 + at, output.data_ptr(), nbytes] for at, output, nbytes in wanted]
    assert calls[-1] == ("cuMemsetD8", 4096, POISON_BYTE, 3 * ALIGNMENT), "no answer stays where kernels run"


def test_too_little_memory_for_a_comparison_is_the_machines_fault_and_does_not_last(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake, address, _ = served
    emptied: list[bool] = []
    calls = host_memory(monkeypatch, free=ALIGNMENT)
    monkeypatch.setattr(judge, "LEAST_EXCHANGE", ALIGNMENT)
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: emptied.append(True))
    asks, small, large = connected(address), (torch.zeros(3),), (torch.zeros(300),)
    fake.answers = [{"comparisons": []}] * 2
    asks.compare(DEFINITION, SIZE, [(drawn(), small)])
    with pytest.raises(InfrastructureError, match="no 0 MiB of GPU memory for comparing answers"):
        asks.compare(DEFINITION, SIZE, [(drawn(), large)])
    assert emptied == [True], "what torch keeps for later was given back before the second try"
    assert not asks._exchange
    calls.clear()
    asks.compare(DEFINITION, SIZE, [(drawn(), small)])
    assert [name for name, *_ in calls][:3] == ["cuMemAlloc", "cuIpcGetMemHandle", "cuMemcpyDtoD"]


def test_nobody_there_is_the_machines_fault(tmp_path: Path) -> None:
    with pytest.raises(InfrastructureError, match="cannot be reached"):
        RemoteJudge(str(tmp_path / "nothing"), KEY)


def test_a_wrong_key_gets_no_answer_and_disturbs_nobody(served: Served) -> None:
    fake, address, _ = served
    intruder, asks = connected(address, b"x" * KEY_BYTES), connected(address)
    with pytest.raises(InfrastructureError, match="is gone"):
        intruder.expect(DEFINITION, SIZE, [drawn()])
    assert fake.asked == []
    asks.expect(DEFINITION, SIZE, [drawn()])
    assert len(fake.asked) == 1


def test_what_the_oracle_cannot_compute_is_the_machines_fault_and_frees_its_memory(served: Served) -> None:
    fake, address, _ = served
    asks = connected(address)
    with pytest.raises(InfrastructureError, match="cannot be computed: KeyError"):
        asks._ask({"op": "expect", "problem_id": "no_such_problem"})
    assert fake.forgot
    asks.expect(DEFINITION, SIZE, [drawn()])


def test_answers_that_could_not_be_foreseen_are_asked_for_again(served: Served) -> None:
    fake, address, _ = served
    fake.answers = [{"comparisons": "of the second"}, {"comparisons": "of the third"}]
    asks = connected(address)
    asks.foresee(dataclasses.replace(DEFINITION, id="no_such_problem"), SIZE, [drawn().drawing])
    asks.foresee(DEFINITION, SIZE, [drawn().drawing])
    asks.settle()
    assert len(fake.asked) == 2, "both were answered"
    assert asks._ask({"op": "expect", "problem_id": DEFINITION.id}) == {"comparisons": "of the third"}
    assert fake.forgot
    assert asks._ask({"op": "expect", "problem_id": DEFINITION.id}) == {"ready": True}


def test_an_oracle_that_ends_is_the_machines_fault(served: Served) -> None:
    _, address, here = served
    asks = connected(address)
    asks.expect(DEFINITION, SIZE, [drawn()])
    here.close()
    # It may have begun to look for requests before its parent hung up, and would answer one more.
    assert select.select([asks._channel], [], [], 60.0)[0], "it hangs up"
    with pytest.raises(InfrastructureError, match="is gone"):
        asks.expect(DEFINITION, SIZE, [drawn()])


def test_a_context_with_a_remote_judge_makes_no_answer_in_this_process(served: Served) -> None:
    fake, address, _ = served
    context = ProblemContext(DEFINITION, SIZE, CpuDevice(), (1, 2, 3), judge=connected(address))
    context.expect()
    context.expect()
    cases = [dataclasses.asdict(drawing) for drawing in context.case_drawings]
    drawings = [{"seed": seed, "case": None} for seed in (1, 2, 3)]
    assert [request["items"] for request in fake.asked] == [drawings + cases, drawings], "foreseen, and then waited for"
    assert all(reference._answer is None for reference in context.references)
    local = ProblemContext(DEFINITION, SIZE, CpuDevice(), (1, 2, 3), judge=LocalJudge())
    local.expect()
    assert all(reference._answer is not None for reference in local.references)


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", sorted(TYPES))
def test_one_pass_finds_what_many_passes_find(dtype: str) -> None:
    kind, generator = getattr(torch, dtype), torch.Generator().manual_seed(3)
    tolerance = Tolerance(atol=1e-2, rtol=1e-2, reason="a test")
    answers = []
    # More outputs than one launch takes, of several lengths.
    for number in range(ROWS + 3):
        want = 100.0 * torch.randn(1 + 5_003 * number, generator=generator, dtype=torch.float64)
        want = want if kind.is_floating_point else (want.abs() % 2 if dtype == "bool" else want.abs()).floor()
        out = want.to(kind, copy=True)
        if number % 2:
            out[number // 2] = 0 if number % 4 == 1 or not kind.is_floating_point else float("nan")
            # Beyond what the smaller types can hold.
            want[-1] = 1e300 if kind.is_floating_point else want[-1]
        answers.append(Judged([out.cuda()], [want.cuda()], tolerance))
    outputs = [answer.outputs[0] for answer in answers]
    found = all_statistics([Pair(answer.outputs[0], answer.expected[0], tolerance) for answer in answers])
    wanted = [torch_statistics(answer.outputs[0], answer.expected[0], tolerance) for answer in answers]
    assert [(f.numel, f.beyond, f.nonfinite) for f in found] == [(w.numel, w.beyond, w.nonfinite) for w in wanted]
    for one, other in zip(found, wanted, strict=True):
        assert (one.max_abs, one.max_rel) == pytest.approx((other.max_abs, other.max_rel))
    assert any(statistics.beyond for statistics in found)
    specs = [TensorSpec("y", tuple(outputs[1].shape), dtype)]
    (together,) = compare_together(answers[1:2], specs)
    assert together == compare((outputs[1],), answers[1].expected, tolerance, specs)
