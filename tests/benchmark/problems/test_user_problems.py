"""Problems that users bring: what loads, and the one line each bad one gets."""

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
import torch
from click.testing import CliRunner

from kbench.benchmark.problems import cli, registry
from kbench.benchmark.problems.check import check
from kbench.benchmark.problems.cli import problems
from kbench.benchmark.problems.compare import compare
from kbench.benchmark.problems.definition import Tolerance
from kbench.benchmark.problems.foreign import kernelbench_file
from kbench.benchmark.problems.foreign.user import load_user_problem
from kbench.benchmark.problems.foreign.user_code import USER_FACTS
from kbench.benchmark.problems.registry import USER_FILES, edition, named, users
from kbench.schemas import UserError

KERNELBENCH = """
import torch
import torch.nn as nn

class Model(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.linear = nn.Linear(features, 5)
        self.scale = 2.0

    def forward(self, x):
        return torch.relu(self.linear(x)) * self.scale

def get_inputs():
    return [torch.randn(7, 12)]

def get_init_inputs():
    return [12]
"""

TASK = """
files:
  - {name: "utils.py", source: "../utils.py"}
description: Scale a vector and count its length.
tests:
  - {size: 9, seed: 4}
benchmarks:
  - {size: 33, seed: 1}
  - {size: 65, seed: 2}
"""

REFERENCE = """
import torch
from task import input_t
from utils import factor

def generate_input(size: int, seed: int):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(size, generator=generator)
    return x, {"weight": torch.rand(size, generator=generator), "mode": "plain"}, 3

def ref_kernel(data: input_t):
    x, options, power = data
    assert options["mode"] == "plain"
    return factor() * x * options["weight"] ** power
"""

DECLARED = """
from kbench.benchmark.problems import ProblemDefinition, Size, TensorSpec, Tolerance

def reference(x):
    {body}

PROBLEM = ProblemDefinition(
    id="mine", title="Mine", family="user", description="Mine.", reference=reference,
    inputs=lambda p: (TensorSpec("x", (p["n"],)),), outputs=lambda p: (TensorSpec("y", (p["n"],)),),
    flops=lambda p: p["n"], sizes=(Size("given", {{"n": 64}}),), tiny=Size("tiny", {{"n": 16}}),
    tolerance=Tolerance(1e-6, 1e-5, "float32"),
)
"""


def write(path: Path, text: str) -> Path:
    path.write_text(textwrap.dedent(text))
    return path


def task_folder(tmp_path: Path, reference: str = REFERENCE, task: str = TASK) -> Path:
    folder = tmp_path / "scale_task"
    folder.mkdir()
    write(tmp_path / "utils.py", "def factor():\n    return 2.0\n")
    write(folder / "task.py", "input_t = tuple\n")
    write(folder / "task.yml", task)
    write(folder / "reference.py", reference)
    return folder


def test_a_kernelbench_file_becomes_a_problem_with_its_weights_as_inputs(tmp_path: Path) -> None:
    problem = load_user_problem(write(tmp_path / "7_Linear.py", KERNELBENCH))
    assert problem.id == "problem_7_linear"
    specs = problem.inputs(problem.tiny.params)
    assert [str(s) for s in specs] == [
        "input0: float32[7,12]", "linear_weight: float32[5,12]", "linear_bias: float32[5]",
    ]  # fmt: skip
    x, weight, bias = problem.draw(problem.tiny, 3)
    torch.testing.assert_close(problem.reference(x, weight, bias), 2 * torch.relu(x @ weight.T + bias))
    first, again, other = (problem.draw(problem.tiny, seed) for seed in (1, 1, 2))
    assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))
    assert not any(torch.equal(a, b) for a, b in zip(first, other, strict=True))
    assert problem.flops({}) == 2 * 7 * 12 * 5
    assert "class Model" in problem.record().prompt
    assert check(problem).failures == ()


def test_weights_that_a_layer_starts_with_all_alike_are_told_apart(tmp_path: Path) -> None:
    text = KERNELBENCH.replace("self.scale = 2.0", "self.norm = nn.BatchNorm1d(5)").replace(
        "torch.relu(self.linear(x)) * self.scale", "self.norm(self.linear(x))"
    )
    problem = load_user_problem(
        write(tmp_path / "norm.py", text + "\nModel = type('M', (Model,), {'training': False})")
    )
    drawn = dict(zip([spec.name for spec in problem.inputs({})], problem.draw(problem.tiny, 1), strict=True))
    for name, centre in (("weight", 1.0), ("bias", 0.0), ("running_mean", 0.0), ("running_var", 1.0)):
        value = drawn[f"norm_{name}"]
        assert len(value.unique()) > 1, "a kernel that leaves it out is wrong"
        assert float((value - centre).abs().max()) <= 0.25
    assert int(drawn["norm_num_batches_tracked"]) == 0


