"""Every correct kernel of the dataset, planned and verified again.

planned_dataset.py OUT SECONDS [DONE...] [PROBLEM...]

The memory after each tensor is unmapped, so that a kernel that goes past its end fails. Writes planned.jsonl: for each
kernel its verdict per workload, random and adversarial inputs included, and what its plans launch. Files named DONE
hold kernels that need not be looked at again, so that a long job can go on; with PROBLEMs, only theirs are.
"""

from __future__ import annotations

import json
import lzma
import sys
import time
from pathlib import Path
from typing import Any

from pool import GPU, out_folder, say

from kbench.harness.harness import Harness
from kbench.harness.plan.cache import Build, BuildCache, build_id
from kbench.loaders.corpus.corpus import load
from kbench.loaders.storage.scratch import cache_folder
from kbench.schemas import Backend, KernelSource, Measurement

COLUMNS = ["kernel_id", "problem_id", "backend", "source"]


def done(paths: list[str]) -> set[str]:
    """Kernels of earlier runs."""
    found: set[str] = set()
    for path in paths:
        data = Path(path).read_bytes()
        lines = (lzma.decompress(data) if path.endswith(".xz") else data).splitlines()
        found |= {json.loads(line)["kernel_id"] for line in lines}
    return found


def summary(build: Build | None) -> dict[str, Any] | None:
    """What a build's plans do, workload by workload."""
    if build is None or not build.plans:
        return None
    return {name: one_plan(plans[0]) | {"configurations": len(plans)} for name, plans in build.plans.items()}


def one_plan(plan: dict[str, Any]) -> dict[str, Any]:
    """A plan's memory and launches, without its arguments."""
    kept = ("function", "grid", "block", "cluster", "cooperative", "shared_bytes")
    launches = [{key: step[key] for key in kept} for step in plan["steps"] if step["kind"] == "launch"]
    allocated = sum(buffer["nbytes"] for buffer in plan["buffers"] if buffer["input"] is None)
    return {
        "allocated_bytes": allocated,
        "buffers": sum(buffer["input"] is None for buffer in plan["buffers"]),
        "fills": sum(step["kind"] == "fill" for step in plan["steps"]),
        "copies": sum(step["kind"] == "copy" for step in plan["steps"]),
        "launches": launches,
    }


def main() -> None:
    folder, limit = out_folder(), float(sys.argv[2])
    seen = done([name for name in sys.argv[3:] if Path(name).exists()])
    problems = {name for name in sys.argv[3:] if not Path(name).exists()}
    rows = load(gpu=GPU, where="status == 'ok'", columns=COLUMNS).to_arrow().to_pylist()
    rows = [row for row in rows if not problems or row["problem_id"] in problems]
    rows = sorted((row for row in rows if row["kernel_id"] not in seen), key=lambda row: row["problem_id"])
    began, count = time.monotonic(), 0
    with Harness(gpu=0, fenced=True, spares=3) as harness, (folder / "planned.jsonl").open("w") as file:
        cache, facts = BuildCache(cache_folder()), None

        def source() -> Any:
            for row in rows:
                if time.monotonic() - began > limit:
                    return
                yield KernelSource(row["problem_id"], Backend(row["backend"]), row["source"])

        group: list[Measurement] = []

        def finish() -> None:
            nonlocal facts
            if not group:
                return
            facts = facts or harness.device_facts()
            build = cache.get(build_id(group[0].kernel_id, harness.target(), facts))
            line = {
                "kernel_id": group[0].kernel_id,
                "problem_id": group[0].problem_id,
                "rows": [[m.workload, m.status.value, m.error, m.trust and m.trust.value] for m in group],
                "registers": group[0].registers,
                "spill_bytes": group[0].spill_bytes,
                "plans": summary(build),
            }
            file.write(json.dumps(line) + "\n")

        lost: list[str] = []
        measured = harness.measure(source(), check_only=True, on_lost=lambda kernel, why: lost.append(why))
        for row in measured:
            if group and row.kernel_id != group[0].kernel_id:
                finish()
                group, count = [], count + 1
                if count % 500 == 0:
                    say(f"{count} kernels in {time.monotonic() - began:.0f} s")
            group.append(row)
        finish()
        say(f"{count + 1} of {len(rows)} kernels in {time.monotonic() - began:.0f} s, {len(lost)} lost {lost[:3]}")
        say(str(harness.tally))
        (Path(folder) / "environment.json").write_text(json.dumps({"env": harness.environment().env_id}))


if __name__ == "__main__":
    sys.exit(__doc__) if "--help" in sys.argv else main()
