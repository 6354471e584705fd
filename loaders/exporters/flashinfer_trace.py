"""Measurements as flashinfer-bench traces: one JSON object per line, latencies in milliseconds."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from kbench.loaders.corpus.filters.selection import Selection
from kbench.schemas import Status, UserError

STATUSES: Mapping[str, str] = {
    Status.OK: "PASSED",
    Status.COMPILE_ERROR: "COMPILE_ERROR",
    Status.LAUNCH_ERROR: "RUNTIME_ERROR",
    Status.OUT_OF_MEMORY: "RUNTIME_ERROR",
    Status.REJECTED: "RUNTIME_ERROR",
    Status.INCORRECT: "INCORRECT_NUMERICAL",
    Status.NONDETERMINISTIC: "INCORRECT_NUMERICAL",
    Status.TIMEOUT: "TIMEOUT",
}
US_PER_MS = 1000.0


def pieces(selection: Selection) -> Iterator[tuple[int, str]]:
    """The file's text in pieces, each with the rows it holds.

    Raises:
        UserError: the rows are not measurements.
    """
    if selection.config.name != "measurements" or selection.columns is not None:
        raise UserError("--format flashinfer-trace takes whole rows of --config measurements; leave --columns out")
    for batch in selection.batches():
        rows = batch.to_pylist()
        yield len(rows), "".join(json.dumps(trace(row)) + "\n" for row in rows)


def trace(row: Mapping[str, Any]) -> dict[str, Any]:
    """One measurement as a trace; the solution is named by the kernel's id."""
    performance = correctness = None
    if row["runtime_us"] is not None:
        latency = row["runtime_us"] / US_PER_MS
        reference = None if row["speedup"] is None else latency * row["speedup"]
        performance = {
            "latency_ms": latency, "reference_latency_ms": reference, "speedup_factor": row["speedup"],
        }  # fmt: skip
    if row["max_abs_error"] is not None:
        correctness = {"max_relative_error": row["max_rel_error"], "max_absolute_error": row["max_abs_error"]}
    evaluation = {
        "status": STATUSES[row["status"]],
        "log": row["error"] or "",
        "timestamp": row["started_at"],
        "environment": {"hardware": row["gpu"], "libs": {}},
        "correctness": correctness,
        "performance": performance,
    }
    workload = {"axes": {}, "inputs": {}, "uuid": row["workload"]}
    return {
        "definition": row["problem_id"], "workload": workload, "solution": row["kernel_id"], "evaluation": evaluation,
    }  # fmt: skip
