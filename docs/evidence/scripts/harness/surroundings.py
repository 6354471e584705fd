"""Surroundings: why short kernels read less by KernelBench's path. Usage: surroundings.py OUT

Writes surroundings.json. Takes the short kernels that read least by the other path and the fastest longer one of each
workload from OUT/kernelbench_path.json (or from the one in docs/evidence/harness), and times each in every combination
of what the two paths do differently: how the cache is cleared, whether inputs and outputs lie at one place or at many,
and whether the reference runs between the calls; and once with a synchronisation after each call, as the other path has
it. All else is this harness's: hidden launches, equal marks.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import json
import os
import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

if "--dry-run" in sys.argv:
    os.environ["TRITON_INTERPRET"] = "1"

import torch
from kernelbench_path import CLEARED_BYTES
from pool import DRY, in_fresh_processes, main_or_part, out_folder, pool, say, write

from kbench.benchmark.problems import problem
from kbench.harness.build.builder import build
from kbench.harness.build.cache import BuildCache, default_folder
from kbench.harness.build.target import Target
from kbench.harness.cuda import CudaModule
from kbench.harness.device.context import ProblemContext
from kbench.harness.device.device import CpuDevice, CudaDevice
from kbench.harness.device.master import nbytes
from kbench.harness.kernel.loading import LoadedKernel
from kbench.harness.timing.batch import Sampler, Slot
from kbench.harness.timing.centre import centre
from kbench.schemas import KernelSource

STORED = Path(__file__).parents[2] / "harness" / "kernelbench_path.json"
EACH, CALLS, LONG_CALLS, PROCESSES = (1, 4, 4, 1) if DRY else (2, 384, 128, 3)
SHORT_US, LONGEST_US = 20.0, 500.0


@dataclasses.dataclass(frozen=True, slots=True)
class Surroundings:
    """What a call finds."""

    cleared: str
    """`evictors`: eight buffers of twice the L2 in turn; `fill`: one of 256 MiB; `read`: it is read; `nothing`."""
    places: str
    """`one` or `many` for inputs and outputs."""
    company: str
    """`alone`, or the `reference` before each call."""
    waits: bool = False
    """The host waits for each call."""

    @property
    def name(self) -> str:
        return f"{self.cleared}, {self.places}, {self.company}{', waits' if self.waits else ''}"


def combinations() -> list[Surroundings]:
    """Every combination, and two with waiting."""
    crossed = itertools.product(("fill", "evictors", "read", "nothing"), ("one", "many"), ("alone", "reference"))
    found = [Surroundings(*one) for one in crossed]
    return [*found, *(Surroundings(cleared, "one", "alone", waits=True) for cleared in ("fill", "evictors"))]


class Clearing:
    """A device that clears its cache in a way of choice."""

    def __init__(self, device: Any, cleared: str) -> None:
        self._device, self._cleared = device, cleared
        self._large = torch.zeros(16 if DRY else CLEARED_BYTES, dtype=torch.uint8, device=device.torch_name)
        self._ways: dict[str, Callable[[], Any]] = {
            "evictors": device.flush,
            "fill": lambda: self._large.fill_(42),
            "read": lambda: self._large.view(torch.int32).sum(),
            "nothing": lambda: None,
        }

    def __getattr__(self, name: str) -> Any:
        return getattr(self._device, name)

    def flush(self) -> None:
        self._ways[self._cleared]()


def choose(folder: Path) -> list[tuple[KernelSource, str, int]]:
    """Kernels, workloads, and how often to call them."""
    if DRY:
        return [(kernel, "tiny", CALLS) for kernel in pool()[:1]]
    path = folder / STORED.name
    stored = json.loads((path if path.exists() else STORED).read_text())
    other = {(row["kernel_id"], row["workload"]): row["mean_us"] for row in stored["other_path"]["rows"]}
    known = {kernel.kernel_id: kernel for kernel in pool(each=15)}
    short: dict[str, list[tuple[float, str, str]]] = defaultdict(list)
    longer: dict[tuple[str, str], list[tuple[float, str, str]]] = defaultdict(list)
    for row in stored["this_harness"]["rows"]:
        key, taken = (row["kernel_id"], row["workload"]), row["runtime_us"]
        if row["status"] == "ok" and key in other and row["kernel_id"] in known:
            if taken < SHORT_US:
                short[row["problem_id"]].append((other[key] / taken, *key))
            elif taken < LONGEST_US:
                longer[row["problem_id"], row["workload"]].append((taken, *key))
    least = sorted(found for rows in short.values() for found in sorted(rows)[:EACH] if found[0] < 0.95)
    fastest = sorted(min(rows) for rows in longer.values())
    calls = [CALLS] * len(least) + [LONG_CALLS] * len(fastest)
    return [(known[name], workload, count) for (_, name, workload), count in zip(least + fastest, calls, strict=True)]


def times_us(
    loaded: LoadedKernel, context: ProblemContext, device: Any, around: Surroundings, calls: int
) -> list[float]:
    """Times of the calls of a kernel in some surroundings."""
    cleared = Clearing(device, around.cleared)
    sampler, many = Sampler(cleared), around.places == "many"
    if many:
        sampler.leftovers.reserve(context.output_bytes)

    def slot(label: str, run: Callable[..., Any], at: int) -> Slot:
        place = at % len(context.stages) if many else 0
        call = functools.partial(lambda place: run(*context.stages[place].inputs), place)
        return Slot(label, at, call, stage=context.stages[place] if many else None)

    found: list[float] = []
    for start in range(0, calls, 32):
        slots = []
        for at in range(start, min(start + 32, calls)):
            if around.company == "reference":
                slots.append(slot("reference", context.definition.reference, at))
            slots.append(slot("kernel", loaded.run, at))
        parts = [[one] for one in slots] if around.waits else [slots]
        for part in parts:
            found += [s.time_us for s in sampler.run(part) if s.label == "kernel" and (s.good or around.waits or DRY)]
            if around.waits:
                time.sleep(0.0001)
    return found


def one_process(folder: Path, path: Path) -> None:
    torch.set_grad_enabled(False)
    device: Any = CpuDevice() if DRY else CudaDevice(0)
    cache = BuildCache(default_folder())
    os.environ["TRITON_CACHE_DIR"] = str(cache.triton)
    found = []
    for kernel, workload, calls in choose(folder):
        definition = problem(kernel.problem_id)
        size = next(size for size in (*definition.sizes, definition.tiny) if size.name == workload)
        context = ProblemContext(definition, size, device, (1, 2, 3))
        for stage in context.stages:
            stage.fill(context.masters[0])
        CudaModule.prebuilt = {} if DRY else cache.prebuilt(build(kernel, Target.named("sm_90"), cache))
        loaded = LoadedKernel(kernel)
        loaded.run(*context.stages[0].inputs)
        times_us(loaded, context, device, combinations()[0], calls)
        times = {around.name: times_us(loaded, context, device, around, calls) for around in combinations()}
        found.append(
            {
                "kernel_id": kernel.kernel_id,
                "problem_id": kernel.problem_id,
                "backend": kernel.backend.value,
                "workload": workload,
                "input_bytes": nbytes(context.masters[0].inputs),
                "us": {name: centre(values) for name, values in times.items() if values},
                "samples": {name: len(values) for name, values in times.items()},
            }
        )
        loaded.unload()
    path.write_text(json.dumps({"model": device.model, "kernels": found}))


def main() -> None:
    folder = out_folder()
    processes = in_fresh_processes(__file__, folder, PROCESSES)
    write(folder, "surroundings.json", {"processes": processes})
    for rows in zip(*(one["kernels"] for one in processes), strict=True):
        first = rows[0]
        mib = first["input_bytes"] / (1 << 20)
        say(f"{first['problem_id']} {first['workload']} {first['backend']} {first['kernel_id'][:8]} {mib:.1f} MiB")
        for around in combinations():
            levels = [row["us"][around.name] for row in rows if around.name in row["us"]]
            if levels:
                say(f"  {around.name:32} {statistics.fmean(levels):7.3f} us  ({' '.join(f'{x:.3f}' for x in levels)})")


if __name__ == "__main__":
    main_or_part(main, one_process)
