"""Agreement of plans and processes: the same kernels by replay and by their own `run`, in the same rounds.

Usage: plan_agreement.py OUT [SECONDS [control]]. Writes plan_agreement.json: for each kernel of the dataset that was
drawn, the ratio of the two times. Both ways are timed by one process on the same buffers; the kernels are the dataset's
own, so their host code may run beside the timer. With `control` a second copy of `run` takes the plan's place: what
then differs is not the plans' doing.
"""

from __future__ import annotations

import contextlib
import functools
import math
import multiprocessing
import random
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from pool import GPU, out_folder, say, write

from kbench.benchmark.problems import problem
from kbench.harness.cuda import CudaModule, Prebuilt, architecture
from kbench.harness.device.device import CudaDevice
from kbench.harness.kernel.loading import LoadedKernel
from kbench.harness.plan.device_facts import H200
from kbench.harness.plan.planner import Planned, plan_kernel
from kbench.harness.plan.target import Target
from kbench.harness.timing import duel
from kbench.harness.timing.batch import Sampler
from kbench.harness.timing.duel import fight
from kbench.harness.timing.rounds import Candidate
from kbench.harness.verify.context import ContextCache
from kbench.harness.verify.subject import ProcessSubject
from kbench.harness.worker.execute import Bench
from kbench.harness.worker.replay_runner import PlannedKernel
from kbench.loaders.corpus.corpus import load
from kbench.schemas import Backend, KernelSource

KERNELS, SHORTEST_US, BUDGET_US = 330, 20.0, 1_000_000.0
# All rounds at once: stopping when a difference is certain would make differences look larger.
duel.LOOKS = (34,)
COLUMNS = ["kernel_id", "problem_id", "backend", "source", "runtime_us"]


def plan(kernel: KernelSource) -> Planned:
    """Plan a kernel of the dataset."""
    with tempfile.TemporaryDirectory() as folder:
        return plan_kernel(kernel, Target(9, 0), H200, Path(folder))


@functools.cache
def worker_device() -> CudaDevice:
    """The GPU in a process that only warms up."""
    import torch

    torch.set_grad_enabled(False)
    return CudaDevice(0)


def warm(kernel: KernelSource) -> dict[str, Prebuilt]:
    """Call a kernel's `run` once on every workload: Triton keeps what it compiled on disk; what NVRTC made comes back.

    A kernel that fails here fails again, and is named, where both ways are compared.
    """
    device = worker_device()
    with contextlib.suppress(Exception):
        loaded = LoadedKernel(kernel)
        for size in problem(kernel.problem_id).sizes:
            context = ContextCache(device, 1 << 30, (1, 2)).get(kernel.problem_id, size)
            context.stages[0].fill(context.references[0])
            ProcessSubject(loaded.run, context).call(0)
        device.synchronize()
        arch = architecture(9, 0)
        made = {module.key(arch): module.compiled(arch) for module in loaded.cuda_modules}
        loaded.unload()
        return made
    return {}


def drawn() -> list[KernelSource]:
    """Kernels of at least 20 us, spread over problems and backends."""
    where = f"status == 'ok' and runtime_us >= {1.2 * SHORTEST_US}"
    rows = load(gpu=GPU, where=where, columns=COLUMNS).to_arrow().to_pylist()
    random.Random(7).shuffle(rows)
    counts: dict[tuple[str, str], int] = {}
    ranked = []
    for row in rows:
        key = (row["problem_id"], row["backend"])
        counts[key] = counts.get(key, 0) + 1
        ranked.append((counts[key], row))
    chosen = [row for _, row in sorted(ranked, key=lambda pair: pair[0])[:KERNELS]]
    chosen.sort(key=lambda row: row["problem_id"])
    return [KernelSource(row["problem_id"], Backend(row["backend"]), row["source"]) for row in chosen]


