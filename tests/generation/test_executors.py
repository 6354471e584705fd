from __future__ import annotations

import dataclasses
import functools
import gc
import os
import signal
import sys
import time
import types
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from records import filled

from kbench.cli import cli, harness_compiler
from kbench.generation.campaign.campaign import Drive
from kbench.generation.campaign.drive import drive, recorded_states
from kbench.generation.executors import ray as module
from kbench.generation.executors.compiler import compiler_facts
from kbench.generation.executors.executor import Result, result_of
from kbench.generation.executors.local import LocalExecutor
from kbench.generation.executors.ray import MOST_DEATHS, RayExecutor
from kbench.generation.executors.replay import ReplayExecutor, open_recording
from kbench.generation.log import read_environments, read_log
from kbench.generation.proposers.genome.proposer import GenomeProposer
from kbench.generation.search.settings import Budget
from kbench.schemas import Backend, Environment, InfrastructureError, KernelSource, Measurement, Status
from kbench.schemas.ids import content_hash

from .conftest import PROBLEM, Recorded, measurement, searched, settings_for, ticking
from .test_explain import SOURCE as RELU

ENVIRONMENT = filled(Environment, env_id=content_hash("made up"), gpu="made up", compute_capability="9.0")


class ReplayMeasurer:
    """Stands where a harness stands and answers from the recording, newest first, so that order is not the queue's."""

    def __init__(self, recorded: Recorded, delay_s: float = 0.0, broken: bool = False) -> None:
        self.recorded, self.delay_s, self.broken, self.closed = recorded, delay_s, broken, False

    def __enter__(self) -> ReplayMeasurer:
        return self

    def __exit__(self, *error: object) -> None:
        self.closed = True

    def environment(self) -> Environment:
        return ENVIRONMENT

    def second_clock(self, *asked: object) -> Iterator[tuple[str, str]]:
        yield from ()

    duels = second_clock

    def measure(
        self, kernels: Iterable[KernelSource | None], *, on_lost: Callable[[KernelSource, str], None]
    ) -> Iterator[Measurement]:
        waiting: list[KernelSource] = []
        for kernel in kernels:
            if kernel is not None:
                waiting.append(kernel)
                continue
            yield from self._answers(waiting, on_lost)
            waiting = []
            time.sleep(0.001)
        yield from self._answers(waiting, on_lost)

    def _answers(
        self, kernels: list[KernelSource], on_lost: Callable[[KernelSource, str], None]
    ) -> Iterator[Measurement]:
        for kernel in reversed(kernels):
            time.sleep(self.delay_s)
            if self.broken:
                raise OSError("the bus is gone")
            if kernel.kernel_id in self.recorded:
                yield from self.recorded[kernel.kernel_id]
            else:
                on_lost(kernel, "not recorded")


def local(recorded: Recorded, **more: object) -> tuple[LocalExecutor, ReplayMeasurer]:
    measurer = ReplayMeasurer(recorded, **more)
    return LocalExecutor(lambda: measurer, lambda problem_id: 1), measurer


def test_results_come_in_any_order(tmp_path: Path, how: Drive, proposer: GenomeProposer, recorded: Recorded) -> None:
    settings = settings_for("puct")
    drive(tmp_path / "replay", [settings], how)
    executor, measurer = local(recorded)
    drive(tmp_path / "local", [settings], Drive(executor=executor, clock=ticking, proposer_for=lambda s: proposer))
    one, two = (recorded_states(tmp_path / name)[settings.run_id] for name in ("replay", "local"))
    assert one.nodes == two.nodes
    assert measurer.closed


def test_a_deadline_stops_a_search_in_time(run_folder: Path, proposer: GenomeProposer, recorded: Recorded) -> None:
    executor, _ = local(recorded, delay_s=0.02)
    settings = settings_for("random", budget=Budget(measurements=400))
    began = time.monotonic()
    progress = drive(run_folder, [settings], Drive(executor=executor, deadline_s=0.6, proposer_for=lambda s: proposer))
    assert time.monotonic() - began < 4
    (state,) = recorded_states(run_folder).values()
    assert 0 < state.charge.measurements < 400
    assert state.charge.measurements == progress.measured


