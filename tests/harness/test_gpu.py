"""The whole path on a real GPU."""

from __future__ import annotations

import dataclasses
import random
from pathlib import Path
from typing import Any

import pytest

from kbench.benchmark.problems import problem
from kbench.harness.device.nvml import NoConditions
from kbench.harness.harness import Harness
from kbench.harness.kernel.sources import read_kernel
from kbench.harness.timing.batch import Sampler
from kbench.harness.timing.leftovers import HELD, HELD_BYTES
from kbench.harness.timing.rounds import Candidate, TimingSettings, time_candidate
from kbench.harness.verify.context import ProblemContext
from kbench.schemas import Backend, KernelSource, Status

KERNELS = Path(__file__).parent / "kernels"
pytestmark = pytest.mark.gpu
RELU = """
import torch
import triton
import triton.language as tl


@triton.jit
def relu_kernel(x, y, n, block: tl.constexpr):
    at = tl.program_id(0) * block + tl.arange(0, block)
    v = tl.load(x + at, mask=at < n)
    tl.store(y + at, tl.maximum(v, 0.0), mask=at < n)


def run(x):
    y = torch.empty_like(x)
    n = x.numel()
    relu_kernel[(triton.cdiv(n, 1024),)](x, y, n, block=1024, num_warps=4)
    return y
"""


def wrong_kernel() -> KernelSource:
    source = (KERNELS / "gelu_triton.py").read_text().replace("0.044715", "0.05")
    return KernelSource("gelu_tanh", read_kernel(KERNELS / "gelu_triton.py", "gelu_tanh").backend, source)


def out_of_bounds_kernel() -> KernelSource:
    source = (KERNELS / "gelu_cuda.py").read_text().replace("y[i] =", "y[i + (1ll << 40)] =")
    return KernelSource("gelu_tanh", read_kernel(KERNELS / "gelu_cuda.py", "gelu_tanh").backend, source)


def test_honest_kernels_around_a_wrong_and_a_crashing_one_are_measured(tmp_path: Path) -> None:
    honest = [read_kernel(KERNELS / name, "gelu_tanh") for name in ("gelu_triton.py", "gelu_cuda.py")]
    kernels = [honest[0], wrong_kernel(), out_of_bounds_kernel(), honest[1]]
    with Harness(gpu=0, cache=tmp_path) as harness:
        rows = list(harness.measure(kernels))
    wanted = [Status.OK, Status.INCORRECT, Status.LAUNCH_ERROR, Status.OK]
    expected = {
        (kernel.kernel_id, size.name): status
        for kernel, status in zip(kernels, wanted, strict=True)
        for size in problem("gelu_tanh").sizes
    }
    assert {(row.kernel_id, row.workload): row.status for row in rows} == expected
    for row in rows:
        if row.status is not Status.OK:
            continue
        assert row.runtime_us is not None
        assert row.floor_us is not None
        assert row.runtime_us > row.floor_us
        assert row.registers


def test_a_look_at_the_second_clock_is_not_taken_for_tampering(tmp_path: Path) -> None:
    kernel = read_kernel(KERNELS / "gelu_triton.py", "gelu_tanh")
    unscreened = dataclasses.replace(kernel, source=f"import os\n{kernel.source}")
    with Harness(gpu=0, cache=tmp_path, allow_unscreened=True, second_clock_share=1.0) as harness:
        rows = list(harness.measure([unscreened]))
    print([(row.workload, row.runtime_us, row.second_clock_us) for row in rows])  # noqa: T201 - evidence
    assert [(row.status, row.error) for row in rows] == [(Status.OK, None)] * len(problem("gelu_tanh").sizes)


@pytest.mark.parametrize("workload", ["large", "kb_v0"])
def test_every_timed_call_finds_poison_where_its_answer_goes_and_few_calls_find_the_same_place(workload: str) -> None:
    import torch

    from kbench.harness.device.device import CudaDevice

    definition, device = problem("gelu_tanh"), CudaDevice(0)
    size = next(size for size in definition.sizes if size.name == workload)
    context = ProblemContext(definition, size, device, (1, 2, 3))
    for stage in context.stages:
        stage.fill(context.references[0])
    found: list[torch.Tensor] = []
    places: list[int] = []

    def call(stage: int) -> Any:
        (x,) = context.stages[stage].inputs
        y = torch.empty_like(x)
        found.append(y.view(torch.uint8).view(-1)[::997].min())
        places.append(y.data_ptr())
        return torch.clamp_min(x, 0.0, out=y)

    time_candidate(
        Candidate("k", call),
        context,
        Sampler(device),
        NoConditions(),
        random.Random(1),
        TimingSettings(),
        lambda s: True,
    )
    assert len(found) > 10
    assert {int(one) for one in found} == {0xFF}
    # Places do not matter to kernels as long as the large workload's, so its outputs are not held.
    assert len(set(places)) >= (HELD // 2 if HELD * sum(context.output_bytes) <= HELD_BYTES else 1)


def test_inputs_asked_to_stay_in_the_cache_do_not_outlive_the_flush(tmp_path: Path) -> None:
    staying = RELU.replace("mask=at < n)", 'mask=at < n, eviction_policy="evict_last")')
    kernels = [KernelSource("relu", Backend.TRITON, source) for source in (RELU, staying)]
    with Harness(gpu=0, cache=tmp_path, workloads=("kb_v0",)) as harness:
        found = {m.kernel_id: m.runtime_us for m in harness.measure(kernels)}
    plain, last = (found[kernel.kernel_id] for kernel in kernels)
    assert plain is not None
    assert last is not None
    # Inputs that are still in the cache take a fifth off.
    assert last > 0.9 * plain
