"""The whole path on a real GPU."""

import random
from pathlib import Path
from typing import Any

import pytest
import torch
from honest_kernels import CUDA, TRITON, gelu

from kbench.benchmark.problems import problem
from kbench.harness.bench.context import ProblemContext
from kbench.harness.device.device import CudaDevice
from kbench.harness.device.environment import ConditionsReader
from kbench.harness.harness import Harness
from kbench.harness.record import refereed
from kbench.harness.timing.batch import Sampler
from kbench.harness.timing.leftovers import HELD, HELD_BYTES
from kbench.harness.timing.rounds import Candidate, TimingSettings, time_candidate
from kbench.schemas import Backend, InfrastructureError, KernelSource, Measurement, Status

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


HONEST = [gelu(TRITON), gelu(CUDA)]
WRONG, OUT_OF_BOUNDS = gelu(TRITON, "0.044715", "0.05"), gelu(CUDA, "y[i] =", "y[i + (1ll << 40)] =")


def cuda(source: str, body: str) -> KernelSource:
    """A ReLU in CUDA C++ with host code of its own."""
    head = "import torch\nfrom kbench.harness.cuda import CudaModule\n"
    return KernelSource("relu", Backend.CUDA, f"{head}module = CudaModule(r'''{source}''')\n{body}")


def measured(cache: Path, *kernels: KernelSource, **settings: Any) -> list[list[Measurement]]:
    """Rows of each kernel, in the kernels' order."""
    with Harness(gpu=0, cache=cache, **settings) as harness:
        rows = list(harness.measure(kernels))
    return [[row for row in rows if row.kernel_id == kernel.kernel_id] for kernel in kernels]


def test_honest_kernels_around_a_wrong_and_a_crashing_one_are_measured(tmp_path: Path) -> None:
    kernels = [HONEST[0], WRONG, OUT_OF_BOUNDS, HONEST[1]]
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
        assert row.runtime_us > row.floor_us
        assert row.registers
        assert row.trust == "plan"
        assert row.not_restored == ()


def test_the_profiler_confirms_honest_kernels_and_names_a_wrong_one(tmp_path: Path) -> None:
    with Harness(gpu=0, cache=tmp_path) as harness:
        rows = list(harness.measure(HONEST))
        second = dict(harness.second_clock([*HONEST, WRONG, OUT_OF_BOUNDS]))
    for kernel in HONEST:
        confirmed = refereed([row for row in rows if row.kernel_id == kernel.kernel_id], second[kernel.kernel_id])
        print([(row.workload, row.runtime_us, row.second_clock_us) for row in confirmed])  # noqa: T201 - evidence
        assert {(row.status, row.clocks_disagree) for row in confirmed} == {(Status.OK, False)}
    assert all(isinstance(second[kernel.kernel_id], str) for kernel in (WRONG, OUT_OF_BOUNDS))


def test_of_an_autotuned_kernel_the_fastest_configuration_is_timed(tmp_path: Path) -> None:
    tuned = RELU.replace(
        "@triton.jit\n",
        "@triton.autotune([triton.Config({'block': 16}, num_warps=1), triton.Config({'block': 1024})], key=['n'])\n"
        "@triton.jit\n",
    ).replace("relu_kernel[(triton.cdiv(n, 1024),)](x, y, n, block=1024, num_warps=4)",
              "relu_kernel[lambda meta: (triton.cdiv(n, meta['block']),)](x, y, n)")  # fmt: skip
    slow = RELU.replace("cdiv(n, 1024)", "cdiv(n, 16)").replace("block=1024, num_warps=4", "block=16, num_warps=1")
    kernels = [KernelSource("relu", Backend.TRITON, source) for source in (tuned, RELU, slow)]
    (best,), (fast,), (worst,) = measured(tmp_path, *kernels, workloads=("kb_v0",))
    assert best.trust == "plan"
    assert worst.runtime_us > 1.5 * fast.runtime_us
    assert best.runtime_us < 1.1 * fast.runtime_us


