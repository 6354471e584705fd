"""Rows for the trees: a kernel in its problem, and how it is launched, in numbers that mean the same in every one."""

from __future__ import annotations

import dataclasses
import functools
import json
import math
from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from kbench.benchmark.surrogates.static import problem_row as problem_features
from kbench.benchmark.surrogates.static import source as source_features
from kbench.benchmark.surrogates.static.problem_row import LOG2_KILO
from kbench.benchmark.surrogates.static.reader import Constants, traces
from kbench.benchmark.surrogates.static.shapes import Trace
from kbench.benchmark.surrogates.static.source import MOST_TEXT, names_in, settings_of
from kbench.schemas import Query

Rows = npt.NDArray[np.float32]

CROSS: tuple[str, ...] = names_in(
    "tiles waves tile_per_row threads_per_item work_per_thread persistent_waves compute_us memory_us over_floor"
)
"""Features of the kernel and its problem together, as logarithms."""
DEFAULT_CAPABILITY = "9.0"
"""Compute capability for queries that do not state their GPU's."""
_SOURCE = {name: index for index, name in enumerate(source_features.NAMES)}
_PROBLEM = {name: index for index, name in enumerate(problem_features.NAMES)}
Row = tuple[float, ...]

LAUNCH_NAMES: tuple[str, ...] = names_in(
    """
    block_threads launches fewest_blocks shared_bytes waves threads_per_sm outputs_per_thread inputs_per_thread
    flops_per_thread bytes_per_thread flops_per_block allocated cleared
    """
)
"""Means over workloads of logarithms; the launch is the one with the most threads, allocated memory is of all."""
UNKNOWN: Row = (-1.0,) * 7


def _peak(fixed: Rows, problem: Rows) -> Rows:
    """log2 operations per microsecond of the units the source asks for: tensor cores by precision, or plain ones."""
    dot, exact, three = (fixed[:, _SOURCE[f"number:{name}"]] > 0 for name in ("dot", "exact", "three_pass"))
    narrow = problem[:, _PROBLEM["dtype:float32"]] < 0.5
    tensor = problem[:, _PROBLEM["problem:peak"]] + 2 * LOG2_KILO
    # tf32 runs at half the rate of 16-bit types; three passes of it at a third of that.
    tensor = tensor - np.where(three, np.log2(6.0), np.where(narrow, 0.0, 1.0))
    plain = problem[:, _PROBLEM["problem:plain_peak"]] + 2 * LOG2_KILO
    return np.where(dot & ~exact, tensor, plain).astype(np.float32)


def _cross(fixed: Rows, problem: Rows) -> Rows:
    """How the tile divides the problem: number of tiles, waves over the GPU, share of a row."""

    def source(name: str) -> Rows:
        return fixed[:, _SOURCE[f"number:{name}"]]

    outputs, row = problem[:, _PROBLEM["problem:output_elements"]], problem[:, _PROBLEM["problem:last_dim"]]
    processors = np.log2(np.maximum(problem[:, _PROBLEM["problem:sm_count"]], 1.0))
    tiles = outputs - source("tile_product")
    flops = problem[:, _PROBLEM["problem:flops"]]
    compute = flops - _peak(fixed, problem)
    memory = problem[:, _PROBLEM["problem:bytes"]] - problem[:, _PROBLEM["problem:bandwidth"]] - LOG2_KILO
    columns = (
        tiles,
        tiles - processors,
        source("tile_1") - row,
        source("threads") + tiles - outputs,
        flops - tiles - source("threads"),
        tiles - processors - source("per_sm"),
        compute,
        memory,
        np.maximum(compute, memory) - problem[:, _PROBLEM["problem:floor_us"]],
    )
    return np.stack(columns, axis=1).astype(np.float32)


def _launched(pool: KernelPool, problem: Rows) -> Rows:
    """What is launched, and how the problem's work divides among its threads."""
    processors = problem[:, _PROBLEM["problem:sm_count"]].tolist()
    launches = [
        launch_row(*run_of(source), query.workloads_json, int(count) or None)
        for source, query, count in zip(pool.sources, pool.queries, processors, strict=True)
    ]
    names = ("output_elements", "input_elements", "flops", "bytes", "sm_count")
    return launch_rows(launches, {name: problem[:, _PROBLEM[f"problem:{name}"]] for name in names})


