"""Worker: the code inside a worker process. Builds kernels, or verifies and times them on one device."""

from __future__ import annotations

import dataclasses
import os
import socket
import sys
from pathlib import Path
from typing import Any

from kbench.harness.isolate import sandbox
from kbench.harness.isolate.protocol import Channel, ClosedError, take_key
from kbench.schemas import Backend, InfrastructureError, KernelSource

PREPARING = "prepare"
"""The stage of a run before a kernel is loaded: what goes wrong in it is the machine's fault."""
CONTEXT_BYTES = 16 << 30
CPU_CONTEXT_BYTES = 1 << 30


def preload() -> None:
    """Import what every worker needs, in the zygote."""
    import scipy.special
    import torch
    import triton
    import triton.language

    from kbench.benchmark.problems.registry import problems, unlisted
    from kbench.harness.build import builder
    from kbench.harness.isolate import execute

    assert all((scipy.special, torch, triton.language, execute, builder))
    problems()
    unlisted()
    if "TRITON_INTERPRET" not in os.environ:
        warm_compilers()


def warm_compilers() -> None:
    """Do once, before forking, what every build process would otherwise do at its first kernel.

    torch's meta device imports a computer algebra system, and Triton hashes its own installation.
    """
    import torch
    from triton.backends.nvidia import compiler
    from triton.runtime.cache import triton_key

    torch.empty_like(torch.empty(1, device="meta"))
    triton_key()
    for arch in (80, 90, 100):
        compiler.get_ptxas_version(arch)


def serve(descriptor: int, request: dict[str, Any], scratch: Path) -> None:
    """Become the worker the request names and answer until the parent hangs up."""
    channel = take_key(socket.socket(fileno=descriptor))
    role = str(request["role"])
    on_gpu = role == "run" and request["device"] == "cuda"
    applied = sandbox.enter(scratch, gpu=on_gpu)
    try:
        if role == "build":
            serve_builds(channel, request, applied)
        else:
            serve_runs(channel, request, applied)
    except ClosedError:
        return


def serve_builds(channel: Channel, request: dict[str, Any], applied: list[str]) -> None:
    """Build what is asked for."""
    from kbench.harness.build.builder import build
    from kbench.harness.build.cache import BuildCache, as_json
    from kbench.harness.build.target import Target

    cache = BuildCache(Path(request["cache"]))
    channel.send({"ready": True, "sandbox": applied})
    while True:
        message = channel.receive()
        target, call = Target(*message["target"]), not message["extension"]
        built = build(kernel_of(message), target, cache, call=call, mix=message["mix"])
        channel.send({"built": as_json(built)})


def kernel_of(message: dict[str, Any]) -> KernelSource:
    """The kernel a message carries."""
    return KernelSource(message["problem_id"], Backend(message["backend"]), message["source"])


def serve_runs(channel: Channel, request: dict[str, Any], applied: list[str]) -> None:
    """Verify and time what is asked for; end after the first kernel that breaks the device."""
    from kbench.harness.isolate.runner import Runner

    try:
        runner = Runner(channel, request)
    except InfrastructureError as error:
        channel.send({"broken": str(error)})
        return
    channel.send({"ready": True, "sandbox": applied, "facts": runner.facts()})
    while runner.answer(channel.receive()):
        pass
    # A poisoned context may hang in its destructors.
    sys.stderr.flush()
    os._exit(0)


def task_of(message: dict[str, Any]) -> Any:
    """The task a message carries."""
    from kbench.harness.isolate.execute import Task
    from kbench.harness.timing.rounds import TimingSettings

    fields = dict(message["task"])
    settings = fields.pop("settings")
    settings["looks"] = tuple(settings["looks"])
    workloads = fields.pop("workloads")
    return Task(
        settings=TimingSettings(**settings), workloads=None if workloads is None else tuple(workloads), **fields
    )


def task_message(task: Any) -> dict[str, Any]:
    """A task as plain values."""
    return dataclasses.asdict(task)
