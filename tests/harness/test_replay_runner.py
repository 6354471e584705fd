"""Planned kernels on a full device: memory kept for other kernels is given up before one is blamed."""

import weakref
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch

from kbench.harness.device.device import CudaDevice
from kbench.harness.device.driver import DriverError
from kbench.harness.worker import replay_runner
from kbench.harness.worker.replay_runner import TUNING_CALLS, PlannedKernel, ReplayRunner


class Full:
    """Stands for contexts on a device that is full until they are given up."""

    def __init__(self, *, enough: bool) -> None:
        self.free, self.enough, self.asked = False, enough, 0

    def keep_only(self, context: Any) -> None:
        self.free, self.asked = self.enough, self.asked + 1


class Sampler:
    """Stands for a clock: a replay of the plan 7.0 takes 7 microseconds."""

    def __init__(self) -> None:
        self.forgotten: list[str] = []

    def run(self, slots: list[Any]) -> list[Any]:
        assert 2 <= len(slots) <= TUNING_CALLS
        return [SimpleNamespace(time_us=slot.call()) for slot in slots]

    def forget(self, label: str) -> None:
        self.forgotten.append(label)


class Memory:
    """Stands for replays: some cannot be made, and the device has room for few at a time."""

    def __init__(self, room: int, refused: tuple[float, ...] = ()) -> None:
        self.room, self.refused = room, refused
        self.replays: weakref.WeakSet[Any] = weakref.WeakSet()
        self.most = 0

    def __call__(self, plan: float, *given: Any) -> Any:
        memory = self

        class Replay:
            """Has its memory as long as it exists."""

            sets = 2

            def __init__(self) -> None:
                self.plan = plan
                if len(memory.replays) == memory.room:
                    raise torch.OutOfMemoryError("CUDA out of memory")
                memory.replays.add(self)
                memory.most = max(memory.most, len(memory.replays))
                if plan in memory.refused:
                    raise DriverError(f"no function in {plan}")

            def call(self, set_number: int) -> float:
                return self.plan

            def prepare(self, set_number: int) -> None:
                """Nothing was left."""

        return Replay()


def subject(make: Callable[..., Any], contexts: Any, monkeypatch: pytest.MonkeyPatch, *plans: float) -> Any:
    """What is replayed of a kernel with these plans."""
    monkeypatch.setattr(replay_runner, "Replay", make)
    kernel = PlannedKernel.__new__(PlannedKernel)
    kernel._plans, kernel._code = {"large": cast("Any", plans)}, cast("Any", None)
    bench = SimpleNamespace(device=CudaDevice.__new__(CudaDevice), contexts=contexts, sampler=Sampler())
    context = SimpleNamespace(size=SimpleNamespace(name="large"), sets=[])
    return kernel.subject(cast("Any", context), cast("Any", bench))


def planned(contexts: Full, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The subject of a kernel with one plan."""

    def replay(*given: Any) -> str:
        if not contexts.free:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return "replay"

    return subject(replay, contexts, monkeypatch, 1.0)


def test_a_full_device_gives_up_what_is_kept_for_other_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    contexts = Full(enough=True)
    assert planned(contexts, monkeypatch) == "replay"
    assert contexts.asked == 1


def test_a_kernel_larger_than_the_device_fails_for_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(torch.OutOfMemoryError):
        planned(Full(enough=False), monkeypatch)


def test_the_fastest_configuration_is_found_with_memory_for_one(monkeypatch: pytest.MonkeyPatch) -> None:
    memory = Memory(room=1)
    found = subject(memory, Full(enough=True), monkeypatch, 5.0, 3.0, 4.0, 3.5)
    assert found.plan == 3.0
    assert list(memory.replays) == [found]


def test_a_configuration_the_driver_refuses_is_left_out_with_its_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    memory = Memory(room=1, refused=(1.0, 2.0))
    assert subject(memory, Full(enough=True), monkeypatch, 1.0, 5.0, 2.0, 4.0).plan == 4.0
    assert memory.most == 1


def test_a_kernel_none_of_whose_configurations_the_driver_takes_fails_as_the_last(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(DriverError, match=r"no function in 2\.0"):
        subject(Memory(room=1, refused=(1.0, 2.0)), Full(enough=True), monkeypatch, 1.0, 2.0)


def test_a_second_attempt_does_not_pay_for_the_memory_of_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    memory, contexts = Memory(room=1), Full(enough=True)

    def make(plan: float, *given: Any) -> Any:
        made = memory(plan)
        if not contexts.free:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return made

    assert subject(make, contexts, monkeypatch, 5.0, 3.0).plan == 3.0
    assert contexts.asked == 1


@pytest.fixture
def runner() -> tuple[ReplayRunner, list[dict[str, Any]]]:
    """A runner that can do nothing but load, and what it sends."""
    made, sent = ReplayRunner.__new__(ReplayRunner), cast("list[dict[str, Any]]", [])
    made.channel = cast("Any", SimpleNamespace(send=sent.append))
    made.bench = cast("Any", SimpleNamespace(sampler=SimpleNamespace(calibrate=lambda: None)))
    return made, sent


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (DriverError("CUDA_ERROR_INVALID_IMAGE"), {"loaded": False, "status": "launch_error"}),
        (torch.OutOfMemoryError("CUDA out of memory"), {"poisoned": True, "status": "out_of_memory"}),
    ],
)
def test_machine_code_that_cannot_be_loaded_is_a_verdict(
    error: Exception,
    said: dict[str, Any],
    runner: tuple[ReplayRunner, list[dict[str, Any]]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def load(cubins: Any) -> Any:
        raise error

    monkeypatch.setattr(replay_runner, "LoadedCode", load)
    made, sent = runner
    assert made.answer({"op": "measure", "kernels": [{"plans": {}, "code": {}}]}) is False
    assert sent[-1] == said | {"error": f"{type(error).__name__}: {error}"}