def test_a_gpu_mode_folder_becomes_a_problem(tmp_path: Path) -> None:
    problem = load_user_problem(task_folder(tmp_path))
    assert problem.id == "scale_task"
    assert [size.name for size in problem.sizes] == ["benchmark0", "benchmark1"]
    assert [str(s) for s in problem.inputs(problem.tiny.params)] == [
        "input0: float32[9]", "input1: float32[9]", "input2: 3",
    ]  # fmt: skip
    x, weight, power = problem.draw(problem.sizes[1], 5)
    torch.testing.assert_close(problem.reference(x, weight, power), 2 * x * weight**3)
    assert check(problem).failures == ()


def test_the_reference_of_a_gpu_mode_folder_draws_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    problem = load_user_problem(task_folder(tmp_path))
    drawn = [problem.draw(size, 5) for size in problem.sizes]
    for inputs in drawn:
        problem.reference(*inputs)
    monkeypatch.setattr(torch, "randn", lambda *_, **__: pytest.fail("the reference is timed, and drew inputs"))
    for inputs in drawn:
        problem.reference(*inputs)


ON_CUDA = """
import torch

def generate_input(size: int, seed: int):
    generator = torch.Generator(device="cuda")
    generator.manual_seed(seed)
    x = torch.randn(size, device="cuda", generator=generator)
    index = torch.arange(size, device=torch.device("cuda:0")).to("cuda")
    return x, index, torch.ones(size).cuda()

def ref_kernel(data):
    x, index, ones = data
    return x[index] + ones + torch.zeros(x.shape, device="cuda")
"""


def test_a_gpu_mode_folder_that_names_the_gpu_draws_the_same_inputs_on_the_cpu(tmp_path: Path) -> None:
    problem = load_user_problem(task_folder(tmp_path, ON_CUDA))
    first, again = (problem.draw(problem.tiny, 5) for _ in range(2))
    assert {value.device.type for value in first} == {"cpu"}
    assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))
    assert [str(s) for s in problem.outputs(problem.tiny.params)] == ["y: float32[9]"]
    # Nothing stays replaced once the user's code has run.
    assert torch.Generator.__module__ == "torch._C"


PRODUCT = """
import torch

class Model(torch.nn.Module):
    def forward(self, a, b):
        return {answer}

def get_inputs():
    return [{size} * torch.randn(24, 3000), torch.randn(3000, 24)]
"""


@pytest.mark.parametrize("size", [1.0, 1e-4])
def test_a_tolerance_that_no_file_states_follows_the_error_of_its_reference(tmp_path: Path, size: float) -> None:
    problem = load_user_problem(write(tmp_path / "product.py", PRODUCT.format(answer="a @ b", size=size)))
    a, b = problem.draw(problem.tiny, 1)
    expected, specs = problem.expected((a, b)), problem.outputs({})
    in_turn = torch.zeros(24, 24)
    for at in range(3000):
        in_turn += a[:, at : at + 1] * b[at : at + 1]
    assert compare(in_turn, expected, problem.tolerance, specs).ok, "the worst order of an honest sum"
    rounded = a.bfloat16().float() @ b
    assert not compare(rounded, expected, problem.tolerance, specs).ok
    assert problem.tolerance.rtol == 1e-4
    assert 0.5 < problem.tolerance.atol / (1e-4 * size * 3000**0.5) < 2.0
    assert "16 times the error of the reference" in check(problem).tolerance


def test_a_reference_that_loses_digits_gets_a_tolerance_it_can_meet(tmp_path: Path) -> None:
    lossy = PRODUCT.format(answer="(a @ b + 1e5) - 1e5", size=1.0)
    problem = load_user_problem(write(tmp_path / "lossy.py", lossy))
    inputs = problem.draw(problem.tiny, 1)
    assert compare(problem.reference(*inputs), problem.expected(inputs), problem.tolerance, problem.outputs({})).ok
    assert problem.tolerance.rtol > 1e-4


