"""A sample of the dataset's correct kernels, timed again by plan. Usage: retimed.py OUT SECONDS [DONE...]

Writes retimed.jsonl: verdict and time of each kernel on each workload. Without a GPU, `retimed.py --compare FILE...`
prints how far these times are from the dataset's, in logarithms, and which kernels differ by more than their intervals.
"""

from __future__ import annotations

import json
import lzma
import math
import random
import statistics
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pool import GPU, out_folder, say

from kbench.harness.harness import Harness
from kbench.loaders.corpus.corpus import load
from kbench.schemas import Backend, KernelSource

KERNELS = 1600
COLUMNS = ["kernel_id", "problem_id", "backend", "source"]
KEPT = ("kernel_id", "problem_id", "workload", "error", "runtime_us", "runtime_low_us", "runtime_high_us", "speedup")


def lines(paths: list[str]) -> Iterator[dict[str, Any]]:
    """Rows of earlier runs."""
    for path in paths:
        data = Path(path).read_bytes()
        yield from map(json.loads, (lzma.decompress(data) if path.endswith(".xz") else data).splitlines())


def drawn(done: set[str]) -> list[KernelSource]:
    """The sample, problem by problem, without what was timed already."""
    rows = load(gpu=GPU, where="status == 'ok'", columns=COLUMNS).to_arrow().to_pylist()
    random.Random(18).shuffle(rows)
    chosen = sorted(rows[:KERNELS], key=lambda row: row["problem_id"])
    return [
        KernelSource(row["problem_id"], Backend(row["backend"]), row["source"])
        for row in chosen
        if row["kernel_id"] not in done
    ]


def measure() -> None:
    folder, limit = out_folder(), float(sys.argv[2])
    began, count = time.monotonic(), 0
    kernels = drawn({row["kernel_id"] for row in lines(sys.argv[3:])})
    with Harness(gpu=0, second_clock_share=0.0) as harness, (folder / "retimed.jsonl").open("w") as file:

        def source() -> Iterator[KernelSource]:
            for kernel in kernels:
                if time.monotonic() - began > limit:
                    return
                yield kernel

        for row in harness.measure(source(), on_lost=lambda kernel, why: say(f"lost {kernel.kernel_id}: {why}")):
            file.write(json.dumps({name: getattr(row, name) for name in KEPT} | {"status": row.status.value}) + "\n")
            count += 1
        wall = time.monotonic() - began
        say(f"{count} measurements of {len(kernels)} kernels in {wall:.0f} s, {count / wall:.1f}/s; {harness.tally}")


def compare(paths: list[str]) -> None:
    """How far the times are from the dataset's."""
    columns = ["kernel_id", "workload", "runtime_us", "runtime_low_us", "runtime_high_us", "speedup"]
    known = {
        (row["kernel_id"], row["workload"]): row
        for row in load(config="measurements", gpu=GPU, columns=columns).to_arrow().to_pylist()
    }
    again = [row for row in lines(paths) if row["status"] == "ok"]
    pairs = [(row, known[row["kernel_id"], row["workload"]]) for row in again]
    for low, high in ((0.0, 10.0), (10.0, 20.0), (20.0, 100.0), (100.0, math.inf), (20.0, math.inf)):
        chosen = [(new, old) for new, old in pairs if low <= old["runtime_us"] < high]
        gaps = [math.log(new["runtime_us"] / old["runtime_us"]) for new, old in chosen]
        size = sorted(map(abs, gaps))
        apart = [pair for pair in chosen if not overlap(*pair)]
        say(
            f"{low:g} to {high:g} us: {len(gaps)} times, median {statistics.median(gaps):+.4f}, |gap| median"
            f" {size[len(size) // 2]:.4f}, p95 {size[int(0.95 * len(size))]:.4f}, intervals apart {len(apart)}"
        )
    failed = {row["kernel_id"]: (row["problem_id"], row["status"]) for row in lines(paths) if row["status"] != "ok"}
    say(f"{len({row['kernel_id'] for row in lines(paths)})} kernels, {len(failed)} not ok: {failed}")
    far = [
        (new["problem_id"], new["kernel_id"], new["workload"], new["runtime_us"] / old["runtime_us"])
        for new, old in pairs
    ]
    for entry in sorted(far, key=lambda item: -abs(math.log(item[3])))[:20]:
        say(str(entry))


def overlap(new: dict[str, Any], old: dict[str, Any]) -> bool:
    """Whether two intervals meet."""
    return bool(new["runtime_low_us"] <= old["runtime_high_us"] and old["runtime_low_us"] <= new["runtime_high_us"])


if __name__ == "__main__":
    compare(sys.argv[2:]) if sys.argv[1] == "--compare" else measure()
