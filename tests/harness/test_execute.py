"""Execute: references and their steady times, kernels that hold them up, whose fault a failure is, checks."""

import contextlib
from collections.abc import Callable
from typing import Any

import pytest
import torch

from kbench.benchmark.problems import problem
from kbench.harness.audit.audit import Auditor
from kbench.harness.bench.context import ContextCache, ProblemContext
from kbench.harness.bench.judge import LocalJudge
from kbench.harness.bench.subject import ProcessSubject
from kbench.harness.device.device import CpuDevice
from kbench.harness.device.environment import ConditionsReader
from kbench.harness.queue.device_queue import machines_stage
from kbench.harness.queue.job import Job
from kbench.harness.timing.batch import Sampler
from kbench.harness.timing.rounds import TimingSettings
from kbench.harness.verify import Verdict
from kbench.harness.worker import execute as execute_module
from kbench.harness.worker.execute import (
    Bench,
    MeasureTask,
    PoisonedError,
    execute,
    held_up,
    make_context,
    verify_kernel,
)
from kbench.harness.worker.runner import PREPARING
from kbench.schemas import Backend, InfrastructureError, KernelSource

TASK = MeasureTask("relu", TimingSettings(), 0, workloads=("tiny",))


@pytest.fixture
def bench() -> Bench:
    device = CpuDevice()
    return Bench(device, ContextCache(device, 1 << 30, (1, 2, 3)), Sampler(device), ConditionsReader())


def executed(run: Callable[..., Any], bench: Bench) -> dict[str, Any]:
    """The only result of a kernel on the tiny workload."""
    (found,) = execute(Runs(run), TASK, bench, list[str]().append)
    return found


