"""Environment: the machine and software, asked once by a worker and made into a record by the parent."""

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
from kbench.schemas import Environment, from_dict
from kbench.schemas.ids import content_hash

UNRECORDED = ("planning", "sm_ids", "reaches_host_memory")
"""Facts that are no part of the record."""


def device_facts(device: Device) -> dict[str, Any]:
    """What a worker knows about its device."""
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
