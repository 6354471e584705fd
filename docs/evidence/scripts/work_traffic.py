"""Derived L2 and memory traffic on problems that its model was not made on, and its constants with problems left out.

    python docs/evidence/scripts/work_traffic.py docs/evidence/runs/work [TABLE]   # `traffic` in evidence/work.json

The folder and TABLE are those of `work.py`; the other kernels are those of `totals-3.parquet` in it, or of TABLE, that
the dataset has hardware counters of, training problems only. Prints a JSON summary.
"""

from __future__ import annotations

import itertools
import json
import pathlib
import sys
from collections.abc import Iterator, Sequence

import numpy as np
from work import rows

from kbench.benchmark.questions.build import training_kernels
from kbench.benchmark.questions.corpus_view import benchmark_of
from kbench.benchmark.surrogates.counted.fit import GPU, read_works
from kbench.benchmark.work import caches
from kbench.benchmark.work.gpus import H200
from kbench.benchmark.work.totals import Work
from kbench.loaders.corpus.corpus import Corpus

KEPT, DIRTY = np.arange(0.6, 1.01, 0.05), (0.45, 0.5, 0.535, 0.57, 0.62)


def others(folder: pathlib.Path, known: set[str], *table: str) -> Iterator[tuple[str, Work, float, float]]:
    """Problem, work, and measured bytes of L2 and memory, of kernels of training problems besides the known ones."""
    corpus = Corpus.open(None)
    kernels = {
        row["kernel_id"]: row["problem_id"]
        for _, row in training_kernels(benchmark_of(corpus), ("train",))
        if row["gpu"] == GPU and row["problem_id"] not in known
    }
    works = read_works([folder / one for one in table or ("totals-3.parquet",)])
    for kernel_id in sorted(kernels.keys() & works.keys()):
        for row in corpus.table("counters", where=f"kernel_id == {kernel_id!r} and gpu == {GPU!r}").to_pylist():
            counted = [work for work in works[kernel_id].get(row["workload"], []) if work.launches and not work.errors]
            if len(counted) == 1:
                memory = row["dram_read_bytes"] + row["dram_write_bytes"]
                yield kernels[kernel_id], counted[0], row["l2_bytes"], memory


def errors(derived: Sequence[float], measured: Sequence[float]) -> dict[str, float]:
    """Absolute differences in octaves."""
    off = np.abs(np.log2(np.maximum(derived, 1.0) / np.array(measured)))
    return {"mean": round(float(off.mean()), 3), "median": round(float(np.median(off)), 3)}


def written(counted: Sequence[tuple[str, Work, float]], kept: float, dirty: float) -> np.ndarray:
    """Errors of bytes written to memory, in octaves, with other constants."""
    caches.KEPT, caches.DIRTY = kept, dirty
    derived = [sum(one.dram_written for one in caches.crossings(work, H200)) for _, work, _ in counted]
    return np.abs(np.log2((np.array(derived) + 1e6) / (np.array([m for *_, m in counted]) + 1e6)))


def main() -> None:
    """Print the summary."""
    folder = pathlib.Path(sys.argv[1])
    counted = [(row["cell"][0], row["work"], row["dram_written"]) for row in rows(folder, *sys.argv[2:])]
    known = {problem for problem, *_ in counted}
    new = list(others(folder, known, *sys.argv[2:]))
    crossing = [caches.crossings(work, H200) for _, work, *_ in new]
    constants = (caches.KEPT, caches.DIRTY)
    grid = {pair: written(counted, *pair) for pair in itertools.product(KEPT.round(2).tolist(), DIRTY)}
    problems = np.array([problem for problem, *_ in counted])
    best = {p: min(grid, key=lambda pair: grid[pair][problems != p].mean()) for p in sorted(known)}
    held = np.concatenate([grid[best[p]][problems == p] for p in best])
    report = {
        "other_problems": len({problem for problem, *_ in new}),
        "other_kernels_and_workloads": len(new),
        "l2_log2_error": errors([sum(one.l2 for one in each) for each in crossing], [row[2] for row in new]),
        "dram_log2_error": errors([sum(one.dram for one in each) for each in crossing], [row[3] for row in new]),
        "written_log2_error": round(float(written(counted, *constants).mean()), 3),
        "written_log2_error_problem_left_out": round(float(held.mean()), 3),
        "constants_problem_left_out": {p: [*map(float, best[p])] for p in best},
    }
    sys.stdout.write(json.dumps(report, indent=2) + "\n")


if __name__ == "__main__":
    sys.exit(__doc__) if "--help" in sys.argv else main()
