"""Plans of real kernels, made without a GPU: memory, launches, arguments, choices, and what is refused."""

import json
import struct
from collections.abc import Callable
from pathlib import Path

import pytest
from honest_kernels import CUDA as GELU_CUDA
from honest_kernels import TRITON as GELU_TRITON
from honest_kernels import gelu

from kbench.benchmark.problems import problem
from kbench.harness.device.target import Target
from kbench.harness.plan.accept import accept
from kbench.harness.plan.check import plan_hash
from kbench.harness.plan.planner import Planned
from kbench.harness.plan.resources import read_resources
from kbench.schemas import Backend, KernelSource, Status
from kbench.schemas.records.launch_plan import ArgumentKind, LaunchPlan, PlanStep, StepKind

Planner = Callable[..., Planned]
CUDA = r'''
import torch
from kbench.harness.cuda import CudaModule, TensorMap
module = CudaModule(r"""
struct __align__(64) Map { char bytes[128]; };
extern "C" __global__ void relu(const float* x, float* y, long long n) {
    long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (i < n) y[i] = fmaxf(x[i], 0.0f);
}
extern "C" __global__ void by_map(const __grid_constant__ Map map, float* y, double scale, int flag) {
    y[threadIdx.x] = map.bytes[flag] * scale;
}
template <int N> __global__ void many(float* y) { y[threadIdx.x] = N; }
""", names=["many<4>"])
'''
TRITON = """
import torch
import triton
import triton.language as tl
"""


def cuda(body: str, problem_id: str = "relu") -> KernelSource:
    return KernelSource(problem_id, Backend.CUDA, CUDA + body)


def launches(plan: LaunchPlan) -> list[PlanStep]:
    return [step for step in plan.steps if step.kind is StepKind.LAUNCH]


def values(step: PlanStep) -> list[str | None]:
    return [argument.data for argument in step.arguments or () if argument.kind is ArgumentKind.VALUE]


def pointers(step: PlanStep) -> list[tuple[int | None, int | None]]:
    return [(a.buffer, a.offset) for a in step.arguments or () if a.kind is ArgumentKind.POINTER]


