"""Counted work against the profiler's counters: how well it orders kernels of one problem and backend.

Reads a folder with `profiled.parquet`, the work counted in the PTX that was recorded when kernels were profiled, in the
form of `totals.py`, and `counters-*.jsonl.xz`, one line per kernel and workload with the metrics of the profiler by
launch, and prints a JSON summary:

    python docs/evidence/scripts/work.py FOLDER [TABLE]

TABLE is another file of the folder with counted work: `recounted-before.parquet` and `recounted.parquet` have kernels
counted by the earlier and by today's counting, with the same compilers.

The work is not that of config `plans`: other versions of the compilers make other machine code of the same kernels.
"""

from __future__ import annotations

import json
import lzma
import pathlib
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from kbench.benchmark.work.caches import crossings
from kbench.benchmark.work.gpus import H200
from kbench.benchmark.work.table import read_work_text
from kbench.benchmark.work.times import Fitted, plan_time_us
from kbench.benchmark.work.totals import Work
from kbench.loaders.corpus.corpus import Corpus

SMALLEST_CELL = 4
METRICS = {
    "instructions": ("sm__inst_executed.sum",),
    "l2_bytes": ("lts__t_bytes.sum",),
    "dram_bytes": ("dram__bytes_read.sum", "dram__bytes_write.sum"),
    "shared_wavefronts": ("l1tex__data_pipe_lsu_wavefronts_mem_shared.sum",),
    "alu": ("sm__inst_executed_pipe_alu.sum",),
    "fma": ("sm__inst_executed_pipe_fma.sum",),
    "memory": ("sm__inst_executed_pipe_lsu.sum",),
}


def rows(folder: pathlib.Path, table: str = "profiled.parquet") -> Iterator[dict[str, Any]]:
    """Counted and measured figures of every kernel and workload that was profiled."""
    counters = {(row["kernel_id"], row["workload"]): row for row in lines(folder, "counters-*.jsonl.xz")}
    columns = ["kernel_id", "problem_id", "backend"]
    kernels = {row["kernel_id"]: row for row in Corpus.open().table("kernels", columns=columns).to_pylist()}
    for row in pq.read_table(folder / table).to_pylist():
        measured = counters.get((row["kernel_id"], row["workload"]))
        if measured is not None:
            work = read_work_text(row["work_json"], row["kernel_id"])[0]
            yield compared(kernels[row["kernel_id"]], work, measured)


def lines(folder: pathlib.Path, pattern: str) -> Iterator[dict[str, Any]]:
    for path in sorted(folder.glob(pattern)):
        yield from map(json.loads, lzma.decompress(path.read_bytes()).decode().splitlines())


def compared(kernel: dict[str, Any], work: Work, measured: dict[str, Any]) -> dict[str, Any]:
    """One plan's figures beside the profiler's."""
    total, crossing = work.total, crossings(work, H200)
    dram, l2 = sum(one.dram for one in crossing), sum(one.l2 for one in crossing)
    counted = {"instructions": total.issued, "dram_bytes": dram, "l2_bytes": l2}
    counted |= {name: getattr(total, name) for name in METRICS if name not in counted}
    return {
        "kernel": kernel["kernel_id"],
        "work": work,
        "dram_written": sum(measured["dram__bytes_write.sum"]),
        "cell": (kernel["problem_id"], kernel["backend"], measured["workload"]),
        "errors": list(work.errors),
        "unknown": total.unknown_branches > 0,
        "uncertain": total.uncertain / max(1.0, total.ptx_instructions),
        "time_us": plan_time_us(work, H200, Fitted()),
        "measured_time_us": sum(measured["duration_ns"]) / 1e3,
        **counted,
        **{f"measured_{name}": sum(sum(measured.get(m, [])) for m in metrics) for name, metrics in METRICS.items()},
    }


def rank_correlation(a: Sequence[float], b: Sequence[float]) -> float:
    """Spearman's, with mean ranks for ties."""
    first, second = (np.array([[(x > y) + (x == y) / 2 for y in v] for x in v]).sum(axis=1) for v in (a, b))
    if not first.std() or not second.std():
        return 0.0
    return float(np.corrcoef(first, second)[0, 1])


def summary(counted: Sequence[dict[str, Any]], name: str) -> dict[str, Any]:
    """Agreement of one figure with its measurement."""
    cells: defaultdict[tuple[str, ...], list[dict[str, Any]]] = defaultdict(list)
    for row in counted:
        if row[f"measured_{name}"] > 0:
            cells[row["cell"]].append(row)
    kept = [cell for cell in cells.values() if len(cell) >= SMALLEST_CELL]
    by_cell = [rank_correlation([r[name] for r in cell], [r[f"measured_{name}"] for r in cell]) for cell in kept]
    ratios = [r[name] / r[f"measured_{name}"] for cell in cells.values() for r in cell if r[name] > 0]
    draws = np.random.default_rng(0).choice(by_cell, (2000, len(by_cell))).mean(axis=1)
    return {
        "cells": len(kept),
        "kernels": sum(len(cell) for cell in kept),
        "mean_rank_correlation": float(np.mean(by_cell)),
        "interval_95": [float(q) for q in np.quantile(draws, [0.025, 0.975])],
        "log2_ratio_quartiles": [float(q) for q in np.quantile(np.log2(ratios), [0.25, 0.5, 0.75])],
        "median_log2_error": float(np.median(np.abs(np.log2(ratios)))),
    }


def main() -> None:
    """Print the summary."""
    counted = list(rows(pathlib.Path(sys.argv[1]), *sys.argv[2:]))
    report = {
        "kernels": len({row["kernel"] for row in counted}),
        "kernels_and_workloads": len(counted),
        "counted": sum(not row["errors"] for row in counted),
        "without_unknown_branch": sum(not row["errors"] and not row["unknown"] for row in counted),
        **{name: summary(counted, name) for name in (*METRICS, "time_us")},
    }
    sys.stdout.write(json.dumps(report, indent=2) + "\n")


if __name__ == "__main__":
    sys.exit(__doc__) if "--help" in sys.argv else main()
