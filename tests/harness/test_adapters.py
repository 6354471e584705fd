"""Kernels in other suites' forms."""

import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from honest_kernels import CUDA, TRITON

from kbench.benchmark.problems import problem, problems
from kbench.benchmark.problems.compare import compare
from kbench.benchmark.problems.registry import named
from kbench.harness.commands.doctor import gpu_count
from kbench.harness.commands.measure import MeasureOptions, verify_only
from kbench.harness.harness import Harness
from kbench.harness.kernel.adapters import LAYOUTS, NAMESAKES, adapt, adapter_for, problem_of, refusal
from kbench.harness.kernel.loading import LoadedKernel, LoadError
from kbench.harness.kernel.sources import RawLaunch, advice, read_kernel
from kbench.schemas import Backend, KernelSource, Status, UserError

TASKS = Path(__file__).parents[1] / "fixtures" / "tasks"
"""A kernel of each GPU MODE task in torch, taking and returning what the task says."""
PUBLISHED = TASKS.parent / "published"
GPU_MODE = ("trimul", "cross_entropy_fwd_bwd", "fp8_quant", "gdn_chunk_fwd_h", "gdn_chunk_fwd_o", "gdn_recompute_w_u")
MODEL = """
import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(width))

    def forward(self, x):
        return x * self.weight


def get_init_inputs():
    return [4]
"""
CUSTOM = """
import torch


def custom_kernel(data):
    (x,) = data
    return torch.nn.functional.gelu(x, approximate="tanh")
"""


def test_forms_are_told_apart() -> None:
    assert adapter_for(MODEL) == "ModelNew"
    assert adapter_for(CUSTOM) == "custom_kernel"
    assert adapter_for(CUSTOM + "\ndef run(x):\n    return x\n") is None
    assert adapter_for("def run(x:") is None
    pair = task_kernel("cross_entropy_fwd_bwd_pair").source
    assert adapter_for(pair) == "cross_entropy_forward"
    assert adapter_for(pair.replace("cross_entropy_backward =", "other =")) is None
    with pytest.raises(LoadError, match="defines no function `run`"):
        LoadedKernel(KernelSource("relu", Backend.TRITON, pair))


def test_a_models_parameters_are_the_inputs_it_does_not_take() -> None:
    loaded = LoadedKernel(KernelSource("any", Backend.CUDA, MODEL))
    x, weight = torch.ones(3, 4), torch.arange(4.0)
    with torch.no_grad():
        assert torch.equal(loaded.run(x, weight), x * weight)
        assert torch.equal(loaded.run(x, weight + 1), x * (weight + 1))
    loaded.unload()


FILE = """
import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.BatchNorm1d(width)
        self.last = nn.Linear(width, 3)

    def forward(self, x):
        return self.last(self.norm(x))


def get_inputs():
    return [torch.randn(7, 4)]


def get_init_inputs():
    return [4]
"""


def test_a_model_of_a_users_problem_is_made_and_weighted_as_the_problem_says(tmp_path: Path) -> None:
    path = tmp_path / "narrow.py"
    path.write_text(FILE)
    given = named(str(path))
    source = FILE.replace("class Model(", "class ModelNew(").partition("def get_inputs")[0]
    inputs = given.draw(given.tiny, 2)
    loaded, wrong = (
        LoadedKernel(KernelSource(given.id, Backend.TRITON, text))
        for text in (source, source.replace("width, 3", "width, 4"))
    )
    with torch.no_grad():
        assert loaded.run(*inputs).shape == (7, 3)
    weights = loaded.run._model.state_dict().values()  # type: ignore[attr-defined]
    assert all(torch.equal(own, value) for own, value in zip(weights, inputs[1:], strict=True))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"weights have the shapes .*\(4, 4\).*the problem's .*\(3, 4\)"):
        wrong.run(*inputs)
    loaded.unload()
    wrong.unload()


def task_kernel(name: str) -> KernelSource:
    return KernelSource(name.removesuffix("_pair"), Backend.TRITON, (TASKS / f"{name}.py").read_text())


def test_every_task_has_a_layout_of_its_own_or_a_namesakes() -> None:
    assert {NAMESAKES.get(name, name) for name in GPU_MODE} == set(LAYOUTS)
    assert set(NAMESAKES) <= set(problems())
    assert not set(NAMESAKES.values()) & set(problems())


