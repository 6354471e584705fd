"""Launch plans of a few kernels of every problem that has none yet, made without a GPU. Usage: SECONDS OUT.jsonl.xz

Takes kernels whose `run` loops, comprehends or calls functions first, since those are hardest to read from source,
then one kernel per problem, backend and proposer. Kernels already in OUT are kept.
"""

from __future__ import annotations

import importlib
import json
import lzma
import multiprocessing
import random
import re
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from kbench import Backend, KernelSource, load
from kbench.harness.plan.device_facts import H200
from kbench.harness.plan.planner import plan_kernel
from kbench.harness.plan.target import Target
from kbench.schemas import to_dict

PLANNED = Path(__file__).parents[1] / "harness" / "planned.jsonl.xz"
COLUMNS = ["kernel_id", "problem_id", "backend", "proposer", "source"]
LAUNCH = ("grid", "block", "shared_bytes")
HARD = re.compile(r"\n +while |\n +for | for \w+ in |\*\*[a-z]|\n    (?!assert)\w+\(")
"""A loop, a comprehension, unpacked options or a bare call in `run`."""


def lines_of(path: Path) -> list[dict[str, Any]]:
    """Records of an earlier run."""
    return [json.loads(line) for line in lzma.decompress(path.read_bytes()).splitlines()] if path.exists() else []


def hard(source: str) -> tuple[str, ...]:
    """What makes a kernel's `run` hard to read."""
    run = source[source.rfind("\ndef run(") :]
    return tuple(sorted({each.strip() for each in HARD.findall(run)}))


def chosen(rows: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Of the hard ones one per problem, backend and what makes it hard; then one per problem, backend and proposer."""
    random.Random(0).shuffle(rows)
    seen: set[tuple[str, ...]] = set()
    for row in sorted(rows, key=lambda row: not hard(row["source"])):
        key = (row["problem_id"], row["backend"], *(hard(row["source"]) or (row["proposer"],)))
        if key not in seen:
            seen.add(key)
            yield row


def summary(row: dict[str, Any]) -> dict[str, Any]:
    """What a kernel's plans launch and allocate, by workload; or why there are none."""
    kernel = KernelSource(row["problem_id"], Backend(row["backend"]), row["source"])
    with tempfile.TemporaryDirectory() as folder:
        found = plan_kernel(kernel, Target.named("sm_90"), H200, Path(folder))
    plans = {name: one_plan(to_dict(plans[0])) for name, plans in found.plans.items()}
    named = {"kernel_id": row["kernel_id"], "problem_id": row["problem_id"], "hard": bool(hard(row["source"]))}
    return named | {"error": found.error, "plans": plans}


def one_plan(plan: dict[str, Any]) -> dict[str, Any]:
    """A plan's memory and launches."""
    steps, own = plan["steps"], [each for each in plan["buffers"] if each["input"] is None]
    return {
        "allocated_bytes": sum(each["nbytes"] for each in own),
        "fills": sum(step["kind"] == "fill" for step in steps),
        "copies": sum(step["kind"] == "copy" for step in steps),
        "launches": [{key: step[key] for key in LAUNCH} for step in steps if step["kind"] == "launch"],
    }


@click.command()
@click.argument("seconds", type=float)
@click.argument("out", type=click.Path(path_type=Path))
def main(seconds: float, out: Path) -> None:
    """Plan until the time is over."""
    began, lines = time.monotonic(), lines_of(out)
    done = {line["kernel_id"] for line in lines}
    planned = {line["problem_id"] for line in lines_of(PLANNED)}
    rows = [
        row
        for row in load(where="status == 'ok'", columns=COLUMNS).to_arrow().to_pylist()
        if row["problem_id"] not in planned
    ]
    # A process per kernel, as the harness has it: what a kernel's host code leaves behind ends with it. Modules that
    # take seconds to import are imported once, before it forks.
    for name in ("torch", "triton"):
        importlib.import_module(name)
    with multiprocessing.get_context("fork").Pool(1, maxtasksperchild=1) as pool:
        for row in chosen(rows):
            if time.monotonic() - began > seconds:
                break
            if row["kernel_id"] not in done:
                lines.append(pool.apply(summary, (row,)))
    out.write_bytes(lzma.compress("".join(json.dumps(line) + "\n" for line in lines).encode()))
    click.echo(f"{len(lines)} kernels of {len({line['problem_id'] for line in lines})} problems")


if __name__ == "__main__":
    main()
