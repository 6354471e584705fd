"""The commands, without a GPU."""

import dataclasses
import importlib.util
import json
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner, Result
from honest_kernels import CUDA, FOLDER, TRITON, gelu, numbered

from kbench.benchmark.problems import registry
from kbench.harness.cli import compare, doctor, measure
from kbench.harness.commands import doctor as doctor_module
from kbench.harness.commands import measure as measuring
from kbench.harness.commands import watch as watching
from kbench.harness.commands.compare import compare_files, compare_kernels
from kbench.harness.commands.doctor import examine, gpu_count
from kbench.harness.commands.measure import MeasureOptions
from kbench.harness.commands.watch import History, versions, watch
from kbench.harness.device.environment import software_facts
from kbench.harness.harness import Harness
from kbench.harness.kernel.sources import read_kernel
from kbench.harness.settings import HarnessSettings
from kbench.loaders.corpus.corpus import Corpus
from kbench.schemas import InfrastructureError, Measurement, MissingDependencyError, Status, UserError
from kbench.schemas.errors import install_command

FP8_TASK = Path(__file__).parents[1] / "fixtures" / "published" / "fp8_quant_triton.py"
without_gpu = pytest.mark.skipif(gpu_count() > 0, reason="says what happens where there is no GPU")


@without_gpu
@pytest.mark.parametrize(
    ("command", "files", "works"),
    [
        (measure, [TRITON], "--check-only still"),
        (measure, [TRITON, "--watch"], "kbench explain counts"),
        (compare, [TRITON, CUDA], "kbench explain counts"),
    ],
)
def test_without_a_gpu_a_command_says_so_in_one_line_and_what_still_works(
    command: Any, files: list[str | Path], works: str
) -> None:
    with pytest.raises(InfrastructureError, match=f"no NVIDIA GPU.*{works}") as caught:
        CliRunner().invoke(command, [*map(str, files), "--problem", "gelu_tanh"], catch_exceptions=False)
    assert "\n" not in str(caught.value)


