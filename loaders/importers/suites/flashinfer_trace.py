"""flashinfer-bench traces: JSON lines, one evaluation of a solution on a workload each, with a latency but no samples.

Sources are looked up among the solutions of the same trace set; a trace without one is named, not sourced.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kbench.loaders.importers.context import Context
from kbench.loaders.importers.fields import (
    RowError,
    mapping,
    microseconds,
    non_negative,
    optional_positive,
    optional_text,
    positive,
    slug,
    text,
)
from kbench.loaders.importers.json_stream import Opening, json_lines
from kbench.loaders.importers.rows import Items, Row, backend_of, configuration, failure, kernel_row, measurement_row
from kbench.schemas import Backend, Status

FAMILY = "flashinfer"
UNIT = "ms"
"""What `latency_ms` is in, by its name."""
STATUSES = {
    "PASSED": Status.OK,
    "COMPILE_ERROR": Status.COMPILE_ERROR,
    "RUNTIME_ERROR": Status.LAUNCH_ERROR,
    "INCORRECT_SHAPE": Status.INCORRECT,
    "INCORRECT_NUMERICAL": Status.INCORRECT,
    "INCORRECT_DTYPE": Status.INCORRECT,
    "TIMEOUT": Status.TIMEOUT,
}


def looks_like(opening: Opening) -> bool:
    """Whether a file may be of this format."""
    return opening.first_line is not None and {"definition", "workload", "evaluation"} <= set(opening.first_line)


@dataclasses.dataclass(slots=True)
class _Total:
    """One solution on one GPU, over the workloads read so far."""

    row: Row
    count: int = 0
    runtimes: list[float] = dataclasses.field(default_factory=lambda: [0.0, 0])
    speedups: list[float] = dataclasses.field(default_factory=lambda: [0.0, 0])

    def add(self, measurement: Row) -> None:
        self.count += 1
        if measurement["status"] != Status.OK.value and self.row["status"] in (None, Status.OK.value):
            self.row |= {"status": measurement["status"], "error": measurement["error"]}
        elif self.row["status"] is None:
            self.row["status"] = Status.OK.value
        for total, value in ((self.runtimes, measurement["runtime_us"]), (self.speedups, measurement["speedup"])):
            if value is not None:
                total[0] += math.log(value)
                total[1] += 1

    def kernel(self) -> Row:
        if self.row["status"] != Status.OK.value:
            return self.row
        means = [math.exp(t[0] / t[1]) if t[1] == self.count else None for t in (self.runtimes, self.speedups)]
        return self.row | {"runtime_us": means[0], "speedup": means[1]}


def rows(path: Path, context: Context) -> Items:
    """Measurements as they come, then the kernels they are of."""
    totals: dict[tuple[str, str, str | None], _Total] = {}
    solutions = _Solutions(path)
    for line, record in json_lines(path, context.advance):
        try:
            measurement, total = _row(path, context, (line, record), totals, solutions)
        except RowError as error:
            context.bad(path, line, error)
            continue
        total.add(measurement)
        if measurement["gpu"] is not None:
            yield "measurements", measurement, line
    for key, total in totals.items():
        yield "kernels", total.kernel(), f"{key[0]}/{key[1]}"


def _row(
    path: Path,
    context: Context,
    item: tuple[int, Any],
    totals: dict[tuple[str, str, str | None], _Total],
    solutions: _Solutions,
) -> tuple[Row, _Total]:
    line, record = item
    if not isinstance(record, Mapping):
        raise RowError("trace", record, "must be an object")
    definition, solution = text(record, "definition"), text(record, "solution")
    problem = f"flashinfer_{slug(definition, 'definition')}"
    workload = f"w_{slug('w ' + text(mapping(record, 'workload'), 'uuid'), 'workload.uuid')[2:]}"
    evaluation = mapping(record, "evaluation")
    environment = evaluation.get("environment")
    gpu = context.known("gpu", optional_text(environment, "hardware") if isinstance(environment, Mapping) else None)
    if gpu is None:
        context.null("gpu", "the trace names no hardware; state it with --gpu")
    figures = _figures(context, evaluation)
    key = (definition, solution, gpu)
    if key not in totals:
        backend, source, keys = solutions.source(definition, solution, context)
        if context.settings.license is None:
            context.null("license", "the trace states none; state it with --license")
        totals[key] = _Total(
            kernel_row(
                problem, FAMILY, backend, source, keys=keys, gpu=gpu, origin=f"flashinfer-trace {path.name}",
                license=context.settings.license, split=context.settings.split,
            )
        )  # fmt: skip
    measurement = measurement_row(totals[key].row, workload, f"{path.name}/{line}", **figures)
    return measurement, totals[key]


def _figures(context: Context, evaluation: Mapping[str, Any]) -> Row:
    found = text(evaluation, "status")
    if found not in STATUSES:
        raise RowError("evaluation.status", found, f"must be one of {', '.join(STATUSES)}")
    figures: Row = {"status": STATUSES[found].value, "error": None}
    if evaluation.get("correctness") is not None:
        errors = mapping(evaluation, "correctness")
        figures["max_abs_error"] = non_negative(errors, "max_absolute_error")
        figures["max_rel_error"] = non_negative(errors, "max_relative_error")
    if STATUSES[found] is not Status.OK:
        return figures | failure(STATUSES[found], optional_text(evaluation, "log") or found)
    performance = mapping(evaluation, "performance")
    latency = positive(performance, "latency_ms")
    reference, speedup = (optional_positive(performance, n) for n in ("reference_latency_ms", "speedup_factor"))
    if reference and speedup and not math.isclose(reference / latency, speedup, rel_tol=0.02):
        raise RowError("speedup_factor", speedup, f"the latencies give {reference / latency:g}")
    runtime = microseconds(latency, context.known("unit", UNIT), "latency_ms")
    return figures | {"runtime_us": runtime, "speedup": speedup}


class _Solutions:
    """Solution files of the trace set a file belongs to."""

    def __init__(self, path: Path) -> None:
        self._folder = next((p / "solutions" for p in path.resolve().parents[:4] if (p / "solutions").is_dir()), None)

    def source(self, definition: str, solution: str, context: Context) -> tuple[Backend, str, tuple[str, ...]]:
        """A solution's text, or what names it."""
        plain = all(char.isalnum() or char in "-_." for char in solution)
        found = next(self._folder.rglob(f"{solution}.json"), None) if self._folder is not None and plain else None
        if found is not None:
            try:
                sources = json.loads(found.read_text(encoding="utf-8"))["sources"]
                whole = "\n".join(str(item["content"]) for item in sources)
            except (OSError, ValueError, KeyError, TypeError) as error:
                raise RowError("solution", solution, f"{found.name} cannot be read ({type(error).__name__})") from None
            return backend_of(whole), whole, ()
        context.null("source", "no solution file of this name lies in the trace set; the source names the solution")
        names = {"definition": definition, "solution": solution}
        return Backend.CONFIG, configuration(names), tuple(names)
