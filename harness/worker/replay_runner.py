"""Replay runner: carries out plans on a GPU. Kernels reach it as data and machine code, never as Python."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kbench.harness.device.device import CudaDevice
from kbench.harness.device.driver import DriverError
from kbench.harness.device.gpu import Gpu
from kbench.harness.device.nvml import NvmlReader
from kbench.harness.isolate.protocol import Channel
from kbench.harness.verify.context import ContextCache
from kbench.harness.verify.failures import classify
from kbench.harness.verify.judge import LocalJudge, RemoteJudge
from kbench.harness.worker.execute import execute
from kbench.harness.worker.faceoff import face_off
from kbench.harness.worker.messages import task_of
from kbench.harness.worker.planned import PlannedKernel
from kbench.harness.worker.runner import PREPARING, Runner

CONTEXT_BYTES = 32 << 30
"""Inputs kept on the GPU between kernels."""


class ReplayRunner(Runner):
    """Verifies and times planned kernels, one after another in one process."""

    def __init__(self, channel: Channel, request: dict[str, Any]) -> None:
        """Make the device context.

        Raises:
            InfrastructureError: the device cannot be used, or nobody holds the answers.
        """
        gpu = Gpu.parse(request["gpu"])
        device = CudaDevice(gpu, fenced=request["fenced"])
        # Compiled now, while no kernel waits.
        assert device.scrubber is not None
        oracle = request.get("oracle")
        # With a fence all memory is torch's, which cannot be shared; nothing is timed there either.
        judge = LocalJudge() if oracle is None else RemoteJudge(oracle["address"], bytes.fromhex(oracle["key"]))
        contexts = ContextCache(device, CONTEXT_BYTES, tuple(request["seeds"]), judge)
        super().__init__(channel, request, device, NvmlReader(gpu.index), contexts)

    def operations(self) -> dict[str, Callable[[dict[str, Any]], bool]]:
        return super().operations() | {"measure": self._measure}

    def _measure(self, message: dict[str, Any]) -> bool:
        self.report(PREPARING)
        try:
            self.bench.sampler.calibrate()
        except Exception as error:  # noqa: BLE001 - no kernel is at hand yet
            self.channel.send({"broken": f"the device cannot be made ready: {error}"})
            return False
        self.report("load")
        kernels: list[PlannedKernel] = []
        try:
            for entry in message["kernels"]:
                kernels.append(PlannedKernel.read(entry["plans"], entry["code"]))
        except DriverError as error:
            status, reason = classify(error)
            self.channel.send({"loaded": False, "status": status.value, "error": reason})
            return False
        going = self.measured(lambda: self._results(kernels, message), message)
        if going:
            for kernel in kernels:
                kernel.unload()
        return going

    def _results(self, kernels: list[PlannedKernel], message: dict[str, Any]) -> list[dict[str, Any]]:
        task = task_of(message)
        if len(kernels) == 1:
            return execute(kernels[0], task, self.bench, self.report)
        return face_off(kernels, task, self.bench, self.report, float(message["threshold"]))
