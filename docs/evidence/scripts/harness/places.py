"""Places: how much a kernel's time depends on where things lie. Usage: places.py OUT (after throughput.py OUT)

Writes places.json. In three fresh processes, kernels that are short on one of their workloads are loaded four times
each and called on every set of input buffers of their first workload, with outputs and L2 evictors in turn. For each of
the four (input, output, evictor, load) it tells the standard deviation between places in microseconds: what one place
for a whole process would add to the spread between processes.
"""

from __future__ import annotations

import functools
import json
import os
import random
import statistics
import sys
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

if "--dry-run" in sys.argv:
    os.environ["TRITON_INTERPRET"] = "1"

import torch
from pool import DRY, in_fresh_processes, main_or_part, out_folder, pool, say, write

from kbench.benchmark.problems import problem
from kbench.benchmark.problems.definition import as_tuple
from kbench.harness.build.builder import build
from kbench.harness.build.cache import BuildCache, default_folder
from kbench.harness.build.target import Target
from kbench.harness.cuda import CudaModule
from kbench.harness.device.context import ProblemContext
from kbench.harness.device.device import CpuDevice, CudaDevice
from kbench.harness.kernel.loading import LoadedKernel
from kbench.harness.timing.batch import Sampler, Slot
from kbench.harness.timing.centre import centre
from kbench.schemas import KernelSource

PROCESSES, LOADS, CALLS, EACH = (1, 1, 4, 1) if DRY else (3, 4, 1280, 2)
SHORTEST_US, LONGEST_US = 2.0, 20.0
FACTORS = ("input", "output", "evictor", "load")


def choose(folder: Path) -> list[KernelSource]:
    """A few kernels of each problem that has any with a short workload."""
    if DRY:
        return pool()[:1]
    rows = json.loads((folder / "throughput.json").read_text())["rows"]
    usual = {row["kernel_id"]: row["runtime_us"] for row in rows if row["status"] == "ok"}
    found: dict[str, list[KernelSource]] = defaultdict(list)
    for kernel in pool():
        if SHORTEST_US < usual.get(kernel.kernel_id, 0.0) < LONGEST_US and len(found[kernel.problem_id]) < EACH:
            found[kernel.problem_id].append(kernel)
    return [kernel for kernels in found.values() for kernel in kernels]


class Evictions:
    """A device that says which of its evictors ran last."""

    def __init__(self, device: Any) -> None:
        self.device, self.count = device, len(getattr(device, "_evictors", [0]))
        self.flushed = -1

    def __getattr__(self, name: str) -> Any:
        return getattr(self.device, name)

    def flush(self) -> None:
        self.flushed += 1
        self.device.flush()

    @property
    def last(self) -> int:
        return self.flushed % self.count


def call_everywhere(kernel: KernelSource, device: Any) -> list[dict[str, Any]]:
    """Times of one kernel with the place of everything in each call."""
    definition = problem(kernel.problem_id)
    size = definition.tiny if DRY else definition.sizes[0]
    context = ProblemContext(definition, size, device, (1, 2, 3))
    for stage in context.stages:
        stage.fill(context.masters[0])
    cache = BuildCache(default_folder())
    os.environ["TRITON_CACHE_DIR"] = str(cache.triton)
    CudaModule.prebuilt = {} if DRY else cache.prebuilt(build(kernel, Target.named("sm_90"), cache))
    loads = [LoadedKernel(kernel) for _ in range(LOADS)]
    watched = Evictions(device)
    sampler, rng, places = Sampler(watched), random.Random(1), dict[int, dict[str, Any]]()
    sampler.leftovers.reserve(context.output_bytes)

    def call(at: int, load: int, stage: int) -> Any:
        returned = loads[load].run(*context.stages[stage].inputs)
        place = as_tuple(returned)[0].data_ptr()
        # A batch may be taken twice; the later samples count.
        places[at] = {"input": stage, "output": place, "evictor": watched.last, "load": load}
        return returned

    plan = [(rng.randrange(LOADS), rng.randrange(len(context.stages))) for _ in range(CALLS)]
    for load in range(LOADS):
        call(-1, load, 0)
    rows = []
    for start in range(0, CALLS, 64):
        slots = [
            Slot("k", start, functools.partial(call, at, load, stage), stage=context.stages[stage])
            for at, (load, stage) in enumerate(plan[start : start + 64], start)
        ]
        samples = enumerate(sampler.run(slots), start)
        rows += [{"us": sample.time_us} | places[at] for at, sample in samples if sample.good or DRY]
    for loaded in loads:
        loaded.unload()
    return rows


def between(rows: Sequence[dict[str, Any]], factor: str) -> float:
    """Standard deviation between the places of one factor, what samples explain taken off."""
    groups: dict[Any, list[float]] = defaultdict(list)
    typical = centre([row["us"] for row in rows])
    for row in rows:
        # Rare outliers are no property of a place.
        if row["us"] < 1.5 * typical:
            groups[row[factor]].append(row["us"])
    full = [g for g in groups.values() if len(g) >= 8]
    if len(full) < 2:
        return 0.0
    means = [statistics.fmean(g) for g in full]
    noise = statistics.fmean([statistics.variance(g) / len(g) for g in full])
    return max(0.0, statistics.variance(means) - noise) ** 0.5


def one_process(folder: Path, path: Path) -> None:
    torch.set_grad_enabled(False)
    device: Any = CpuDevice() if DRY else CudaDevice(0)
    warm = Sampler(device)
    warm.calibrate()
    found = []
    for kernel in choose(folder):
        rows = call_everywhere(kernel, device)
        found.append(
            {
                "kernel_id": kernel.kernel_id,
                "problem_id": kernel.problem_id,
                "backend": kernel.backend.value,
                "samples": len(rows),
                "centre_us": centre([row["us"] for row in rows]),
                "between_us": {factor: between(rows, factor) for factor in FACTORS},
                "places": {factor: len({row[factor] for row in rows}) for factor in FACTORS},
            }
        )
    warm.calibrate()
    path.write_text(json.dumps({"model": device.model, "ruler_us": warm.ruler.time_us, "kernels": found}))


def main() -> None:
    folder = out_folder()
    processes = in_fresh_processes(__file__, folder, PROCESSES)
    write(folder, "places.json", {"processes": processes})
    say("ruler us " + " ".join(f"{one['ruler_us']:.3f}" for one in processes))
    for rows in zip(*(one["kernels"] for one in processes), strict=True):
        spread = "  ".join(
            f"{factor} {statistics.fmean(row['between_us'][factor] for row in rows):.3f} ({rows[0]['places'][factor]})"
            for factor in FACTORS
        )
        levels = " ".join(f"{row['centre_us']:.3f}" for row in rows)
        say(f"{rows[0]['problem_id']:20} {rows[0]['backend']:6} us {levels}  between: {spread}")


if __name__ == "__main__":
    main_or_part(main, one_process)
