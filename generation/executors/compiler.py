"""The compiler surrogates may ask: the harness's sandboxed build processes, told to build and to run nothing."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence

from kbench.benchmark.surrogates.protocol import CompilerFacts
from kbench.benchmark.work.table import read_work
from kbench.harness.device.target import Target
from kbench.harness.harness import Harness
from kbench.harness.plan.cache import Build
from kbench.schemas import InfrastructureError, KernelSource


def compiler_facts(kernels: Sequence[KernelSource], capability: str) -> list[CompilerFacts | None]:
    """Registers, shared memory and spills of each kernel, for surrogates that ask.

    None where it does not compile or cannot be planned. A build already in the cache is looked up, so
    asking again costs milliseconds.

    Args:
        kernels: measured or not.
        capability: compute capability they are compiled for, such as 9.0.
    """
    major, _, minor = capability.partition(".")
    by_id = {kernel.kernel_id: kernel for kernel in kernels}
    facts: dict[str, CompilerFacts | None] = {}
    # No kernel runs meanwhile, so every core may compile.
    opened = Harness(gpu=None, target=Target(int(major), int(minor or 0)), builders=os.cpu_count())
    # A kernel the machine could not build has no facts; what is known of the others stays.
    with opened as harness, contextlib.suppress(InfrastructureError):
        for kernel, build in harness.builds(by_id.values()) if by_id else ():
            facts[kernel.kernel_id] = _facts(build)
    return [facts.get(kernel.kernel_id) for kernel in kernels]


def _facts(build: Build) -> CompilerFacts | None:
    if build.registers is None:
        return None
    work = None if build.work is None else {name: [read_work(one) for one in each] for name, each in build.work.items()}
    return CompilerFacts(build.registers, build.shared_bytes or 0, build.spill_bytes or 0, work)
