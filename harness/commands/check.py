"""Check: verify kernels and time nothing, with a fence on a GPU, or without one as far as that goes."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

from kbench.harness.commands.doctor import gpu_count
from kbench.harness.commands.progress import Progress
from kbench.harness.commands.selection import select
from kbench.harness.commands.session import MeasureOptions, Named, by_kernel, make_harness
from kbench.harness.device.target import Target
from kbench.harness.harness import Harness
from kbench.schemas import Backend, KernelSource, Measurement, Status

Checked = list[tuple[str, Measurement]]


def check(named: Named, options: MeasureOptions) -> Checked:
    """Verify kernels and time nothing."""
    return (check_fenced if gpu_count() else check_without_gpu)(named, options)


def check_corpus(options: MeasureOptions) -> Checked:
    """Check a selection of a corpus; rows are named by their kernel's id."""
    chosen, _ = select(options.corpus, options.where, options.limit)
    return check([(key, one.kernel) for key, one in chosen.items()], options)


def check_fenced(named: Named, options: MeasureOptions) -> Checked:
    """Verify kernels on all workloads, on GPUs with nothing mapped right after a tensor."""
    with make_harness(options, fenced=True) as harness:
        return collect(named, harness.measure([kernel for _, kernel in named], check_only=True), options.quiet)


def check_without_gpu(named: Named, options: MeasureOptions) -> Checked:
    """Check kernels for a target as far as that goes without a GPU."""
    target = Target.named(options.target)
    with Harness(gpu=None, target=target, allow_unscreened=options.allow_unscreened) as harness:
        return collect(named, checked(harness, [kernel for _, kernel in named]), options.quiet)


def checked(harness: Harness, kernels: Sequence[KernelSource]) -> Iterator[Measurement]:
    """Compile kernels, and verify Triton kernels through the interpreter on the tiny workload.

    A CUDA kernel can only be compiled here: its record says ok when it does, and carries no error figures.

    Args:
        harness: one without a GPU.
        kernels: what to check.
    """
    compiled = {k.kernel_id: k for k in kernels if k.backend is Backend.CUDA}
    interpreted = [kernel for kernel in kernels if kernel.kernel_id not in compiled]
    return itertools.chain(harness.measure(interpreted, check_only=True), harness.compile(compiled.values()))


def collect(named: Named, stream: Iterator[Measurement], quiet: bool) -> Checked:
    """All rows with their kernels' names, counted per kernel as they arrive."""
    names = {kernel.kernel_id: name for name, kernel in named}
    rows: Checked = []
    progress = Progress(len(named), quiet=quiet)
    for group in by_kernel(stream):
        rows += [(names[row.kernel_id], row) for row in group]
        progress.add(next((row.status for row in group if row.status is not Status.OK), Status.OK))
    progress.finish()
    return rows
