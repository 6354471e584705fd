"""How many blocks of a launch run at once."""

from __future__ import annotations

from kbench.benchmark.work.gpus import Gpu
from kbench.benchmark.work.totals import LaunchWork

ALLOCATION = 256
"""Registers are handed out to warps in units of this many."""


def resident_blocks(launch: LaunchWork, gpu: Gpu) -> int:
    """Blocks that a multiprocessor holds at once."""
    warps = -(-launch.threads // gpu.warp)
    limits = [gpu.blocks, gpu.threads // max(1, warps * gpu.warp), gpu.shared_bytes // (launch.shared_bytes + 1024)]
    if launch.registers:
        per_warp = -(-launch.registers * gpu.warp // ALLOCATION) * ALLOCATION
        limits.append(gpu.registers // max(1, warps * per_warp))
    return max(1, min(limits))


def waves(launch: LaunchWork, gpu: Gpu) -> int:
    """Rounds in which the blocks run."""
    return -(-launch.blocks // (resident_blocks(launch, gpu) * gpu.multiprocessors))
