"""flashinfer-bench traces: JSON lines, one evaluation of a solution on a workload each, with a latency but no samples.

Sources are looked up among the solutions of the same trace set, references among its definitions; a solution without a
file is named, not sourced. A trace without a solution describes a workload alone.
"""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kbench.loaders.importers.context import Context
from kbench.loaders.importers.fields import (
    RowError,
    an_object,
    is_number,
    mapping,
    microseconds,
    name_text,
    non_negative,
    optional_text,
    plain,
    positive,
    shown,
    slug,
    source_text,
    text,
)
from kbench.loaders.importers.inputs import digest, files_below, read_inside
from kbench.loaders.importers.json_stream import Opening, json_lines
from kbench.loaders.importers.rows import (
    Items,
    Row,
    Source,
    failure,
    kernel_row,
    measurement_row,
    named,
    problem,
    written,
)
from kbench.loaders.importers.shapes import workload_name, workload_row
from kbench.schemas import Status
from kbench.schemas.ids import content_hash

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
    "INCORRECT": Status.INCORRECT,
    "TIMEOUT": Status.TIMEOUT,
}
WORKLOAD_ALONE = "traces of a workload alone, without a solution and an evaluation"
UNKNOWN_ERRORS = ("NaN", "Infinity", "-Infinity")


def looks_like(opening: Opening) -> bool:
    """Whether a file may be of this format."""
    return opening.first_line is not None and {"definition", "workload"} <= set(opening.first_line)


def rows(path: Path, context: Context) -> Items:
    """For each trace the kernel it is about, and its measurement."""
    trace_set = _TraceSet(path, context)
    described: set[str] = set()
    for line, record in json_lines(path, context.advance):
        try:
            trace = an_object(record, "trace")
            if trace.get("solution") is None and trace.get("evaluation") is None:
                context.became(path, WORKLOAD_ALONE)
                continue
            kernel, measurement = _row(path, context, line, trace, trace_set)
        except RowError as error:
            context.bad(path, line, error)
            continue
        if kernel["problem_id"] not in described:
            described.add(kernel["problem_id"])
            yield "problems", trace_set.problem(kernel["problem_id"], str(trace["definition"])), line
        yield "kernels", kernel, line
        if kernel["gpu"] is not None:
            yield "measurements", measurement, line


def _row(path: Path, context: Context, line: int, record: Mapping[str, Any], trace_set: _TraceSet) -> tuple[Row, Row]:
    definition, solution = text(record, "definition"), text(record, "solution")
    workload = _workload(mapping(record, "workload"))
    evaluation = mapping(record, "evaluation")
    environment = evaluation.get("environment")
    gpu = context.gpu(path, _hardware(environment), "the trace names no hardware")
    figures, errors = _figures(context, evaluation)
    backend, source, more = trace_set.source(definition, solution)
    kernel = kernel_row(
        slug(f"flashinfer_{definition}", "definition"), FAMILY, backend, source, gpu=gpu,
        origin=f"flashinfer-trace {plain(path.name)}", license=context.license(), split=context.settings.split,
        **more, **figures,
    )  # fmt: skip
    return kernel, measurement_row(kernel, workload, f"{digest(path)}/{line}", **figures, **errors)


def _workload(workload: Mapping[str, Any]) -> str:
    """A workload's name: its uuid, or in the early form, which has none, what it consists of."""
    if workload.get("uuid") is not None:
        return workload_name(text(workload, "uuid"))
    return f"w_{content_hash('workload', json.dumps(workload, sort_keys=True))[:12]}"


def _hardware(environment: Any) -> str | None:
    if not isinstance(environment, Mapping):
        return None
    found = filter(None, (name_text(environment, field) for field in ("hardware", "device")))
    return next((name for name in found if not name.startswith("cuda")), None)


def _figures(context: Context, evaluation: Mapping[str, Any]) -> tuple[Row, Row]:
    """Verdict and figures of an evaluation, and its correctness errors."""
    found = text(evaluation, "status").upper()
    if found not in STATUSES:
        raise RowError("evaluation.status", found, f"must be one of {', '.join(STATUSES)}")
    errors: Row = {}
    if evaluation.get("correctness") is not None:
        stated = mapping(evaluation, "correctness")
        for field, name in (("max_abs_error", "max_absolute_error"), ("max_rel_error", "max_relative_error")):
            unbounded = stated.get(name) in UNKNOWN_ERRORS or _not_finite(stated.get(name))
            if unbounded:
                context.null(field, "the trace states no finite number")
            errors[field] = None if unbounded else non_negative(stated, name)
    status = STATUSES[found]
    if status is not Status.OK:
        return failure(status, optional_text(evaluation, "log") or found), errors
    performance = mapping(evaluation, "performance")
    latency = positive(performance, "latency_ms")
    runtime = microseconds(latency, context.known("unit", UNIT), "latency_ms")
    figures = {"status": status.value, "runtime_us": runtime, "speedup": _speedup(context, performance, latency)}
    return figures, errors


