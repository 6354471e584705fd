"""The fitted model: constants of the time, trees over columns, the reference's time, and how far off all that is."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from kbench.benchmark.metrics.arrays import Floats
from kbench.benchmark.surrogates.static.calibration import ErrorShape, probabilities
from kbench.benchmark.surrogates.static.forest import Forest, read_model, write_model
from kbench.benchmark.surrogates.static.model import Level
from kbench.benchmark.work.caches import dram_bytes
from kbench.benchmark.work.gpus import Gpu, resident_blocks, waves
from kbench.benchmark.work.times import RESOURCES, Fitted, fastest, launch_time, least_time_us, plan_time_us
from kbench.benchmark.work.totals import LaunchWork, Work
from kbench.schemas import DataError, Query

VERSION = 2
MODEL_FILE = Path(__file__).with_name("model.npz")
FIT_COMMAND = "python -m kbench.benchmark.surrogates.counted.fit"
KERNELS, REFERENCE = "kernels", "reference"
"""Kinds of question: one kernel against another, and against PyTorch."""
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


@dataclasses.dataclass(frozen=True, slots=True)
class Spread:
    """How a difference of two forecast times becomes a distribution over the bins."""

    slope: float
    """Share of the difference that is believed."""
    least: float
    """The width of a difference of nothing,"""
    grows: float
    """how much wider one octave is,"""
    unsure: float
    """and work that rests on branches which depend on data."""
    quantiles: tuple[float, ...]
    """Of errors, in units of the width."""
    prior: tuple[float, ...]
    """Frequencies of the bins, where nothing could be counted."""

    def answer(self, difference: Floats, uncertain: Floats) -> tuple[Floats, Floats]:
        """log2 speedups that are believed, and probabilities of the bins: [rows, 8]."""
        point = self.slope * difference
        shape = ErrorShape(np.asarray(self.quantiles))
        return point, probabilities(point, self.width(point, uncertain), shape)

    def width(self, point: Floats, uncertain: Floats) -> Floats:
        """How far off points usually are, up to a factor."""
        width: Floats = self.least + self.grows * np.abs(point) + self.unsure * uncertain
        return width


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class CountedModel:
    """Everything `static-compiler` knows."""

    fitted: Fitted
    forest: Forest
    """log2 of how much longer a kernel takes than its white-box time."""
    level: Level
    """log2 of how much longer PyTorch takes than the problem's least time."""
    spreads: Mapping[str, Spread]
    facts: Mapping[str, Any]
    """What it was fitted on."""

    def times(self, rows: Floats) -> Floats:
        """log2 microseconds of kernels, from rows of COLUMNS."""
        times: Floats = rows[:, TIME] + self.forest.predict(rows.astype(np.float32))
        return times

    def interval_us(self, row: Floats) -> tuple[float, float, float]:
        """Microseconds of a kernel with this row, and the ends of the interval that holds four in five."""
        time = float(self.times(row[None])[0])
        low, high = self.facts["cross_validation"]["time_log2_error"]
        return 2.0**time, 2.0 ** (time + low), 2.0 ** (time + high)

    def answer(self, kind: str, difference: float, *rows: Floats) -> tuple[float, tuple[float, ...]]:
        """log2 speedup and probabilities of the bins for a difference of log2 times of kernels with these rows."""
        uncertain = np.array([max(row[UNCERTAIN] for row in rows)])
        point, shares = self.spreads[kind].answer(np.array([difference]), uncertain)
        return float(point[0]), tuple(shares[0].tolist())

    def save(self, path: Path) -> None:
        """Write the file."""
        head = {
            "version": VERSION, "columns": COLUMNS, "fitted": dataclasses.asdict(self.fitted), "facts": self.facts,
            "spreads": {name: dataclasses.asdict(spread) for name, spread in self.spreads.items()},
        }  # fmt: skip
        write_model(path, head, self.forest.arrays("forest") | self.level.arrays())

    @classmethod
    def load(cls, path: Path = MODEL_FILE) -> CountedModel:
        """Read the file.

        Raises:
            DataError: it is not such a file, or of other columns.
        """
        head, arrays = read_model(path, VERSION, FIT_COMMAND)
        if tuple(head["columns"]) != COLUMNS:
            raise DataError(f"model {path} has other columns; make it with {FIT_COMMAND}")
        return cls(
            fitted=Fitted(**head["fitted"]),
            forest=Forest.from_arrays(arrays, "forest"),
            level=Level.from_arrays(arrays),
            spreads={name: Spread(**spread) for name, spread in head["spreads"].items()},
            facts=head["facts"],
        )


def kernel_row(
    work: Mapping[str, Sequence[Work]], gpu: Gpu, fitted: Fitted, min_bytes: Mapping[str, float]
) -> Floats | None:
    """The mean over workloads; None where a launch of one could not be counted.

    Of several configurations the fastest counts, as it does for an autotuner.

    Args:
        work: of each workload.
        gpu: where it runs.
        fitted: constants of the time.
        min_bytes: what any kernel must move for a workload, where that is known.
    """
    rows = []
    for name, configurations in work.items():
        work_of_fastest = fastest(configurations, gpu, fitted)
        if work_of_fastest is None:
            return None
        rows.append(plan_row(work_of_fastest, gpu, fitted, min_bytes.get(name, 0.0)))
    return np.mean(rows, axis=0) if rows else None


def bytes_of(query: Query) -> dict[str, float]:
    """What any kernel must move for each workload of a question, where that is known."""
    workloads = json.loads(query.workloads_json)
    return {workload["name"]: workload["min_bytes"] for workload in workloads if workload.get("min_bytes")}


def plan_row(work: Work, gpu: Gpu, fitted: Fitted, min_bytes: float) -> Floats:
    """COLUMNS of one plan.

    The time is at least that of the problem's own bytes: loops whose number of turns lies in memory may be counted
    short, by up to seven octaves (docs/results/work.md).
    """
    times = [(one, launch_time(one, gpu, fitted)) for one in work.launches]
    whole = max(plan_time_us(work, gpu, fitted), LEAST_US)
    longest, _ = max(times, key=lambda pair: pair[1].total * pair[0].times)
    parts = [sum(getattr(time, name) * one.times for one, time in times) / whole for name in FEW]
    time = max(whole, least_time_us(min_bytes, gpu, fitted))
    return np.array([math.log2(time), *parts, *_own(work, gpu), *_of_launch(longest, gpu)])


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