@pytest.mark.parametrize(("failures", "made"), [(1, True), (2, False)])
def test_inputs_kept_for_other_kernels_make_room_for_a_context(
    bench: Bench, failures: int, made: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_context(bench, "gelu_tanh", problem("gelu_tanh").tiny, list[str]().append)
    held: list[int] = []

    def expect(context: ProblemContext) -> None:
        held.append(len(bench.contexts._held))
        if len(held) <= failures:
            raise torch.OutOfMemoryError("no memory is left")

    monkeypatch.setattr(ProblemContext, "expect", expect)
    with contextlib.nullcontext() if made else pytest.raises(InfrastructureError, match="context of softmax tiny"):
        make_context(bench, "softmax", problem("softmax").tiny, list[str]().append)
    assert held == [2, 1]


@pytest.mark.parametrize(
    ("beside_us", "without_us", "rejected"),
    [(130.0, 131.0, False), (25.7, 12.9, True), (5.9, 5.0, False), (300.0, None, False), (None, 12.9, False)],
    ids=["as before", "twice as long", "a microsecond", "nothing known", "not timed"],
)
def test_a_kernel_that_holds_the_reference_up_is_given_away_by_it(
    beside_us: float | None, without_us: float | None, rejected: bool
) -> None:
    reason = held_up(beside_us, without_us)
    assert (reason is not None) == rejected
    assert reason is None or reason == "the reference takes 25.7 us beside it and 12.9 us without it"


def test_the_steady_time_of_a_reference_is_the_first_one_taken(bench: Bench) -> None:
    tiny, stages = problem("gelu_tanh").tiny, list[str]()
    context = make_context(bench, "gelu_tanh", tiny, stages.append)
    assert bench.undisturbed_us == {}
    assert make_context(bench, "gelu_tanh", tiny, stages.append, timed=True) is context
    ((workload, undisturbed_us),) = bench.undisturbed_us.items()
    assert workload == ("gelu_tanh", "tiny")
    assert context.anchor_us == undisturbed_us > 0.0
    assert stages == ["context", "context"]
    context.references[0].inputs[0][0] += 1
    again = make_context(bench, "gelu_tanh", tiny, stages.append, timed=True)
    assert again is not context, "it was damaged"
    assert bench.undisturbed_us[workload] == undisturbed_us, "what came first counts"


@pytest.mark.parametrize(
    ("owner", "name", "value", "reason"),
    [
        # As if it were a GPU, where nothing but the kernel slows the reference.
        (execute_module, "held_up", lambda beside_us, undisturbed_us: f"slow: {beside_us is not None}", "slow: True"),
        (Auditor, "unseen_us", 500.0, "500 us more per batch than its time stamps account for"),
    ],
)
def test_a_kernel_beside_a_slow_reference_or_a_late_host_is_tried_in_another_process(
    monkeypatch: pytest.MonkeyPatch, bench: Bench, owner: object, name: str, value: object, reason: str
) -> None:
    monkeypatch.setattr(owner, name, value)
    with pytest.raises(PoisonedError, match=reason):
        executed(torch.relu, bench)


def test_the_reference_has_its_steady_time_before_a_kernel_has_memory_or_work_there(bench: Bench) -> None:
    known: list[bool] = []

    class Looks(Runs):
        def subject(self, context: ProblemContext, bench: Bench) -> ProcessSubject:
            known.append(context.anchor_us is not None)
            return super().subject(context, bench)

    (found,) = execute(Looks(torch.relu), TASK, bench, list[str]().append)
    assert found["status"] == "ok"
    assert known == [False, True], "where it is verified first, nothing is timed"


def test_held_out_inputs_for_the_next_kernel_are_hidden_as_soon_as_one_is_timed(
    monkeypatch: pytest.MonkeyPatch, bench: Bench
) -> None:
    monkeypatch.setattr(ProcessSubject, "owned", True)
    monkeypatch.setattr(ProcessSubject, "not_restored", [])
    drawings = set()
    for _ in range(3):
        assert executed(lambda x: (torch.relu(x),), bench)["status"] == "ok"
        (context,) = bench.contexts._held.values()
        shared = context._shared
        assert shared.hidden
        assert all(buffers.holds is not shared for buffers in context.sets)
        drawings.add(shared.drawing)
    assert len(drawings) == 1, "all three were shown the same"


def test_a_reference_that_others_slow_down_on_a_cpu_gives_no_kernel_away(bench: Bench) -> None:
    bench.undisturbed_us["relu", "tiny"] = 1e-3
    assert executed(torch.relu, bench)["status"] == "ok"


@pytest.mark.parametrize(
    ("stage", "process", "machines"),
    [
        (PREPARING, False, True),
        (PREPARING, True, True),
        ("context", False, True),
        ("context", True, False),
        ("load", True, False),
        ("time large", False, False),
    ],
)
def test_no_kernel_is_blamed_before_it_is_loaded(stage: str, process: bool, machines: bool) -> None:
    kernel = KernelSource("gelu_tanh", Backend.TRITON, "")
    assert machines_stage(Job(0, kernel, {}, process=process, stage=stage)) == machines


WORKLOAD = "kb_v0"


class Runs:
    """A kernel that is a function of this process."""

    def __init__(self, run: Callable[..., Any]) -> None:
        self._run = run

    def subject(self, context: ProblemContext, bench: Bench) -> ProcessSubject:
        return ProcessSubject(self._run, context)


def checked(kernel: Callable[..., Any], *, gpu: bool) -> tuple[list[dict[str, Any]], list[str]]:
    """What a check finds, and the stages it went through, on a device that says whether it is a GPU."""
    device, stages = CpuDevice(), list[str]()
    device.is_gpu = gpu
    bench = Bench(device, ContextCache(device, 1 << 32, (1, 2, 3)), Sampler(device), ConditionsReader())
    task = MeasureTask("relu", TimingSettings(), 0, check_only=True, workloads=(WORKLOAD,))
    return execute(Runs(kernel), task, bench, stages.append), stages


def test_a_check_on_a_gpu_verifies_every_workload_and_times_none() -> None:
    found, stages = checked(torch.relu, gpu=True)
    assert [(one["workload"], one["status"]) for one in found] == [("tiny", "ok"), (WORKLOAD, "ok")]
    assert all(one.keys().isdisjoint({"runtime_us", "samples_us"}) for one in found)
    assert [stage for stage in stages if stage != "context"] == ["verify tiny", f"verify {WORKLOAD}"]
    assert [one["workload"] for one in checked(torch.relu, gpu=False)[0]] == ["tiny"]


def test_a_kernel_that_is_wrong_on_the_tiny_workload_is_called_on_no_other() -> None:
    found, stages = checked(torch.exp, gpu=True)
    assert {one["status"] for one in found} == {"incorrect"}
    assert [one["workload"] for one in found] == ["tiny", WORKLOAD]
    assert [stage for stage in stages if stage != "context"] == ["verify tiny"]


@pytest.mark.parametrize(("count", "check_only"), [(2, False), (1, False), (2, True)], ids=["timed", "tiny", "checked"])
def test_an_answer_is_foreseen_once_a_subject_is_made_and_nobody_computes_when_it_has_failed(
    count: int, check_only: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[str] = []

    class Failing:
        owned = True

        def prepare(self, set_number: int, **settings: bool) -> None:
            raise RuntimeError("no memory")

    class Kernel:
        def subject(self, context: Any, bench: Any) -> Any:
            steps.append("subject")
            return Failing()

    context = ProblemContext(problem("gelu_tanh"), problem("gelu_tanh").tiny, CpuDevice(), (1, 2, 3))
    monkeypatch.setattr(LocalJudge, "foresee", lambda *_: steps.append("foresee"))
    monkeypatch.setattr(LocalJudge, "settle", lambda _: steps.append("settle"))
    task = MeasureTask("gelu_tanh", TimingSettings(), 1, check_only=check_only)
    bench: Any = None
    with pytest.raises(RuntimeError, match="no memory"):
        verify_kernel(Kernel(), context, task, bench, lambda stage: None, Verdict(), count)
    foreseen = ["foresee"] if count > 1 and not check_only else []
    assert steps == ["subject", *foreseen, "settle"]
