"""Problems that users bring: KernelBench files, GPU MODE task folders, and files with a PROBLEM of their own.

Loading runs the file's code in this process, so load only what you trust.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from kbench.benchmark.problems.check import output_failures
from kbench.benchmark.problems.definition import ProblemDefinition
from kbench.benchmark.problems.foreign.gpu_mode_task import load_task
from kbench.benchmark.problems.foreign.kernelbench_file import from_module
from kbench.benchmark.problems.foreign.user_code import attempt, import_file, refuse_nan
from kbench.schemas import UserError


def load_user_problem(path: str | Path) -> ProblemDefinition:
    """Turn a KernelBench file, a GPU MODE task folder or a file that defines PROBLEM into a problem."""
    path = Path(path)
    if path.is_dir():
        return load_task(path)
    if not path.is_file():
        raise UserError(f"no problem at {str(path)!r}; give a Python file or a folder with task.yml")
    module = import_file(path)
    if hasattr(module, "PROBLEM"):
        return _declared(path, module.PROBLEM)
    if not hasattr(module, "Model") and not hasattr(module, "get_inputs"):
        raise UserError(
            f"{path.name}: defines no problem; it must define PROBLEM (a ProblemDefinition), or KernelBench's Model and"
            " get_inputs; a GPU MODE task is a folder with task.yml and reference.py"
        )
    return from_module(path, module)


def _declared(path: Path, problem: Any) -> ProblemDefinition:
    if not isinstance(problem, ProblemDefinition):
        raise UserError(f"{path.name}: PROBLEM is a {type(problem).__name__}, expected a ProblemDefinition")
    inputs = attempt(path, "drawing the inputs", problem.draw, problem.tiny, 0)
    for spec, value in zip(problem.inputs(problem.tiny.params), inputs, strict=True):
        if hasattr(value, "isnan"):
            refuse_nan(path, spec.name, value)
    outputs = attempt(path, "the reference", problem.reference, *inputs)
    for failure in output_failures(outputs, problem.outputs(problem.tiny.params), "cpu"):
        raise UserError(f"{path.name}: {failure}")
    return problem
