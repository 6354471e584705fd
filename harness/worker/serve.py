"""Serve: a process forked from the zygote becomes the worker it was asked to be.

plan     runs foreign host code once, in a sandbox without a GPU; one kernel per process
replay   carries out plans on a GPU; never loads foreign Python
oracle   holds the expected answers; runs no kernel
run      runs foreign host code beside its judge, one kernel per process: for what cannot be planned, and dry runs
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import socket
import sys
import threading
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kbench.benchmark import problems
from kbench.benchmark.problems import registry
from kbench.harness.device.gpu import Gpu
from kbench.harness.device.target import Target, compiler_versions
from kbench.harness.isolate import sandbox
from kbench.harness.isolate.limits import MOST_BYTES, watching_works
from kbench.harness.isolate.protocol import Channel, ClosedError, take_key
from kbench.harness.kernel.loading import extension_variables, kernel_of
from kbench.loaders.storage import namespaces
from kbench.loaders.storage.mounts import close_files, freeze_files, what_python_needs
from kbench.loaders.storage.seccomp import forbid_reaching_out
from kbench.schemas import InfrastructureError, KernelSource

if TYPE_CHECKING:
    from kbench.harness.worker.runner import Runner

TRUSTED = frozenset({"replay", "oracle"})
"""Workers that never run foreign Python; they keep the machine's namespaces, which sharing GPU memory needs."""

DATASET = Path(problems.__file__).parents[1] / "dataset"
"""The kernels of others, with their times."""
COMPILERS = ("c++", "g++", "gcc", "cc", "clang", "clang++", "nvcc", "ninja")
EXTENSION_BUILDER = "cpp_extension.py"


def preload(*, planning: bool, counting: bool = False) -> None:
    """Import what workers need, in the zygote.

    Args:
        planning: whether they will plan kernels; compilers are warmed up only then, because some of them initialise the
            CUDA driver, and no process forked from one that did can use a GPU.
        counting: whether they will count foreign kernels, for which torch loads more.
    """
    import triton.language
    from triton.runtime import cache

    if planning:
        # Triton would hash its own installation, hundreds of megabytes, to tell versions of it apart in a cache. Every
        # plan has a cache of its own.
        versions = compiler_versions()
        cache.triton_key = lambda: versions
    else:
        import scipy.special

        assert scipy.special is not None
    import torch

    from kbench.harness.plan import planner
    from kbench.harness.worker import process_runner, replay_runner

    assert all((torch, triton.language, planner, process_runner, replay_runner))
    read_problems()
    if planning:
        warm_compilers()
        what_python_needs()
    if counting:
        from kbench.harness.plan.foreign import warm

        warm()


def read_problems() -> None:
    """Have the definitions of all problems in memory."""
    for problems_of in (registry.known, registry.unlisted, registry.users):
        problems_of()


def warm_compilers() -> None:
    """Do once, before forking, what every planning process would otherwise do at its first kernel.

    torch, Triton's code generator and NVRTC load some of their parts at their first use.
    """
    import cuda.core
    import torch
    from torch.utils import cpp_extension
    from triton.backends.nvidia import compiler
    from triton.compiler import code_generator

    from kbench.harness.plan.recorder import Recorder
    from kbench.harness.plan.torch_calls import DeviceMode, RecordingMode

    assert all((cuda.core, cpp_extension, code_generator))
    with RecordingMode(Recorder(())), DeviceMode():
        torch.zeros_like(torch.empty(1, device="meta"))
    for arch in (80, 90, 100):
        compiler.get_ptxas_version(arch)
    warm_nvrtc()


def warm_nvrtc() -> None:
    """Compile an empty kernel: NVRTC loads its libraries at its first, for half a second."""
    from cuda.bindings import nvrtc

    _, program = nvrtc.nvrtcCreateProgram(b'extern "C" __global__ void nothing() {}', b"nothing.cu", 0, [], [])
    nvrtc.nvrtcCompileProgram(program, 1, [b"--gpu-architecture=sm_90"])


def import_early(request: dict[str, Any]) -> None:
    """In a worker that was forked before its zygote had imported anything: import what it needs.

    Meanwhile the driver makes the context that torch will find: that takes about as long as half of torch's import.
    """
    if not request.get("early"):
        return
    gpu = Gpu.parse(request["gpu"])
    context = threading.Thread(target=make_context, args=(gpu.visible_index(),), daemon=True)
    if not request.get("fenced"):
        context.start()
    import torch

    if request["role"] == "replay":
        import scipy.special

        assert scipy.special is not None
    assert torch is not None
    read_problems()


def make_context(index: int) -> None:
    """Make a GPU's primary context without torch, and load its compiler.

    What fails here fails again where torch and the compiler are used, which say why.
    """
    with contextlib.suppress(Exception):
        driver, device, context = ctypes.CDLL("libcuda.so.1"), ctypes.c_int(), ctypes.c_void_p()
        if not driver.cuInit(0) and not driver.cuDeviceGet(ctypes.byref(device), index):
            driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), device)
        warm_nvrtc()


def serve(descriptor: int, request: dict[str, Any], scratch: Path) -> None:
    """Become the worker the request names and answer until the parent hangs up."""
    channel = take_key(socket.socket(fileno=descriptor))
    roles = {"plan": serve_plan, "replay": serve_replays, "oracle": serve_oracle, "run": serve_run}
    try:
        roles[str(request["role"])](channel, request, scratch)
    except ClosedError:
        return


