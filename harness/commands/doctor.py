"""Doctor: the parts of this machine that measuring needs, and the missing ones."""

from __future__ import annotations

import ctypes
import os
import shutil
from collections.abc import Mapping, Sequence
from typing import Any

from kbench.harness.device.environment import software_facts
from kbench.harness.device.gpu import Gpu, multiprocessors
from kbench.harness.device.target import compiler_versions
from kbench.harness.isolate.limits import MOST_BYTES, MOST_PROCESSES, watching_works
from kbench.loaders.storage.scratch import temporary_folder
from kbench.schemas import Backend, InfrastructureError, KernelSource, UserError, to_dict
from kbench.schemas.errors import CPU_TORCH, install_command

PLANNING = ("netns", "closed", "frozen", "capabilities", "calls", "watched")
"""Restrictions that planning processes have where the system permits them."""
NOTHING = KernelSource("relu", Backend.TRITON, "def run(x):\n    return None\n")
"""A kernel whose planning shows what a planning process gives up."""


def examine(gpus: Sequence[Gpu], *, measure: bool = True) -> dict[str, Any]:
    """Everything that matters for measuring, as plain values; a missing part is null or in `problems`.

    Args:
        gpus: those to look at.
        measure: also start a worker on each GPU and measure its ceilings.
    """
    nvml, gpus_found = boards()
    limits = f"{MOST_PROCESSES} processes, {MOST_BYTES >> 30} GiB and twice the build timeout, by a watcher of /proc"
    report: dict[str, Any] = {
        "software": software_facts(),
        "compilers": compiler_versions(),
        "cpu_cores": os.cpu_count(),
        "c_compiler": shutil.which("gcc") or shutil.which("clang"),
        "planning_limits": limits if watching_works() else "none",
        "nvml": nvml,
        "gpus": gpus_found,
    }
    if gpus_found and measure:
        require_gpus(gpus, "")
        report["devices"] = [_device(gpu) for gpu in gpus]
    if not gpus_found and measure and not missing_packages(report):
        report["planning_sandbox"] = _planning_sandbox()
    broken = [device for device in report.get("devices", ()) if "error" in device]
    return report | {
        "problems": problems(report),
        "can_measure": bool(gpus_found) and not missing_packages(report) and not broken,
    }


def missing_packages(report: Mapping[str, Any]) -> list[str]:
    """Packages that measuring needs and this machine lacks."""
    return [name for name in ("torch", "triton", "nvrtc") if report["software"][name] in (None, "none")]


def problems(report: Mapping[str, Any]) -> list[str]:
    """The problems that a report shows, a sentence each."""
    lines = []
    if report["planning_limits"] == "none":
        lines.append("host code is planned WITHOUT limits on the sum of its processes: /proc names no children here")
    if report["nvml"] is not None:
        lines.append(report["nvml"])
    for board in report["gpus"]:
        if board["mig"]:
            lines.append(f"{board['name']}: MIG is on; times are of a slice of the GPU")
        if board["other_processes"]:
            lines.append(f"{board['name']}: other processes use it: {board['other_processes']}")
    missing = missing_packages(report)
    torch, others = f"{install_command('gpu')}; {CPU_TORCH}", install_command("explain")
    lines += [f"{name} is missing: {torch if name == 'torch' else others}" for name in missing]
    if not report["gpus"]:
        able = "with these, kernels" if missing else "kernels"
        lines.append(f"no NVIDIA GPU: {able} can be compiled and checked, not timed")
    for device in (*report.get("devices", ()), *([report] if report.get("planning_sandbox") else [])):
        if "error" in device:
            lines.append(f"GPU {device['device']}: {device['error']}")
            continue
        if "netns" not in device["planning_sandbox"]:
            lines.append("host code is planned WITH network access: network namespaces are not permitted here")
        lacking = [name for name in PLANNING[1:] if name not in device["planning_sandbox"]]
        if lacking:
            lines.append(f"planning goes without what this system does not permit: {', '.join(lacking)}")
        if device.get("reaches_host_memory"):
            lines.append(
                "kernels can write to the memory of the process that judges them: measure those of unknown authors "
                "where heterogeneous memory management is off (uvm_disable_hmm=1 of the module nvidia_uvm)"
            )
    return lines


def boards() -> tuple[str | None, list[dict[str, Any]]]:
    """Why NVML says nothing, or None; and every GPU that it lists, with its state and who else is using it."""
    try:
        import pynvml as nvml
    except ImportError:
        return f"nvidia-ml-py is missing: {install_command('explain')}", []
    try:
        nvml.nvmlInit()
    except nvml.NVMLError as error:
        return f"NVML: {error}", []
    return None, [_board(nvml, nvml.nvmlDeviceGetHandleByIndex(at)) for at in range(nvml.nvmlDeviceGetCount())]


