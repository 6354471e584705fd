"""Check the dataset's kernels behind a fence: which of those recorded ok go past the end of a tensor?

PYTHONPATH=src python docs/evidence/scripts/harness/fenced.py OUT [--seconds 500] [--dry-run]

Writes OUT/checked.jsonl, a line a kernel, and OUT/failed, a corpus of those that failed, which
`kbench data assemble --corrections` takes. What OUT/checked.jsonl has already is not checked again.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
from pool import GPU, make_harness

from kbench.harness.commands.journal import Journal
from kbench.harness.commands.measure import by_kernel
from kbench.loaders.corpus.corpus import load
from kbench.schemas import Backend, KernelSource, Status

DATASET = Path(__file__).parents[4] / "benchmark/dataset"
DETERMINED = "genome"
"""The proposer whose kernels are written by templates, from parameters that fit each other: checked last."""


def unchecked(done: set[str], limit: int | None) -> list[KernelSource]:
    """Kernels recorded ok, problem by problem, those that were edited as text first."""
    rows: list[dict[str, Any]] = load(DATASET, gpu=GPU, where="status == 'ok'").to_arrow().to_pylist()
    rows.sort(key=lambda row: (row["proposer"] == DETERMINED, row["problem_id"], row["kernel_id"]))
    left = [row for row in rows if row["kernel_id"] not in done][:limit]
    return [KernelSource(row["problem_id"], Backend(row["backend"]), row["source"]) for row in left]


def until(deadline: float, kernels: list[KernelSource]) -> Iterator[KernelSource]:
    """Kernels for as long as there is time."""
    for kernel in kernels:
        if time.monotonic() > deadline:
            return
        yield kernel


def main() -> None:
    """Check what is left."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--seconds", type=float, default=500.0)
    parser.add_argument("--dry-run", action="store_true")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    path = options.out / "checked.jsonl"
    done = {json.loads(line)["kernel_id"] for line in path.read_text().splitlines()} if path.exists() else set()
    kernels = unchecked(done, 4 if options.dry_run else None)
    known = {kernel.kernel_id: kernel for kernel in kernels}
    counts: Counter[str] = Counter()
    lost: list[str] = []
    began = time.monotonic()
    with (
        make_harness(**({} if options.dry_run else {"fenced": True, "spares": 3})) as harness,
        contextlib.closing(Journal(options.out / "failed")) as journal,
        path.open("a") as lines,
    ):
        feed = until(began + options.seconds, kernels)
        rows = harness.measure(feed, check_only=True, on_lost=lambda kernel, why: lost.append(why))
        for group in by_kernel(rows):
            bad = next((row for row in group if row.status is not Status.OK), None)
            counts[bad.status.value if bad else "ok"] += 1
            line = {"kernel_id": group[0].kernel_id, "workloads": [row.workload for row in group]}
            if bad is not None:
                line |= {"problem_id": bad.problem_id, "at": bad.workload, "status": bad.status, "error": bad.error}
                timed = [row for row in group if row.workload != "tiny"]
                journal.add(known[bad.kernel_id], timed, [harness.environment()])
            click.echo(json.dumps(line), file=lines)
        journal.commit()
    spent = time.monotonic() - began
    found = f"{sum(counts.values())} of {len(kernels)} checked in {spent:.0f} s: {dict(counts)}"
    click.echo(f"{found}; the machine failed {len(lost)} {lost[:3]}")


if __name__ == "__main__":
    main()