def test_headers_full_of_constants_do_not_slow_a_kernel(tmp_path: Path) -> None:
    """What restores hundreds of variables must not fill the launch queue, or times contain the host's."""
    source = """
#include <cooperative_groups.h>
extern "C" __global__ void relu(const float* x, float* y, long long n) {
    long long i = cooperative_groups::this_grid().thread_rank();
    if (i < n) y[i] = x[i] > 0 ? x[i] : 0.f;
}"""
    body = """
def run(x):
    y = torch.empty_like(x)
    n = x.numel()
    module.launch("relu", grid=(n + 255) // 256, block=256, args=(x, y, n))
    return y
"""
    plain = source.replace("#include <cooperative_groups.h>", "").replace(
        "cooperative_groups::this_grid().thread_rank()", "blockIdx.x * 256ll + threadIdx.x"
    )
    found = measured(tmp_path, cuda(source, body), cuda(plain, body), workloads=("kb_v0",))
    times = [rows[0].runtime_us for rows in found]
    assert times[0] == pytest.approx(times[1], rel=0.1)


COMPILED = """
import torch

@torch.compile
def relu(x):
    return torch.relu(x)

def run(x):
    return relu(x)
"""


@pytest.mark.parametrize(
    ("source", "why"), [(RELU.replace("return y", "return y * 1"), "operator 'mul'"), (COMPILED, "uses torch.compile")]
)
def test_what_cannot_be_planned_is_rejected_or_runs_beside_its_judge(source: str, why: str, tmp_path: Path) -> None:
    kernel = KernelSource("relu", Backend.TRITON, source)
    (refused,) = measured(tmp_path, kernel)
    assert {row.status for row in refused} == {Status.REJECTED}
    assert all((row.error or "").startswith("cannot be planned: ") and why in (row.error or "") for row in refused)
    (rows,) = measured(tmp_path, kernel, allow_unscreened=True)
    assert {(row.status, row.error, row.trust) for row in rows} == {(Status.OK, None, "process")}


def test_a_record_has_the_figures_of_the_configuration_that_was_timed(tmp_path: Path) -> None:
    source = RELU.replace(
        "@triton.jit",
        "@triton.autotune([triton.Config({}, num_warps=1), triton.Config({}, num_warps=8)], key=['n'])\n@triton.jit",
    ).replace(", num_warps=4", "")
    with Harness(gpu=0, cache=tmp_path, workloads=("kb_v0",)) as harness:
        chosen: list[str] = []
        harness.on_result = lambda kernel, result: chosen.append(str(result.get("plan_id")))
        (row,) = harness.measure([KernelSource("relu", Backend.TRITON, source)])
        ((_, build),) = harness.builds([KernelSource("relu", Backend.TRITON, source)])
    assert (row.status, row.error) == (Status.OK, None)
    assert len(build.plans["kb_v0"]) == 2
    assert row.registers == build.resources[chosen[0]]["registers"]


def test_no_answer_lies_in_the_process_that_replays(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The device queue has an oracle of its own, and its workers are told where, so that they ask it."""
    with Harness(gpu=0, cache=tmp_path, workloads=("kb_v0",)) as harness:
        (row,) = harness.measure([KernelSource("relu", Backend.TRITON, RELU)])
        (queue,) = harness._queues
        assert {worker.process.settings.get("oracle") is not None for worker in queue.workers} == {True}
        queue._oracle.close()
        other = KernelSource("sigmoid", Backend.TRITON, RELU)
        with pytest.raises(InfrastructureError, match="holds the answers"):
            list(harness.measure([other]))
    assert row.status is Status.OK


@pytest.mark.parametrize("workload", ["large", "kb_v0"])
def test_every_timed_call_finds_poison_where_its_answer_goes_and_few_calls_find_the_same_place(workload: str) -> None:
    definition, device = problem("gelu_tanh"), CudaDevice(0)
    size = next(size for size in definition.sizes if size.name == workload)
    context = ProblemContext(definition, size, device, (1, 2, 3))
    for buffers in context.sets:
        buffers.fill(context.references[0])
    found: list[torch.Tensor] = []
    places: list[int] = []

    def call(set_number: int) -> Any:
        (x,) = context.sets[set_number].inputs
        y = torch.empty_like(x)
        found.append(y.view(torch.uint8).view(-1)[::997].min())
        places.append(y.data_ptr())
        return torch.clamp_min(x, 0.0, out=y)

    kernel, settings = Candidate("k", call), TimingSettings()
    time_candidate(kernel, context, Sampler(device), ConditionsReader(), random.Random(1), settings, lambda s: True)
    assert len(found) > 10
    assert {int(one) for one in found} == {0xFF}
    # Places do not matter to kernels as long as the large workload's, so its outputs are not held.
    assert len(set(places)) >= (HELD // 2 if HELD * sum(context.output_bytes) <= HELD_BYTES else 1)
