"""Counted work against the profiler's counters: how well it orders kernels of one problem and backend.

Reads a folder of JSON files, one per kernel, with `problem`, `backend`, `plans` (launch plans by workload), `ptx`
(texts by hash of machine code) and `counters` (rows of the dataset's table), and prints a JSON summary:

    python docs/evidence/scripts/work.py FOLDER > docs/evidence/work.json
"""

from __future__ import annotations

import json
import pathlib
import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from kbench.benchmark.work.count import count_plan
from kbench.schemas import from_dict
from kbench.schemas.records.launch_plan import LaunchPlan

ISSUE_SLOTS_PER_US = 4 * 132 * 1980
"""Instructions that the H200's multiprocessors can issue in a microsecond at their highest clock."""
SMALLEST_CELL = 4


def rows(folder: pathlib.Path) -> Iterator[dict[str, Any]]:
    """Counted and measured figures of every kernel and workload."""
    for path in sorted(folder.glob("*.json")):
        kernel = json.loads(path.read_text())
        plans = {name: [from_dict(LaunchPlan, plan) for plan in several] for name, several in kernel["plans"].items()}
        for counters in kernel["counters"]:
            if not plans.get(counters["workload"]):
                continue
            start = time.perf_counter()
            work = count_plan(plans[counters["workload"]][0], kernel["ptx"])
            # Issue slots were counted while multiprocessors were active, and a small grid leaves many idle.
            active = min(1.0, max((one.blocks for one in work.launches), default=0) / 132)
            measured = counters["issue_percent"] / 100 * ISSUE_SLOTS_PER_US * counters["profiled_us"]
            yield {
                "kernel": path.stem,
                "cell": (kernel["problem"], kernel["backend"], counters["workload"]),
                "seconds": time.perf_counter() - start,
                "errors": list(work.errors),
                "unknown": work.total.unknown_branches > 0,
                "uncertain": work.uncertain_share,
                "instructions": work.total.issued,
                "l2_bytes": work.total.l2_bytes,
                "measured_instructions": measured,
                "instructions_active": work.total.issued,
                "measured_instructions_active": measured * active,
                "measured_l2_bytes": float(counters["l2_bytes"]),
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
        if row[name] > 0 and row[f"measured_{name}"] > 0:
            cells[row["cell"]].append(row)
    kept = [cell for cell in cells.values() if len(cell) >= SMALLEST_CELL]
    by_cell = [rank_correlation([r[name] for r in cell], [r[f"measured_{name}"] for r in cell]) for cell in kept]
    ratios = np.log2([row[name] / row[f"measured_{name}"] for cell in cells.values() for row in cell])
    draws = np.random.default_rng(0).choice(by_cell, (2000, len(by_cell))).mean(axis=1)
    return {
        "cells": len(kept),
        "kernels": sum(len(cell) for cell in kept),
        "mean_rank_correlation": float(np.mean(by_cell)),
        "interval_95": [float(q) for q in np.quantile(draws, [0.025, 0.975])],
        "log2_ratio_quartiles": [float(q) for q in np.quantile(ratios, [0.25, 0.5, 0.75])],
    }


def main() -> None:
    """Print the summary; with --rows, every kernel to standard error."""
    counted = list(rows(pathlib.Path(sys.argv[1])))
    if "--rows" in sys.argv:
        for row in counted:
            sys.stderr.write(json.dumps(row) + "\n")
    report = {
        "kernels": len({row["kernel"] for row in counted}),
        "counted": sum(not row["errors"] for row in counted),
        "without_unknown_branch": sum(not row["errors"] and not row["unknown"] for row in counted),
        "median_seconds": float(np.median([row["seconds"] for row in counted])),
        "instructions": summary(counted, "instructions"),
        "instructions_with_idle_multiprocessors_left_out": summary(counted, "instructions_active"),
        "l2_bytes": summary(counted, "l2_bytes"),
    }
    sys.stdout.write(json.dumps(report, indent=2) + "\n")


if __name__ == "__main__":
    main()
