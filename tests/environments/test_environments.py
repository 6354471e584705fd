"""Packages of `environments/` and the evaluator for OpenEvolve, as far as they go without their frameworks."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from kbench.benchmark.problems.foreign.user_code import import_file
from kbench.schemas import KernelSource, Status

ROOT = Path(__file__).parents[2]
GOOD, BAD, NONE = "```python\ndef run(x):\n    return x\n```", "```python\ndef run(x):\n    return 0\n```", "I cannot."


class Found:
    """A verdict."""

    def __init__(self, kernel: KernelSource, timed: bool = True) -> None:
        good = "return x" in kernel.source
        self.status = Status.OK if good else Status.INCORRECT
        self.speedup = 2.0 if good and timed else None


@pytest.mark.parametrize(
    ("timed", "expected"),
    [
        (True, {GOOD: {"correctness": 1, "log_speedup": 1}, BAD: {"correctness": 0, "log_speedup": -5}}),
        (False, {GOOD: {"correctness": 1}, BAD: {"correctness": 0}, NONE: {"correctness": 0}}),
    ],
)
def test_a_written_kernel_earns_its_speedup_or_without_a_gpu_its_correctness(
    timed: bool, expected: dict[str, dict[str, float]], monkeypatch: pytest.MonkeyPatch
) -> None:
    scoring = import_file(ROOT / "environments/kbench_write/scoring.py")
    monkeypatch.setattr(scoring, "judge", lambda timed: lambda kernel: Found(kernel, timed))
    assert {reply: scoring.score(reply, "relu", "triton", timed=timed) for reply in expected} == expected


def test_the_evaluator_for_openevolve_scores_a_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    evaluator = import_file(ROOT / "examples/openevolve_evaluator.py")
    monkeypatch.setattr(evaluator, "judge", Found)
    program = tmp_path / "program.py"
    program.write_text("def run(x):\n    return x\n")
    assert evaluator.evaluate(str(program)) == {
        "combined_score": 1.0, "speedup": 2.0, "compiled": 1.0, "correct": 1.0,
    }  # fmt: skip
    program.write_text("def run(x):\n    return 0\n")
    assert evaluator.evaluate(str(program)) == {
        "combined_score": -5.0, "speedup": 0.0, "compiled": 1.0, "correct": 0.0,
    }  # fmt: skip


def test_frameworks_are_bounded_extras_and_never_needed_by_the_core() -> None:
    def stated(folder: Path) -> dict[str, Any]:
        return dict(tomllib.loads((folder / "pyproject.toml").read_text("utf-8"))["project"])

    package, core = stated(ROOT / "environments"), stated(ROOT)
    assert package["dependencies"] == ["kbench-gpu>=1.0"]
    assert all(">=" in one and "<" in one for name in ("verifiers", "inspect") for one in extras(package)[name])
    needed = [*core["dependencies"], *(one for group in extras(core).values() for one in group)]
    assert not [one for one in needed if one.startswith(("verifiers", "inspect"))]


def extras(project: dict[str, Any]) -> dict[str, list[str]]:
    return dict(project["optional-dependencies"])


WITHOUT_TORCH = """
import sys
from unittest.mock import MagicMock

registered = []
framework = MagicMock(task=lambda function: registered.append(function.__name__) or function)
names = ("", ".dataset", ".model", ".scorer", ".solver")
sys.modules |= {f"inspect_ai{name}": framework for name in names} | {"torch": None, "triton": None}
import kbench_inspect.tasks
print(*registered)
"""


def test_inspect_ai_finds_its_tasks_in_an_installation_without_torch() -> None:
    path = os.pathsep.join([str(ROOT / "src"), str(ROOT / "environments")])
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_TORCH], env=os.environ | {"PYTHONPATH": path}, capture_output=True, text=True,
        check=True,
    )  # fmt: skip
    assert done.stdout.split() == ["forecast", "write"]


@pytest.mark.environments
@pytest.mark.timeout(1200)  # it starts a dozen processes that each import torch
def test_every_environment_runs_with_a_scripted_model() -> None:
    done = subprocess.run(
        [sys.executable, "tests/support/environments.py"],
        cwd=ROOT, env=os.environ | {"PYTHONPATH": str(ROOT / "src")}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    rows = [json.loads(line) for line in done.stdout.splitlines()][1:]
    validated = [row for row in rows if row["command"] == "vf-validate"]
    assert [row["environment"] for row in validated] == ["kbench-forecast", "kbench-write"]
    assert all(row[check]["valid"] == 1 for row in validated for check in ("gold", "noop"))
    earned = [row["rewards"] for row in rows if row["command"] == "vf-eval"]
    assert [round(next(iter(one.values()))["score"], 3) for one in earned] == [0.857, 0.0, 1.0, 0.0, 0.0]
    scored = [row["scores"] for row in rows if row["environment"] == "kbench-inspect"]
    assert [round(one["distribution"]["rps"], 3) for one in scored[:2]] == [0.857, 0.0]
    assert [one["kernel"]["correctness"] for one in scored[2:]] == [1.0, 0.0, 0.0]
