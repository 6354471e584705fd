"""Device facts: what host code may ask of the device it is planned for."""

from __future__ import annotations

import dataclasses
from typing import Any


@dataclasses.dataclass(frozen=True, slots=True)
class DeviceFacts:
    """What host code may ask of the device a plan is for; anything else fails the planning."""

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


class WatchedFacts(DeviceFacts):
    """Facts that remember whether host code asked for the number of multiprocessors.

    Plans that do not depend on it are the same for every partition of a GPU.
    """

    sm_count_asked = False

    def __getattribute__(self, name: str) -> Any:
        if name == "multi_processor_count":
            object.__setattr__(self, "sm_count_asked", True)
        return object.__getattribute__(self, name)


def watched(facts: DeviceFacts) -> WatchedFacts:
    """The same facts, not asked yet."""
    return WatchedFacts(**dataclasses.asdict(facts))


H200 = DeviceFacts("NVIDIA H200", 9, 0, 132, 150_109_880_320, 62_914_560, 49_152, 232_448, 233_472, 65_536, 2_048)
"""What plans are made for where no device says otherwise."""


def facts_of(properties: Any) -> DeviceFacts:
    """The facts of a device as torch reports its properties."""
    known: dict[str, Any] = {
        field.name: getattr(properties, field.name, field.default) for field in dataclasses.fields(DeviceFacts)
    }
    return DeviceFacts(**known)
