"""Measure: the steps of `kbench measure`, between its options and the harness."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import math
import statistics
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import click

from kbench.benchmark.problems import problem
from kbench.harness.commands.doctor import gpu_count
from kbench.harness.commands.journal import Journal, in_corpus
from kbench.harness.commands.selection import select
from kbench.harness.commands.show import Progress
from kbench.harness.device.gpu import FIRST_GPU, Gpu
from kbench.harness.device.target import Target
from kbench.harness.harness import UNPLANNED, GpuChoice, Harness
from kbench.harness.record import Aggregate, aggregate
from kbench.harness.settings import HarnessSettings
from kbench.harness.workloads import large_without_tiny, refuse_without_gpu
from kbench.schemas import Backend, InfrastructureError, Kernel, KernelSource, Measurement, Status, UserError, from_dict

Named = Sequence[tuple[str, KernelSource]]
Rows = list[tuple[str, Measurement]]
"""Measurements, each with the name of its kernel."""
OUT_OF_MEMORY = "out of memory"
"""The words of torch and the driver when a problem's inputs or answers do not fit."""
ENDS_ITS_WORKER = (Status.LAUNCH_ERROR, Status.TIMEOUT)
"""Statuses of kernels that leave the device unusable for the process that ran them."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class MeasureOptions:
    """The options of `kbench measure`."""

    gpus: tuple[Gpu, ...] = (FIRST_GPU,)
    out: Path | None = None
    corpus: str | None = None
    where: str | None = None
    limit: int | None = None
    deadline_s: float | None = None
    target: str = "sm_90"
    quiet: bool = False
    harness: HarnessSettings = dataclasses.field(default_factory=HarnessSettings)


def make_harness(options: MeasureOptions, *, fenced: bool = False) -> Harness:
    """A harness as the options say."""
    return Harness(options.gpus, settings=options.harness, fenced=fenced)


def by_kernel(measurements: Iterable[Measurement]) -> Iterator[list[Measurement]]:
    """Measurements grouped by kernel; a kernel's workloads come one after another."""
    return (list(group) for _, group in itertools.groupby(measurements, key=lambda row: row.kernel_id))


def measure_files(
    named: Named,
    options: MeasureOptions,
    stored: Mapping[str, Kernel] | None = None,
    show: Callable[[str, Measurement], str] | None = None,
) -> Rows:
    """Measure kernels, through a journal when there is an output folder.

    Args:
        named: kernels and what to call them.
        options: how.
        stored: rows of kernels that come from a corpus, by their ids: what is written keeps their lineage.
        show: makes a line of a measurement, to be printed before its kernel's other workloads are measured.

    Raises:
        InfrastructureError: the machine failed some kernels; what it measured of the others is in the folder.
        UserError: a workload does not fit into the GPU's memory.
    """
    if options.out is None:
        return _measure(named, options, None, stored or {}, show)
    with contextlib.closing(Journal(options.out)) as journal:
        journal.refuse_other_editions({kernel.problem_id for _, kernel in named})
        return _measure(named, options, journal, stored or {}, show)


def _measure(
    named: Named,
    options: MeasureOptions,
    journal: Journal | None,
    stored: Mapping[str, Kernel],
    show: Callable[[str, Measurement], str] | None,
) -> Rows:
    """Measure what the journal lacks, and say at the end what is left and what the machine failed."""
    names = {kernel.kernel_id: name for name, kernel in named}
    kernels = {kernel.kernel_id: kernel for _, kernel in named}
    lost: list[tuple[KernelSource, str]] = []
    began = time.monotonic()
    with make_harness(options) as harness:
        progress = Progress(len(kernels), quiet=options.quiet)
        harness.on_stage = progress.stage
        if show is not None:
            line = show

            def print_row(row: Measurement) -> None:
                chosen = harness.configurations.get((row.kernel_id, row.workload))
                progress.print(line(names[row.kernel_id], row) + (f"  autotuned: {chosen}" if chosen else ""))

            harness.on_workload = print_row
        finished = measured_before(journal, kernels, harness)
        todo = [kernel for key, kernel in kernels.items() if key not in finished]
        rows = {key: group for key, group in finished.items() if key in names}
        if rows and not options.quiet:
            before = f"{len(rows)} of {len(kernels)} kernels are in {options.out} already"
            click.echo(f"{before}, and shown as they are there", err=True)
        progress.total = len(todo)
        fragile = {key for key, row in stored.items() if row.status in ENDS_ITS_WORKER}
        for kernel, group in run_journaled(harness, todo, journal, lambda *one: lost.append(one), fragile):
            rows[kernel.kernel_id] = group
            progress.add(aggregate(group).status)
            if options.deadline_s is not None and time.monotonic() - began > options.deadline_s:
                break
        progress.finish()
    left = len(todo) - progress.done - len(lost)
    if journal is not None:
        journal.commit(clear=not lost and not left, stored=stored)
    if options.corpus and not options.quiet:
        click.echo(progress.line(), err=True)
    if left and not options.quiet:
        click.echo(f"the deadline left {left} of {len(kernels)} kernels; the same command goes on with them", err=True)
    if lost:
        kernel, why = lost[0]
        if OUT_OF_MEMORY in why:
            raise UserError(f"{' '.join(why.split())}; --max-memory leaves out workloads that do not fit")
        raise InfrastructureError(
            f"the machine failed {len(lost)} of {len(todo)} kernels, which are not recorded;"
            f" first {names[kernel.kernel_id]}: {why}"
        )
    return [(names[key], row) for key in kernels for row in rows.get(key, [])]


