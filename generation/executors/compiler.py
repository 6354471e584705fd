"""The compiler surrogates may ask: the harness's sandboxed build processes, told to build and to run nothing."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence

from kbench.benchmark.surrogates.protocol import CompilerFacts
from kbench.benchmark.work.gpus import KIB, Gpu
from kbench.benchmark.work.table import read_work
from kbench.benchmark.work.totals import Work
from kbench.harness.device.target import H200, DeviceFacts, Target
from kbench.harness.isolate.spawner import shared_spawner
from kbench.harness.plan.cache import Build, BuildCache
from kbench.harness.queue.job import Job
from kbench.harness.queue.planners import Planners
from kbench.harness.queue.supervisor import Supervisor
from kbench.harness.settings import HarnessSettings
from kbench.loaders.storage.scratch import cache_folder
from kbench.schemas import InfrastructureError, KernelSource, UserError, require_package

PLAIN_SHARED_BYTES = 48 * KIB
"""Shared memory that a block has without asking for more, on every GPU."""


def compiler_facts(kernels: Sequence[KernelSource], capability: str) -> list[CompilerFacts | None]:
    """Registers, shared memory and spills of each kernel, for surrogates that ask.

    None where it does not compile or cannot be planned. A build already in the cache is looked up, so
    asking again costs milliseconds.
    """
    by_id = {kernel.kernel_id: kernel for kernel in kernels}
    facts: dict[str, CompilerFacts | None] = {}
    # A kernel the machine could not build has no facts; what is known of the others stays.
    with contextlib.suppress(InfrastructureError):
        for kernel, build in builds(by_id.values(), _target(capability), H200):
            if isinstance(build, Build) and (build.registers is not None or (kernel.workloads_json and build.work)):
                work = None if build.work is None else _work(build)
                figures = build.registers or 0, build.shared_bytes or 0, build.spill_bytes or 0
                facts[kernel.kernel_id] = CompilerFacts(*figures, work)
    return [facts.get(kernel.kernel_id) for kernel in kernels]


def kernel_work(kernel: KernelSource, gpu: Gpu) -> tuple[dict[str, list[Work]], Mapping[str, Sequence[str]]]:
    """What a kernel does on a GPU: the work of each configuration, by workload; and what autotuned ones are called.

    Raises:
        UserError: it does not compile, cannot be planned, or launches nothing; or plans are not made for the GPU.
        InfrastructureError: no process can be started.
    """
    if gpu.capability is None:
        raise UserError(f"kernels cannot be compiled for {gpu.name}; name an NVIDIA GPU such as --gpu H100")
    target = _target(gpu.capability)
    ((_, build),) = builds([kernel], target, device_facts(gpu, target))
    if not isinstance(build, Build) or build.error is not None:
        raise UserError(build if isinstance(build, str) else f"{build.status}: {build.error}")
    work = _work(build)
    if not any(one.launches for configurations in work.values() for one in configurations):
        raise UserError("its `run` launches no kernel, so there is nothing to count")
    return work, build.configs


def _work(build: Build) -> dict[str, list[Work]]:
    return {name: [read_work(one) for one in each] for name, each in (build.work or {}).items()}


def _target(capability: str) -> Target:
    major, _, minor = capability.partition(".")
    return Target(int(major), int(minor or 0))


def device_facts(gpu: Gpu, target: Target) -> DeviceFacts:
    """What host code may ask of a GPU of the table."""
    if gpu.name == "H200" and gpu.multiprocessors == H200.multi_processor_count:
        return H200
    return DeviceFacts(
        name=f"NVIDIA {gpu.name}",
        major=target.major,
        minor=target.minor,
        multi_processor_count=gpu.multiprocessors,
        total_memory=H200.total_memory,
        L2_cache_size=int(gpu.l2_bytes),
        shared_memory_per_block=PLAIN_SHARED_BYTES,
        shared_memory_per_block_optin=gpu.block_shared_bytes,
        shared_memory_per_multiprocessor=gpu.shared_bytes,
        regs_per_multiprocessor=gpu.registers,
        max_threads_per_multi_processor=gpu.threads,
    )


def builds(
    kernels: Iterable[KernelSource], target: Target, facts: DeviceFacts
) -> Iterator[tuple[KernelSource, Build | str]]:
    """Build kernels, each in a process of its own, and run nothing; the reason where there is no build.

    Only the processes that plan are started, and those only for kernels that the cache does not hold.
    """
    for package, extra in (("torch", "gpu"), ("triton", "explain")):
        require_package(package, extra, "compiling kernels")
    settings, cache = HarnessSettings(), BuildCache(cache_folder().resolve())
    kernels = list(kernels)
    foreign = any(kernel.workloads_json is not None for kernel in kernels)
    spawner, seats = shared_spawner(planning=True, counting=foreign), os.cpu_count() or 1
    planners = Planners(spawner, cache, target, facts, seats, settings.build_timeout_s)
    jobs = (Job(number, kernel, compile_only=True, count_work=True) for number, kernel in enumerate(kernels))
    try:
        for outcome in Supervisor(planners, [], settings).run(jobs):
            if outcome is not None:
                reason = outcome.infrastructure or outcome.reason or "it could not be built"
                yield outcome.job.kernel, outcome.job.build if outcome.job.build is not None else reason
    finally:
        planners.close()
