"""Inputs on the CPU; planning in the test's own process, with one cache of compiled kernels for the whole run."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from kbench.benchmark.problems import problem
from kbench.harness.bench.context import ProblemContext
from kbench.harness.device.device import CpuDevice
from kbench.harness.device.target import H200, DeviceFacts, Target
from kbench.harness.isolate import sandbox
from kbench.harness.plan.accept import accept
from kbench.harness.plan.cache import Build
from kbench.harness.plan.planner import Planned, plan_kernel
from kbench.schemas import KernelSource

SM_90 = Target(9, 0)


@pytest.fixture
def context() -> ProblemContext:
    """What kernels of gelu_tanh share on the tiny size."""
    definition = problem("gelu_tanh")
    made = ProblemContext(definition, definition.tiny, CpuDevice(), (1, 2, 3))
    made.reset()
    return made


@pytest.fixture(scope="session")
def triton_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("triton")


@pytest.fixture
def plan(triton_cache: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Planned]:
    """Plans a kernel."""
    monkeypatch.setenv("TRITON_CACHE_DIR", str(triton_cache))
    for name, value in sandbox.environment().items():
        if name.startswith("TRITON"):
            monkeypatch.setenv(name, value)

    def planned(
        kernel: KernelSource,
        target: Target = SM_90,
        *,
        count_work: bool = False,
        cache: Path | None = None,
        facts: DeviceFacts = H200,
    ) -> Planned:
        return plan_kernel(kernel, target, facts, cache or triton_cache, count_work=count_work)

    return planned


@pytest.fixture
def build(plan: Callable[..., Planned]) -> Callable[..., tuple[Build, dict[str, bytes]]]:
    """Plans a kernel and has the parent accept what it would be sent."""

    def built(kernel: KernelSource, target: Target = SM_90) -> tuple[Build, dict[str, bytes]]:
        message = json.loads(json.dumps(plan(kernel, target).message()))
        return accept(message, "build", kernel, target, 1.0)

    return built
