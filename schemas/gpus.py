"""GPU names: a partition is named after its GPU and says how much of it it is."""

from __future__ import annotations

import re

PARTITION = re.compile(r"(.*) \((\d+) of (\d+) SMs\)")


def partition_name(gpu: str, sms: int, of: int) -> str:
    """The name of a partition of a GPU, such as NVIDIA H200 (64 of 132 SMs)."""
    return f"{gpu} ({sms} of {of} SMs)"


def whole_gpu(name: str) -> str:
    """The name of the GPU that a device is, or is a partition of."""
    match = PARTITION.fullmatch(name)
    return name if match is None else match[1]


def partition_size(name: str) -> tuple[int, int] | None:
    """Multiprocessors of a partition and of its GPU; None for a whole GPU."""
    match = PARTITION.fullmatch(name)
    return None if match is None else (int(match[2]), int(match[3]))
