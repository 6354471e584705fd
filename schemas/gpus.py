"""GPU names: a partition is named after its GPU and says how much of it it is."""

from __future__ import annotations

import re

PARTITION = re.compile(r"(.*) \((\d+) of (\d+) SMs\)")


def partition_name(gpu: str, sms: int, of: int) -> str:
    """The name of a partition of a GPU, such as NVIDIA H200 (64 of 132 SMs)."""
    return f"{gpu} ({sms} of {of} SMs)"


def whole_gpu(name: str) -> str:
    """The name of the GPU that a device is, or is a partition of."""
    found = PARTITION.fullmatch(name)
    return name if found is None else found[1]


def partition_size(name: str) -> tuple[int, int] | None:
    """Multiprocessors of a partition and of its GPU; None for a whole GPU."""
    found = PARTITION.fullmatch(name)
    return None if found is None else (int(found[2]), int(found[3]))
