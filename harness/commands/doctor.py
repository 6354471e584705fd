"""Doctor: the parts of this machine that measuring needs, and the missing ones."""

from __future__ import annotations

import ctypes
import os
import shutil
from collections.abc import Sequence
from typing import Any

from kbench.harness.device.environment import software_facts
from kbench.harness.device.gpu import Gpu, multiprocessors
from kbench.harness.device.target import compiler_versions
from kbench.harness.isolate.limits import MOST_BYTES, MOST_PROCESSES, watching_works
from kbench.schemas import InfrastructureError, UserError, to_dict


def examine(gpus: Sequence[Gpu], *, measure: bool = True) -> dict[str, Any]:
    """Everything that matters for measuring, as plain values; a missing part is null or in `problems`.

    Args:
        gpus: those to look at.
        measure: also start a worker on each GPU and measure its ceilings.
    """
    problems: list[str] = []
    report: dict[str, Any] = {
        "software": software_facts(),
        "compilers": compiler_versions(),
        "cpu_cores": os.cpu_count(),
        "c_compiler": shutil.which("gcc") or shutil.which("clang"),
        "planning_limits": _planning_limits(problems),
        "gpus": boards(problems),
    }
    missing = [name for name in ("torch", "triton", "nvrtc") if report["software"][name] in (None, "none")]
    problems += [f"{name} is missing: pip install 'kbench-gpu[gpu]'" for name in missing]
    if not report["gpus"]:
        able = "with these, kernels" if missing else "kernels"
        problems.append(f"no NVIDIA GPU: {able} can be compiled and checked, not timed")
    elif measure:
        require_gpus(gpus, "")
        report["devices"] = [_device(gpu, problems) for gpu in gpus]
    report["problems"] = problems
    broken = [device for device in report.get("devices", ()) if "error" in device]
    report["can_measure"] = bool(report["gpus"]) and not missing and not broken
    return report


def _planning_limits(problems: list[str]) -> str:
    """The limits on all processes of a kernel's planning together, for every user."""
    if not watching_works():
        problems.append("host code is planned WITHOUT limits on the sum of its processes: /proc names no children here")
        return "none"
    return f"{MOST_PROCESSES} processes, {MOST_BYTES >> 30} GiB and twice the build timeout, by a watcher of /proc"


def boards(problems: list[str]) -> list[dict[str, Any]]:
    """Every GPU NVML lists, with its state and who else is using it."""
    try:
        import pynvml as nvml
    except ImportError:
        problems.append("nvidia-ml-py is missing: pip install 'kbench-gpu[gpu]'")
        return []
    try:
        nvml.nvmlInit()
    except nvml.NVMLError as error:
        problems.append(f"NVML: {error}")
        return []
    return [_board(nvml, nvml.nvmlDeviceGetHandleByIndex(i), problems) for i in range(nvml.nvmlDeviceGetCount())]


def _board(nvml: Any, handle: Any, problems: list[str]) -> dict[str, Any]:
    def ask(question: Any, *args: Any) -> Any:
        try:
            return question(handle, *args)
        except nvml.NVMLError:
            # Not supported on this board: null in the report.
            return None

    mig = ask(nvml.nvmlDeviceGetMigMode)
    others = ask(nvml.nvmlDeviceGetComputeRunningProcesses)
    name = ask(nvml.nvmlDeviceGetName)
    board = {
        "name": name.decode() if isinstance(name, bytes) else name,
        "mig": None if mig is None else bool(mig[0]),
        "persistence": ask(nvml.nvmlDeviceGetPersistenceMode),
        "other_processes": None if others is None else [int(p.pid) for p in others],
        "sm_clock_mhz": ask(nvml.nvmlDeviceGetClockInfo, nvml.NVML_CLOCK_SM),
        "sm_clock_max_mhz": ask(nvml.nvmlDeviceGetMaxClockInfo, nvml.NVML_CLOCK_SM),
        "memory_clock_mhz": ask(nvml.nvmlDeviceGetClockInfo, nvml.NVML_CLOCK_MEM),
        "temperature_c": ask(nvml.nvmlDeviceGetTemperature, nvml.NVML_TEMPERATURE_GPU),
        "power_limit_w": _watts(ask(nvml.nvmlDeviceGetEnforcedPowerLimit)),
    }
    if board["mig"]:
        problems.append(f"{board['name']}: MIG is on; times are of a slice of the GPU")
    if board["other_processes"]:
        problems.append(f"{board['name']}: other processes use it: {board['other_processes']}")
    return board


def _watts(milliwatts: int | None) -> float | None:
    return None if milliwatts is None else milliwatts / 1e3


def _device(gpu: Gpu, problems: list[str]) -> dict[str, Any]:
    from kbench.harness.harness import Harness

    try:
        with Harness(gpu=gpu, cache=None) as harness:
            report = to_dict(harness.environment())
            report["read_bandwidth_gbs"] = harness.ceilings().read_bandwidth_gbs
            report["sm_ids"] = harness.facts().get("sm_ids")
            report["reaches_host_memory"] = bool(harness.facts().get("reaches_host_memory"))
    except InfrastructureError as error:
        problems.append(f"GPU {gpu}: {error}")
        return {"device": str(gpu), "error": str(error)}
    if "netns" not in str(report["sandbox"]):
        problems.append("kernels run WITH network access: network namespaces are not permitted here")
    if report["reaches_host_memory"]:
        problems.append(
            "kernels can write to the memory of the process that judges them: measure those of unknown authors where "
            "heterogeneous memory management is off (uvm_disable_hmm=1 of the module nvidia_uvm)"
        )
    return {"device": str(gpu)} | report


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
    for board in report["gpus"]:
        lines.append(f"GPU         {board['name']}")
        lines += [f"  {name:<18}{value}" for name, value in board.items() if name != "name"]
    for device in report.get("devices", []):
        lines.append(f"device {device['device']}")
        lines += [f"  {name:<24}{value}" for name, value in device.items() if name not in ("device", "env_id")]
    lines += [f"problem: {text}" for text in report["problems"]] or ["no problems found"]
    return "\n".join(lines)