def measured_before(
    journal: Journal | None, kernels: Collection[str], harness: Harness
) -> dict[str, list[Measurement]]:
    """Measurements that the journal has already, or the folder's corpus has from a GPU of this kind.

    Raises:
        UserError: some kernels could not be planned before and may run unplanned now; or the journal holds unfinished
            measurements of another GPU.
    """
    if journal is None:
        return {}
    gpus = {harness.environment(lane).gpu for lane in range(len(harness.gpus))}
    others = {row.gpu for group in journal.measurements.values() for row in group} - gpus
    if others:
        raise UserError(f"{journal.folder} is being filled on {min(others)}; finish that first, or give another --out")
    rows = in_corpus(journal.folder, kernels, gpus) | journal.measurements
    refused = sum(any((row.error or "").startswith(UNPLANNED) for row in rows.get(key, ())) for key in kernels)
    if refused and harness.settings.allow_unscreened:
        raise UserError(f"{journal.folder} lists {refused} of these kernels as impossible to plan; give another --out")
    return rows


def run_journaled(
    harness: Harness,
    todo: Sequence[KernelSource],
    journal: Journal | None,
    on_lost: Callable[[KernelSource, str], None] | None = None,
    fragile: Collection[str] = (),
) -> Iterator[tuple[KernelSource, list[Measurement]]]:
    """Measure kernels, each in the journal before it is yielded; those the machine failed go to `on_lost`."""
    kernels = {kernel.kernel_id: kernel for kernel in todo}
    for group in by_kernel(harness.measure(todo, on_lost=on_lost, fragile=fragile)):
        kernel = kernels[group[0].kernel_id]
        if journal is not None:
            journal.add(kernel, group, [harness.environment(i) for i in range(len(harness.gpus))])
        yield kernel, group


def remeasure(options: MeasureOptions) -> dict[str, Any]:
    """Measure a selection of a corpus again and compare with what is stored."""
    from kbench.benchmark.problems.registry import unlisted

    if options.out is not None and Path(str(options.corpus)).resolve() == options.out.resolve():
        raise UserError("--out is the corpus itself; measure again into another folder")
    chosen, left_out = select(options.corpus, options.where, options.limit)
    named = [(key, one.kernel) for key, one in chosen.items()]
    stored = {key: from_dict(Kernel, one.first) for key, one in chosen.items() if one.first["kernel_id"] == key}
    measured: dict[str, list[Measurement]] = {}
    for key, row in measure_files(named, options, stored):
        measured.setdefault(key, []).append(row)
    elsewhere = Counter(one.kernel.problem_id for one in chosen.values() if one.kernel.problem_id in unlisted())
    notes = {"measured as": dict(elsewhere), "left out": dict(Counter(left_out))}
    report_notes = {name: counts for name, counts in notes.items() if counts}
    gpus = sorted({row.gpu for group in measured.values() for row in group})
    report = {"kernels": len(measured), "chosen": len(chosen), "gpus": gpus}
    return report | report_notes | agreement({key: one.rows for key, one in chosen.items()}, measured)


