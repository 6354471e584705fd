"""White-box time: what a GPU needs at least for the work of a launch, resource by resource.

A launch takes as long as its scarcest resource on the fullest multiprocessor, plus its start. Resources overlap
imperfectly, so the largest demands add up in a norm whose exponent is one of the few fitted figures.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

from kbench.benchmark.work.gpus import Gpu
from kbench.benchmark.work.totals import LaunchWork, Traffic, Work

WARPS_TO_HIDE = 16
"""Warps of a multiprocessor that hide the latency of instructions between them."""
L2_KEPT = 0.6
"""Share of L2 that data read lately fills: parts are kept twice, near each half of the multiprocessors."""
FEW_BLOCKS = 4
"""Blocks of a multiprocessor among which a large one stands out."""
LOOKED_UP = 1 / 3
"""Share of a special function's instructions that look it up; the others scale its operand and refine its result."""
AS_FLOATS = 0.2
"""Share of integer instructions that assemblers make multiplications of, to use the float units too."""
ALLOCATION = 256
"""Registers are handed out to warps in units of this many."""


@dataclasses.dataclass(frozen=True, slots=True)
class Fitted:
    """Figures that no document states, fitted on training problems (`kbench.benchmark.surrogates.counted.fit`)."""

    launch_us: float = 4.35
    """From one launch to the next."""
    step_us: float = 3.38
    """A fill or copy, without its bytes."""
    overlap: float = 2.15
    """Exponent of the norm in which demands add up: 1 is none overlapping, infinity all."""
    dram_share: float = 0.95
    """Of the stated rates, what kernels reach."""
    l2_share: float = 0.919
    tensor_share: float = 0.529
    issue_share: float = 1.0
    shared_share: float = 1.0
    round_ns: float = 144.0
    """A wait for global memory that other work does not hide."""
    barrier_cycles: float = 77.0
    dependent_cycles: float = 3.4
    """Between instructions of one warp that need each other's results."""


@dataclasses.dataclass(frozen=True, slots=True)
class LaunchTime:
    """Microseconds that each resource alone would take, and all together."""

    issue: float
    alu: float
    fma: float
    special: float
    double: float
    tensor: float
    shared: float
    l2: float
    dram: float
    latency: float
    launch: float
    total: float

    @property
    def bound(self) -> str:
        """The resource that takes longest."""
        return max(RESOURCES, key=lambda name: getattr(self, name))


RESOURCES = ("issue", "alu", "fma", "special", "double", "tensor", "shared", "l2", "dram", "latency", "launch")


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


