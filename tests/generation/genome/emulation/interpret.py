"""Runs Triton kernels through Triton's interpreter; a program of its own, since the choice is made at import.

Reads JSON lines of {"problem", "source"} on stdin and writes, for each, the largest error over tolerance.
The interpreter's numbers have no bfloat16, so float16 takes its place.
"""

import json
import sys
import tempfile
from pathlib import Path

import torch

from kbench.benchmark.problems.definition import as_tuple
from kbench.benchmark.problems.foreign.user_code import import_file
from kbench.benchmark.problems.registry import problem


def excess(problem_id: str, source: str, folder: Path) -> float:
    """Largest |out - expected| over what the tolerance allows, on the tiny workload."""
    path = folder / f"kernel_{abs(hash(source))}.py"
    path.write_text(source.replace("bfloat16", "float16"))
    module = import_file(path)
    definition = problem(problem_id)
    inputs = definition.draw(definition.tiny, seed=11)
    expected = definition.expected(inputs)
    halves = [v.half() if isinstance(v, torch.Tensor) and v.dtype == torch.bfloat16 else v for v in inputs]
    worst = 0.0
    for out, right in zip(as_tuple(module.run(*halves)), expected, strict=True):
        assert out.shape == right.shape
        limit = definition.tolerance.atol + definition.tolerance.rtol * right.abs()
        worst = max(worst, float(((out.double() - right).abs() / limit).nan_to_num(1e9).max()))
    return worst


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        for line in sys.stdin:
            task = json.loads(line)
            sys.stdout.write(json.dumps(excess(task["problem"], task["source"], Path(name))) + "\n")
