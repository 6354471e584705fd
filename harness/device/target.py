"""Target: what a plan is made for: the architecture, in the spelling of each compiler, and the facts of the device."""

from __future__ import annotations

import dataclasses
import functools
import importlib.metadata
from typing import Any

from kbench.benchmark.work.gpus import gpu_named
from kbench.harness.cuda import architecture
from kbench.schemas import UnknownNameError

KNOWN_TARGETS = {
    "sm_80": (8, 0),
    "sm_86": (8, 6),
    "sm_89": (8, 9),
    "sm_90": (9, 0),
    "sm_100": (10, 0),
    "sm_120": (12, 0),
}


@dataclasses.dataclass(frozen=True, slots=True)
class Target:
    """A compute capability."""

    major: int
    minor: int

    @classmethod
    def named(cls, name: str) -> Target:
        """The target called sm_90 and the like, or that of a GPU such as H100; a trailing `a` is accepted.

        Raises:
            UnknownNameError: with the nearest names.
        """
        if name.rstrip("a") in KNOWN_TARGETS:
            return cls(*KNOWN_TARGETS[name.rstrip("a")])
        capability = None if name.startswith("sm_") else gpu_named(name).capability
        if capability is None:
            raise UnknownNameError("target", name, KNOWN_TARGETS)
        major, minor = map(int, capability.split("."))
        return cls(major, minor)

    @property
    def nvrtc(self) -> str:
        """NVRTC's spelling, such as sm_90a."""
        return architecture(self.major, self.minor)

    @property
    def triton(self) -> int:
        """Triton's spelling, such as 90."""
        return self.major * 10 + self.minor

    def __str__(self) -> str:
        return f"sm_{self.major}{self.minor}"


@functools.cache
def compiler_versions() -> str:
    """Versions of everything that decides the machine code; part of a build's identity."""
    versions = []
    for package in ("triton", "cuda-core", "nvidia-cuda-nvrtc", "nvidia-cuda-nvrtc-cu12", "nvidia-cuda-nvrtc-cu13"):
        try:
            versions.append(f"{package}={importlib.metadata.version(package)}")
        except importlib.metadata.PackageNotFoundError:
            continue
    return " ".join(versions)


@dataclasses.dataclass(frozen=True, slots=True)
class DeviceFacts:
    """Facts that host code may ask for of the device a plan is for; anything else fails the planning."""

    name: str
    major: int
    minor: int
    multi_processor_count: int
    total_memory: int
    L2_cache_size: int
    shared_memory_per_block: int
    shared_memory_per_block_optin: int
    shared_memory_per_multiprocessor: int
    regs_per_multiprocessor: int
    max_threads_per_multi_processor: int
    warp_size: int = 32
    max_threads_per_block: int = 1024


H200 = DeviceFacts("NVIDIA H200", 9, 0, 132, 150_109_880_320, 62_914_560, 49_152, 232_448, 233_472, 65_536, 2_048)
"""The device that plans are made for where none is at hand."""


def facts_of(properties: Any) -> DeviceFacts:
    """The facts of a device as torch reports its properties."""
    facts: dict[str, Any] = {
        field.name: getattr(properties, field.name, field.default) for field in dataclasses.fields(DeviceFacts)
    }
    return DeviceFacts(**facts)
