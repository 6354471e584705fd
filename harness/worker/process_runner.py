"""Process runner: runs a kernel whose host code stays in this process, beside its judge.

Such a kernel could change anything here, its own verdict included. The sandbox keeps it from the machine; nothing keeps
it from its judge, which is why its records say `trust = "process"` and no dataset, search or season takes them.
"""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from kbench.harness.bench.context import ContextCache, ProblemContext, context_bytes
from kbench.harness.bench.subject import ProcessSubject
from kbench.harness.device.device import CpuDevice, CudaDevice, Device
from kbench.harness.device.environment import ConditionsReader, NvmlReader
from kbench.harness.device.gpu import Gpu
from kbench.harness.device.target import H200
from kbench.harness.isolate.protocol import Channel
from kbench.harness.isolate.sandbox import limit_growth
from kbench.harness.kernel.loading import LoadedKernel, LoadError, extension_variables, kernel_of
from kbench.harness.plan.torch_calls import answer_without_a_gpu
from kbench.harness.worker import interpreter
from kbench.harness.worker.execute import Bench
from kbench.harness.worker.runner import Runner
from kbench.harness.workloads import CPU_BYTES
from kbench.loaders.storage.mounts import freeze_files
from kbench.loaders.storage.seccomp import lock_down
from kbench.schemas import Status

CPU_CONTEXT_BYTES = 1 << 30
GPU_WORKER_BYTES = 32 << 30
"""Host memory a kernel may add to its worker."""


class ProcessKernel:
    """A kernel's module, loaded in this process."""

    def __init__(self, loaded: LoadedKernel) -> None:
        """Call this module's `run`."""
        self._loaded = loaded

    def subject(self, context: ProblemContext, bench: Bench) -> ProcessSubject:
        """The kernel on one problem and size."""
        return ProcessSubject(self._loaded.run, context)


class ProcessRunner(Runner):
    """Verifies and times one kernel, or two that are compared, and ends."""

    def __init__(self, channel: Channel, request: dict[str, Any]) -> None:
        """Make the device context.

        Raises:
            InfrastructureError: the device cannot be used.
        """
        device: Device
        reader: ConditionsReader
        if request["device"] == "cuda":
            gpu = Gpu.parse(request["gpu"])
            device, reader = (
                CudaDevice(gpu, fenced=request["fenced"], limit_bytes=request["memory_bytes"]),
                NvmlReader(gpu.index),
            )
        else:
            device, reader = CpuDevice(), ConditionsReader()
        self.scratch = Path(request["scratch"])
        budget = context_bytes(request["memory_bytes"]) if device.is_gpu else CPU_CONTEXT_BYTES
        super().__init__(channel, request, device, reader, ContextCache(device, budget, tuple(request["seeds"])))

    def operations(self) -> dict[str, Callable[[dict[str, Any]], bool]]:
        return super().operations() | {"measure": self._measure}

    def _measure(self, message: dict[str, Any]) -> bool:
        # Triton compiles its helper library at first use, while programs may be started.
        if not self.make_ready(*((start_triton,) if self.device.is_gpu else ())):
            return False
        extensions = [entry["extension"] for entry in message["kernels"] if entry["extension"]]
        self._lock_down(extensions)
        kernels: list[ProcessKernel] = []
        try:
            for entry in message["kernels"]:
                if entry["extension"]:
                    os.environ |= extension_variables(entry["extension"], message["target"])
                kernels.append(ProcessKernel(LoadedKernel(kernel_of(entry))))
        except LoadError as error:
            self.channel.send({"loaded": False, "status": Status.COMPILE_ERROR.value, "error": str(error)})
            return False
        self.channel.send({"loaded": True})
        interpreted = not self.device.is_gpu and all("triton" in e["source"] for e in message["kernels"])
        say = interpreter.marked if interpreted else list
        return self.send_results(lambda: say(self.measure_or_compare(kernels, message)), message)

    def _lock_down(self, extensions: Sequence[str]) -> None:
        """Give up more before foreign code is loaded; this process will run nothing else.

        Args:
            extensions: folders of torch extensions that were built for the kernels.
        """
        if not self.device.is_gpu:
            # Host code may ask how many multiprocessors there are, as it may where it is planned.
            answer_without_a_gpu(H200)
            # `torch.compile` would need a compiler, which cannot be started here: what it is given runs as it is.
            os.environ["TORCHDYNAMO_DISABLE"] = "1"
            interpreter.make_ready()
        self.bench.contexts.settings = Switches().ours
        os.environ["TRITON_CACHE_DIR"] = str(self.scratch / "triton")
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(self.scratch / "inductor")
        # More would be processes of their own, which go on while the kernel is timed.
        os.environ["TORCHINDUCTOR_COMPILE_THREADS"] = "1"
        freeze_files([self.scratch, *map(Path, extensions)])
        limit_growth(GPU_WORKER_BYTES if self.device.is_gpu else CPU_BYTES)
        if not self.device.is_gpu:
            # On a GPU, Triton starts a program to compile at a first call.
            lock_down()


