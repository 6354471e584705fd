"""`kbench explain`: real compilers, no GPU."""

import dataclasses
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import kbench
from kbench.benchmark.work.explain import Forecast
from kbench.generation import explain
from kbench.generation.explain import command, measured_text
from kbench.harness.kernel.sources import other_inputs
from kbench.schemas import Backend, KernelSource, UserError

SOURCE = '''import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
extern "C" __global__ void relu(const float* x, float* y, int count) {
    int i = blockIdx.x * 256 + threadIdx.x;
    if (i >= count) return;
    float v = x[i];
    for (int n = 0; n < 1; ++n) v = v * 1.5f;
    y[i] = fmaxf(v, 0.0f);
}
""")


def run(x):
    y = torch.empty_like(x)
    module.launch("relu", grid=(x.numel() + 255) // 256, block=256, args=(x, y, x.numel()))
    return y
'''
LOOP = "n < 1;"
EXAMPLES = Path(__file__).parents[2] / "examples" / "kernels"
Ask = Callable[..., Any]


@pytest.fixture
def ask(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Ask:
    """Explain texts as kernels of relu; what is said as JSON, or the error."""
    folder = tmp_path_factory.mktemp("explain")
    monkeypatch.setenv("KBENCH_CACHE", str(folder / "cache"))

    def asked(*texts: str, options: tuple[str, ...] = ("--json",)) -> Any:
        files = [folder / f"kernel_{number}.py" for number in range(len(texts))]
        for file, text in zip(files, texts, strict=True):
            file.write_text(text)
        done = CliRunner().invoke(command, [*map(str, files), "--problem", "relu", *options])
        if done.exception is not None:
            raise done.exception
        return json.loads(done.output) if "--json" in options else done.output

    return asked


def test_a_kernel_s_work_bound_lines_and_changes_are_told(ask: Ask, tmp_path: Path) -> None:
    told = ask(SOURCE)
    facts = told["kernels"][0]["workloads"][0]
    assert (facts["bound"], facts["gpu"], facts["uncertain"]) == ("dram", "H200", 0.0)
    assert facts["load_bytes"] == facts["store_bytes"] == facts["min_bytes"] / 2
    assert facts["forecast"]["low_us"] <= facts["forecast"]["time_us"] < facts["forecast"]["high_us"]
    assert facts["bound_us"] <= facts["forecast"]["low_us"]
    text = SOURCE.splitlines()
    shares = {text[line["line"] - 1].strip(): line["share"] for line in facts["lines"]}
    assert shares == {"float v = x[i];": 0.5, "y[i] = fmaxf(v, 0.0f);": 0.5}

    slow = SOURCE.replace(LOOP, "n < 20000;")
    both = ask(SOURCE, slow)
    assert both["kernels"][0] == told["kernels"][0] | {"file": both["kernels"][0]["file"]}
    change = both["comparisons"][0]
    assert change["speedup"] < 0.5
    assert change["p_faster"] < 0.1
    assert "instructions" in {name for name, _, _ in change["changes"]}
    assert change["reason"] in ("issue", "fma", "latency")

    plot = tmp_path / "plot.png"
    said = ask(SOURCE, options=("--plot", str(plot)))
    assert "bound by DRAM traffic" in said
    assert "of them reach DRAM, of which lines is not known)" in said
    assert plot.read_bytes().startswith(b"\x89PNG")


def test_a_measured_time_is_told_with_signs_that_other_code_was_timed(ask: Ask) -> None:
    kernel = KernelSource("relu", Backend.CUDA, SOURCE)
    facts = kbench.explain(kernel, "H200")[0]
    here = facts.launches[0].registers
    assert ask(SOURCE)["kernels"][0]["measured"] == {}

    def said(registers: int, runtime_us: float, backend: Backend = Backend.CUDA) -> list[str]:
        row = {"runtime_us": runtime_us, "registers": registers}
        return list(measured_text(facts, dataclasses.replace(kernel, backend=backend), row))

    assert said(here, 98.0) == said(here + 8, 98.0) == ["  measured 98 us in the dataset"]
    assert "gave it 1 registers, not" in said(1, 98.0)[0]
    assert "gave it" in said(here + 8, 98.0, Backend.TRITON)[0]
    assert "what is counted is not what ran" in said(here, 1.0)[0]
    assert list(measured_text(facts, kernel, None)) == []


def test_of_two_files_too_the_measured_times_are_told(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    row = {"runtime_us": 98.0, "registers": 1}
    monkeypatch.setattr(explain, "measured", lambda kernel, gpu: {"large": row} if LOOP in kernel.source else {})
    said = ask(SOURCE, SOURCE.replace(LOOP, "n < 2;"), options=())
    assert "  kernel_0 measured 98 us in the dataset, by a compiler" in said
    assert "kernel_1 measured" not in said


def test_lines_are_told_without_what_every_block_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KBENCH_CACHE", str(tmp_path))
    text = (EXAMPLES / "rmsnorm_residual__triton__row_fused.py").read_text()
    facts = kbench.explain(KernelSource("rmsnorm_residual", Backend.TRITON, text), "H200")[0]
    told = {text.splitlines()[line.line - 1].split("=")[0].strip(): line.share for line in facts.lines}
    # Its weights, `w`, are one row for all blocks.
    assert facts.common_bytes > 0.15 * facts.l2_bytes
    assert (told.keys() >= {"x", "r"}, "w" in told) == (True, False)
    assert sum(told.values()) == pytest.approx(1.0)


def test_a_compiler_s_message_keeps_its_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KBENCH_CACHE", str(tmp_path))
    good = (Path(__file__).parents[1] / "harness" / "kernels" / "gelu_triton.py").read_text()
    (tmp_path / "wrong.py").write_text(good.replace("tl.store(", "tl.stroe("))
    done = CliRunner().invoke(command, [str(tmp_path / "wrong.py"), "--problem", "gelu_tanh"])
    assert re.search(r"tl\.stroe\(.*\n +\^\n", done.output)
    assert "\n" not in str(done.exception)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (SOURCE.replace("fmaxf(", "no_such_function("), "compile_error"),
        (SOURCE.replace("import torch", "import torch("), "does not parse"),
        (SOURCE.replace("def run", "def ran"), "defines no function `run`"),
        (SOURCE.replace("    module.launch", "    # module.launch"), "launches no kernel"),
    ],
)
def test_what_cannot_be_explained_says_why(ask: Ask, text: str, reason: str) -> None:
    with pytest.raises(Exception, match=reason) as raised:
        ask(text)
    assert raised.value.exit_code == 2
    assert "kernel_0.py" in str(raised.value)