def compared(kernel: KernelSource, planned: Planned, bench: Bench, *, control: bool) -> list[dict[str, Any]]:
    """Both ways on every workload, or one way twice."""
    found = []
    loaded, replayed, again = LoadedKernel(kernel), PlannedKernel(planned.plans, planned.cubins), LoadedKernel(kernel)
    for size in problem(kernel.problem_id).sizes:
        context = bench.contexts.get(kernel.problem_id, size)
        first = ProcessSubject(again.run, context) if control else replayed.subject(context, bench)
        second = ProcessSubject(loaded.run, context)
        for label in ("plan", "process"):
            bench.sampler.forget(label)
        # The first call compiles, which would count as what a call costs.
        context.stages[0].fill(context.references[0])
        for subject in (first, second):
            subject.prepare(0)
            subject.call(0)
        bench.device.synchronize()
        fought = fight(
            Candidate("plan", first.call, None, None if control else first.prepare),
            Candidate("process", second.call),
            context,
            bench.sampler,
            random.Random(0),
            1e-6,
            lambda samples: True,
            BUDGET_US,
        )
        if fought.ratios:
            # The median over rounds: a round in which the process's own allocator went to the driver says nothing.
            ratio = math.exp(statistics.median(fought.ratios))
            found.append(
                {
                    "kernel_id": kernel.kernel_id,
                    "problem_id": kernel.problem_id,
                    "backend": kernel.backend.value,
                    "workload": size.name,
                    "plan_us": fought.first_us,
                    "process_us": fought.second_us,
                    "ratio": ratio,
                    "rounds": len(fought.ratios),
                    "steps": [step.kind.value for step in planned.plans[size.name][0].steps],
                }
            )
    for kept in (loaded, replayed, again):
        kept.unload()
    CudaModule.declared.clear()
    return found


def main() -> None:
    folder = out_folder()
    limit = float(sys.argv[2]) if len(sys.argv) > 2 else 600.0
    kernels = drawn()
    began = time.monotonic()
    spawn = multiprocessing.get_context("spawn")
    with spawn.Pool(14) as workers:
        planned = workers.map(plan, kernels, chunksize=4)
    say(f"{len(kernels)} kernels, {sum(p.error is None for p in planned)} planned, {time.monotonic() - began:.0f} s")
    with spawn.Pool(12) as workers:
        CudaModule.prebuilt = {
            key: code for made in workers.map(warm, kernels, chunksize=4) for key, code in made.items()
        }
    say(f"{len(CudaModule.prebuilt)} CUDA modules compiled, {time.monotonic() - began:.0f} s")
    import torch

    torch.set_grad_enabled(False)
    device = CudaDevice(0)
    bench = Bench(device, ContextCache(device, 16 << 30, (1, 2)), Sampler(device), None)  # type: ignore[arg-type]
    bench.sampler.calibrate()
    rows: list[dict[str, Any]] = []
    for kernel, made in zip(kernels, planned, strict=True):
        if time.monotonic() - began > limit:
            break
        if made.error is None:
            try:
                rows += compared(kernel, made, bench, control="control" in sys.argv[3:])
            except Exception as error:  # noqa: BLE001 - named; the others go on
                say(f"{kernel.problem_id} {kernel.kernel_id}: {type(error).__name__}: {str(error)[:200]}")
    long = [row for row in rows if row["process_us"] >= SHORTEST_US]
    near = sum(abs(row["ratio"] - 1.0) <= 0.01 for row in long)
    kernels_seen = {row["kernel_id"] for row in long}
    worst = {k: max(abs(r["ratio"] - 1.0) for r in long if r["kernel_id"] == k) for k in kernels_seen}
    agreeing = sum(value <= 0.01 for value in worst.values())
    say(f"{len(long)} measurements of {len(kernels_seen)} kernels >= {SHORTEST_US:g} us: {near} within 1 %")
    say(f"kernels within 1 % on every workload: {agreeing} of {len(kernels_seen)}")
    write(folder, "plan_agreement.json", {"rows": rows, "gpu": device.model})
    for row in sorted(long, key=lambda row: -abs(row["ratio"] - 1.0))[:12]:
        say(str(row))


if __name__ == "__main__":
    main()
