"""Environment: the machine and software, asked once and made into a record, and its conditions while a kernel runs.

Clocks, temperature, power and throttle reasons are read through NVML.
"""

from __future__ import annotations

import dataclasses
import importlib.metadata
import platform
from collections.abc import Mapping
from typing import Any

from kbench import __version__
from kbench.harness.device.device import CudaDevice, Device
from kbench.harness.device.floor import Ceilings
from kbench.harness.device.target import facts_of
from kbench.schemas import Environment, InfrastructureError, from_dict
from kbench.schemas.ids import content_hash

UNRECORDED = ("planning", "sm_ids", "reaches_host_memory")
"""Facts that are no part of the record."""


def device_facts(device: Device) -> dict[str, Any]:
    """Facts of a worker's device."""
    if not isinstance(device, CudaDevice):
        return {"gpu": f"cpu ({platform.machine()})", "compute_capability": "0.0", "sm_count": 0, "memory_bytes": 0,
                "l2_bytes": 0, "shared_bytes_per_block": 0, "driver": "none", "cuda": "none"}  # fmt: skip
    import pynvml
    import torch

    properties: Any = device.properties
    driver = pynvml.nvmlSystemGetDriverVersion()
    return {
        "gpu": device.model,
        "compute_capability": f"{properties.major}.{properties.minor}",
        "sm_count": device.sm_count,
        "memory_bytes": properties.total_memory,
        "l2_bytes": device.l2_bytes,
        "shared_bytes_per_block": properties.shared_memory_per_block_optin,
        "driver": driver.decode() if isinstance(driver, bytes) else str(driver),
        "cuda": str(torch.version.cuda),
        "planning": dataclasses.asdict(facts_of(properties)) | {"multi_processor_count": device.sm_count},
        "reaches_host_memory": device.reaches_host_memory(),
        "sm_ids": None if device.partition is None else list(device.partition.sm_ids),
    }


def software_facts() -> dict[str, Any]:
    """Software versions in this process."""
    return {
        "python": platform.python_version(),
        "torch": version_of("torch") or "none",
        "triton": version_of("triton") or "none",
        "nvrtc": nvrtc_version(),
        "kbench": __version__,
    }


def version_of(package: str) -> str | None:
    """An installed package's version."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def nvrtc_version() -> str | None:
    """NVRTC's version, as the library reports it."""
    try:
        from cuda.bindings import nvrtc

        code, major, minor = nvrtc.nvrtcVersion()
    except (ImportError, RuntimeError):
        return None
    return f"{major}.{minor}" if int(code) == 0 else None


def make_environment(facts: Mapping[str, Any], sandbox: str, ceilings: Ceilings | None) -> Environment:
    """The record; its id is the hash of everything else in it."""
    fields = {name: value for name, value in facts.items() if name not in UNRECORDED} | software_facts()
    fields["sandbox"] = sandbox
    for name in ("copy_bandwidth_gbs", "matmul_peak_tflops", "timer_step_ns"):
        fields[name] = None if ceilings is None else getattr(ceilings, name)
    text = [f"{name}={fields[name]!r}" for name in sorted(fields)]
    return from_dict(Environment, fields | {"env_id": content_hash("environment", *text)})


THROTTLE_REASONS = {
    0x0000000000000001: "gpu_idle",
    0x0000000000000002: "applications_clocks",
    0x0000000000000004: "sw_power_cap",
    0x0000000000000008: "hw_slowdown",
    0x0000000000000010: "sync_boost",
    0x0000000000000020: "sw_thermal",
    0x0000000000000040: "hw_thermal",
    0x0000000000000080: "hw_power_brake",
    0x0000000000000100: "display_clocks",
}
HARMFUL = frozenset({"hw_slowdown", "sw_thermal", "hw_thermal", "hw_power_brake"})
"""Reasons that make a round worthless; a power cap is how a busy GPU normally runs."""


@dataclasses.dataclass(frozen=True, slots=True)
class Conditions:
    """One reading; a figure is None where the driver does not give it."""

    sm_clock_mhz: float | None = None
    temperature_c: float | None = None
    power_w: float | None = None
    throttle_reasons: tuple[str, ...] = ()

    @property
    def harmful(self) -> bool:
        """Whether the GPU was slowed by a fault or by heat."""
        return bool(HARMFUL & set(self.throttle_reasons))


class ConditionsReader:
    """Reads the conditions of one device; this one is for a device without sensors."""

    def read(self) -> Conditions:
        """The conditions now."""
        return Conditions()


class NvmlReader(ConditionsReader):
    """Reads one GPU through nvidia-ml-py."""

    def __init__(self, index: int) -> None:
        """Open a GPU by its CUDA index, matched to NVML by PCI address.

        Raises:
            InfrastructureError: NVML is not there or does not know the GPU.
        """
        import pynvml

        self._nvml = pynvml
        try:
            pynvml.nvmlInit()
            self.handle = _handle(pynvml, index)
        except pynvml.NVMLError as error:
            raise InfrastructureError(f"NVML cannot read GPU {index}: {error}") from error

    def read(self) -> Conditions:
        nvml, handle = self._nvml, self.handle
        clock = self._ask(nvml.nvmlDeviceGetClockInfo, handle, nvml.NVML_CLOCK_SM)
        heat = self._ask(nvml.nvmlDeviceGetTemperature, handle, nvml.NVML_TEMPERATURE_GPU)
        power = self._ask(nvml.nvmlDeviceGetPowerUsage, handle)
        mask = self._ask(nvml.nvmlDeviceGetCurrentClocksThrottleReasons, handle)
        reasons = tuple(name for bit, name in THROTTLE_REASONS.items() if int(mask or 0) & bit and name != "gpu_idle")
        return Conditions(clock, heat, None if power is None else power / 1e3, reasons)

    def _ask(self, question: Any, *args: Any) -> float | None:
        try:
            return float(question(*args))
        except self._nvml.NVMLError:
            # A sensor this board or driver does not have; its field stays null.
            return None


def _handle(nvml: Any, index: int) -> Any:
    import torch

    properties: Any = torch.cuda.get_device_properties(index)
    wanted = (properties.pci_domain_id, properties.pci_bus_id, properties.pci_device_id)
    for number in range(nvml.nvmlDeviceGetCount()):
        handle = nvml.nvmlDeviceGetHandleByIndex(number)
        pci = nvml.nvmlDeviceGetPciInfo(handle)
        if (pci.domain, pci.bus, pci.device) == wanted:
            return handle
    raise InfrastructureError(f"NVML lists no GPU at PCI address {wanted}")