def test_kernels_lost_by_the_machine_are_logged(run_folder: Path, proposer: GenomeProposer, recorded: Recorded) -> None:
    some = {key: rows for number, (key, rows) in enumerate(recorded.items()) if number % 2}
    executor, _ = local(some)
    settings = settings_for("random", budget=Budget(measurements=12))
    progress = drive(run_folder, [settings], Drive(executor=executor, proposer_for=lambda s: proposer))
    (state,) = recorded_states(run_folder).values()
    lost = [node for node in state.nodes.values() if node.lost]
    assert state.charge.measurements == 12
    assert len(lost) == progress.lost > 0
    assert {node.lost for node in lost} == {"not recorded"}


def test_a_broken_harness_ends_the_command(run_folder: Path, proposer: GenomeProposer, recorded: Recorded) -> None:
    executor, _ = local(recorded, broken=True)
    with pytest.raises(InfrastructureError, match="the bus is gone"):
        drive(run_folder, [settings_for("random")], Drive(executor=executor, proposer_for=lambda s: proposer))
    assert [entry.kind for entry in read_log(run_folder)][:2] == ["run_started", "step_started"]


class Flaky(ReplayExecutor):
    """Loses every kernel the first time."""

    def __init__(self, recorded: Recorded) -> None:
        super().__init__(recorded)
        self.seen: set[str] = set()

    def _result(self, key: str) -> Result:
        if key in self.seen:
            return super()._result(key)
        self.seen.add(key)
        return Result(key, lost="hiccup")


def test_what_the_machine_loses_once_is_tried_again(run_folder: Path, how: Drive, recorded: Recorded) -> None:
    state = searched(run_folder, settings_for("random"), dataclasses.replace(how, executor=Flaky(recorded)))
    assert not [node for node in state.nodes.values() if node.lost]
    assert state.charge.measurements == 24


def test_an_infrastructure_error_never_becomes_a_verdict() -> None:
    row = dataclasses.replace(
        measurement("0" * 32, PROBLEM, Status.OK, 1.0), status=Status.INFRASTRUCTURE_ERROR, error="off"
    )
    assert result_of("0" * 32, [row]) == Result("0" * 32, lost="off")


def test_a_log_serves_as_a_recording(run_folder: Path, how: Drive) -> None:
    state = searched(run_folder, settings_for("random"), how)
    texts = [*(node.source for node in state.nodes.values()), "unknown"]
    executor = open_recording(run_folder)
    executor.submit([KernelSource(PROBLEM, Backend.TRITON, text) for text in texts])
    *known, unknown = executor.collect(0)
    assert sum(bool(result.measurements) for result in known) == len(known) == 24
    assert unknown.lost == "not among the recorded measurements"


