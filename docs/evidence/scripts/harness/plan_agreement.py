"""Agreement of plans and processes: the same kernels by replay and by their own `run`, in the same rounds.

Usage: plan_agreement.py OUT [SECONDS [MODE ...]]. Writes plan_agreement.json: for each kernel of the dataset that was
drawn, and each mode, the ratio of the two times. Both ways are timed by one process on the same buffers; the kernels
are the dataset's own, so their host code may run beside the timer. Modes:

- `plain`: a plan as the harness carries it out against `run` as it is. They differ in where memory lies, which is one
  or a few places each for the whole process, and in what precedes a call: only a plan's is prepared.
- `alike` (the default): the same, but both use many places, and the launch that prepares a plan's calls precedes those
  of `run` too. What differs here is the plan's doing.
- `control`: two copies of `run` as in `alike`: what the comparison itself makes of a kernel.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import math
import multiprocessing
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pool import GPU, out_folder, say, write

from kbench.benchmark.problems import problem
from kbench.harness.bench.context import ContextCache
from kbench.harness.bench.subject import ProcessSubject
from kbench.harness.cuda import CudaModule, Prebuilt, architecture
from kbench.harness.device.device import CudaDevice
from kbench.harness.device.target import H200, Target
from kbench.harness.kernel.loading import LoadedKernel
from kbench.harness.plan.planner import Planned, plan_kernel
from kbench.harness.plan.replay import Replay
from kbench.harness.timing import duel
from kbench.harness.timing.batch import Sampler
from kbench.harness.timing.duel import fight
from kbench.harness.timing.rounds import Candidate
from kbench.harness.worker.execute import Bench
from kbench.harness.worker.replay_runner import PlannedKernel
from kbench.loaders.corpus.corpus import load
from kbench.schemas import Backend, KernelSource, LaunchPlan

KERNELS, SHORTEST_US, BUDGET_US = 330, 20.0, 1_000_000.0
# All rounds at once: stopping when a difference is certain would make differences look larger.
duel.LOOKS = (34,)
REPLAYS, PLACES, PLACES_BYTES = 4, 16, 2 << 30
"""Sets of a plan's memory, and places that a process's memory moves between, as far as these bytes go."""
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


class Spread:
    """A plan whose memory lies elsewhere at every call."""

    def __init__(self, make: Callable[[], Replay]) -> None:
        """Carry it out on several sets of memory, with some unused memory between them."""
        import torch

        self._unused, self._replays = [], []
        for number in range(REPLAYS):
            self._replays.append(make())
            self._unused.append(torch.empty((2 * number + 1) << 20, dtype=torch.uint8, device="cuda"))
        self._turn = itertools.cycle(self._replays)
        self._replay = self._replays[0]

    def prepare(self, stage: int) -> None:
        """Choose the memory of the next call and erase what earlier calls left there."""
        self._replay = next(self._turn)
        self._replay.prepare(stage)

    def call(self, stage: int) -> Any:
        """Carry the plan out."""
        return self._replay.call(stage)


class Moving:
    """A process's subject whose memory lies elsewhere at every call, prepared by the launch that prepares a plan's."""

    def __init__(self, subject: ProcessSubject, plan: LaunchPlan, device: CudaDevice) -> None:
        """Move what the plan says is allocated."""
        import torch

        self._sizes = [buffer.nbytes for buffer in plan.buffers if buffer.input is None]
        self._places = min(PLACES, max(2, PLACES_BYTES // max(1, sum(self._sizes))))
        self._device, self._subject = device, subject
        self._turn = itertools.cycle(range(self._places))
        overwritten = torch.empty(max(1, 2 * sum(self._sizes)), dtype=torch.uint8, device=device.torch_name)
        self._memory = overwritten
        self._overwrite = device.scrubber.overwriting([(overwritten.data_ptr(), overwritten.numel())])

    def prepare(self, stage: int) -> None:
        """Overwrite as much memory as before a plan's call, and what lies on the chip."""
        self._overwrite()

    def call(self, stage: int) -> Any:
        """Call with some blocks of the sizes it allocates taken: the allocator then gives others."""
        taken = [self._block(nbytes) for _ in range(next(self._turn)) for nbytes in self._sizes]
        outputs = self._subject.call(stage)
        del taken
        return outputs

    def _block(self, nbytes: int) -> Any:
        import torch

        return torch.empty(nbytes, dtype=torch.uint8, device=self._device.torch_name)


