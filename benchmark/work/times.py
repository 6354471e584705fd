"""White-box time: what a GPU needs at least for the work of a launch, resource by resource.

A launch takes as long as its scarcest resource on the fullest multiprocessor, plus its start. Resources overlap
imperfectly, so the largest demands add up in a norm whose exponent is one of the few fitted figures.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

from kbench.benchmark.work.caches import dram_bytes
from kbench.benchmark.work.gpus import Gpu, resident_blocks, waves
from kbench.benchmark.work.totals import LaunchWork, Work

WARPS_TO_HIDE = 16
"""Warps of a multiprocessor that hide the latency of instructions between them."""
FEW_BLOCKS = 4
"""Blocks of a multiprocessor among which a large one stands out."""
LOOKED_UP = 1 / 3
"""Share of special instructions that are lookups, where a count does not tell them apart from those that scale a
function's operand and refine its result."""
AS_FLOATS = 0.2
"""Share of integer instructions that assemblers make multiplications of, to use the float units too."""


@dataclasses.dataclass(frozen=True, slots=True)
class Fitted:
    """Figures that no document states, fitted on training problems (`kbench.benchmark.surrogates.counted.fit`)."""

    launch_us: float = 3.11
    """From one launch to the next."""
    step_us: float = 2.84
    """A fill or copy, without its bytes."""
    overlap: float = 2.16
    """Exponent of the norm in which demands add up: 1 is none overlapping, infinity all."""
    dram_share: float = 0.719
    """Of the stated rates, what kernels reach."""
    l2_share: float = 1.0
    tensor_share: float = 0.498
    issue_share: float = 1.0
    shared_share: float = 1.0
    round_ns: float = 158.0
    """A wait for global memory that other work does not hide."""
    barrier_cycles: float = 70.5
    dependent_cycles: float = 3.38
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
    lookups = block.lookups or LOOKED_UP * block.special
    floats = block.fma + AS_FLOATS * block.alu + block.special - lookups
    balance = fullest * gpu.multiprocessors / max(1, blocks)
    times = {
        "issue": fullest * block.issued / (gpu.issue_per_clock * rate),
        "alu": fullest * (1 - AS_FLOATS) * block.alu / (gpu.alu_per_clock * rate),
        "fma": fullest * floats / (gpu.fma_per_clock * rate),
        "special": fullest * lookups / (gpu.special_per_clock * rate),
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


def plan_time_us(work: Work, gpu: Gpu, fitted: Fitted) -> float:
    """Microseconds of all launches, fills and copies, one after another."""
    moved = work.fill_bytes + 2 * work.copy_bytes
    steps = (work.fills + work.copies) * fitted.step_us + moved / (1e3 * gpu.dram_gbps * fitted.dram_share)
    return steps + sum(launch_time(one, gpu, fitted).total * one.times for one in work.launches)


def least_time_us(nbytes: float, gpu: Gpu, fitted: Fitted) -> float:
    """Microseconds that moving so many bytes takes, as kernels usually move them."""
    return fitted.launch_us + nbytes / (1e3 * gpu.dram_gbps * fitted.dram_share)


def fastest(configurations: Sequence[Work], gpu: Gpu, fitted: Fitted) -> Work | None:
    """The configuration that an autotuner should choose; None where none could be counted."""
    counted = [work for work in configurations if work.launches and not work.errors]
    return min(counted, key=lambda work: plan_time_us(work, gpu, fitted), default=None)
