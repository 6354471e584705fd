"""Choose the kernels that `kbench contribute` measures: `python anchor_kernels.py > harness/commands/anchors.json`.

Fifty problems of as many families as possible, each with the fastest and a middling kernel of both backends. All were
measured on three device types, and every NVIDIA GPU since compute capability 8.0 can run them within 8 GB.
"""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from typing import Any

import click

import kbench
from kbench.benchmark.problems.registry import problems
from kbench.harness.bench.context import device_bytes
from kbench.harness.commands.selection import rotation

PROBLEMS = 50
LARGEST_BYTES = 4 << 30
"""Of a workload; what references allocate in between is not part of it."""
SHARED_BYTES = 48 << 10
NEWER = re.compile(
    r"wgmma|bulk|mbarrier|tensormap|setmaxnreg|fp8|float8|e4m3|sm_9|cluster|TensorDescriptor", re.IGNORECASE
)
"""Instructions and types that came after compute capability 8.0."""
COLUMNS = ["kernel_id", "problem_id", "family", "backend", "gpu", "runtime_us", "shared_bytes", "source"]


def main() -> None:
    rows = kbench.load(status="ok", columns=COLUMNS).to_arrow().to_pylist()
    devices = Counter(row["kernel_id"] for row in rows)
    gpu, known = kbench.Corpus.open(None).main_gpu(), problems()
    pools: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        portable = (row["shared_bytes"] or 0) <= SHARED_BYTES and not NEWER.search(row["source"])
        if row["gpu"] == gpu and devices[row["kernel_id"]] == 3 and portable and row["problem_id"] in known:
            pools[row["problem_id"], row["backend"]].append(row)
    families = {
        problem: pools[problem, "cuda"][0]["family"]
        for problem in known
        if all(len(pools[problem, backend]) >= 2 for backend in ("cuda", "triton"))
        and all(device_bytes(known[problem], size) <= LARGEST_BYTES for size in known[problem].sizes)
    }
    chosen = []
    for problem in sorted(rotation(families)[:PROBLEMS]):
        for backend in ("cuda", "triton"):
            pool = sorted(pools[problem, backend], key=lambda row: (row["runtime_us"], row["kernel_id"]))
            chosen += [pool[0]["kernel_id"], pool[(len(pool) + 1) // 2]["kernel_id"]]
    click.echo(json.dumps({"version": 1, "kernels": chosen}, indent=1))


if __name__ == "__main__":
    main()
