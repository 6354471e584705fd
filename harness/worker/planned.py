"""Planned kernels: plans and their machine code as something that can be verified and timed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from kbench.harness.device.device import CudaDevice
from kbench.harness.device.driver import DriverError
from kbench.harness.plan.replay import LoadedCode, Replay
from kbench.harness.timing.batch import Slot
from kbench.harness.verify.context import ProblemContext
from kbench.harness.worker.execute import Bench
from kbench.schemas import from_dict
from kbench.schemas.records.launch_plan import LaunchPlan

TUNING_CALLS = 6
"""Timed calls of each configuration from which the fastest is chosen."""


class PlannedKernel:
    """A kernel's plans with its machine code loaded."""

    def __init__(self, plans: Mapping[str, Sequence[LaunchPlan]], cubins: Mapping[str, bytes]) -> None:
        """Load machine code.

        Raises:
            DriverError: the driver refuses it.
        """
        self._plans, self._code = plans, LoadedCode(cubins)

    @classmethod
    def read(cls, plans: Mapping[str, Sequence[Mapping[str, Any]]], code: Mapping[str, str]) -> PlannedKernel:
        """A kernel from checked plans as plain values and the files its machine code is in."""
        records = {name: [from_dict(LaunchPlan, plan) for plan in found] for name, found in plans.items()}
        return cls(records, {sha: Path(path).read_bytes() for sha, path in code.items()})

    def subject(self, context: ProblemContext, bench: Bench) -> Replay:
        """The plan of a problem and size; the fastest where autotuning leaves a choice.

        Raises:
            DriverError: no plan can be carried out.
        """
        device = bench.device
        assert isinstance(device, CudaDevice)
        found: list[Replay] = []
        failure: DriverError | None = None
        for plan in self._plans[context.size.name]:
            try:
                found.append(Replay(plan, self._code, context.stages, device))
            except DriverError as error:
                failure = error
        if not found:
            assert failure is not None
            raise failure
        return found[0] if len(found) == 1 else fastest(found, bench)

    def unload(self) -> None:
        """Free the machine code."""
        self._code.unload()


def fastest(replays: Sequence[Replay], bench: Bench) -> Replay:
    """The fastest replay, judged by a few calls of each."""
    best, least = replays[0], float("inf")
    for number, replay in enumerate(replays):
        label = f"configuration {number}"
        slots = [
            Slot(label, 0, lambda act=replay: act.call(0), prepare=replay.prepare)  # type: ignore[misc]
            for _ in range(TUNING_CALLS)
        ]
        bench.sampler.run(slots[:2])
        taken = sorted(sample.time_us for sample in bench.sampler.run(slots))
        bench.sampler.forget(label)
        if taken[len(taken) // 2] < least:
            best, least = replay, taken[len(taken) // 2]
    return best
