"""How a kernel is launched, in numbers that mean the same in every problem: parallelism, work per thread, scratch."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from kbench.benchmark.surrogates.static.features.text import MOST_TEXT, names_in, settings_of
from kbench.benchmark.surrogates.static.reader.launches import Constants, traces
from kbench.benchmark.surrogates.static.reader.values import Trace

Rows = npt.NDArray[np.float32]
Row = tuple[float, ...]

NAMES: tuple[str, ...] = names_in(
    """
    block_threads launches fewest_blocks shared_bytes waves threads_per_sm outputs_per_thread inputs_per_thread
    flops_per_thread bytes_per_thread flops_per_block allocated cleared
    """
)
"""Means over workloads of logarithms; the launch is the one with the most threads, allocated memory is of all."""
UNKNOWN: Row = (-1.0,) * 7


def _log2(value: float) -> float:
    return math.log2(max(value, 1e-9))


def _numbers(trace: Trace) -> Row:
    """Threads of a block, launches, fewest blocks, shared bytes, blocks, elements allocated and cleared."""
    known = [launch for launch in trace.launches if launch.blocks and launch.threads]
    if not known:
        return UNKNOWN
    sizes = [(launch.blocks or 0.0) * (launch.threads or 0.0) for launch in known]
    largest = known[sizes.index(max(sizes))]
    return (
        _log2(largest.threads or 1.0),
        _log2(len(trace.launches)),
        _log2(min(launch.blocks or 1.0 for launch in known)),
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
    found = [_numbers(trace) for trace in traces(run, constants, workloads_json, processors)]
    if not found or UNKNOWN in found:
        return UNKNOWN
    return tuple(sum(column) / len(found) for column in zip(*found, strict=True))


def launch_rows(found: Sequence[Row], problem: dict[str, Rows]) -> Rows:
    """[kernels, NAMES].

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
