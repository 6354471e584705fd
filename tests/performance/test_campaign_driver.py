import random
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from records import filled

from kbench.generation.campaign.campaign import Drive
from kbench.generation.campaign.drive import drive
from kbench.generation.campaign.plan import CampaignSpec, runs_of
from kbench.generation.executors.executor import Result
from kbench.generation.executors.replay import ReplayExecutor
from kbench.schemas import KernelSource, Measurement, Status
from kbench.schemas.ids import content_hash

LEAST_PER_CPU_SECOND = 25.0

pytestmark = pytest.mark.performance


class Invented(ReplayExecutor):
    """Answers at once with invented verdicts: what remains is the driver's own work."""

    def __init__(self) -> None:
        super().__init__({})
        self.waiting: list[KernelSource] = []

    def submit(self, kernels: Sequence[KernelSource]) -> None:
        self.waiting.extend(kernels)

    def collect(self, timeout_s: float) -> list[Result]:
        done, self.waiting = self.waiting[:40], self.waiting[40:]
        return [Result(kernel.kernel_id, (_invented(kernel),)) for kernel in done]


def _invented(kernel: KernelSource) -> Measurement:
    speedup = 2 ** random.Random(kernel.kernel_id).gauss(0, 0.5)
    return filled(
        Measurement, like=kernel, measurement_id=content_hash(kernel.kernel_id), gpu="none", workload="all",
        env_id=content_hash("none"), status=Status.OK, runtime_us=1 / speedup, runtime_low_us=0.99 / speedup,
        runtime_high_us=1.01 / speedup, speedup=speedup, speedup_low=0.99 * speedup, speedup_high=1.01 * speedup,
        samples_us=(1.0,) * 40, anchor_us=(1.0,) * 40, build_s=0.0, verify_s=0.0, time_s=0.0,
    )  # fmt: skip


def test_the_driver_keeps_ahead_of_the_gpu(tmp_path: Path) -> None:
    runs, _ = runs_of(CampaignSpec(problems=["softmax", "matmul_square", "swiglu"]))
    began = time.process_time()
    progress = drive(tmp_path, runs, Drive(executor=Invented()))
    assert progress.measured / (time.process_time() - began) > LEAST_PER_CPU_SECOND
