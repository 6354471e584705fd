"""The examples work, and say what is so."""

import ast
import json
import os
import random
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import kbench
from kbench.benchmark.metrics.registry import headline
from kbench.benchmark.problems.foreign.user_code import import_file
from kbench.benchmark.tracks import TRACK_NAMES
from kbench.cli import cli
from kbench.generation.search.settings import Budget, RunSettings
from kbench.generation.search.state import RunState
from kbench.schemas.ids import kernel_id

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
KERNELS = sorted((EXAMPLES / "kernels").glob("*.py"))
NOTEBOOK = json.loads((EXAMPLES / "tour.ipynb").read_text("utf-8"))
CODE_CELLS = [cell for cell in NOTEBOOK["cells"] if cell["cell_type"] == "code"]


def test_example_kernels_are_correct_kernels_of_the_dataset() -> None:
    known = set(kbench.load(status="ok", columns=["kernel_id"]).to_arrow()["kernel_id"].to_pylist())
    parts = {path: path.stem.split("__") for path in KERNELS}
    assert 10 <= len(parts) <= 16
    assert {backend for _, backend, _ in parts.values()} == {"triton", "cuda"}
    ids = {path.name: kernel_id(problem, backend, path.read_text()) for path, (problem, backend, _) in parts.items()}
    assert [name for name, found in ids.items() if found not in known] == []


def test_the_guide_says_what_each_example_kernel_shows() -> None:
    text = (ROOT / "docs" / "kernels.md").read_text("utf-8")
    assert [path.name for path in KERNELS if f"`{path.name}`" not in text] == []


def test_the_example_problem_passes_its_check() -> None:
    result = CliRunner().invoke(cli, ["problems", "check", str(EXAMPLES / "my_problem.py")])
    assert result.exit_code == 0, result.output
    assert "1 of 1" in result.output


def test_the_example_method_begins_with_fresh_candidates() -> None:
    method = import_file(EXAMPLES / "my_method.py").METHOD
    settings = RunSettings(
        problem_id="softmax", backend=kbench.Backend.TRITON, method="random", proposer="genome", seed=0, seeds=4,
        batch=4, filter=None, budget=Budget(measurements=8),
    )  # fmt: skip
    requests = method.plan(RunState(run_id="r", settings=settings), 4, random.Random(0))
    assert [request.operator.value for request in requests] == ["fresh"] * 4


@pytest.mark.parametrize("cell", CODE_CELLS, ids=lambda cell: cell["id"])
def test_notebook_cells_parse_and_were_executed_without_error(cell: dict[str, Any]) -> None:
    ast.parse("".join(cell["source"]))
    assert cell["execution_count"] is not None
    assert [output["output_type"] for output in cell["outputs"] if output["output_type"] == "error"] == []


def test_the_notebook_runs_offline_without_a_gpu_and_without_torch(tmp_path: Path) -> None:
    # Python imports this file when it starts, in the processes of surrogates too.
    (tmp_path / "sitecustomize.py").write_text("import sys\nsys.modules |= {'torch': None, 'triton': None}\n")
    code = "\n".join("".join(cell["source"]) for cell in CODE_CELLS)
    checks = """
assert fastest["runtime_us"] < parent
assert decided
assert len(scores) > 5
assert all(curve == sorted(curve) for curve in found.values())
from kbench import *
assert all(hasattr(kbench, name) for name in dir(kbench))
assert sys.modules["torch"] is None
"""
    subprocess.run(
        [sys.executable, "-c", f"import sys\n{code}\n{checks}"], cwd=tmp_path, check=True,
        env=os.environ | {"PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT / 'src'}", "MPLBACKEND": "Agg"},
    )  # fmt: skip


def test_the_readme_states_the_numbers_of_the_dataset() -> None:
    text = " ".join((ROOT / "README.md").read_text("utf-8").split())
    kernels = kbench.load(columns=["kernel_id", "problem_id", "gpu"]).to_polars().collect()
    found = re.search(
        r"([\d,]+) CUDA and Triton kernels for (\d+) problems, measured on an H200 and on (\w+) partitions", text
    )
    assert int(found[1].replace(",", "")) == kernels["kernel_id"].n_unique()
    assert int(found[2]) == kernels["problem_id"].n_unique()
    assert {"one": 1, "two": 2, "three": 3}[found[3]] == kernels["gpu"].n_unique() - 1
    core = json.loads((ROOT / "docs" / "evidence" / "benchmark.json").read_text())["core"]
    text = " ".join(text.split())
    for name in ("static", "static-compiler", "claude zero-shot", "claude with facts"):
        figure = core["forecast"]["entries"][name]
        value, low, high = (f"{100 * figure[key]:.0f}" for key in ("value", "low", "high"))
        assert re.search(rf"`{name}` \([^)]*\) (removes )?{value} %", text), name
        assert name == "static" or f"{value} % [{low}, {high}]" in text, name
    assert f"a second measurement {100 * core['ceilings']['forecast']:.0f} %" in text


def test_the_example_surrogate_beats_the_prior_on_every_headline() -> None:
    figures = json.loads((ROOT / "docs" / "evidence" / "benchmark.json").read_text("utf-8"))["test"]
    for track in TRACK_NAMES:
        mine, prior = (figures[track]["entries"][name]["value"] for name in ("first model", "prior"))
        assert headline(track).sign * (mine - prior) > 0, track