def serve_plan(channel: Channel, request: dict[str, Any], scratch: Path) -> None:
    """Plan one kernel; only a private folder can be written to, and there are neither network nor local services."""
    from kbench.harness.device.target import DeviceFacts
    from kbench.harness.plan.planner import plan_kernel

    sandbox.be_nice(request["niceness"], request["processors"])
    applied = sandbox.enter(scratch, gpu=False)
    message = channel.receive()
    kernel, target = kernel_of(message), Target(*message["target"])
    extension = message["extension"]
    sandbox.limit_growth(MOST_BYTES)
    applied += close_off(scratch, [Path(extension)] if extension else [], [Path(message["cache"]), DATASET])
    # Only now, so that it says what is in force while foreign code runs.
    channel.send({"ready": True, "sandbox": applied})
    if extension:
        channel.send({"planned": build_extension(kernel, target, extension)})
        return
    cache, facts = scratch / "triton", DeviceFacts(**message["facts"])
    if kernel.workloads_json is not None:
        from kbench.harness.plan.foreign import count_foreign

        planned = count_foreign(kernel, target, facts, cache)
    else:
        planned = plan_kernel(
            kernel, target, facts, cache, workloads=message["workloads"], count_work=message["count_work"]
        )
    channel.send({"planned": planned.message()})


def close_off(scratch: Path, writable: Sequence[Path], hidden: Sequence[Path]) -> list[str]:
    """Give up what only the preparation of planning needed; the names of the restrictions that this system permits.

    Args:
        scratch: the worker's private folder.
        writable: other folders that can be written to.
        hidden: what is out of sight wherever it lies.
    """
    files = [Path(file).absolute() for file in os.environ.get(registry.USER_FILES, "").split(os.pathsep) if file]
    closed = close_files(scratch, [*what_python_needs(), *files], writable, hidden)
    held = {
        "closed": closed,
        "frozen": closed or freeze_files([scratch, *writable]),
        "capabilities": namespaces.drop_capabilities(),
        "calls": forbid_reaching_out(),
        "watched": watching_works(),
    }
    return [name for name, in_force in held.items() if in_force]


def build_extension(kernel: KernelSource, target: Target, folder: str) -> dict[str, Any]:
    """Import a kernel for the torch extension it compiles; the worker that runs it finds it in the folder."""
    from kbench.harness.kernel.loading import LoadedKernel, LoadError
    from kbench.schemas import Status

    os.environ |= extension_variables(folder, f"{target.major}.{target.minor}")
    planned: dict[str, Any] = {"plans": {}, "cubins": [], "status": Status.REJECTED.value, "unplannable": False}
    try:
        LoadedKernel(kernel).unload()
    except LoadError as error:
        missing = missing_tool(error.__cause__)
        status = Status.COMPILE_ERROR.value
        return planned | {"status": status, "error": missing or str(error), "machine": missing is not None}
    return planned | {"error": "compiles a torch extension", "unplannable": True}


def missing_tool(error: BaseException | None) -> str | None:
    """The tool that the machine lacks to build a torch extension, when that is why loading failed; None otherwise."""
    if not isinstance(error, OSError | RuntimeError):
        return None
    # Torch's building of extensions must have raised it, and not the kernel's text in its words.
    frames = traceback.walk_tb(error.__traceback__)
    if not any(Path(frame.f_code.co_filename).name == EXTENSION_BUILDER for frame, _ in frames):
        return None
    message = str(error)
    if "CUDA_HOME environment variable is not set" in message:
        return "a torch extension needs CUDA's compiler, and no nvcc was found; put it on PATH or set CUDA_HOME"
    if "mismatches the version that was used to compile" in message:
        return "a torch extension needs the CUDA that torch was built with: " + " ".join(message.split())[:300]
    if "Ninja is required" in message:
        return "a torch extension needs ninja, and none was found; pip install ninja"
    if isinstance(error, FileNotFoundError) and Path(str(error.filename)).name in COMPILERS:
        return f"a torch extension needs {Path(str(error.filename)).name}, and none was found; install it"
    return None


def serve_replays(channel: Channel, request: dict[str, Any], scratch: Path) -> None:
    """Carry out plans; end after the first kernel that breaks the device."""
    import_early(request)
    from kbench.harness.worker.replay_runner import ReplayRunner

    answer_requests(channel, lambda: ReplayRunner(channel, request), ["plan"])


def serve_oracle(channel: Channel, request: dict[str, Any], scratch: Path) -> None:
    """Hold answers and compare outputs with them."""
    from kbench.harness.bench import oracle

    # First of all, so that whoever connects waits for this process instead of finding nobody.
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(request["address"])
    listener.listen()
    import_early(request)
    try:
        held = oracle.Oracle(Gpu.parse(request["gpu"]), request["memory_bytes"])
    except InfrastructureError as error:
        channel.send({"broken": str(error)})
        return
    channel.send({"ready": True})
    oracle.serve(held, listener, channel.socket, bytes.fromhex(request["key"]))
    end_now()


def serve_run(channel: Channel, request: dict[str, Any], scratch: Path) -> None:
    """Run one kernel whose host code stays beside its judge."""
    from kbench.harness.worker.process_runner import ProcessRunner

    applied = sandbox.enter(scratch, gpu=request["device"] == "cuda")
    answer_requests(channel, lambda: ProcessRunner(channel, request), applied)


def answer_requests(channel: Channel, make_runner: Callable[[], Runner], restrictions: Sequence[str]) -> None:
    """Make a runner, say that it is ready, and answer with it until it must end or the parent hangs up."""
    from kbench.harness.device.environment import device_facts

    try:
        runner = make_runner()
    except InfrastructureError as error:
        channel.send({"broken": str(error)})
        return
    channel.send({"ready": True, "sandbox": list(restrictions), "facts": device_facts(runner.device)})
    while runner.answer(channel.receive()):
        pass
    end_now()


def end_now() -> None:
    """End without destructors: a broken device context may hang in them."""
    sys.stderr.flush()
    os._exit(0)
