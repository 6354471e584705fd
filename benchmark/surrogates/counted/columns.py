"""A kernel as a row of numbers: its white-box time on a GPU, what that time is made of, and how the work is done."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from kbench.benchmark.metrics.arrays import Floats
from kbench.benchmark.work.gpus import Gpu
from kbench.benchmark.work.times import (
    RESOURCES,
    Fitted,
    dram_bytes,
    fastest,
    launch_time,
    plan_time_us,
    resident_blocks,
    waves,
)
from kbench.benchmark.work.totals import LaunchWork, Work

LEAST_US = 1e-3
FEW = ("issue", "alu", "fma", "special", "double", "tensor", "shared", "l2", "dram", "latency")
"""Resources whose part in the time is a column: launches have a column of their own."""
OWN = (
    "launches", "fills", "registers", "stack", "uncertain", "unknown_addresses", "load_sectors", "store_sectors",
    "load_width", "load_overlap", "l1_misses", "bulk", "bank_conflicts", "barriers", "atomics", "alu_share",
    "fma_share", "special_share", "memory_share", "tensor_share", "control_share", "precision", "issued", "flops",
    "l2_bytes", "dram_bytes",
)  # fmt: skip
LONGEST = (
    "occupancy", "warps", "blocks", "waves", "tail", "shared_bytes", "largest_block", "instructions_per_warp",
)  # fmt: skip
"""Columns of the launch that takes longest."""
COLUMNS: tuple[str, ...] = ("time", *(f"{name}_part" for name in FEW), *OWN, *LONGEST)
"""`time` is log2 of microseconds."""
TIME, UNCERTAIN = COLUMNS.index("time"), COLUMNS.index("uncertain")
assert set(FEW) < set(RESOURCES)


def kernel_row(work: Mapping[str, Sequence[Work]], gpu: Gpu, fitted: Fitted) -> Floats | None:
    """The mean over workloads; None where a launch of one could not be counted.

    Of several configurations the fastest counts, as it does for an autotuner.
    """
    rows = []
    for configurations in work.values():
        work_of_fastest = fastest(configurations, gpu, fitted)
        if work_of_fastest is None:
            return None
        rows.append(plan_row(work_of_fastest, gpu, fitted))
    return np.mean(rows, axis=0) if rows else None


def plan_row(work: Work, gpu: Gpu, fitted: Fitted) -> Floats:
    """COLUMNS of one plan."""
    times = [(one, launch_time(one, gpu, fitted)) for one in work.launches]
    whole = max(plan_time_us(work, gpu, fitted), LEAST_US)
    longest, _ = max(times, key=lambda pair: pair[1].total * pair[0].times)
    parts = [sum(getattr(time, name) * one.times for one, time in times) / whole for name in FEW]
    return np.array([math.log2(whole), *parts, *_own(work, gpu), *_of_launch(longest, gpu)])


def _own(work: Work, gpu: Gpu) -> list[float]:
    total = work.total
    issued = max(1.0, total.issued)
    matrix = {bits: getattr(total, f"flops_{bits}") for bits in (64, 32, 16, 8)}
    return [
        math.log2(1 + sum(one.times for one in work.launches)),
        float(work.fills + work.copies),
        max((one.registers for one in work.launches), default=0) / 255,
        math.log2(1 + max(one.stack_bytes for one in work.launches)),
        total.uncertain / max(1.0, total.ptx_instructions),
        total.unknown_addresses / (1 + total.load_requests + total.store_requests),
        math.log2((1 + total.load_sectors) / (1 + total.load_requests)),
        math.log2((1 + total.store_sectors) / (1 + total.store_requests)),
        math.log2((1 + total.load_bytes) / (1 + total.load_requests)),
        math.log2((1 + total.load_requests) / (1 + total.load_rounds)),
        math.log2((1 + total.l1_miss_sectors) / (1 + total.load_sectors)),
        math.log2((1 + total.bulk_load_bytes) / (1 + total.bulk_load_bytes + total.load_bytes)),
        math.log2((1 + total.shared_wavefronts) / (1 + total.shared_requests)),
        total.barriers / issued,
        math.log2(1 + total.atomics),
        *(getattr(total, name) / issued for name in ("alu", "fma", "special", "memory", "tensor", "control")),
        float(sum(2**place for place, bits in enumerate((32, 16, 8, 64)) if matrix[bits] > 0)),
        math.log2(issued),
        math.log2(1 + sum(matrix.values())),
        math.log2(1 + total.l2_bytes),
        math.log2(1 + sum(one.times * dram_bytes(one, gpu) for one in work.launches)),
    ]


def _of_launch(launch: LaunchWork, gpu: Gpu) -> list[float]:
    together, rounds = resident_blocks(launch, gpu), waves(launch, gpu)
    return [
        together * launch.threads / gpu.threads,
        float(launch.warps),
        math.log2(launch.blocks / gpu.multiprocessors),
        float(rounds),
        launch.blocks / (together * gpu.multiprocessors) / rounds,
        math.log2(1 + launch.shared_bytes),
        launch.largest,
        math.log2(max(1.0, launch.per_block.issued / max(1, launch.warps))),
    ]