def agreement(
    stored: Mapping[str, Mapping[str, dict[str, Any]]], measured: Mapping[str, list[Measurement]]
) -> dict[str, Any]:
    """How far apart stored and new figures of the same GPU are.

    Args:
        stored: a corpus's rows of each kernel, by GPU.
        measured: new figures of each kernel.
    """
    ratios, same_status, inside, stored_too = [], 0, 0, 0
    for key, group in measured.items():
        total = aggregate(group)
        old = stored[key].get(total.gpu)
        if old is None:
            continue
        stored_too += 1
        same_status += total.status.value == old["status"]
        if total.status is Status.OK and total.runtime_us is not None and old["runtime_us"] is not None:
            ratios.append(math.log(total.runtime_us / old["runtime_us"]))
            low, high = old["runtime_low_us"], old["runtime_high_us"]
            inside += low is not None and high is not None and low <= total.runtime_us <= high
    sizes = sorted(abs(ratio) for ratio in ratios)
    figures: dict[str, Any] = {"same status": f"{same_status} of {stored_too}"} if stored_too else {}
    if sizes:
        figures |= {
            "median |log ratio|": round(statistics.median(sizes), 5),
            "95th percentile |log ratio|": round(sizes[min(len(sizes) - 1, int(0.95 * len(sizes)))], 5),
            "median log ratio": round(statistics.median(ratios), 5),
            "inside the stored interval": f"{inside} of {len(sizes)}",
        }
    return {"compared": len(sizes), "agreement": figures}


def verify_only(named: Named, options: MeasureOptions) -> Rows:
    """Verify kernels and time nothing; counted per kernel as they arrive.

    On GPUs on all workloads, with nothing mapped right after a tensor; without one as far as that goes for a target.
    """
    names, kernels = {kernel.kernel_id: name for name, kernel in named}, [kernel for _, kernel in named]
    rows: Rows = []
    fenced = gpu_count() > 0
    interpreted = [] if fenced else [kernel for kernel in kernels if kernel.backend is Backend.TRITON]
    for definition in map(problem, dict.fromkeys(kernel.problem_id for kernel in interpreted)):
        refuse_without_gpu(definition, [definition.tiny])
        too_large = large_without_tiny(definition)
        if too_large is not None and not options.quiet:
            click.echo(too_large, err=True)
    progress = Progress(len(named), quiet=options.quiet)
    target, allow = Target.named(options.target), options.harness.allow_unscreened
    harness = make_harness(options, fenced=True) if fenced else Harness(None, target=target, allow_unscreened=allow)
    with harness:
        stream = harness.measure(kernels, check_only=True) if fenced else verified(harness, kernels)
        for group in by_kernel(stream):
            rows += [(names[row.kernel_id], row) for row in group]
            progress.add(next((row.status for row in group if row.status is not Status.OK), Status.OK))
    progress.finish()
    return rows


def verified(harness: Harness, kernels: Sequence[KernelSource]) -> Iterator[Measurement]:
    """Compile kernels, and verify Triton kernels through the interpreter on the tiny workload.

    A CUDA kernel can only be compiled here: its record says ok when it does, and carries no error figures.

    Args:
        harness: one without a GPU.
        kernels: what to verify.
    """
    compiled = {k.kernel_id: k for k in kernels if k.backend is Backend.CUDA}
    interpreted = [kernel for kernel in kernels if kernel.kernel_id not in compiled]
    return itertools.chain(harness.measure(interpreted, check_only=True), harness.compile(compiled.values()))


class KernelJudge:
    """One kernel in, one verdict out, as `kbench.benchmark.rewards.judged` takes it; without a GPU it only checks.

    Kernels are verified and timed one at a time, from whatever thread they come.
    """

    def __init__(self, gpu: GpuChoice | None = 0, **settings: Any) -> None:
        """Prepare to judge; workers start with the first kernel and end with the process.

        Args:
            gpu: the GPU to measure on, as `Harness` takes it. None checks without one: Triton kernels run through the
                interpreter on the tiny workload, CUDA kernels are compiled, and nothing has a speedup.
            **settings: of the harness.
        """
        self._harness = Harness(gpu, **settings)
        # One thread for good: two kernels timed at once would disturb each other.
        self._thread = ThreadPoolExecutor(1, "kernel-judge")

    def __call__(self, kernel: KernelSource) -> Aggregate:
        """The verdict over all workloads.

        Raises:
            InfrastructureError: the machine failed; that says nothing about the kernel.
        """
        return self._thread.submit(self._verdict, kernel).result()

    def _verdict(self, kernel: KernelSource) -> Aggregate:
        dry = self._harness.gpus == (None,)
        return aggregate(list((verified if dry else Harness.measure)(self._harness, [kernel])))

    def close(self) -> None:
        """End the workers."""
        self._thread.submit(self._harness.close).result()
        self._thread.shutdown()
