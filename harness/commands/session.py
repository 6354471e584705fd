"""Session: what the commands do, between their options and the harness."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import statistics
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from kbench.harness.commands.journal import Journal, in_corpus
from kbench.harness.commands.progress import Progress
from kbench.harness.commands.selection import select
from kbench.harness.device.gpu import FIRST_GPU, Gpu
from kbench.harness.harness import UNPLANNED, Harness
from kbench.harness.kernel.sources import read_kernel
from kbench.harness.record import aggregate
from kbench.schemas import InfrastructureError, Kernel, KernelSource, Measurement, Status, UserError, from_dict

Named = Sequence[tuple[str, KernelSource]]
ENDS_ITS_WORKER = (Status.LAUNCH_ERROR, Status.TIMEOUT)
"""What kernels get that leave the device unusable for the process that ran them."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class MeasureOptions:
    """The options of `kbench measure`."""

    gpus: tuple[Gpu, ...] = (FIRST_GPU,)
    out: Path | None = None
    half_width: float = 0.01
    corpus: str | None = None
    where: str | None = None
    limit: int | None = None
    deadline_s: float | None = None
    target: str = "sm_90"
    allow_unscreened: bool = False
    timeout_s: float = 10.0
    quiet: bool = False


def make_harness(options: MeasureOptions, *, fenced: bool = False) -> Harness:
    """A harness as the options say."""
    return Harness(
        gpu=options.gpus,
        half_width=options.half_width,
        timeout_s=options.timeout_s,
        allow_unscreened=options.allow_unscreened,
        fenced=fenced,
    )


def by_kernel(measurements: Iterator[Measurement]) -> Iterator[list[Measurement]]:
    """Measurements grouped by kernel; a kernel's workloads come one after another."""
    group: list[Measurement] = []
    for measurement in measurements:
        if group and group[0].kernel_id != measurement.kernel_id:
            yield group
            group = []
        group.append(measurement)
    if group:
        yield group


def measure_files(
    named: Named, options: MeasureOptions, stored: Mapping[str, Kernel] | None = None
) -> list[tuple[str, Measurement]]:
    """Measure kernels, through a journal when there is an output folder.

    Args:
        named: kernels and what to call them.
        options: how.
        stored: rows of kernels that come from a corpus, by their ids: what is written keeps their lineage.

    Raises:
        InfrastructureError: the machine failed some kernels; what it measured of the others is in the folder.
    """
    out: Path | None = options.out
    if out is None:
        return _measure(named, options, None, stored or {})
    with contextlib.closing(Journal(out)) as journal:
        journal.refuse_other_editions({kernel.problem_id for _, kernel in named})
        return _measure(named, options, journal, stored or {})


def _measure(
    named: Named, options: MeasureOptions, journal: Journal | None, stored: Mapping[str, Kernel]
) -> list[tuple[str, Measurement]]:
    names = {kernel.kernel_id: name for name, kernel in named}
    kernels = {kernel.kernel_id: kernel for _, kernel in named}
    lost: list[tuple[KernelSource, str]] = []
    began = time.monotonic()
    with make_harness(options) as harness:
        finished = measured_before(journal, kernels, harness)
        todo = [kernel for key, kernel in kernels.items() if key not in finished]
        rows = {key: group for key, group in finished.items() if key in names}
        if rows and not options.quiet:
            said = f"{len(rows)} of {len(kernels)} kernels are in {options.out} already, and shown as they are there"
            click.echo(said, err=True)
        progress = Progress(len(todo), quiet=options.quiet)
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
        raise InfrastructureError(
            f"the machine failed {len(lost)} of {len(todo)} kernels, which are not recorded;"
            f" first {names[kernel.kernel_id]}: {why}"
        )
    return [(names[key], row) for key in kernels for row in rows.get(key, [])]


def measured_before(
    journal: Journal | None, kernels: Collection[str], harness: Harness
) -> dict[str, list[Measurement]]:
    """What need not be measured, because the journal has it, or the folder's corpus has it from a GPU of this kind.

    Raises:
        UserError: some of them could not be planned before, and may now be run all the same; or the journal holds an
            unfinished measurement of another GPU.
    """
    if journal is None:
        return {}
    gpus = {harness.environment(lane).gpu for lane in range(len(harness.gpus))}
    others = {row.gpu for group in journal.measurements.values() for row in group} - gpus
    if others:
        raise UserError(f"{journal.folder} is being filled on {min(others)}; finish that first, or give another --out")
    found = in_corpus(journal.folder, kernels, gpus) | journal.measurements
    refused = sum(any((row.error or "").startswith(UNPLANNED) for row in found.get(key, ())) for key in kernels)
    if refused and harness.settings.allow_unscreened:
        raise UserError(f"{journal.folder} lists {refused} of these kernels as impossible to plan; give another --out")
    return found


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
    said = {name: counts for name, counts in notes.items() if counts}
    gpus = sorted({row.gpu for group in measured.values() for row in group})
    report = {"kernels": len(measured), "chosen": len(chosen), "gpus": gpus}
    return report | said | agreement({key: one.rows for key, one in chosen.items()}, measured)


def agreement(
    stored: Mapping[str, Mapping[str, dict[str, Any]]], measured: Mapping[str, list[Measurement]]
) -> dict[str, Any]:
    """How far apart stored and new figures of the same GPU are.

    Args:
        stored: a corpus's rows of each kernel, by GPU.
        measured: new figures of each kernel.
    """
    ratios, same_status, inside, known = [], 0, 0, 0
    for key, group in measured.items():
        total = aggregate(group)
        old = stored[key].get(total.gpu)
        if old is None:
            continue
        known += 1
        same_status += total.status.value == old["status"]
        if total.status is Status.OK and total.runtime_us is not None and old["runtime_us"] is not None:
            ratios.append(math.log(total.runtime_us / old["runtime_us"]))
            low, high = old["runtime_low_us"], old["runtime_high_us"]
            inside += low is not None and high is not None and low <= total.runtime_us <= high
    sizes = sorted(abs(ratio) for ratio in ratios)
    found: dict[str, Any] = {"same status": f"{same_status} of {known}"} if known else {}
    if sizes:
        found |= {
            "median |log ratio|": round(statistics.median(sizes), 5),
            "95th percentile |log ratio|": round(sizes[min(len(sizes) - 1, int(0.95 * len(sizes)))], 5),
            "median log ratio": round(statistics.median(ratios), 5),
            "inside the stored interval": f"{inside} of {len(sizes)}",
        }
    return {"compared": len(sizes), "agreement": found}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class CompareOptions:
    """The options of `kbench compare`."""

    problem_id: str
    gpu: Gpu = FIRST_GPU
    backend: str | None = None
    threshold: float = 0.01
    allow_unscreened: bool = False


def compare_files(one: Path, other: Path, options: CompareOptions) -> list[dict[str, Any]]:
    """Verdicts on two files, one per workload."""
    from kbench.harness.commands.compare import compare_kernels

    first, second = (read_kernel(path, options.problem_id, options.backend) for path in (one, other))
    if first.problem_id != second.problem_id:
        raise UserError(f"{one} solves {first.problem_id}, {other} solves {second.problem_id}; compare kernels of one")
    verdicts = compare_kernels(
        first, second, gpu=options.gpu, threshold=options.threshold, allow_unscreened=options.allow_unscreened
    )
    return [verdict.to_dict() for verdict in verdicts]