def _speedup(context: Context, performance: Mapping[str, Any], latency: float) -> float | None:
    """Against the reference; none where the reference was not timed, which traces mark by a time of zero."""
    reference, stated = performance.get("reference_latency_ms"), performance.get("speedup_factor")
    if reference in (None, 0) or stated in (None, 0, *UNKNOWN_ERRORS) or _not_finite(stated):
        context.null("speedup", "the reference was not timed (its latency is missing or 0)")
        return None
    found, factor = positive(performance, "reference_latency_ms"), positive(performance, "speedup_factor")
    if not math.isclose(found / latency, factor, rel_tol=0.02):
        raise RowError("speedup_factor", factor, f"the latencies give {found / latency:g}")
    return factor


def _not_finite(value: object) -> bool:
    return isinstance(value, float) and not is_number(value)


class _TraceSet:
    """Solutions and definitions of the trace set a file belongs to; nothing outside its folder is read."""

    def __init__(self, path: Path, context: Context) -> None:
        parents = path.absolute().parents[:4]
        self._root = next((parent for parent in parents if (parent / "solutions").is_dir()), None)
        self._context = context
        self._files = functools.cache(self._listed)
        self.source = functools.lru_cache(maxsize=1024)(self._source)

    def _listed(self, folder: str) -> Mapping[tuple[str, str | None], Path]:
        """Files below a folder by name alone, and by name and the folder they lie in."""
        found = sorted((self._root / folder).rglob("*.json")) if self._root is not None else []
        alone = {(path.stem, None): path for path in reversed(found)}
        return alone | {(path.stem, path.parent.name): path for path in reversed(found)}

    def _file(self, folder: str, name: str, within: str | None = None) -> Any:
        """The JSON file of this name below a folder, best in a folder of its definition; None when there is none."""
        files = self._files(folder)
        found = files.get((name, within)) or files.get((name, None))
        data = None if found is None or self._root is None else read_inside(found, self._root)
        try:
            return None if data is None else json.loads(data)
        except (ValueError, RecursionError) as error:
            raise RowError(folder, f"{name}.json", f"cannot be read ({type(error).__name__})") from None

    def _source(self, definition: str, solution: str) -> Source:
        found = self._file("solutions", solution, definition)
        if found is not None:
            try:
                if found.get("definition", definition) != definition:
                    raise RowError("solution", solution, f"its file is of definition {shown(found['definition'])}")
                whole = "\n".join(str(item["content"]) for item in found["sources"])
            except (AttributeError, KeyError, TypeError):
                raise RowError("solution", solution, "its file holds no sources") from None
            return written(source_text({"sources": whole}, "sources"))
        self._context.null(
            "source", "no solution file of this name lies in the trace set; the source names the solution"
        )
        return named(definition=definition, solution=solution)

    def problem(self, problem_id: str, definition: str) -> Row:
        """The problem's row, with the definition's reference where the trace set holds it."""
        try:
            found = self._file("definitions", definition)
        except RowError:
            found = None
        stated = found if isinstance(found, Mapping) else {}
        reference = stated.get("reference")
        title = f"{plain(definition)} of flashinfer-bench"
        row = problem(problem_id, FAMILY, title, plain(reference) if isinstance(reference, str) else "")
        workloads = self._workloads(definition, stated)
        return {**row, "workloads": workloads} if workloads else row

    def _workloads(self, definition: str, stated: Mapping[str, Any]) -> list[Row]:
        """The workloads that the trace set lists for a definition; none, with a note, where it lists none."""
        listed = [] if self._root is None else list(files_below(self._root / "workloads", f"{definition}.jsonl"))
        if not listed or self._root is None or not listed[0].resolve().is_relative_to(self._root.resolve()):
            self._context.null("workloads", "the trace set has no list of the definition's workloads")
            return []
        entries = [line.get("workload") for _, line in json_lines(listed[0]) if isinstance(line, Mapping)]
        rows = [workload_row(entry, stated) for entry in entries if isinstance(entry, Mapping)]
        return [row for row in rows if row is not None]
