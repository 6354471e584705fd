"""What `kbench_write` gives replies on a GPU: its scoring, with everything but verifiers.

For every task of a few problems a scripted model replies with kernels of the dataset (the fastest, the middle one, the
slowest, and one that failed where there is one), with PyTorch instead of a kernel, and with no code. Each figure can be
compared with the dataset's. Then the evaluator for OpenEvolve scores an example. Prints one JSON line per reply.

Usage: PYTHONPATH=src python docs/evidence/scripts/kbench_write_gpu.py [--check] > docs/evidence/kbench-write-gpu.jsonl
"""

from __future__ import annotations

import json
import re
import runpy
import sys
import time
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import click

import kbench

sys.path.insert(0, str(Path(__file__).parents[3] / "environments" / "kbench_write"))
from kbench_write.scoring import score

EXAMPLES = Path(__file__).parents[3] / "examples"
PROBLEMS = ("softmax", "rms_norm", "matmul_square", "histogram")
SPLITS = ("train", "validation", "test", "test_near")


def tasks(problems: Sequence[str]) -> Iterator[list[Any]]:
    """The scored kernels of each task, fastest first, whatever split its problem is in."""
    for split in SPLITS:
        try:
            rows = list(kbench.training_rows("reward", split, problem=list(problems)))
        except kbench.KbenchError:
            continue  # none of the problems is in this split
        rows.sort(key=lambda row: (row.problem_id, row.backend, -row.score, row.kernel_id))
        yield from (list(group) for _, group in groupby(rows, key=lambda row: (row.problem_id, row.backend)))


def replies(rows: Sequence[Any]) -> Iterator[tuple[str, str, float | None]]:
    """What the scripted model says to one task: kind of reply, text, and the dataset's score."""
    correct = [row for row in rows if row.status is kbench.Status.OK]
    failed = [row for row in rows if row.status is not kbench.Status.OK]
    named = [("fastest", correct[0]), ("middle", correct[len(correct) // 2]), ("slowest", correct[-1])]
    named += [(f"failed ({row.status.value})", row) for row in failed[:1]]
    yield from ((kind, row.completion[0].content, row.score) for kind, row in named)
    inputs = re.search(r"Signature: run\((.*?)\)", rows[0].prompt[1].content)
    reference = re.search(r"PyTorch reference:\n(.*?)\n\n# Task", rows[0].prompt[1].content, re.DOTALL)
    assert inputs is not None
    assert reference is not None
    called = re.findall(r"^def (\w+)\(", reference[1], re.MULTILINE)[-1]
    code = f"import torch\nfrom torch import Tensor\n\n{reference[1]}\n\n\ndef run({inputs[1]}):\n"
    yield "PyTorch instead of a kernel", f"```python\n{code}    return {called}({inputs[1]})\n```", None
    yield "no code", "I cannot do this.", None


@click.command()
@click.option("--problem", multiple=True, default=PROBLEMS, show_default=True)
@click.option("--check", is_flag=True, help="Check without a GPU.")
def main(problem: tuple[str, ...], check: bool) -> None:
    """Score replies and print the figures."""
    for rows in tasks(problem):
        for kind, reply, expected in replies(rows):
            began = time.monotonic()
            figures = score(reply, rows[0].problem_id, rows[0].backend.value, timed=not check)
            told = {"task": f"{rows[0].problem_id}-{rows[0].backend.value}", "reply": kind, **figures}
            click.echo(json.dumps(told | {"dataset": expected, "seconds": round(time.monotonic() - began, 2)}))
    if not check:
        evaluate = runpy.run_path(str(EXAMPLES / "openevolve_evaluator.py"))["evaluate"]
        click.echo(json.dumps({"openevolve": evaluate(str(EXAMPLES / "kernels" / "softmax__triton__whole_row.py"))}))


if __name__ == "__main__":
    main()