@dataclasses.dataclass(frozen=True, slots=True)
class RowLayout:
    """Where the columns of a kernel row are: its own, the problem's, and counts of words in the source."""

    @property
    def own(self) -> int:
        """Leading columns that belong to the kernel."""
        return source_features.OWN + len(CROSS) + len(LAUNCH_NAMES)

    @property
    def numbers(self) -> slice:
        """What the problem's size and the GPU's rates are."""
        return slice(self.own, self.own + len(problem_features.NUMBERS))

    @property
    def compact(self) -> slice:
        """Columns that mean the same in every problem; other words tell problems apart and mislead in an unseen one."""
        return slice(0, self.numbers.stop)

    @property
    def problem(self) -> slice:
        """Everything about the problem: its numbers, types, and what its reference calls."""
        return slice(self.own, self.own + len(problem_features.NAMES))

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all columns."""
        return (
            *source_features.NAMES[: source_features.OWN],
            *(f"cross:{name}" for name in CROSS),
            *(f"launch:{name}" for name in LAUNCH_NAMES),
            *problem_features.NAMES,
            *source_features.NAMES[source_features.OWN :],
        )

    def rows(self, pool: KernelPool) -> Rows:
        """One row per kernel of the pool."""
        if not pool.sources:
            return np.zeros((0, len(self.names)), dtype=np.float32)
        source = np.stack([source_features.fixed_row(text) for text in pool.sources])
        problem = np.stack([problem_of(query) for query in pool.queries])
        own, words = source[:, : source_features.OWN], source[:, source_features.OWN :]
        return np.concatenate([own, _cross(source, problem), _launched(pool, problem), problem, words], axis=1)


def problem_of(query: Query) -> Rows:
    """The problem's features."""
    return problem_features.problem_row(query.workloads_json, query.gpu_facts_json, query.problem_text)


def capability(query: Query) -> str:
    """What the kernels of a query are compiled for."""
    return str(json.loads(query.gpu_facts_json).get("compute_capability") or DEFAULT_CAPABILITY)


class KernelPool:
    """Distinct (source, problem, GPU, workloads) of some queries, so that each is predicted once."""

    def __init__(self, queries: Sequence[Query]) -> None:
        self._index: dict[tuple[str, str, str, str], int] = {}
        self.sources: list[str] = []
        self.queries: list[Query] = []
        self.candidate = np.array([self._add(q.candidate_source, q) for q in queries], dtype=np.int64)
        # The PyTorch reference is no kernel: its place is never looked at.
        self.anchor = np.array(
            [self._add(q.anchor_source, q) if q.kind != "reference" else 0 for q in queries], dtype=np.int64
        )

    def places(self) -> Iterator[tuple[tuple[str, str, str, str], int]]:
        """Every combination with its position."""
        yield from self._index.items()

    def _add(self, source: str, query: Query) -> int:
        key = (source, query.problem_id, query.gpu, query.workloads_json)
        if key not in self._index:
            self._index[key] = len(self.sources)
            self.sources.append(source)
            self.queries.append(query)
        return self._index[key]


def _log2(value: float) -> float:
    return math.log2(max(value, 1e-9))


def _numbers(trace: Trace) -> Row:
    """Threads of a block, launches, fewest blocks, shared bytes, blocks, elements allocated and cleared."""
    launches = [launch for launch in trace.launches if launch.blocks and launch.threads]
    if not launches:
        return UNKNOWN
    sizes = [(launch.blocks or 0.0) * (launch.threads or 0.0) for launch in launches]
    largest = launches[sizes.index(max(sizes))]
    return (
        _log2(largest.threads or 1.0),
        _log2(len(trace.launches)),
        _log2(min(launch.blocks or 1.0 for launch in launches)),
        _log2(1.0 + largest.shared_bytes),
        _log2(largest.blocks or 1.0),
        _log2(1.0 + trace.allocated),
        _log2(1.0 + trace.cleared),
    )


def run_of(source: str) -> tuple[str, Constants]:
    """The text of `run`, a kernel's last function, and constants it may use; nothing of texts that are too long."""
    if len(source) > MOST_TEXT:
        return "", ()
    run = source[source.rfind("\ndef run(") + 1 :]
    settings = settings_of(source)
    # What `run` itself sets are its own names, which are followed, and arguments of launches, which it cannot read.
    before = settings[: len(settings) - len(settings_of(run))]
    return run, tuple(each for each in before if each[0].isupper() and each[0] in run)


@functools.lru_cache(maxsize=32768)
def launch_row(run: str, constants: Constants, workloads_json: str, processors: int | None) -> Row:
    """What is known without the problem: means over workloads, all −1 where no launch is understood."""
    per_workload = [_numbers(trace) for trace in traces(run, constants, workloads_json, processors)]
    if not per_workload or UNKNOWN in per_workload:
        return UNKNOWN
    return tuple(sum(column) / len(per_workload) for column in zip(*per_workload, strict=True))


def launch_rows(found: Sequence[Row], problem: dict[str, Rows]) -> Rows:
    """[kernels, LAUNCH_NAMES].

    Args:
        found: of each kernel.
        problem: log2 of its problem's output_elements, input_elements, flops and bytes, and its GPU's sm_count.
    """
    threads, launches, fewest, shared, blocks, allocated, cleared = np.array(found, dtype=np.float32).T
    processors = np.log2(np.maximum(problem["sm_count"], 1.0))
    every = blocks + threads
    columns = (
        threads,
        launches,
        fewest,
        shared,
        blocks - processors,
        every - processors,
        *(problem[name] - every for name in ("output_elements", "input_elements", "flops", "bytes")),
        problem["flops"] - blocks,
        allocated - problem["output_elements"],
        cleared - problem["output_elements"],
    )
    return np.where(threads[:, None] < 0, -1.0, np.stack(columns, axis=1)).astype(np.float32)