def compared(kernel: KernelSource, planned: Planned, bench: Bench, mode: str) -> list[dict[str, Any]]:
    """Both ways on every workload, or one way twice."""
    found = []
    loaded, replayed, again = LoadedKernel(kernel), PlannedKernel(planned.plans, planned.cubins), LoadedKernel(kernel)
    for size in problem(kernel.problem_id).sizes:
        context = bench.contexts.get(kernel.problem_id, size)
        plan = planned.plans[size.name][0]
        moving = functools.partial(Moving, plan=plan, device=bench.device)
        second: Any = ProcessSubject(loaded.run, context)
        if mode == "plain":
            first: Any = replayed.subject(context, bench)
        else:
            carried_out = functools.partial(replayed.subject, context, bench)
            first = moving(ProcessSubject(again.run, context)) if mode == "control" else Spread(carried_out)
            second = moving(second)
        for label in ("plan", "process"):
            bench.sampler.forget(label)
        # The first call compiles, which would count as what a call costs.
        context.stages[0].fill(context.references[0])
        for subject in (first, second):
            subject.prepare(0)
            subject.call(0)
        bench.device.synchronize()
        fought = fight(
            Candidate("plan", first.call, None, first.prepare),
            Candidate("process", second.call, None, None if mode == "plain" else second.prepare),
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
                    "mode": mode,
                    "kernel_id": kernel.kernel_id,
                    "problem_id": kernel.problem_id,
                    "backend": kernel.backend.value,
                    "workload": size.name,
                    "plan_us": fought.first_us,
                    "process_us": fought.second_us,
                    "ratio": ratio,
                    "rounds": len(fought.ratios),
                    "steps": [step.kind.value for step in plan.steps],
                }
            )
    for kept in (loaded, replayed, again):
        kept.unload()
    CudaModule.declared.clear()
    return found


def summarise(rows: list[dict[str, Any]], mode: str) -> None:
    """Say how many agree, and which agree least."""
    long = [row for row in rows if row["mode"] == mode and row["process_us"] >= SHORTEST_US]
    near = sum(abs(row["ratio"] - 1.0) <= 0.01 for row in long)
    worst: dict[str, float] = {}
    for row in long:
        worst[row["kernel_id"]] = max(worst.get(row["kernel_id"], 0.0), abs(row["ratio"] - 1.0))
    agreeing = sum(value <= 0.01 for value in worst.values())
    say(f"{mode}: {len(long)} measurements of {len(worst)} kernels >= {SHORTEST_US:g} us: {near} within 1 %")
    say(f"{mode}: kernels within 1 % on every workload: {agreeing} of {len(worst)}")
    for row in sorted(long, key=lambda row: -abs(row["ratio"] - 1.0))[:10]:
        say(str(row))


def main() -> None:
    folder = out_folder()
    limit = float(sys.argv[2]) if len(sys.argv) > 2 else 600.0
    modes = sys.argv[3:] or ["alike"]
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
        for mode in modes if made.error is None else ():
            try:
                rows += compared(kernel, made, bench, mode)
            except Exception as error:  # noqa: BLE001 - named; the others go on
                say(f"{kernel.problem_id} {kernel.kernel_id}: {type(error).__name__}: {str(error)[:200]}")
    write(folder, "plan_agreement.json", {"rows": rows, "gpu": device.model})
    for mode in modes:
        summarise(rows, mode)


if __name__ == "__main__":
    main()