@pytest.mark.parametrize("name", [*sorted(LAYOUTS), "cross_entropy_fwd_bwd_pair"])
@pytest.mark.parametrize("seed", [0, 1])
def test_a_kernel_in_its_tasks_layout_solves_our_problem(name: str, seed: int) -> None:
    kernel = task_kernel(name)
    definition = problem(kernel.problem_id)
    inputs = definition.draw(definition.tiny, seed)
    before = [value.clone() if isinstance(value, torch.Tensor) else value for value in inputs]
    loaded = LoadedKernel(kernel)
    with torch.no_grad():
        outputs = loaded.run(*inputs)
    loaded.unload()
    specs = definition.outputs(definition.tiny.params)
    found = compare(outputs, definition.expected(inputs), definition.tolerance, specs)
    assert found.ok, found.reason
    assert all(torch.equal(torch.as_tensor(one), torch.as_tensor(two)) for one, two in zip(before, inputs, strict=True))


def handed_over(problem_id: str) -> tuple[tuple[Any, ...], Any]:
    """Our tiny inputs, and what a task's kernel gets of them."""
    definition = problem(problem_id)
    inputs = definition.draw(definition.tiny, 0)
    run = adapt({"custom_kernel": lambda data: data}, problem_id)
    return inputs, run(*inputs)


def test_trimul_gets_named_weights_of_the_tasks_shapes_and_a_mask_of_a_type_it_knows() -> None:
    inputs, (x, mask, weights, config) = handed_over("trimul")
    assert config == {"dim": 32, "hidden_dim": 128}
    assert (x.shape, mask.shape, mask.dtype) == ((1, 16, 16, 32), (1, 16, 16), torch.float32)
    wide = dict.fromkeys(("left_proj", "right_proj", "left_gate", "right_gate", "out_gate"), (128, 32))
    affine = {"norm": (32,), "to_out_norm": (128,)}
    shapes = {f"{name}.weight": shape for name, shape in (wide | affine | {"to_out": (32, 128)}).items()}
    shapes |= {f"{name}.bias": shape for name, shape in affine.items()}
    assert {name: tuple(weight.shape) for name, weight in weights.items()} == shapes
    assert [x, mask, *weights.values()] == list(inputs), "nothing is copied"


