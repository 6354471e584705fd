"""Files of CUDA C++ alone: told how to launch, they are kernels like any other."""

from __future__ import annotations

from pathlib import Path

import pytest

from kbench.benchmark.problems import problem
from kbench.harness.commands.doctor import gpu_count
from kbench.harness.commands.measure import MeasureOptions, verify_only
from kbench.harness.kernel.raw import RawLaunch
from kbench.harness.kernel.sources import read_kernel
from kbench.schemas import Backend, Status, UserError

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


def test_a_launch_is_refused_for_a_python_file(tmp_path: Path) -> None:
    path = tmp_path / "k.py"
    path.write_text("def run(x): ...\n")
    with pytest.raises(UserError, match="has its own `run`"):
        read_kernel(path, "relu", launch=LAUNCH)
