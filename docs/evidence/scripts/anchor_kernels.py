"""Choose the kernels that `kbench contribute` measures: `python anchor_kernels.py > harness/commands/anchors.json`.

Kernels that were correct again on the latest harness (docs/evidence/again.jsonl.xz), of problems whose workloads are
small, spread over problems, backends and speeds. Every NVIDIA GPU since compute capability 8.0 can run them.
"""

from __future__ import annotations

import json
import lzma
import re
from collections import defaultdict
from pathlib import Path
from typing import Any

import click

import kbench
from kbench.benchmark.problems.registry import problems
from kbench.harness.bench.context import device_bytes

AGAIN = Path(__file__).parents[1] / "again.jsonl.xz"
KERNELS = 200
LARGEST_BYTES = 5 << 29
"""Of a workload; what references allocate in between is not part of it."""
HUNGRY = frozenset({"codebook_linear", "nbody_forces"})
"""Problems whose references allocate 3 GiB and more in between."""
SHARED_BYTES = 48 << 10
NEWER = re.compile(
    r"wgmma|bulk|mbarrier|tensormap|setmaxnreg|fp8|float8|e4m3|sm_9|cluster|TensorDescriptor", re.IGNORECASE
)
"""Instructions and types that came after compute capability 8.0."""
COLUMNS = ["kernel_id", "problem_id", "backend", "runtime_us", "shared_bytes", "source"]


def main() -> None:
    with lzma.open(AGAIN, "rt") as lines:
        measured = [json.loads(line) for line in lines]
    wrong = {row["kernel_id"] for row in measured if row["status"] != "ok"}
    correct = {row["kernel_id"] for row in measured} - wrong
    known = problems()
    small = {
        name
        for name, one in known.items()
        if name not in HUNGRY and all(device_bytes(one, size) <= LARGEST_BYTES for size in one.sizes)
    }
    pools: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    for row in (
        kbench.load(gpu=kbench.Corpus.open(None).main_gpu(), status="ok", columns=COLUMNS).to_arrow().to_pylist()
    ):
        portable = (row["shared_bytes"] or 0) <= SHARED_BYTES and not NEWER.search(row["source"])
        if row["kernel_id"] in correct and row["problem_id"] in small and portable:
            pools[row["problem_id"], row["backend"]].append(row)
    each = next(each for each in range(1, KERNELS) if len(spread(pools, each)) >= KERNELS)
    click.echo(json.dumps({"version": 1, "kernels": spread(pools, each)[:KERNELS]}, indent=1))


def spread(pools: dict[tuple[str, str], list[dict[str, Any]]], each: int) -> list[str]:
    """So many kernels of each pool, from the fastest to the slowest."""
    chosen = []
    for key in sorted(pools):
        pool = sorted(pools[key], key=lambda row: (row["runtime_us"], row["kernel_id"]))
        count = min(each, len(pool))
        chosen += [pool[at * (len(pool) - 1) // max(1, count - 1)]["kernel_id"] for at in range(count)]
    return chosen


if __name__ == "__main__":
    main()
