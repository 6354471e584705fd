"""Kernels as T4 results: one problem on one GPU a file, times in milliseconds."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from kbench.loaders.corpus.filters.selection import Selection
from kbench.schemas import Backend, Status, UserError

INVALIDITY: Mapping[str, str] = {
    Status.OK: "correct",
    Status.COMPILE_ERROR: "compile",
    Status.LAUNCH_ERROR: "runtime",
    Status.OUT_OF_MEMORY: "runtime",
    Status.INCORRECT: "correctness",
    Status.NONDETERMINISTIC: "correctness",
    Status.TIMEOUT: "timeout",
    Status.REJECTED: "constraints",
}
US_PER_MS = 1000.0


def pieces(selection: Selection) -> Iterator[tuple[int, str]]:
    """The file's text in pieces, each with the rows it holds; kernels nobody measured are left out.

    Raises:
        UserError: the rows are not kernels, or of several problems or GPUs.
    """
    if selection.config.name != "kernels" or selection.columns is not None:
        raise UserError("--format t4 takes whole rows of the config 'kernels'; leave --config and --columns out")
    space: tuple[str, str] | None = None
    for batch in selection.batches():
        for row in batch.to_pylist():
            if row["status"] is None:
                continue
            here = (row["problem_id"], str(row["gpu"]))
            if space is None:
                head = {"schema_version": "1.0.0", "metadata": {"kernel_name": here[0], "device": row["gpu"] or ""}}
                yield 0, json.dumps(head)[:-1] + ', "results": [\n'
            elif here != space:
                found = " and ".join(f"{problem} on {gpu}" for problem, gpu in (space, here))
                raise UserError(f"--format t4 takes one problem on one GPU, found {found}; add --problem and --gpu")
            yield 1, (",\n" if space else "") + json.dumps(result(row))
            space = here
    if space is None:
        raise UserError("--format t4 found no measured kernel; choose other rows")
    yield 0, "\n]}\n"


def result(row: Mapping[str, Any]) -> dict[str, Any]:
    """One kernel as a T4 result."""
    invalidity = INVALIDITY[row["status"]]
    is_config = row["backend"] == Backend.CONFIG
    identity = {"kernel_id": row["kernel_id"], "backend": row["backend"]}
    time = None if row["runtime_us"] is None else row["runtime_us"] / US_PER_MS
    measured = [] if time is None else [{"name": "time", "value": time, "unit": "ms"}]
    return {
        "configuration": json.loads(row["source"]) if is_config else identity,
        "times": {"compilation_time": row["compile_ms"], "runtimes": [] if time is None else [time]},
        "invalidity": invalidity,
        "correctness": int(invalidity == "correct"),
        "measurements": measured,
        "objectives": ["time"],
    }