class DyingMeasurer(ReplayMeasurer):
    """Ends its whole process on the first batch it is given, once. Every process is an environment of its own."""

    def __init__(self, recorded: Recorded, mark: str) -> None:
        super().__init__(recorded, delay_s=0.01)
        self.mark = mark

    def environment(self) -> Environment:
        return dataclasses.replace(ENVIRONMENT, env_id=content_hash(str(os.getpid())))

    def measure(
        self, kernels: Iterable[KernelSource | None], *, on_lost: Callable[[KernelSource, str], None]
    ) -> Iterator[Measurement]:
        try:
            os.close(os.open(self.mark, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            here = self.environment().env_id
            for measurement in super().measure(kernels, on_lost=on_lost):
                yield dataclasses.replace(measurement, env_id=here)
            return
        os.kill(os.getpid(), signal.SIGKILL)


def start_ray(tries: int = 8) -> None:
    """Start Ray; a busy machine may exceed the half minute that Ray gives a node, which nobody can change."""
    import ray

    for left in reversed(range(tries)):
        try:
            ray.init(
                "local", num_cpus=2, num_gpus=0, include_dashboard=False, log_to_driver=False, logging_level="ERROR"
            )
        except Exception as error:
            if left == 0 or "timed out during startup" not in str(error):
                raise
        else:
            return
        # Now, while warnings are ignored about what it has left running.
        gc.collect()


@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::ResourceWarning", "ignore::DeprecationWarning")
def test_ray_survives_a_killed_worker_and_finds_what_replay_finds(
    tmp_path: Path, how: Drive, proposer: GenomeProposer, recorded: Recorded,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    import ray

    from kbench.generation.executors.ray import RayExecutor

    root = Path(__file__).parents[2]
    monkeypatch.setenv("PYTHONPATH", str(root / "src"))
    ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])  # actors cannot import the tests
    start_ray()
    try:
        maker = functools.partial(DyingMeasurer, recorded, str(tmp_path / "died"))
        executor = RayExecutor(maker, actors=2, gpus_each=0)
        settings = settings_for("evolve", batch=16, seeds=16, budget=Budget(measurements=48))
        search = Drive(executor=executor, clock=ticking, proposer_for=lambda s: proposer)
        drive(tmp_path / "ray", [settings], search)
    finally:
        ray.shutdown()
    drive(tmp_path / "replay", [settings], how)
    one, two = (recorded_states(tmp_path / name)[settings.run_id] for name in ("replay", "ray"))
    assert executor.lost_actors == 1
    assert one.nodes == two.nodes
    rows = [row for e in read_log(tmp_path / "ray") if e.kind == "kernel_measured" for row in e.payload["measurements"]]
    measured_in = {row["env_id"] for row in rows}
    assert len(measured_in) == 2
    assert measured_in <= {environment.env_id for environment in read_environments(tmp_path / "ray")}


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
        here = types.SimpleNamespace(env_id="e")
        return here, [Result(kernel.kernel_id, lost="measured") for kernel in ref[1]]

    def nodes(self) -> list[dict[str, bool]]:
        return [{"Alive": self.alive}]

    def kill(self, actor: Any) -> None:
        return


def test_a_kernel_that_ends_its_actors_is_lost_and_the_others_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    ray = FakeRay()
    monkeypatch.setattr(module, "_ray", lambda: ray)
    kernels = [KernelSource("relu", Backend.TRITON, f"{'die' if n == 5 else 'live'} {n}") for n in range(40)]
    with RayExecutor(lambda: None, actors=2) as executor:
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
    with RayExecutor(lambda: None, actors=2) as executor:
        executor.submit([KernelSource("relu", Backend.TRITON, "live")])
        ray.silent = True
        if fault == "no answer":
            import threading

            monkeypatch.setattr(ray, "nodes", lambda: threading.Event().wait(5))
        if fault == "an error":
            monkeypatch.setattr(ray, "wait", lambda *_, **__: (_ for _ in ()).throw(SystemDownError("down")))
        with pytest.raises(InfrastructureError, match=r"the Ray cluster is gone .* goes on from its log"):
            executor.collect(0.0)


def test_resources_come_from_a_build_and_not_from_running(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KBENCH_CACHE", str(tmp_path))
    kept = "__shared__ float kept[256]; kept[threadIdx.x] = x[i]; __syncthreads(); float v = kept[255 - threadIdx.x];"
    source = RELU.replace("float v = x[i];", kept)
    changed = (source, source.replace("fmaxf(", "no_such_function("), source.replace("return y", "return y.cpu()"))
    kernels = [KernelSource(problem_id="relu", backend=Backend.CUDA, source=text) for text in changed]
    built, failed, unplannable = compiler_facts(kernels, "9.0")
    assert built.shared_bytes >= 1024
    assert 0 < built.registers < 64
    assert (failed, unplannable) == (None, None)


def test_commands_that_ask_surrogates_get_the_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def compiler(kernels: Sequence[KernelSource], capability: str) -> list[None]:
        asked.append(capability)
        return [None] * len(kernels)

    monkeypatch.setattr("kbench.generation.executors.compiler.compiler_facts", compiler)
    context = cli.make_context("kbench", ["evaluate"], resilient_parsing=True)
    assert context.obj is harness_compiler
    assert harness_compiler([], "9.0") == []
    assert asked == ["9.0"]
