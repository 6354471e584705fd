"""Harnesses that measure nothing."""

from collections.abc import Iterable, Iterator
from typing import Any, Self

from kbench.harness.device.environment import make_environment
from kbench.harness.record import make_measurement
from kbench.schemas import Environment, KernelSource, Measurement

FACTS: dict[str, Any] = {
    "compute_capability": "9.0", "sm_count": 64, "memory_bytes": 1, "l2_bytes": 1, "shared_bytes_per_block": 1,
    "driver": "580", "cuda": "13.0",
}  # fmt: skip
"""Of a device, but for its name."""


def environment_of(gpu: str) -> Environment:
    """The environment of measurements on this GPU."""
    return make_environment(FACTS | {"gpu": gpu}, "none", None)


def found_wrong(kernel: KernelSource, gpu: str) -> Measurement:
    """A row of a kernel whose output is wrong."""
    where = {"gpu": gpu, "env_id": environment_of(gpu).env_id, "started_at": "2026-01-01T00:00:00+00:00"}
    result = {"workload": "large", "status": "incorrect", "error": "wrong"}
    return make_measurement(kernel, None, result, build_s=0.0, **where)


class StandIn:
    """What commands need of a harness, which finds every kernel wrong."""

    gpus = (0,)

    def __init__(self, gpu: str, fails: str | None = None) -> None:
        """Say that this GPU was measured on; the machine fails the kernels of a problem."""
        self.gpu, self.fails, self.asked = gpu, fails, 0

    def measure(self, kernels: Iterable[KernelSource], on_lost: Any, fragile: Any) -> Iterator[Measurement]:
        """One row for each kernel."""
        self.fragile = fragile
        for kernel in kernels:
            self.asked += 1
            if kernel.problem_id == self.fails:
                on_lost(kernel, "no nvcc was found")
            else:
                yield found_wrong(kernel, self.gpu)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        return None

    def environment(self, lane: int) -> Environment:
        """The same for all."""
        return environment_of(self.gpu)
