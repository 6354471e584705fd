"""Why some kernels differ by plan and by `run`: each in eight ways, in the same rounds.

Usage: plan_causes.py OUT [ID ...]. Writes plan_causes.json: for each workload of the kernels whose ids begin so,
the time of each way over that of `run`, less one. `plan` and `plan2` are two copies of a plan, `separate` has an
allocation for every buffer, `torchfill` fills by torch, `unprepared` is `plan2` without what precedes a call;
`run2` is `run` whose memory moves, `run+scrub` is `run` after the launch that prepares a plan's calls. In the runs
on record `run2` moved scratch memory alone.
"""

from __future__ import annotations

import functools
import math
import random
import statistics
import sys
from collections.abc import Callable
from typing import Any
from unittest import mock

from plan_agreement import Moving, plan
from pool import GPU, out_folder, say, write

from kbench.benchmark.problems import problem
from kbench.harness.bench.context import ContextCache, ProblemContext
from kbench.harness.bench.subject import ProcessSubject
from kbench.harness.cuda import CudaModule
from kbench.harness.device.device import CudaDevice
from kbench.harness.device.kernels.scrub import Region
from kbench.harness.kernel.loading import LoadedKernel
from kbench.harness.plan import replay
from kbench.harness.plan.planner import Planned
from kbench.harness.plan.replay import Layout, LoadedCode, Place, Replay
from kbench.harness.timing.batch import Sampler
from kbench.harness.timing.rounds import Candidate, RoundPlan, by_round, calling, hidden, make_slots
from kbench.harness.worker.execute import Bench
from kbench.loaders.corpus.corpus import load
from kbench.schemas import Backend, KernelSource, LaunchPlan
from kbench.schemas.records.launch_plan import StepKind

IDS = ("e77b3e60", "09a8efb6", "c7168225", "7cdb5b1a", "eb39843c", "35a7e61d", "0b544275", "99d414ae", "28a94577")
ROUNDS = 30


class TorchFill(Replay):
    """A plan whose fills are torch's own."""

    def _prepared(self, stage: int, place: int) -> list[Any]:
        self._current = place
        return super()._prepared(stage, place)

    def _operation(self, number: int, addresses: Any) -> Callable[[], Any]:
        import torch

        step = self.plan.steps[number]
        if step.kind is not StepKind.FILL:
            return super()._operation(number, addresses)
        memory = self.places[self._current].memory[step.buffer]
        part = memory[step.offset : step.offset + step.nbytes].view(torch.int32)
        word = (bytes.fromhex(step.pattern or "00") * 4)[:4]
        return functools.partial(part.fill_, int.from_bytes(word, "little", signed=True))


def separate_places(plan: LaunchPlan, device: CudaDevice, count: int) -> tuple[list[Place], list[Region]]:
    """Places with an allocation for every buffer and nothing around it."""
    import torch

    sizes = {at: buffer.nbytes for at, buffer in enumerate(plan.buffers) if buffer.input is None}
    allocate = functools.partial(torch.empty, dtype=torch.uint8, device=device.torch_name)
    made = [[(allocate(size), Layout({at: 0}, (), size)) for at, size in sizes.items()] for _ in range(count)]
    regions = [(block.data_ptr(), block.numel()) for blocks in made for block, _ in blocks]
    return [Place(plan, blocks) for blocks in made], regions


def ways(planned: Planned, runs: list[Any], context: ProblemContext, device: CudaDevice) -> dict[str, Candidate]:
    """Every way of carrying a kernel out."""
    plan = planned.plans[context.size.name][0]
    code = LoadedCode(planned.cubins)
    subjects = {
        "plan": Replay(plan, code, context.stages, device),
        "plan2": Replay(plan, LoadedCode(planned.cubins), context.stages, device),
        "torchfill": TorchFill(plan, code, context.stages, device),
    }
    with mock.patch.object(replay, "make_places", separate_places):
        subjects["separate"] = Replay(plan, code, context.stages, device)
    run, again = (ProcessSubject(each, context) for each in runs)
    moving, scrub = Moving(again, plan, device), subjects["plan"]._scrub
    found = {name: Candidate(name, subject.call, None, subject.prepare) for name, subject in subjects.items()}
    return found | {
        "unprepared": Candidate("unprepared", subjects["plan2"].call, None, lambda stage: None),
        "run": Candidate("run", run.call),
        "run2": Candidate("run2", moving.call),
        "run+scrub": Candidate("run+scrub", run.call, None, lambda stage: scrub()),
    }


def compared(found: dict[str, Candidate], context: ProblemContext, bench: Bench) -> dict[str, Any]:
    """The time of `run`, and each way's over it, less one."""
    context.stages[0].fill(context.references[0])
    for one in found.values():
        bench.sampler.forget(one.label)
        if one.prepare is not None:
            one.prepare(0)
        one.call(0)
    bench.device.synchronize()
    bench.sampler.leftovers.reserve(context.output_bytes)
    bench.sampler.run([calling(one, context, 0, -1) for one in found.values() for _ in range(2)])
    chosen = RoundPlan(3, 0, (ROUNDS,))
    samples = bench.sampler.run(make_slots(list(found.values()), context, range(ROUNDS), chosen, random.Random(0)))
    times = {name: by_round(hidden(samples, name), name) for name in found}
    usual = times["run"]
    row: dict[str, Any] = {"us": statistics.median(usual.values())}
    for name, mine in times.items():
        ratios = [math.log(mine[number] / usual[number]) for number in mine.keys() & usual.keys()]
        row[name] = round(math.exp(statistics.median(ratios)) - 1.0, 4)
    return row


def main() -> None:
    folder, wanted = out_folder(), tuple(sys.argv[2:]) or IDS
    import torch

    torch.set_grad_enabled(False)
    columns = ["kernel_id", "problem_id", "backend", "source"]
    rows = load(gpu=GPU, where="status == 'ok'", columns=columns).to_arrow().to_pylist()
    device = CudaDevice(0)
    bench = Bench(device, ContextCache(device, 16 << 30, (1, 2)), Sampler(device), None)  # type: ignore[arg-type]
    bench.sampler.calibrate()
    table: list[dict[str, Any]] = []
    for row in rows:
        if not row["kernel_id"].startswith(wanted):
            continue
        kernel = KernelSource(row["problem_id"], Backend(row["backend"]), row["source"])
        planned, loaded = plan(kernel), [LoadedKernel(kernel) for _ in range(2)]
        for size in problem(kernel.problem_id).sizes:
            context = bench.contexts.get(kernel.problem_id, size)
            found = compared(ways(planned, [one.run for one in loaded], context, device), context, bench)
            table.append(
                {"kernel_id": kernel.kernel_id, "problem_id": kernel.problem_id, "workload": size.name} | found
            )
            say(str(table[-1]))
        for one in loaded:
            one.unload()
        CudaModule.declared.clear()
    write(folder, "plan_causes.json", {"rows": table, "gpu": device.model})


if __name__ == "__main__":
    main()