def test_fp8_quant_gets_buffers_of_its_own_in_every_call() -> None:
    (x, group), (given, x_q, x_s) = handed_over("fp8_quant_float32")
    assert given is x
    assert (x_q.shape, x_s.shape) == ((16, 1024), (16, 1024 // group))
    assert {value.dtype for value in (x, x_q, x_s)} == {torch.float32}
    run = adapt({"custom_kernel": lambda data: data}, "fp8_quant_float32")
    kept = [run(x, group) for _ in range(3)]
    assert len({value.data_ptr() for _, *buffers in kept for value in buffers}) == 6


def test_a_custom_kernel_for_fp8_quant_solves_the_tasks_problem_and_other_forms_solve_ours() -> None:
    assert problem_of(CUSTOM, "fp8_quant") == "fp8_quant_float32"
    assert problem_of(MODEL, "fp8_quant") == problem_of("def run(x, group): ...", "fp8_quant") == "fp8_quant"
    assert problem_of(CUSTOM, "gelu_tanh") == "gelu_tanh"


def test_a_kernel_of_another_problem_than_the_one_it_is_given_for_is_refused_in_one_line(tmp_path: Path) -> None:
    kernel = KernelSource("fp8_quant", Backend.TRITON, task_kernel("fp8_quant_float32").source)
    with pytest.raises(LoadError, match=r"^custom_kernel solves .* which is fp8_quant_float32 here .*; measure it as"):
        LoadedKernel(kernel)
    with Harness(gpu=None, cache=tmp_path, workloads=("tiny",), builders=1) as harness:
        (row,) = harness.measure([kernel])
    assert (row.status, row.error) == (Status.REJECTED, refusal("custom_kernel", "fp8_quant"))
    assert row.runtime_us is None


def test_what_a_submission_imports_from_its_task_is_there_only_while_it_is_loaded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    mine = type(sys)("utils")
    monkeypatch.setitem(sys.modules, "utils", mine)
    LoadedKernel(task_kernel("trimul")).unload()
    assert sys.modules["utils"] is mine
    assert "task" not in sys.modules
    with pytest.raises(LoadError, match="cannot import name 'secret' from 'task'"):
        LoadedKernel(KernelSource("relu", Backend.TRITON, "from task import secret\ndef custom_kernel(data): ..."))
    with pytest.raises(LoadError, match="No module named 'task'"):
        LoadedKernel(KernelSource("relu", Backend.TRITON, "from task import input_t\ndef run(x): ..."))


RELU = """
{before}__global__ void relu(const float* x, float* y, int n) {{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i] > 0 ? x[i] : 0;
}}
"""
LAUNCH = RawLaunch("relu", "cdiv(y.numel(), 256)", args="x, y, y.numel()")


@pytest.mark.skipif(gpu_count() > 0, reason="compiles without a GPU")
def test_a_raw_file_is_planned_and_compiled_whether_its_name_is_mangled_or_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KBENCH_CACHE", str(tmp_path / "cache"))
    kernels = []
    for name, before in {"plain": 'extern "C" ', "mangled": "", "template": "template <int N> "}.items():
        path = tmp_path / f"{name}.cu"
        path.write_text(RELU.format(before=before))
        launch = RawLaunch("relu<4>", LAUNCH.grid, args=LAUNCH.args) if name == "template" else LAUNCH
        kernels.append((name, read_kernel(path, "relu", launch=launch)))
    assert {kernel.backend for _, kernel in kernels} == {Backend.CUDA}
    rows = verify_only(kernels, MeasureOptions(quiet=True))
    assert [(name, row.status, row.error) for name, row in rows] == [(name, Status.OK, None) for name, _ in kernels]
    assert all(row.registers for _, row in rows)


def test_a_wrapped_file_knows_the_outputs_of_every_workload(tmp_path: Path) -> None:
    path = tmp_path / "k.cu"
    path.write_text('// ends in a quote: """\n__global__ void f() {}')
    source = read_kernel(path, "sum_reduce", launch=RawLaunch("f", "1")).source
    found: dict[str, object] = {}
    exec(compile(source, "k", "exec"), found)
    definition = problem("sum_reduce")
    assert len(found["OUTPUTS"]) == len({*map(str, (size.params for size in (*definition.sizes, definition.tiny)))})  # type: ignore[arg-type]
    assert found["cdiv"](257, 256) == 2  # type: ignore[operator]


@pytest.mark.parametrize(
    ("launch", "message"),
    [
        (None, r"k.cu is CUDA C\+\+ without a `run`; say how to launch it, such as --entry relu --grid 'cdiv\(y.numel"),
        (RawLaunch("rlu", "1"), "--entry is 'rlu', but k.cu defines relu"),
        (RawLaunch("relu", "n + 1"), "--grid names 'n'; known: cdiv, x, y"),
        (RawLaunch("relu", "1", args="x, y)"), r"--args is 'x, y\)'; it must be Python"),
    ],
)
def test_a_launch_that_does_not_fit_is_one_line(tmp_path: Path, launch: RawLaunch | None, message: str) -> None:
    path = tmp_path / "k.cu"
    path.write_text(RELU.format(before=""))
    with pytest.raises(UserError, match=message):
        read_kernel(path, "relu", launch=launch)
    with pytest.raises(UserError, match="has its own `run`"):
        read_kernel(TRITON, "gelu_tanh", launch=LAUNCH)


JIT = "import triton\n@triton.jit\ndef k(x):\n    pass\n"


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("def run(x:\n", "does not parse"),
        (f"{JIT}def launch(x):\n    return x\n", "defines no function `run`"),
        ("import torch\ndef run(x):\n    return torch.relu(x)\n", "the kernel must compute, not torch"),
        ("def custom_kernel(data):\n    return data[0].relu()\n", "the kernel must compute, not torch"),
        (f"{JIT}def run(x):\n    n = x.max().item()\n    return x\n", "line 6 calls .item()"),
        (f"{JIT}def run(x):\n    return x.cpu()\n", "line 6 calls .cpu()"),
        (f"{JIT}def run(x):\n    return sorted(x.tolist())\n", "line 6 calls .tolist()"),
    ],
)
def test_what_cannot_be_planned_is_said_with_its_line(source: str, words: str) -> None:
    assert words in (advice(source) or "")


@pytest.mark.parametrize("path", [TRITON, CUDA, *sorted(PUBLISHED.glob("*.py"))], ids=lambda p: p.name)
def test_nothing_is_said_of_honest_kernels_in_any_form(path: Path) -> None:
    assert advice(path.read_text()) is None


@pytest.mark.parametrize("source", ["import os\n", "table = {}\n", "def jit(f):\n    return f\n"])
def test_no_name_is_held_against_a_kernel(source: str) -> None:
    assert advice(f"{source}{JIT}def run(x):\n    return k\n") is None