@without_gpu
def test_a_kernel_of_the_dataset_is_named_by_its_id(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    result = check_only(monkeypatch, tmp_path, "95547d93d69c")
    assert result.stdout.startswith("95547d93d69c  tiny  ok")


def test_a_half_width_or_a_problem_s_path_in_the_wrong_place_is_refused() -> None:
    with pytest.raises(UserError, match="half_width is 2"):
        Harness(gpu=None, half_width=2)
    with pytest.raises(UserError, match=r"is a file; .*problems\.named\("):
        registry.problem(str(TRITON))


@without_gpu
def test_each_file_of_a_folder_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    result = check_only(monkeypatch, tmp_path, FOLDER, "--problem", "gelu_tanh")
    assert {line.split()[0] for line in result.stdout.splitlines()} == {str(TRITON), str(CUDA)}


@without_gpu
def test_measuring_into_a_folder_again_measures_what_is_new(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    made = []

    def on_the_cpu(options: object) -> Harness:
        made.append(Harness(gpu=None, cache=tmp_path / "cache", workloads=("tiny",), builders=1))
        return made[-1]

    monkeypatch.setattr(measuring, "make_harness", on_the_cpu)
    kernel, other = gelu(), numbered(1)
    options = MeasureOptions(out=tmp_path / "corpus")
    first = measuring.measure_files([("a", kernel)], options)
    again = measuring.measure_files([("a", kernel), ("b", other)], options)
    assert [name for name, _ in again] == ["a", "b"]
    assert again[0] == first[0]
    assert made[1].tally.kernels == 1
    assert "1 of 2 kernels are in" in capsys.readouterr().err
    assert [Corpus.open(tmp_path / "corpus").rows(name) for name in ("kernels", "measurements")] == [2, 2]


@without_gpu
def test_a_folder_that_holds_kernels_impossible_to_plan_is_not_measured_into_when_they_may_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = {"cache": tmp_path / "cache", "workloads": ("tiny",), "builders": 1}

    def on_the_cpu(options: MeasureOptions) -> Harness:
        return Harness(gpu=None, allow_unscreened=options.harness.allow_unscreened, **settings)

    monkeypatch.setattr(measuring, "make_harness", on_the_cpu)
    foul = gelu(TRITON, "return y", "return y + 0")
    options = MeasureOptions(out=tmp_path / "corpus", quiet=True)
    ((_, row),) = measuring.measure_files([("a", foul)], options)
    assert row.status is Status.REJECTED
    allowed = dataclasses.replace(options, harness=HarnessSettings(allow_unscreened=True))
    with pytest.raises(UserError, match="1 of these kernels as impossible to plan; give another --out"):
        measuring.measure_files([("a", foul)], allowed)


def test_measuring_a_corpus_again_into_itself_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="another folder"):
        measuring.remeasure(MeasureOptions(corpus=str(tmp_path), out=tmp_path))


def test_kernels_that_cannot_be_planned_are_compared_only_when_allowed(tmp_path: Path) -> None:
    kernel, foul = gelu(), gelu(TRITON, "return y", "return y + 0")
    settings = {"gpu": None, "cache": tmp_path, "workloads": ("tiny",), "builders": 1}
    with pytest.raises(UserError, match=r"cannot be planned: .*; --allow-unscreened runs it beside its judge"):
        compare_kernels(kernel, foul, **settings)
    (found,) = compare_kernels(kernel, foul, allow_unscreened=True, **settings)
    assert found.ratio is not None


def changed(path: Path, old: str, new: str, folder: Path) -> Path:
    """A file with a change that must apply."""
    source, out = path.read_text(), folder / "changed.py"
    assert old in source
    out.write_text(source.replace(old, new))
    return out


def check_only(monkeypatch: pytest.MonkeyPatch, cache: Path, *arguments: str | Path) -> Result:
    """`kbench measure --check-only` with a cache of its own."""
    monkeypatch.setenv("KBENCH_CACHE", str(cache))
    return CliRunner().invoke(measure, [*map(str, arguments), "--check-only"], catch_exceptions=False)


def test_on_a_gpu_check_only_is_fenced_and_shows_every_row(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    asked: list[bool] = []

    def dry_harness(options: MeasureOptions, *, fenced: bool = False) -> Harness:
        asked.append(fenced)
        return Harness(gpu=None, cache=tmp_path, builders=1)

    monkeypatch.setattr("kbench.harness.commands.measure.gpu_count", lambda: 1)
    monkeypatch.setattr("kbench.harness.commands.measure.make_harness", dry_harness)
    wrong = changed(TRITON, "0.044715", "0.05", tmp_path)
    result = check_only(monkeypatch, tmp_path, TRITON, wrong, "--problem", "gelu_tanh")
    assert asked == [True]
    right, bad = result.stdout.splitlines()
    assert right == f"{TRITON}  tiny  ok  verified"
    assert bad.startswith(f"{wrong}  tiny  incorrect")


@without_gpu
def test_check_only_compiles_and_verifies_without_a_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = changed(TRITON, "0.044715", "0.05", tmp_path)
    result = check_only(monkeypatch, tmp_path, TRITON, CUDA, wrong, "--problem", "gelu_tanh", "--json")
    rows = {Path(row["file"]).name: row for row in map(json.loads, result.stdout.splitlines())}
    found = {name: row["status"] for name, row in rows.items()}
    assert found == {TRITON.name: "ok", CUDA.name: "ok", "changed.py": "incorrect"}
    assert rows[TRITON.name]["max_abs_error"] is not None
    assert rows[CUDA.name]["registers"]
    assert result.exit_code == 1


@without_gpu
def test_what_was_only_compiled_says_for_what_and_that_it_was_not_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = check_only(monkeypatch, tmp_path, CUDA, "--problem", "gelu_tanh", "--target", "A100")
    assert result.stdout == f"{CUDA}  tiny  ok  compiles for sm_80; not run\n"


@without_gpu
def test_check_only_refuses_what_cannot_be_planned_though_it_compiles(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    foul = changed(CUDA, "return y", "return y.cpu()", tmp_path)
    result = check_only(monkeypatch, tmp_path, foul, "--problem", "gelu_tanh")
    assert "rejected  cannot be planned: " in result.stdout
    assert f"hint: {foul} line 21 calls .cpu()" in result.stderr
    assert result.exit_code == 1


@pytest.mark.parametrize(
    ("package", "install"), [("torch", r"\[gpu\]'; without a GPU a CPU build does"), ("triton", r"\[explain\]'")]
)
def test_a_missing_package_is_named_with_the_command_that_installs_it(
    package: str, install: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == package else find(name))
    with pytest.raises(MissingDependencyError, match=rf"{package}.*pip install .*{install}"):
        Harness(gpu=None).open()


def test_doctor_names_missing_compilers(monkeypatch: pytest.MonkeyPatch) -> None:
    facts = software_facts() | {"torch": "none", "triton": "none", "nvrtc": None}
    monkeypatch.setattr("kbench.harness.commands.doctor.software_facts", lambda: facts)
    report = examine((0,), measure=False)
    problems = report["problems"]
    assert not report["can_measure"]
    wanted = {f"{name} is missing: {install_command('explain')}" for name in ("triton", "nvrtc")}
    assert wanted <= set(problems)
    assert any(line.startswith("torch is missing: ") and "a CPU build does" in line for line in problems)


@without_gpu
def test_check_only_of_a_corpus_names_the_kernels_that_fail(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KBENCH_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(measuring, "make_harness", lambda options: Harness(gpu=None, workloads=("tiny",), builders=1))
    kernel, wrong = gelu(), gelu(TRITON, "0.044715", "0.05")
    measuring.measure_files([("a", kernel), ("b", wrong)], MeasureOptions(out=tmp_path / "corpus", quiet=True))
    arguments = ["--corpus", str(tmp_path / "corpus"), "--check-only"]
    result = CliRunner().invoke(measure, arguments, catch_exceptions=False)
    failed, total = result.stdout.splitlines()
    assert failed.startswith(f"{wrong.kernel_id} of gelu_tanh  tiny  incorrect  tiny: output 'y' has")
    assert total == "2 kernels checked, 1 ok"
    assert result.exit_code == 1
    assert CliRunner().invoke(measure, [*arguments, "--where", "status == 'ok'"]).exit_code == 0
    rows = CliRunner().invoke(measure, [*arguments, "--json"]).stdout.splitlines()
    statuses = {row["kernel_id"]: row["status"] for row in map(json.loads, rows)}
    assert statuses == {kernel.kernel_id: "ok", wrong.kernel_id: "incorrect"}


@without_gpu
def test_a_file_of_a_task_that_shares_our_problems_name_is_checked_and_shown_as_that_task(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = changed(FP8_TASK, "/ 448.0", "/ 447.0", tmp_path)
    result = check_only(monkeypatch, tmp_path, FP8_TASK, wrong, "--problem", "fp8_quant")
    right, bad = result.stdout.splitlines()
    assert right == f"{FP8_TASK} as fp8_quant_float32  tiny  ok  verified"
    assert bad.startswith(f"{wrong} as fp8_quant_float32  tiny  incorrect")
    assert result.exit_code == 1


def test_kernels_of_two_problems_are_not_compared(tmp_path: Path) -> None:
    ours = tmp_path / "ours.py"
    ours.write_text("def run(x, group): ...\n")
    with pytest.raises(UserError, match=r"solves fp8_quant_float32, .* solves fp8_quant; compare kernels of one"):
        compare_files(FP8_TASK, ours, "fp8_quant")


def test_doctor_reports_versions_and_problems_as_json() -> None:
    result = CliRunner().invoke(doctor, ["--quick", "--json"], catch_exceptions=False)
    report = json.loads(result.stdout)
    assert report["software"]["torch"]
    assert isinstance(report["problems"], list)
    assert result.exit_code == (0 if report["can_measure"] else 1)
    assert report["can_measure"] == bool(report["gpus"])


BOARD = {"name": "some gpu", "mig": False, "other_processes": None}
DEVICE = {"device": "0", "planning_sandbox": ["netns", *doctor_module.PLANNING], "reaches_host_memory": False}
HEALTHY = {
    "software": {"torch": "2", "triton": "3", "nvrtc": "13"}, "planning_limits": "64 processes", "nvml": None,
    "gpus": [BOARD], "devices": [DEVICE],
}  # fmt: skip


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({}, None),
        ({"planning_limits": "none"}, "WITHOUT limits on the sum"),
        ({"nvml": "NVML: broken", "gpus": [], "devices": []}, "NVML: broken"),
        ({"gpus": [BOARD | {"mig": True}]}, "MIG is on"),
        ({"gpus": [BOARD | {"other_processes": [7]}]}, "other processes use it: [7]"),
        ({"devices": [{"device": "0", "error": "no memory"}]}, "GPU 0: no memory"),
        ({"devices": [DEVICE | {"planning_sandbox": doctor_module.PLANNING[1:]}]}, "WITH network access"),
        ({"devices": [DEVICE | {"planning_sandbox": ["netns", "calls", "watched"]}]}, "closed, frozen, capabilities"),
        ({"devices": [DEVICE | {"reaches_host_memory": True}]}, "write to the memory of the process that judges them"),
    ],
)
def test_the_doctor_says_what_a_report_shows_to_be_wrong(change: dict[str, Any], words: str | None) -> None:
    lines = doctor_module.problems(HEALTHY | change)
    assert (lines == []) if words is None else any(words in line for line in lines)


@without_gpu
def test_the_doctor_lists_what_planning_gives_up_where_there_is_no_gpu() -> None:
    report = examine((0,))
    assert {"rlimit", "scratch"} <= set(report["planning_sandbox"])
    assert f"isolation   {', '.join(report['planning_sandbox'])}" in doctor_module.render(report).splitlines()
    lacking = doctor_module.problems(HEALTHY | {"gpus": [], "devices": [], "planning_sandbox": ["netns", "watched"]})
    assert any("planning goes without" in line for line in lacking)


KERNELBENCH = """
import torch
class Model(torch.nn.Module):
    def forward(self, x):
        return {answer}
def get_inputs():
    return [torch.randn(65, 30)]
"""
OWN_KERNEL = """
import torch, triton, triton.language as tl
@triton.jit
def triple(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, 3 * tl.load(x + at, mask=at < n), mask=at < n)
def run(x):
    y = torch.empty_like(x)
    triple[(triton.cdiv(x.numel(), 256),)](x, y, x.numel(), BLOCK=256)
    return y
"""


@without_gpu
def test_a_kernel_of_a_problem_file_is_measured_and_recorded_with_its_problem(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KBENCH_PROBLEMS", "")
    settings = {"cache": tmp_path / "cache", "builders": 1}
    monkeypatch.setattr(measuring, "make_harness", lambda options: Harness(gpu=None, **settings))
    monkeypatch.setattr("kbench.harness.commands.doctor.gpu_count", lambda: 1)
    kernel, problem = tmp_path / "kernel.py", tmp_path / "Tripled.py"
    kernel.write_text(OWN_KERNEL)
    problem.write_text(KERNELBENCH.format(answer="3 * x"))
    arguments = [str(kernel), "--problem", str(problem), "--out", str(tmp_path / "corpus")]
    result = CliRunner().invoke(measure, arguments, catch_exceptions=False)
    assert result.stdout.startswith(f"{kernel}  given  ok")
    assert result.exit_code == 0
    corpus = Corpus.open(tmp_path / "corpus")
    assert corpus.table("kernels").column("problem_id").to_pylist() == ["tripled"]
    assert "return 3 * x" in corpus.table("problems").column("reference_source").to_pylist()[0]

    again = ["--corpus", str(tmp_path / "corpus"), "--check-only"]
    monkeypatch.setattr(measuring, "gpu_count", lambda: 0)
    assert CliRunner().invoke(measure, [*again, "--problem", str(problem)]).stdout == "1 kernels checked, 1 ok\n"
    monkeypatch.setenv("KBENCH_PROBLEMS", "")
    assert "'tripled' we have no reference; --problem takes its file" in str(
        CliRunner().invoke(measure, again).exception
    )

    # The same name, another problem: what was measured before says nothing about it.
    monkeypatch.setenv("KBENCH_PROBLEMS", "")
    registry._from_file.cache_clear()
    problem.write_text(KERNELBENCH.format(answer="4 * x"))
    with pytest.raises(UserError, match="another version of 'tripled'; give another --out"):
        CliRunner().invoke(measure, arguments, catch_exceptions=False)


def test_each_save_is_a_version_however_the_editor_saves(tmp_path: Path) -> None:
    path, told = tmp_path / "kernel.py", list[str]()
    path.write_bytes(TRITON.read_bytes())

    def replace() -> None:
        (tmp_path / "new").write_text("def run(x): return x")
        os.replace(tmp_path / "new", path)

    changes = iter([lambda: os.utime(path, ns=(1, 1)), path.unlink, replace, lambda: path.write_bytes(b"\xff"),
                    lambda: path.write_text(""), lambda: path.write_text("def run(x): return 2 * x")])  # fmt: skip
    source = versions(path, lambda: read_kernel(path, "gelu_tanh"), told.append, lambda: next(changes)())
    found = [next(source).source for _ in range(4)]
    assert found[0] == found[1] == TRITON.read_text(), "touched"
    assert found[2:] == ["def run(x): return x", "def run(x): return 2 * x"]
    (said,) = told
    assert "cannot read kernel file" in said


def measured(speedup: float, workload: str = "large", status: Status = Status.OK) -> Any:
    figures = {"runtime_us": 10.0 / speedup, "speedup": speedup}
    return SimpleNamespace(gpu="some gpu", workload=workload, status=status, **figures)


def test_a_version_is_compared_with_the_last_and_with_the_best() -> None:
    history = History(best_us={("some gpu", "large"): 2.5})
    assert history.change(measured(2.0)) == "  0.500x best of the dataset"
    assert history.change(measured(2.2)) == "  1.100x last version  0.550x best of the dataset"
    assert history.change(measured(1.0, "other")) == "", "another workload has no last version"
    assert history.change(measured(1.0, status=Status.INCORRECT)) == ""
    assert history.change(measured(1.1)) == "  0.500x last version  0.275x best of the dataset"


@without_gpu
def test_watching_survives_a_broken_version_and_ends_at_an_interrupt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path, right = tmp_path / "kernel.py", TRITON.read_text()
    path.write_text(right)
    made = [Harness(gpu=None, cache=tmp_path / "cache", workloads=("tiny",), builders=1)]
    monkeypatch.setattr(watching, "make_harness", lambda options: made[0])
    rows: list[tuple[Status, str]] = []

    def show(row: Measurement, change: str) -> str:
        rows.append((row.status, change))
        if len(rows) == 1:
            path.write_text("def run(x:\n")
        elif len(rows) == 2:
            (tmp_path / "saved").write_text(f"# again\n{right}")
            os.replace(tmp_path / "saved", path)
        elif len(rows) == 3:
            path.write_text("# the last")
        else:
            raise KeyboardInterrupt
        return ""

    told: list[str] = []
    watch(path, lambda: read_kernel(path, "gelu_tanh"), "gelu_tanh", MeasureOptions(quiet=True), show, told.append)
    assert [status for status, _ in rows[:3]] == [Status.OK, Status.COMPILE_ERROR, Status.OK]
    assert "tiny  " in capsys.readouterr().out, "the paired verdict"
    assert "x last version" in rows[2][1]
    assert not told
    assert not made[0]._queues, "all workers have ended"
