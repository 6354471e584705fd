"""Agreement of the harness with two independent timers. Usage: agreement.py OUT (after throughput.py OUT)

Writes agreement.json: for kernels of at least 50 us, the harness's time, triton.testing.do_bench's median and CUPTI's
median; for each call under the profiler what CUPTI and the event timer say of it; and the event timer's figures for the
same loop without the profiler. A dry run has neither of the other timers and shows only that the rest works.
"""

from __future__ import annotations

import itertools
import json
import random
import statistics
from collections.abc import Callable
from typing import Any

from pool import DRY, make_harness, out_folder, pool, say, write

from kbench.benchmark.problems import problem
from kbench.schemas import KernelSource, Measurement

KERNELS = 32
SHORTEST_US = 0.0 if DRY else 50.0
PASSES = 3
"""Times the profiler is started for a kernel."""
SEEDS = range(8)
"""Input sets that calls take in turn."""


def caller(kernel: KernelSource, workload: str) -> Callable[[int], Any]:
    """call(n): the kernel on the n-th of some input sets, in this process."""
    from kbench.harness.kernel.loading import LoadedKernel

    definition, run = problem(kernel.problem_id), LoadedKernel(kernel).run
    inputs = [definition.draw(definition.size(workload), seed, "cuda") for seed in SEEDS]
    return lambda number: run(*inputs[number % len(inputs)])


def other_timers(kernel: KernelSource, workload: str) -> dict[str, Any]:
    """What do_bench and CUPTI say of a kernel."""
    from triton.testing import do_bench

    from kbench.harness.device.device import CudaDevice
    from kbench.harness.timing.second_clock import both_clocks_us, events_us

    call, device = caller(kernel, workload), CudaDevice(0)
    passes = [both_clocks_us(call, device) for _ in range(PASSES)]
    return {
        "do_bench_us": 1e3 * do_bench(lambda: call(0), warmup=25, rep=100, return_mode="median"),
        "cupti_us": statistics.median(itertools.chain.from_iterable(cupti for cupti, _ in passes)),
        "under_profiler": [{"cupti_us": cupti, "events_us": events} for cupti, events in passes],
        "without_profiler_us": [events_us(call, device) for _ in range(PASSES)],
    }


def measured(kernels: list[KernelSource]) -> list[Measurement]:
    """The harness's own figures of kernels that are long enough."""
    with make_harness() as harness:
        rows = list(harness.measure(kernels))
    return [row for row in rows if row.runtime_us is not None and row.runtime_us >= SHORTEST_US]


def main() -> None:
    """Time the same kernels three ways."""
    folder = out_folder()
    rows = json.loads((folder / "throughput.json").read_text())["rows"]
    long = {r["kernel_id"] for r in rows if r["status"] == "ok" and r["runtime_us"] >= SHORTEST_US}
    known = {kernel.kernel_id: kernel for kernel in pool() if kernel.kernel_id in long}
    chosen = random.Random(0).sample(sorted(known), min(KERNELS, len(known)))
    found: list[dict[str, Any]] = []
    for one in measured([known[key] for key in chosen]):
        row = {"kernel_id": one.kernel_id, "problem_id": one.problem_id, "workload": one.workload}
        others = {} if DRY else other_timers(known[one.kernel_id], one.workload)
        found.append(row | {"harness_us": one.runtime_us} | others)
    apart = {
        name: sorted(abs(row[name] / row["harness_us"] - 1.0) for row in found if name in row)
        for name in ("do_bench_us", "cupti_us")
    }
    summary = {
        name: {"count": len(v), "median": statistics.median(v), "p95": v[int(0.95 * len(v))], "worst": v[-1],
               "within_3_percent": sum(x <= 0.03 for x in v)}
        for name, v in apart.items() if v
    }  # fmt: skip
    write(folder, "agreement.json", {"summary": summary, "rows": found})
    say(f"{len(found)} kernels and workloads of at least {SHORTEST_US:g} us: {summary}")


if __name__ == "__main__":
    main()
