"""A cluster that loses actors, or is lost itself, as a stand-in that needs no Ray."""

from __future__ import annotations

import types
from typing import Any

import pytest

from kbench.generation.executors import ray as module
from kbench.generation.executors.executor import Result
from kbench.generation.executors.ray import MOST_DEATHS, RayExecutor
from kbench.schemas import Backend, InfrastructureError, KernelSource


class ActorError(Exception):
    pass


class SystemDownError(Exception):
    pass


class FakeActor:
    """Its calls are references that are looked at by `get`."""

    def __init__(self) -> None:
        self.measure = types.SimpleNamespace(remote=lambda batch: ("measured", tuple(batch), object()))
        self.environment = types.SimpleNamespace(remote=lambda: ("environment", (), object()))


class FakeRay:
    """Enough of Ray for an executor; a kernel with `die` in its text ends its actor."""

    exceptions = types.SimpleNamespace(
        RayActorError=ActorError, RayTaskError=KeyError, RaySystemError=SystemDownError, RayError=Exception
    )

    def __init__(self, alive: bool = True) -> None:
        self.alive, self.silent = alive, False

    def is_initialized(self) -> bool:
        return True

    def remote(self, cls: type) -> Any:
        return types.SimpleNamespace(options=lambda **_: types.SimpleNamespace(remote=lambda make: FakeActor()))

    def wait(self, refs: list[Any], num_returns: int, timeout: float) -> tuple[list[Any], list[Any]]:
        return ([], refs) if self.silent else (refs[:num_returns], refs[num_returns:])

    def get(self, ref: Any) -> Any:
        if ref[0] == "environment":
            return types.SimpleNamespace(env_id="e")
        if any("die" in kernel.source for kernel in ref[1]):
            raise ActorError
        return [Result(kernel.kernel_id, lost="measured") for kernel in ref[1]]

    def nodes(self) -> list[dict[str, bool]]:
        return [{"Alive": self.alive}]

    def kill(self, actor: Any) -> None:
        return


def test_a_kernel_that_ends_its_actors_is_lost_and_the_others_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    ray = FakeRay()
    monkeypatch.setattr(module, "_ray", lambda: ray)
    kernels = [KernelSource("relu", Backend.TRITON, f"{'die' if n == 5 else 'live'} {n}") for n in range(40)]
    with RayExecutor(lambda: None, actors=2) as executor:  # type: ignore[arg-type, return-value]
        executor.submit(kernels)
        found: list[Result] = []
        while len(found) < len(kernels):
            found += executor.collect(0.0)
        assert executor.lost_actors == MOST_DEATHS
    final = [result for result in found if result.final]
    assert [result.kernel_id for result in final] == [kernels[5].kernel_id]
    assert sorted(result.kernel_id for result in found) == sorted(kernel.kernel_id for kernel in kernels)


@pytest.mark.parametrize("fault", ["no node", "no answer", "an error"])
def test_a_cluster_that_is_gone_ends_the_run_with_a_message(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    ray = FakeRay(alive=fault != "no node")
    monkeypatch.setattr(module, "_ray", lambda: ray)
    monkeypatch.setattr(module, "SILENCE_S", 0.0)
    monkeypatch.setattr(module, "ANSWER_S", 0.2)
    with RayExecutor(lambda: None, actors=2) as executor:  # type: ignore[arg-type, return-value]
        executor.submit([KernelSource("relu", Backend.TRITON, "live")])
        ray.silent = True
        if fault == "no answer":
            import threading

            monkeypatch.setattr(ray, "nodes", lambda: threading.Event().wait(5))
        if fault == "an error":
            monkeypatch.setattr(ray, "wait", lambda *_, **__: (_ for _ in ()).throw(SystemDownError("down")))
        with pytest.raises(InfrastructureError, match=r"the Ray cluster is gone .* goes on from its log"):
            executor.collect(0.0)