def _board(nvml: Any, handle: Any) -> dict[str, Any]:
    def ask(question: Any, *args: Any) -> Any:
        try:
            return question(handle, *args)
        except nvml.NVMLError:
            # Not supported on this board: null in the report.
            return None

    mig = ask(nvml.nvmlDeviceGetMigMode)
    others = ask(nvml.nvmlDeviceGetComputeRunningProcesses)
    name = ask(nvml.nvmlDeviceGetName)
    milliwatts = ask(nvml.nvmlDeviceGetEnforcedPowerLimit)
    return {
        "name": name.decode() if isinstance(name, bytes) else name,
        "mig": None if mig is None else bool(mig[0]),
        "persistence": ask(nvml.nvmlDeviceGetPersistenceMode),
        "other_processes": None if others is None else [int(p.pid) for p in others],
        "sm_clock_mhz": ask(nvml.nvmlDeviceGetClockInfo, nvml.NVML_CLOCK_SM),
        "sm_clock_max_mhz": ask(nvml.nvmlDeviceGetMaxClockInfo, nvml.NVML_CLOCK_SM),
        "memory_clock_mhz": ask(nvml.nvmlDeviceGetClockInfo, nvml.NVML_CLOCK_MEM),
        "temperature_c": ask(nvml.nvmlDeviceGetTemperature, nvml.NVML_TEMPERATURE_GPU),
        "power_limit_w": None if milliwatts is None else milliwatts / 1e3,
    }


def _planning_sandbox() -> list[str] | None:
    """Restrictions of planning processes on a machine without a GPU; None where none could be started."""
    from kbench.harness.harness import Harness

    try:
        with temporary_folder() as cache, Harness(gpu=None, cache=cache) as harness:
            return harness.planning_sandbox(NOTHING)
    except InfrastructureError:
        return None


def _device(gpu: Gpu | None) -> dict[str, Any]:
    """A GPU as a worker finds it, and what the processes give up that plan kernels for it."""
    from kbench.harness.harness import Harness

    try:
        with temporary_folder() as cache, Harness(gpu=gpu, cache=cache) as harness:
            device = {"device": str(gpu)} | to_dict(harness.environment())
            device["read_bandwidth_gbs"] = harness.ceilings().read_bandwidth_gbs
            device["sm_ids"] = harness.facts().get("sm_ids")
            device["reaches_host_memory"] = bool(harness.facts().get("reaches_host_memory"))
            device["planning_sandbox"] = harness.planning_sandbox(NOTHING)
    except InfrastructureError as error:
        return {"device": str(gpu), "error": str(error)}
    return device


def gpu_count() -> int:
    """GPUs that CUDA shows to this process; 0 without a driver.

    The driver is asked, not torch: importing torch takes seconds, and the processes that need it import it themselves.
    """
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return 0
    count = ctypes.c_int()
    if driver.cuInit(0) or driver.cuDeviceGetCount(ctypes.byref(count)):
        return 0
    return count.value


def require_gpus(gpus: Sequence[Gpu], still: str) -> None:
    """Check that GPUs exist and are large enough for their partitions.

    Args:
        gpus: those to be used.
        still: what can be done without a GPU.

    Raises:
        InfrastructureError: there is none at all.
        UserError: an index does not exist, or a partition is larger than its GPU.
    """
    count = gpu_count()
    if not count:
        raise InfrastructureError(f"no NVIDIA GPU found, so nothing can be timed; {still}")
    for gpu in gpus:
        if gpu.index >= count:
            there = "there is one GPU, 0" if count == 1 else f"there are {count} GPUs, 0 to {count - 1}"
            raise UserError(f"--gpu is {str(gpu)!r}, but {there}")
        if gpu.sms is not None and gpu.uuid is None:
            gpu.check_size(multiprocessors(gpu.index))


def render(report: dict[str, Any]) -> str:
    """The report for people."""
    lines = [f"{name:<12}{value}" for name, value in report["software"].items()]
    lines += [f"compilers   {report['compilers']}", f"C compiler  {report['c_compiler']}"]
    lines.append(f"planning    {report['planning_limits']}")
    if "planning_sandbox" in report:
        lines.append(f"isolation   {', '.join(report['planning_sandbox'] or ['no planning process could be started'])}")
    for board in report["gpus"]:
        lines.append(f"GPU         {board['name']}")
        lines += [f"  {name:<18}{value}" for name, value in board.items() if name != "name"]
    for device in report.get("devices", []):
        lines.append(f"device {device['device']}")
        lines += [f"  {name:<24}{value}" for name, value in device.items() if name not in ("device", "env_id")]
    lines += [f"problem: {text}" for text in report["problems"]] or ["no problems found"]
    return "\n".join(lines)