@pytest.mark.parametrize(("path", "elements", "threads"), [(GELU_TRITON, 1024, 128), (GELU_CUDA, 256, 256)])
def test_a_kernel_is_planned_on_every_workload(path: Path, elements: int, threads: int, plan: Planner) -> None:
    kernel = gelu(path)
    definition, found = problem("gelu_tanh"), plan(kernel)
    assert found.error is None
    sizes = {size.name: size for size in (*definition.sizes, definition.tiny)}
    assert set(found.plans) == set(sizes)
    for workload, (made,) in found.plans.items():
        (y,) = definition.outputs(sizes[workload].params)
        assert [(buffer.nbytes, buffer.input) for buffer in made.buffers] == [(y.nbytes, 0), (y.nbytes, None)]
        (step,) = made.steps
        assert (step.grid, step.block) == ((-(-y.numel // elements), 1, 1), (threads, 1, 1))
        assert pointers(step)[:2] == [(0, 0), (1, 0)]
        assert struct.pack("<q", y.numel).hex().startswith(values(step)[0] or "nothing")
        assert step.function in read_resources(found.cubins[step.code or ""])
        ((output),) = made.outputs
        assert (output.buffer, output.offset, output.dtype, output.shape) == (1, 0, y.dtype, y.shape)
        assert (made.kernel_id, made.workload, made.choice) == (kernel.kernel_id, workload, None)
        assert made.plan_id == plan_hash(made)
    assert len({made.plan_id for (made,) in found.plans.values()}) == len(sizes)


def test_every_kind_of_argument_and_launch_of_a_cuda_module_is_written_down(plan: Planner) -> None:
    body = """
import ctypes
def run(x):
    y = torch.zeros_like(x)
    part = y.view(-1)[8:]
    box = TensorMap(torch.empty(64, 32, dtype=torch.bfloat16, device="cuda"), (16, 32), swizzle=64)
    module.launch("by_map", 2, (32, 2), (box, part, ctypes.c_double(1.5), True), shared_bytes=99, cluster=2)
    module.launch("many<4>", (4, 3, 2), 32, (y,), cooperative=True)
    return y
"""
    found = plan(cuda(body))
    assert found.error is None
    (made,) = found.plans["tiny"]
    fill, first, second = made.steps
    assert (fill.kind, fill.buffer, fill.pattern) == (StepKind.FILL, 1, "00000000")
    box, part, scale, flag = first.arguments or ()
    assert (box.buffer, box.offset, box.tensor_map.extents, box.tensor_map.box) == (2, 0, (32, 64), (32, 16))
    assert made.buffers[2].nbytes == 64 * 32 * 2
    assert (part.buffer, part.offset) == (1, 32)
    assert (scale.data, flag.data) == ("000000000000f83f", "01")
    assert (first.grid, first.block, first.cluster, first.shared_bytes) == ((2, 1, 1), (32, 2, 1), (2, 1, 1), 99)
    assert (first.cooperative, second.cooperative) == (False, True)
    assert second.cluster is None
    assert second.grid == (4, 3, 2)
    assert second.function == "_Z4manyILi4EEvPf"
    assert second.function in read_resources(found.cubins[second.code or ""])
    assert len(found.cubins) == 1


AUTOTUNED = f"""{TRITON}
@triton.autotune([triton.Config({{"BLOCK": 256}}), triton.Config({{"BLOCK": 3}}), triton.Config({{"BLOCK": 512}}, num_warps=8)], key=["n"])
@triton.heuristics({{"EVEN": lambda args: args["n"] % args["BLOCK"] == 0}})
@triton.jit
def relu_kernel(x, y, n, scale, BLOCK: tl.constexpr, EVEN: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    if EVEN:
        tl.store(y + at, tl.maximum(tl.load(x + at) * scale, 0.0))
    else:
        tl.store(y + at, tl.maximum(tl.load(x + at, mask=at < n) * scale, 0.0), mask=at < n)

def run(x):
    y = torch.empty_like(x)
    n = x.numel()
    relu_kernel[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](x, y, n, 1.5)
    return y
"""  # noqa: E501 - kernel text


def test_an_autotuned_kernel_has_one_plan_for_each_configuration_that_compiles(plan: Planner) -> None:
    kernel = KernelSource("relu", Backend.TRITON, AUTOTUNED)
    found = plan(kernel)
    assert found.error is None
    for size in (*problem("relu").sizes, problem("relu").tiny):
        first, second = found.plans[size.name]
        n = problem("relu").outputs(size.params)[0].numel
        grids = [step.grid for made in (first, second) for step in made.steps]
        assert grids == [(-(-n // 256), 1, 1), (-(-n // 512), 1, 1)]
        assert second.steps[0].block == (256, 1, 1)
        assert (second.choice or "").startswith("BLOCK=512, num_warps=8, ")
        assert values(first.steps[0])[1] == struct.pack("<f", 1.5).hex()
    # Sizes that a block divides have functions without masks, which the heuristic chooses.
    codes = {name: {step.code for made in plans for step in made.steps} for name, plans in found.plans.items()}
    assert codes["tiny"].isdisjoint(codes["kb_v0"])
    # What they are called is kept for people; the parent's own words tell plans apart.
    build, _ = accept(json.loads(json.dumps(found.message())), "0" * 32, kernel, Target(9, 0), 1.0)
    first, second = (plan["plan_id"] for plan in build.plans["tiny"])
    assert (build.configuration({"workload": "tiny", "plan_id": first}) or "").startswith("BLOCK=256, num_warps=4")
    assert (build.configuration({"workload": "tiny", "plan_id": second}) or "").startswith("BLOCK=512, num_warps=8")
    assert "registers" in build.plans["tiny"][0]["choice"]
    assert build.configuration({"workload": "tiny"}) is None


PRUNED = AUTOTUNED.replace(
    'key=["n"]',
    'key=["n"], prune_configs_by={"early_config_prune": lambda configs, named, **rest: '
    "[triton.Config(dict(c.kwargs), num_warps=c.num_warps) for c in configs[1:]] "
    '+ [triton.Config({"BLOCK": 1024})]}',
)


def test_an_autotuned_kernel_may_prune_by_configurations_made_anew(plan: Planner) -> None:
    found = plan(KernelSource("relu", Backend.TRITON, PRUNED))
    assert found.error is None
    for plans in found.plans.values():
        first, second = (step.grid[0] for made in plans for step in made.steps if step.grid is not None)
        assert first == pytest.approx(2 * second, abs=1)


PRODUCTS = f"""{TRITON}
@triton.jit
def products(x, y, W: tl.constexpr):
    at = tl.arange(0, W)[:, None] * W + tl.arange(0, W)[None, :]
    tl.store(y + at, tl.dot(tl.load(x + at).to(tl.float16), tl.load(x + at).to(tl.float16)))

def run(x):
    y = torch.empty_like(x)
    products[(1,)](x, y, W=WIDTH, num_warps=8)
    return y
"""


def test_a_triton_launch_with_much_shared_memory_prefers_it_to_the_cache(plan: Planner) -> None:
    found = {}
    for width in (16, 128):
        made = plan(KernelSource("relu", Backend.TRITON, PRODUCTS.replace("WIDTH", str(width))))
        assert made.error is None, made.error
        (step,) = launches(next(iter(made.plans.values()))[0])
        found[width] = (step.prefer_shared, (step.shared_bytes or 0) > 48 * 1024)
    assert found == {16: (False, False), 128: (True, True)}


def test_a_kernel_none_of_whose_configurations_compiles_does_not_compile(plan: Planner) -> None:
    source = AUTOTUNED.replace('"BLOCK": 256', '"BLOCK": 5').replace('"BLOCK": 512', '"BLOCK": 7')
    found = plan(KernelSource("relu", Backend.TRITON, source))
    assert found.status is Status.COMPILE_ERROR
    assert not found.unplannable


DESCRIBED = f"""{TRITON}
from triton.tools.tensor_descriptor import TensorDescriptor

@triton.jit
def by_descriptor(x, y, rows, columns, BLOCK: tl.constexpr):
    made = tl.make_tensor_descriptor(y, [rows, columns], [columns, 1], [BLOCK, 64])
    made.store([tl.program_id(0) * BLOCK, 0], tl.maximum(x.load([tl.program_id(0) * BLOCK, 0]), 0.0))

def run(x):
    y = torch.empty_like(x)
    if x.shape[-1] % 64:
        return y
    flat = x.view(-1, 64)
    described = TensorDescriptor(flat, list(flat.shape), list(flat.stride()), [32, 64])
    by_descriptor[(triton.cdiv(flat.shape[0], 32), 1)](described, y, flat.shape[0], 64, BLOCK=32)
    return y
"""


def test_triton_descriptors_of_host_and_device_are_parameters_and_scratch_memory(plan: Planner) -> None:
    found = plan(KernelSource("relu", Backend.TRITON, DESCRIBED))
    assert found.error is None
    (made,) = found.plans["kb_v0"]
    (step,) = made.steps
    rows = made.buffers[0].nbytes // 256
    described = (step.arguments or ())[0]
    assert described.kind is ArgumentKind.TENSOR_MAP
    assert (described.buffer, described.offset) == (0, 0)
    assert (described.tensor_map.extents, described.tensor_map.strides) == ((64, rows), (256,))
    assert "".join(str(value) for value in values(step)[:4]) == struct.pack("<iiqq", rows, 64, 64, 1).hex()
    output, scratch, profile = pointers(step)
    assert output == (1, 0)
    assert profile == (None, None)
    assert scratch == (2, 0)
    assert made.buffers[2].nbytes >= 128 * step.grid[0]
    assert made.buffers[2].input is None
    (tiny,) = found.plans["tiny"]
    assert tiny.steps == (), "host code may choose by shapes"


MODEL = """
class ModelNew(torch.nn.Module):
    def forward(self, x):
        assert x.is_cuda
        y = torch.empty(x.shape, device="cuda")
        module.launch("relu", (x.numel() + 255) // 256, 256, (x, y, x.numel()))
        return y
"""
CUSTOM = """
def custom_kernel(data):
    (x,) = data
    y = torch.empty_like(x)
    module.launch("relu", (x.numel() + 255) // 256, 256, (x, y, x.numel()))
    return (y,)
"""


@pytest.mark.parametrize("body", [MODEL, CUSTOM], ids=["ModelNew", "custom_kernel"])
def test_published_forms_that_only_launch_kernels_are_planned(body: str, plan: Planner) -> None:
    found = plan(cuda(body))
    assert found.error is None
    assert all(len(launches(made)) == 1 for plans in found.plans.values() for made in plans)


WEIGHTED = """
class ModelNew(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.empty(4))
    def forward(self, x):
        y = torch.empty_like(x)
        module.launch("relu", 1, 256, (self.weight, y, x.numel()))
        return y
"""


def test_a_models_weights_that_are_inputs_of_ours_are_planned_as_inputs(plan: Planner) -> None:
    found = plan(cuda(WEIGHTED, "matmul_square"))
    step = launches(found.plans["tiny"][0])[0]
    assert pointers(step)[0] == (1, 0)


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("def run(x):\n    return torch.relu(x)\n", "calls the torch operator 'relu'"),
        ("table = torch.tensor([1.0], device='cuda')\ndef run(x):\n    return x\n", "copies from host memory"),
        ("kept = torch.zeros(4, device='cuda')\ndef run(x):\n    kept.zero_()\n", "the call did not allocate"),
        ("module.launch('relu', 1, 1, ())\ndef run(x):\n    return x\n", "launches a kernel outside `run`"),
        (
            "from torch.utils.cpp_extension import load_inline\nload_inline('a', '')\ndef run(x):\n    return x\n",
            "compiles a torch extension",
        ),
        ("def run(x):\n    module.launch('relu', 1, 1, (x, 'text', 1))\n    return x\n", "passes a str"),
        (
            "def run(x):\n    y = torch.empty(x.shape)\n    module.launch('relu', 1, 1, (x, y, 1))\n",
            "uses host memory at line 17: a tensor lies on the CPU; make it with `device=x.device`",
        ),
    ],
)
def test_what_cannot_be_planned_says_why_and_says_nothing_about_the_kernel(body: str, why: str, plan: Planner) -> None:
    found = plan(cuda(body))
    assert found.unplannable
    assert found.status is Status.REJECTED
    assert (found.error or "").startswith("cannot be planned: ")
    assert why in (found.error or "")
    assert not found.plans
    assert not found.cubins


@pytest.mark.parametrize(
    ("body", "status", "why"),
    [
        ("def run(x:\n", Status.COMPILE_ERROR, "SyntaxError: '(' was never closed (the kernel's file, line "),
        ("def launch(x):\n    return x\n", Status.COMPILE_ERROR, "defines no function `run`"),
        ("import no_such_module\ndef run(x):\n    return x\n", Status.COMPILE_ERROR, "no_such_module"),
        ("def run(x):\n    raise KeyError('why')\n", Status.LAUNCH_ERROR, "KeyError: 'why'"),
        ("def run(x):\n    return None\n", Status.INCORRECT, "returned a NoneType"),
        ("def run(x):\n    return torch.empty_like(x).t()\n", Status.INCORRECT, "not contiguous"),
        ("def run(x):\n    return [torch.empty_like(x), 'y']\n", Status.INCORRECT, "returned a str"),
        ("def run(x):\n    return torch.empty(x.shape)\n", Status.INCORRECT, "an output is on cpu, expected cuda:0"),
    ],
)
def test_what_host_code_does_wrong_is_the_kernels(body: str, status: Status, why: str, plan: Planner) -> None:
    found = plan(cuda(body))
    assert found.status is status
    assert why in (found.error or "")
    # Exceptions may come for want of a GPU: where kernels may run beside their judge, these are tried there.
    assert found.unplannable == ("no_such_module" in body or "KeyError" in body)


def test_a_failure_at_a_later_workload_names_it(plan: Planner) -> None:
    sizes = problem("relu").sizes
    shape = tuple(problem("relu").inputs(sizes[1].params)[0].shape)
    body = f"def run(x):\n    assert tuple(x.shape) != {shape}, 'odd'\n    return torch.empty_like(x)\n"
    assert plan(cuda(body, "relu")).error == f"AssertionError: odd (workload {sizes[1].name})"
    body = "def run(x):\n    assert False, 'odd'\n"
    assert plan(cuda(body, "relu")).error == "AssertionError: odd"
