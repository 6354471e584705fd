"""Check without a GPU: compile for a target; verify Triton kernels through the interpreter on the tiny workload."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kbench.harness.build.target import Target
from kbench.harness.harness import Harness
from kbench.harness.progress import Progress
from kbench.schemas import Backend, KernelSource, Measurement


def check_kernels(
    named: Sequence[tuple[str, KernelSource]], options: dict[str, Any], quiet: bool
) -> list[tuple[str, Measurement]]:
    """Check kernels on this machine's CPU.

    A CUDA kernel can only be compiled here: its record says ok when it does, and carries no error figures.
    """
    names = {kernel.kernel_id: name for name, kernel in named}
    target = Target.named(options["target"])
    with Harness(gpu=None, target=target, allow_unscreened=options["allow_unscreened"]) as harness:
        progress = Progress(len(named), quiet=quiet)
        rows: list[tuple[str, Measurement]] = []
        kernels = [kernel for _, kernel in named]
        # What the screen refuses is refused here too, not called a kernel because it compiles.
        compiled = {k.kernel_id: k for k in kernels if k.backend is Backend.CUDA and harness.refusal(k) is None}
        interpreted = [kernel for kernel in kernels if kernel.kernel_id not in compiled]
        for stream in (harness.measure(interpreted, check_only=True), harness.compile(compiled.values())):
            for row in stream:
                rows.append((names[row.kernel_id], row))
                progress.add(row.status)
        progress.finish()
    return rows