BAD_FILES = {
    "has a syntax error": ("def Model(:", "importing it raised SyntaxError"),
    "misses Model": ("def get_inputs():\n    return []\n", "'Model' is missing"),
    "misses get_inputs": (KERNELBENCH.replace("def get_inputs", "def other_inputs"), "'get_inputs' is missing"),
    "has a Model that is no module": ("class Model: pass\ndef get_inputs():\n    return []\n", "not a torch.nn.Module"),
    "raises when built": (KERNELBENCH.replace("return [12]", "return []"), "raised TypeError"),
    "raises in forward": (KERNELBENCH.replace("self.scale\n\ndef", "self.nothing\n\ndef"), "raised AttributeError"),
    "raises in get_inputs": (KERNELBENCH.replace("torch.randn(7, 12)", "1 / 0"), "raised ZeroDivisionError"),
    "returns inputs that are no list": (KERNELBENCH.replace("[torch.randn(7, 12)]", "7"), "expected a list"),
    "returns NaN": (
        KERNELBENCH.replace("[torch.randn(7, 12)]", "[torch.full((7, 12), float('nan'))]"),
        "input 'input0' holds NaN",
    ),
    "takes a string": (KERNELBENCH.replace("torch.randn(7, 12)", "'x'"), "is a str; inputs are tensors or numbers"),
    "returns no tensor": (KERNELBENCH.replace("* self.scale", ".shape"), "the reference returns"),
    "has a complex output": (KERNELBENCH.replace("* self.scale", "* 1j"), "dtype complex64"),
    "returns two for one": (DECLARED.format(body="return x, x"), "returns 2 outputs, 1 are declared"),
    "returns the wrong dtype": (DECLARED.format(body="return x.double()"), "dtype float64, declared float32"),
    "returns on another device": (DECLARED.format(body="return x.to('meta')"), "on device 'meta'"),
    "returns the wrong shape": (DECLARED.format(body="return x[1:]"), "shape [15], declared [16]"),
    "raises in its reference": (DECLARED.format(body="raise RuntimeError('no')"), "raised RuntimeError: no"),
    "has a PROBLEM that is none": ("PROBLEM = 3\n", "PROBLEM is a int"),
}


@pytest.mark.parametrize("name", BAD_FILES)
def test_a_file_is_refused_in_one_line_when_it(tmp_path: Path, name: str) -> None:
    source, words = BAD_FILES[name]
    with pytest.raises(UserError) as caught:
        load_user_problem(write(tmp_path / "bad.py", source))
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)
    assert "bad.py" in str(caught.value)


BAD_FOLDERS = {
    "misses ref_kernel": (REFERENCE.replace("def ref_kernel", "def other"), TASK, "'ref_kernel' is missing"),
    "misses generate_input": (REFERENCE.replace("def generate_input", "def o"), TASK, "'generate_input' is missing"),
    "imports what is not there": ("import nothing_at_all\n", TASK, "needs the package 'nothing_at_all'"),
    "has no benchmarks": (REFERENCE, TASK.replace("benchmarks", "other"), "no list 'benchmarks'"),
    "has a list for a description": (REFERENCE, "- a\n", "not a mapping"),
    "has broken YAML": (REFERENCE, "tests: [", "reading it raised"),
    "names parameters nobody takes": (REFERENCE, TASK.replace("size", "width"), "generate_input raised TypeError"),
    "raises in ref_kernel": (REFERENCE.replace('== "plain"', '== "x"'), TASK, "ref_kernel raised AssertionError"),
}


@pytest.mark.parametrize("name", BAD_FOLDERS)
def test_a_folder_is_refused_in_one_line_when_it(tmp_path: Path, name: str) -> None:
    reference, task, words = BAD_FOLDERS[name]
    folder = task_folder(tmp_path, reference, task)
    with pytest.raises(UserError) as caught:
        load_user_problem(folder)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_folder_without_its_files_and_a_path_to_nothing_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"task\.yml is missing"):
        load_user_problem(tmp_path)
    write(tmp_path / "task.yml", TASK)
    with pytest.raises(UserError, match=r"reference\.py is missing"):
        load_user_problem(tmp_path)
    with pytest.raises(UserError, match="no problem at"):
        load_user_problem(tmp_path / "nowhere.py")


def test_a_path_names_a_problem_here_and_in_child_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(USER_FILES, "")
    paths = [
        write(tmp_path / "9_Linear.py", KERNELBENCH),
        task_folder(tmp_path),
        write(tmp_path / "own.py", DECLARED.format(body="return 2 * x")),
    ]
    found = [named(str(path)) for path in paths]
    assert [one.id for one in found] == ["problem_9_linear", "scale_task", "mine"]
    assert named("mine") is found[2]
    assert list(users().values()) == found
    # The model has run here, and need not run there.
    code = "from kbench.benchmark.problems.registry import edition, users\n"
    code += "from kbench.benchmark.problems.foreign import kernelbench_file as file; del file.counted\n"
    code += "print(*map(edition, users()))"
    done = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True, cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[3] / "src")},
    )  # fmt: skip
    assert done.stdout.split() == [edition(one.id) for one in found]


