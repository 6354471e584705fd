"""KernelJudge: one kernel in, one verdict out, as `kbench.benchmark.rewards.judged` takes it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

from kbench.harness.commands.measure import verified
from kbench.harness.harness import GpuChoice, Harness
from kbench.harness.record import Aggregate, aggregate
from kbench.schemas import KernelSource


class KernelJudge:
    """Verifies and times kernels one at a time, from whatever thread they come; without a GPU it checks them."""

    def __init__(self, gpu: GpuChoice | None = 0, **settings: Any) -> None:
        """Prepare to judge; workers start with the first kernel and end with the process.

        Args:
            gpu: the GPU to measure on, as `Harness` takes it. None checks without one: Triton kernels run through the
                interpreter on the tiny workload, CUDA kernels are compiled, and nothing has a speedup.
            **settings: of the harness.
        """
        self._harness = Harness(gpu, **settings)
        # One thread for good: two kernels timed at once would disturb each other.
        self._thread = ThreadPoolExecutor(1, "kernel-judge")

    def __call__(self, kernel: KernelSource) -> Aggregate:
        """The verdict over all workloads.

        Raises:
            InfrastructureError: the machine failed; that says nothing about the kernel.
        """
        return self._thread.submit(self._verdict, kernel).result()

    def _verdict(self, kernel: KernelSource) -> Aggregate:
        dry = self._harness.gpus == (None,)
        return aggregate(list((verified if dry else Harness.measure)(self._harness, [kernel])))

    def close(self) -> None:
        """End the workers."""
        self._thread.submit(self._harness.close).result()
        self._thread.shutdown()
