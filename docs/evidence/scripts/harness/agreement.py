"""Agreement of the harness with two independent timers. Usage: agreement.py OUT (after throughput.py OUT)

Writes agreement.json: for kernels of at least 50 us, the harness's time, triton.testing.do_bench's median and CUPTI's
median, all in one process; for each call under the profiler what CUPTI and the event timer say of it; and the event
timer's figures for the same loop without the profiler. A dry run has neither of the other timers and shows only that
the rest works.
"""

from __future__ import annotations

import itertools
import json
import os
import random
import statistics
import tempfile
from pathlib import Path
from typing import Any

from pool import DRY, out_folder, pool, say, write

KERNELS = 32
SHORTEST_US = 50.0
PASSES = 3
"""Times the profiler is started for a kernel."""


def main() -> None:
    if DRY:
        os.environ["TRITON_INTERPRET"] = "1"
    import torch
    from kbench.harness.plan.builder import build
    from triton.testing import do_bench

    from kbench.benchmark.problems import problem
    from kbench.harness.cuda import CudaModule
    from kbench.harness.device.device import CpuDevice, CudaDevice, Device
    from kbench.harness.device.nvml import NoConditions, NvmlReader
    from kbench.harness.kernel.loading import LoadedKernel
    from kbench.harness.plan.cache import BuildCache
    from kbench.harness.plan.target import Target
    from kbench.harness.timing.batch import Sampler
    from kbench.harness.timing.rounds import TimingSettings
    from kbench.harness.timing.second_clock import both_clocks_us, events_us
    from kbench.harness.verify.context import ContextCache
    from kbench.harness.worker.execute import Bench, Task, execute

    folder = out_folder()
    rows = json.loads((folder / "throughput.json").read_text())["rows"]
    long = {r["kernel_id"] for r in rows if r["status"] == "ok" and r["runtime_us"] >= SHORTEST_US}
    known = [k for k in pool() if k.kernel_id in long]
    chosen = sorted(random.Random(0).sample(known, min(KERNELS, len(known))), key=lambda k: k.problem_id)
    device: Device = CpuDevice() if DRY else CudaDevice(0)
    reader = NoConditions() if DRY else NvmlReader(0)
    torch.set_grad_enabled(False)
    bench = Bench(device, ContextCache(device, 8 << 30, (1, 2, 3)), Sampler(device), reader)
    found: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as place:
        cache = BuildCache(Path(place))
        for kernel in chosen:
            if isinstance(device, CudaDevice):
                built = build(kernel, Target(device.properties.major, device.properties.minor), cache, call=False)
                CudaModule.prebuilt = cache.prebuilt(built)
            loaded, definition = LoadedKernel(kernel), problem(kernel.problem_id)
            task = Task(kernel.problem_id, TimingSettings(), seed=1, workloads=("tiny",) if DRY else None)
            for result in execute(loaded, task, bench, lambda stage: None):
                if result["status"] != "ok" or result["runtime_us"] < SHORTEST_US:
                    continue
                size = next(s for s in (*definition.sizes, definition.tiny) if s.name == result["workload"])
                stages = bench.contexts.get(kernel.problem_id, size).stages

                def call(stage: int, run: Any = loaded.run, stages: Any = stages) -> Any:
                    return run(*stages[stage].inputs)

                row = {"kernel_id": kernel.kernel_id, "problem_id": kernel.problem_id, "workload": result["workload"],
                       "harness_us": result["runtime_us"]}  # fmt: skip
                if not DRY:
                    row["do_bench_us"] = 1e3 * do_bench(lambda: call(0), warmup=25, rep=100, return_mode="median")
                    passes = [both_clocks_us(call, device) for _ in range(PASSES)]
                    row["cupti_us"] = statistics.median(itertools.chain.from_iterable(c for c, _ in passes))
                    row["under_profiler"] = [{"cupti_us": cupti, "events_us": events} for cupti, events in passes]
                    row["without_profiler_us"] = [events_us(call, device) for _ in range(PASSES)]
                found.append(row)
            loaded.unload()
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