def test_what_a_file_s_model_says_is_kept_until_its_text_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = tmp_path / "cache"
    monkeypatch.setenv("KBENCH_CACHE", str(cache))
    monkeypatch.chdir(tmp_path)
    derived: list[str] = []
    real = kernelbench_file.derived
    monkeypatch.setattr(kernelbench_file, "derived", lambda path, *rest: derived.append(path.name) or real(path, *rest))

    def tolerance(text: str) -> Tolerance:
        # As in a process of its own.
        monkeypatch.setenv(USER_FILES, "")
        monkeypatch.setenv(USER_FACTS, "{}")
        return load_user_problem(str(write(tmp_path / "linear.py", text))).tolerance

    first = tolerance(KERNELBENCH)
    assert tolerance(KERNELBENCH) == first
    assert len(derived) == 1
    tolerance(KERNELBENCH + "\n# edited\n")
    assert len(derived) == 2
    for file in (cache / "problems").iterdir():
        file.write_text("{")
    assert tolerance(KERNELBENCH) == first
    assert len(derived) == 3


def test_a_file_may_not_take_the_name_of_another_problem(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(USER_FILES, "")
    with pytest.raises(UserError, match="'softmax', which is a problem of the benchmark; give it another name"):
        named(str(write(tmp_path / "softmax.py", KERNELBENCH)))
    named(str(write(tmp_path / "one.py", DECLARED.format(body="return 2 * x"))))
    with pytest.raises(UserError, match="'mine', as another file does"):
        named(str(write(tmp_path / "other.py", DECLARED.format(body="return 3 * x"))))
    with pytest.raises(UserError, match=r"no problem at .*absent.py"):
        named(str(tmp_path / "absent.py"))
    assert edition("softmax") == ""


def run(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(problems, arguments)
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.stdout


def test_list_gives_every_problem_as_json() -> None:
    code, text = run("list", "--json")
    listed = json.loads(text)
    assert code == 0
    assert [one["problem_id"] for one in listed] == list(registry.problems())
    assert {"problem_id", "family", "title", "aliases", "workloads", "models", "retired", "kernels"} == set(listed[0])


def test_retired_problems_are_listed_only_when_asked_for() -> None:
    hidden = {one["problem_id"]: one["retired"] for one in json.loads(run("list", "--retired", "--json")[1])}
    assert hidden["argmin"]["like"] == "argmax"
    assert hidden.keys().isdisjoint(one["problem_id"] for one in json.loads(run("list", "--json")[1]))
    count = len(hidden)
    assert f" problems; {count} retired: --retired" in CliRunner().invoke(problems, ["list"]).stderr
    assert "retired: --retired" not in CliRunner().invoke(problems, ["list", "--retired"]).stderr
    assert "like argmax: argmax with the comparison turned round" in run("list", "--retired")[1]
    assert "Signature" in run("show", "argmin")[1]


def test_show_prints_the_prompt_or_the_record() -> None:
    text = run("show", "softmax")[1]
    assert "Signature: run(x)" in text
    assert "mixed_rows: A few unusual rows" in text
    assert "subnormal numbers of float32 are not judged" in text
    assert "subnormal numbers of float32 are judged" in run("show", "transpose")[1]
    shown = json.loads(run("show", "softmax", "--json")[1])
    assert (shown["problem_id"], shown["judges_ends"]) == ("softmax", False)
    assert {"shifted", "mixed_rows", "mixed_spans"} <= shown["cases"].keys()


def test_check_reports_each_problem_and_exits_zero_when_all_pass() -> None:
    code, text = run("check", "softmax", "cumsum", "--json")
    assert code == 0
    assert [(r["problem_id"], r["ok"]) for r in json.loads(text)] == [("softmax", True), ("cumsum", True)]


def test_check_of_a_constant_reference_exits_one_and_says_why(tmp_path: Path) -> None:
    code, text = run("check", str(write(tmp_path / "ones.py", DECLARED.format(body="return x * 0 + 1"))))
    assert code == 1
    assert "mine: output 'y' is constant" in text
    assert "tolerance accepts the constant answer" in text
    assert "the same for two seeds" in text


def test_check_draws_new_adversarial_inputs_and_draws_those_of_a_seed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[int] = []
    monkeypatch.setattr(cli, "check", lambda one, seed: drawn.append(seed) or check(one, seed))
    code, text = run("check", "softmax")
    assert (code, text.splitlines()[-1]) == (0, f"1 of 1 problems pass, adversarial inputs of seed {drawn[0]}")
    assert "softmax: tolerance |out - expected| <= 1e-08 + 2e-05 * |expected| (float32 exponentials" in text
    assert json.loads(run("check", "softmax", "--seed", str(drawn[0]), "--json")[1])[0]["seed"] == drawn[0]
    assert drawn[0] == drawn[1]


def test_a_file_without_any_problem_is_told_the_forms_there_are(tmp_path: Path) -> None:
    (tmp_path / "empty.py").write_text("x = 1\n")
    with pytest.raises(
        UserError, match=r"defines no problem; it must define PROBLEM .* Model and get_inputs; .* task.yml"
    ):
        load_user_problem(tmp_path / "empty.py")
