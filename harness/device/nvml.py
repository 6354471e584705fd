"""Conditions: clocks, temperature, power and throttle reasons, read through NVML."""

from __future__ import annotations

import dataclasses
from typing import Any, Protocol

from kbench.schemas import InfrastructureError

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


class ConditionsReader(Protocol):
    """Reads the conditions of one device."""

    def read(self) -> Conditions:
        """The conditions now."""


class NoConditions:
    """For a device without sensors."""

    def read(self) -> Conditions:
        return Conditions()


class NvmlReader:
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