def launch_time(launch: LaunchWork, gpu: Gpu, fitted: Fitted) -> LaunchTime:
    """What a launch takes, by resource."""
    block, blocks = launch.per_block, launch.blocks
    # The fullest multiprocessor's blocks, the largest among them.
    fullest = float(-(-blocks // gpu.multiprocessors))
    fullest += launch.largest - 1 if fullest < FEW_BLOCKS else 0.0
    per_us = gpu.cycles_per_us
    rate = per_us * fitted.issue_share
    flops = {bits: getattr(block, f"flops_{bits}") * blocks for bits in (64, 32, 16, 8)}
    busy = min(1.0, blocks / gpu.multiprocessors)
    tensor = sum(n / (1e6 * gpu.tensor_tflops.get(bits, min(gpu.tensor_tflops.values()))) for bits, n in flops.items())
    floats = block.fma + AS_FLOATS * block.alu + (1 - LOOKED_UP) * block.special
    balance = fullest * gpu.multiprocessors / max(1, blocks)
    times = {
        "issue": fullest * block.issued / (gpu.issue_per_clock * rate),
        "alu": fullest * (1 - AS_FLOATS) * block.alu / (gpu.alu_per_clock * rate),
        "fma": fullest * floats / (gpu.fma_per_clock * rate),
        "special": fullest * LOOKED_UP * block.special / (gpu.special_per_clock * rate),
        "double": fullest * block.double / (gpu.double_per_clock * rate),
        "tensor": balance * tensor / fitted.tensor_share,
        "shared": fullest * block.shared_wavefronts * 128 / (gpu.shared_bytes_per_clock * per_us * fitted.shared_share),
        "l2": blocks * block.l2_bytes / (1e3 * gpu.l2_gbps * fitted.l2_share * max(busy, 0.05)),
        "dram": dram_bytes(launch, gpu) / (1e3 * gpu.dram_gbps * fitted.dram_share * min(1.0, max(2 * busy, 0.05))),
        "latency": waves(launch, gpu) * launch.largest * _chain_us(launch, gpu, fitted),
    }
    norm = math.pow(sum(math.pow(value, fitted.overlap) for value in times.values()), 1 / fitted.overlap)
    return LaunchTime(**times, launch=fitted.launch_us, total=fitted.launch_us + norm)


def _chain_us(launch: LaunchWork, gpu: Gpu, fitted: Fitted) -> float:
    """One block alone: its warps' instructions one after another, waits for memory, barriers."""
    block, warps = launch.per_block, max(1, launch.warps)
    together = resident_blocks(launch, gpu) * warps
    cycles = block.issued / warps * fitted.dependent_cycles * math.sqrt(min(1.0, WARPS_TO_HIDE / together))
    cycles += (block.barriers + block.waits) / warps * fitted.barrier_cycles
    return cycles / gpu.cycles_per_us + block.load_rounds / warps * fitted.round_ns / 1e3


def dram_bytes(launch: LaunchWork, gpu: Gpu) -> float:
    """Bytes that cross to memory: every byte once, and those again that L2 cannot keep.

    L2 keeps what the last blocks read, as many as it has room for. What later ones read again is gone, and so is what
    a block reads again when those that run beside it read more than L2 holds. What is written stays in L2 as far as it
    fits, and leaves it after the launch.
    """
    together = min(launch.blocks, resident_blocks(launch, gpu) * gpu.multiprocessors)
    kept, room = together, gpu.l2_bytes * L2_KEPT
    while kept < launch.blocks and sum(_union(one, launch.grid, 2 * kept) for one in launch.traffic) <= room:
        kept *= 2
    kept = min(kept, launch.blocks)
    crowded = sum(_union(one, launch.grid, together) for one in launch.traffic) > room
    total = written = 0.0
    for one in launch.traffic:
        least, touched = _union(one, launch.grid, launch.blocks), max(1.0, one.loads + one.stores)
        read = max(least, launch.blocks / kept * _union(one, launch.grid, kept))
        again = max(1.0, one.fetches / one.loads) if crowded and one.loads else 1.0
        total += read * again * one.loads / touched
        written += least * one.stores / touched
    return total + max(0.0, written - room)


def _union(one: Traffic, grid: tuple[int, int, int], blocks: int) -> float:
    """Bytes of a buffer that so many consecutive blocks touch together, from what neighbours share."""
    extents, left = [], blocks
    for extent in grid:
        extents.append(min(extent, left))
        left = -(-left // extent)
    touched = one.loads + one.stores
    spread = math.prod(1 + (n - 1) * share for n, share in zip(extents, one.new_share, strict=True))
    # Neighbours along the one axis of a flat grid may share what blocks further on do not.
    if blocks > 1 and sum(extent > 1 for extent in grid) == 1 and one.far_share > max(one.new_share):
        spread = max(spread, math.sqrt(spread * (1 + (blocks - 1) * one.far_share)))
    return min(touched * spread, one.nbytes) if one.nbytes else touched * spread


def plan_time_us(work: Work, gpu: Gpu, fitted: Fitted) -> float:
    """Microseconds of all launches, fills and copies, one after another."""
    moved = work.fill_bytes + 2 * work.copy_bytes
    steps = (work.fills + work.copies) * fitted.step_us + moved / (1e3 * gpu.dram_gbps * fitted.dram_share)
    return steps + sum(launch_time(one, gpu, fitted).total * one.times for one in work.launches)


def fastest(configurations: Sequence[Work], gpu: Gpu, fitted: Fitted) -> Work | None:
    """The configuration that an autotuner should choose; None where none could be counted."""
    counted = [work for work in configurations if work.launches and not work.errors]
    return min(counted, key=lambda work: plan_time_us(work, gpu, fitted), default=None)