def start_triton() -> None:
    """Have Triton load its helper library while programs may be started: it compiles one if its cache has none."""
    from triton.runtime import driver

    driver.active.get_current_target()


Switch = tuple[Callable[[], Any], Callable[[Any], object]]
"""Two functions: one reads a setting, one sets it."""


class Switches:
    """Settings of torch that decide how fast and how exactly it computes.

    Unscreened kernels set them for themselves, TF32 first of all. What they are compared with runs with the harness's.
    """

    def __init__(self) -> None:
        """Keep torch's current settings, and the functions that set them, before foreign code could replace them."""
        self._switches = find_switches()
        self._ours = self._values()

    def _values(self) -> list[Any]:
        return [current(read) for read, _ in self._switches]

    def _set(self, values: list[Any]) -> None:
        for (read, write), value in zip(self._switches, values, strict=True):
            if value is not None and value != current(read):
                write(value)

    def restore(self) -> None:
        """Restore the settings torch had when this was made."""
        self._set(self._ours)

    @contextlib.contextmanager
    def ours(self) -> Iterator[None]:
        """Inside, torch has the settings it had when this was made; afterwards, its current ones again."""
        theirs = self._values()
        self.restore()
        try:
            yield
        finally:
            self._set(theirs)


def current(read: Callable[[], Any]) -> Any:
    """The value of a setting; None when torch cannot tell, because two of its own ways to set it were mixed."""
    try:
        return read()
    except RuntimeError:
        return None


def find_switches() -> list[Switch]:
    """The settings this version of torch has."""
    import torch

    core, cuda = torch._C, torch.backends.cuda
    matmul: Any = cuda.matmul
    core_names = ("cublas_allow_tf32", "cudnn_allow_tf32", "cudnn_enabled", "cudnn_benchmark", "cudnn_deterministic")
    return [
        *(
            (getattr(core, f"_get_{name}"), getattr(core, f"_set_{name}"))
            for name in core_names
            if hasattr(core, f"_get_{name}")
        ),
        *(
            (functools.partial(getattr, matmul, name), functools.partial(setattr, matmul, name))
            for name in ("allow_fp16_reduced_precision_reduction", "allow_bf16_reduced_precision_reduction")
        ),
        *(
            (getattr(cuda, f"{name}_sdp_enabled"), getattr(cuda, f"enable_{name}_sdp"))
            for name in ("flash", "mem_efficient", "math", "cudnn")
            if hasattr(cuda, f"{name}_sdp_enabled")
        ),
        (torch.are_deterministic_algorithms_enabled, torch.use_deterministic_algorithms),
        (torch.get_default_dtype, torch.set_default_dtype),
        (torch.is_grad_enabled, torch.set_grad_enabled),
        (lambda: torch.is_autocast_enabled("cuda"), lambda value: torch.set_autocast_enabled("cuda", value)),
        (lambda: torch.is_autocast_enabled("cpu"), lambda value: torch.set_autocast_enabled("cpu", value)),
    ]