@pytest.mark.parametrize(
    ("takes", "message"),
    [("x, scale", r"kernel_1.py: relu calls run\(x\); this file's run takes \(x, scale\)"), ("", r"run takes \(\)"),
     ("x, y, z=1", r"run takes \(x, y, z\)")],
)  # fmt: skip
def test_a_file_of_another_signature_is_refused_before_any_is_compiled(
    ask: Ask, monkeypatch: pytest.MonkeyPatch, takes: str, message: str
) -> None:
    def compiled(*_: object) -> None:
        raise AssertionError("a kernel was compiled")

    monkeypatch.setattr("kbench.generation.explain.explain_kernel", compiled)
    with pytest.raises(UserError, match=message):
        ask(SOURCE, SOURCE.replace("run(x)", f"run({takes})"))


@pytest.mark.parametrize("takes", ["x, scale=2.0", "*inputs", "x, *, scale=2.0"])
def test_a_signature_that_takes_the_inputs_is_not_refused(takes: str) -> None:
    assert other_inputs(SOURCE.replace("run(x)", f"run({takes})"), "relu") is None


def test_nothing_of_a_forecast_is_below_the_bound() -> None:
    assert Forecast(200.0, 186.0, 390.0).above(288.0) == Forecast(288.0, 288.0, 390.0)
    assert Forecast(300.0, 290.0, 390.0).above(288.0) == Forecast(300.0, 290.0, 390.0)


RAW = """extern "C" __global__ void relu(const float* x, float* y, int count) {
    int i = blockIdx.x * 256 + threadIdx.x;
    if (i < count) y[i] = fmaxf(x[i], 0.0f);
}
"""
GRID = ("--entry", "relu", "--grid", "cdiv(y.numel(), 256)")


def test_a_raw_file_is_explained_as_it_is_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KBENCH_CACHE", str(tmp_path / "cache"))
    (tmp_path / "relu.cu").write_text(RAW)
    (tmp_path / "relu.py").write_text(SOURCE)

    def asked(name: str, *options: str) -> str:
        done = CliRunner().invoke(command, [str(tmp_path / name), "--problem", "relu", *options])
        return done.output + str(done.exception)

    said = asked("relu.cu", *GRID, "--args", "x, y, x.numel()")
    assert "bound by DRAM traffic" in said
    assert "of which lines is not known)  if (i < count) y[i] = fmaxf(x[i], 0.0f);" in said
    assert "relu takes 3 parameters (8, 8 and 4 bytes), args has 2" in asked("relu.cu", *GRID)
    assert "say how to launch it" in asked("relu.cu")
    assert "a Python file has its own `run`" in asked("relu.py", *GRID)


def test_what_is_no_kernel_is_refused_with_how_to_make_one() -> None:
    with pytest.raises(UserError, match=r"not str; make one: kbench\.KernelSource"):
        kbench.explain("kernel.py")
