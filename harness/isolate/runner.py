"""Runner: the half of a run worker that holds the device."""

from __future__ import annotations

import dataclasses
import os
import time
from pathlib import Path
from typing import Any

from kbench.harness.build.cache import Build, BuildCache
from kbench.harness.cuda import CudaModule
from kbench.harness.device.ceilings import measure_ceilings
from kbench.harness.device.context import ContextCache
from kbench.harness.device.device import CpuDevice, CudaDevice, Device
from kbench.harness.device.floor import Ceilings
from kbench.harness.device.nvml import ConditionsReader, NoConditions, NvmlReader
from kbench.harness.isolate.execute import Bench, PoisonedError, Task, execute, time_references
from kbench.harness.isolate.mounts import freeze_files
from kbench.harness.isolate.pristine import Pristine
from kbench.harness.isolate.protocol import Channel
from kbench.harness.isolate.sandbox import limit_growth
from kbench.harness.isolate.seccomp import lock_down
from kbench.harness.isolate.set_aside import SetAside
from kbench.harness.isolate.switches import Switches
from kbench.harness.isolate.worker import CONTEXT_BYTES, CPU_CONTEXT_BYTES, PREPARING, kernel_of, task_of
from kbench.harness.kernel.loading import LoadedKernel, LoadError
from kbench.harness.timing.batch import Sampler
from kbench.harness.timing.faceoff import face_off
from kbench.schemas import InfrastructureError, Status

GPU_WORKER_BYTES, CPU_WORKER_BYTES = 32 << 30, 2 << 30
"""Host memory an unscreened kernel may add to its worker."""


class Runner:
    """Answers one parent's requests on one device."""

    def __init__(self, channel: Channel, request: dict[str, Any]) -> None:
        """Make the device context.

        Raises:
            InfrastructureError: the device cannot be used.
        """
        import torch

        self.channel = channel
        self.scratch = Path(request["scratch"])
        self.cache = BuildCache(Path(request["cache"]))
        self.device: Device
        self.reader: ConditionsReader
        if request["device"] == "cuda":
            index = int(request["index"])
            self.device, self.reader = CudaDevice(index, fenced=request["fenced"]), NvmlReader(index)
            torch.backends.cuda.matmul.allow_tf32 = False
            torch.backends.cudnn.allow_tf32 = False
        else:
            self.device, self.reader = CpuDevice(), NoConditions()
        budget = CONTEXT_BYTES if self.device.is_gpu else CPU_CONTEXT_BYTES
        contexts = ContextCache(self.device, budget, tuple(request["seeds"]))
        self.bench = Bench(self.device, contexts, Sampler(self.device), self.reader)
        if request.get("ceilings"):
            self.bench.ceilings = Ceilings(**request["ceilings"])
        torch.set_grad_enabled(False)
        self.loaded: list[LoadedKernel] = []
        self.task: Task

    def facts(self) -> dict[str, Any]:
        """What the parent needs to know of the device."""
        from kbench.harness.device.environment import device_facts

        return device_facts(self.device)

    def answer(self, message: dict[str, Any]) -> bool:
        """Answer one request; False when this process must end."""
        action = {
            "load": self._load,
            "execute": self._execute,
            "ceilings": self._ceilings,
            "confirm": self._confirm,
        }[message["op"]]
        return action(message)

    def _confirm(self, message: dict[str, Any]) -> bool:
        self.channel.send({"confirmed": message["nonce"]})
        return False

    def _report(self, stage: str) -> None:
        self.channel.send({"stage": stage})

    def _ceilings(self, message: dict[str, Any]) -> bool:
        self.bench.ceilings = measure_ceilings(self.device, self.bench.sampler)
        self.channel.send({"ceilings": dataclasses.asdict(self.bench.ceilings)})
        return True

    def _load(self, message: dict[str, Any]) -> bool:
        """Load one kernel's module, or two to be compared."""
        self._unload()
        self.task = task_of(message)
        if not self._prepare(alone=message["alone"]):
            return False
        if message["alone"]:
            kernel_id = kernel_of(message["kernels"][0]).kernel_id
            self._lock_down(kernel_id, strict=message["strict"] or not self.device.is_gpu)
        builds = [Build(**entry["build"]) for entry in message["kernels"]]
        CudaModule.prebuilt = {k: v for build in builds for k, v in self.cache.prebuilt(build).items()}
        try:
            for entry in message["kernels"]:
                os.environ |= self.cache.extension_variables(kernel_of(entry).kernel_id, message["target"])
                self.loaded.append(LoadedKernel(kernel_of(entry)))
        except LoadError as error:
            self.channel.send({"loaded": False, "status": Status.COMPILE_ERROR.value, "error": str(error)})
            return True
        self.channel.send({"loaded": True})
        return True

    def _prepare(self, *, alone: bool) -> bool:
        """Time the ruler: on duty, so that nobody else has the GPU, and before a kernel could make it look slow.

        So are the references, where the kernel runs alone. What fails here is the machine's fault.
        """
        self._report(PREPARING)
        try:
            self.bench.sampler.calibrate()
            if alone and self.device.is_gpu:
                time_references(self.task, self.bench, lambda _: None)
                start_triton()
        except Exception as error:  # noqa: BLE001 - no kernel is loaded yet
            self.channel.send({"broken": f"the device cannot be made ready: {error}"})
            return False
        self._report("load")
        return True

    def _execute(self, message: dict[str, Any]) -> bool:
        if message.get("ceilings") and self.bench.ceilings is None:
            self.bench.ceilings = Ceilings(**message["ceilings"])
        started = time.perf_counter()
        try:
            if len(self.loaded) == 1:
                results = execute(self.loaded[0], self.task, self.bench, self._report)
            else:
                threshold = float(message["threshold"])
                results = face_off(self.loaded, self.task, self.bench, self._report, threshold)
        except PoisonedError as error:
            status, reason = error.args
            self.channel.send({"poisoned": True, "status": status.value, "error": reason})
            return False
        except InfrastructureError as error:
            self.channel.send({"broken": str(error)})
            return False
        self._unload()
        self.channel.send({"results": results, "busy_s": time.perf_counter() - started})
        return True

    def _lock_down(self, kernel_id: str, *, strict: bool) -> None:
        """Give up more before unscreened code is loaded; this process will run nothing else."""
        self.bench.contexts.settings = Switches().ours
        checks = [Pristine().changed]
        if self.device.is_gpu:
            set_aside = SetAside()
            set_aside.forbid()
            checks.append(set_aside.changed)
        self.bench.tampered = lambda: next((what for check in checks if (what := check()) is not None), None)
        if not strict:
            # What was not compiled ahead of time is now, and the shared build cache must stay as it is.
            os.environ["TRITON_CACHE_DIR"] = str(self.scratch / "triton")
        extension = self.cache.extensions / kernel_id
        extension.mkdir(exist_ok=True)
        freeze_files([self.scratch, extension])
        limit_growth(GPU_WORKER_BYTES if self.device.is_gpu else CPU_WORKER_BYTES)
        if strict:
            lock_down()

    def _unload(self) -> None:
        for loaded in self.loaded:
            loaded.unload()
        self.loaded = []
        CudaModule.prebuilt = {}


def start_triton() -> None:
    """Have Triton load its helper library, which it compiles when its cache has none, while programs may be started."""
    from triton.runtime import driver

    driver.active.get_current_target()
