"""Messages: kernels and tasks as the plain values that travel between processes."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from kbench.harness.timing.rounds import TimingSettings
from kbench.harness.worker.execute import MeasureTask
from kbench.schemas import Backend, KernelSource

EXTENSION_JOBS = 8
"""Compilers that build one torch extension at a time."""


def extension_variables(folder: str, target: str) -> dict[str, str]:
    """Environment under which a torch extension is built once and found again."""
    return {"TORCH_EXTENSIONS_DIR": folder, "TORCH_CUDA_ARCH_LIST": target, "MAX_JOBS": str(EXTENSION_JOBS)}


def kernel_of(message: Mapping[str, Any]) -> KernelSource:
    """The kernel a message carries."""
    stated = message["workloads_json"]
    return KernelSource(message["problem_id"], Backend(message["backend"]), message["source"], stated)


def kernel_message(kernel: KernelSource) -> dict[str, Any]:
    """A kernel as plain values."""
    return dataclasses.asdict(kernel) | {"backend": kernel.backend.value}


def task_of(message: Mapping[str, Any]) -> MeasureTask:
    """The task a message carries."""
    fields = dict(message["task"])
    settings = fields.pop("settings")
    settings["looks"] = tuple(settings["looks"])
    workloads = fields.pop("workloads")
    names = None if workloads is None else tuple(workloads)
    return MeasureTask(settings=TimingSettings(**settings), workloads=names, **fields)


def task_message(task: MeasureTask) -> dict[str, Any]:
    """A task as plain values."""
    return dataclasses.asdict(task)
