"""CUDA-L1: JSON lines with reference, optimised code and scores; rows without code are failures nobody can see."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kbench.loaders.importers.context import Context
from kbench.loaders.importers.fields import RowError, positive, text, whole
from kbench.loaders.importers.json_stream import Opening, json_lines
from kbench.loaders.importers.rows import Items, Row, backend_of, kernel_row, measurement_row
from kbench.loaders.importers.suites import kernelbench
from kbench.schemas import Status

EAGER = ("score_default", "default")
"""The score against PyTorch as it is; other baselines are not our reference."""
SUSPECT = 100.0


def looks_like(opening: Opening) -> bool:
    """Whether a file may be of this format."""
    return opening.first_line is not None and {"level_id", "task_id", "custom_code"} <= set(opening.first_line)


def rows(path: Path, context: Context) -> Items:
    """Kernels, and measurements where the GPU is stated."""
    kernelbench.note_suite(context)
    for line, record in json_lines(path, context.advance):
        try:
            row = _row(path, context, record)
        except RowError as error:
            context.bad(path, line, error)
            continue
        if row is None:
            continue
        yield "kernels", row, line
        if row["gpu"] is not None and row["status"] is not None:
            yield "measurements", measurement_row(row, "published", f"{path.name}/{line}", speedup=row["speedup"]), line


def _row(path: Path, context: Context, record: Any) -> Row | None:
    if not isinstance(record, Mapping):
        raise RowError("record", record, "must be an object")
    level, task = whole(record, "level_id", 1), whole(record, "task_id")
    if "custom_code" not in record:
        raise RowError("custom_code", None, "must be there; null says that there is none")
    if record["custom_code"] is None:
        context.note("rows without code: failed, or slower than every baseline; so the speedups are truncated at 1")
        return None
    source = text(record, "custom_code")
    speedup = _speedup(record)
    if speedup is None:
        context.null("speedup", "no score against PyTorch as it is")
    elif speedup > SUSPECT:
        context.note(f"speedups above {SUSPECT:g}, which look like artefacts; kept as stated")
    if context.settings.gpu is None:
        context.null("gpu", "the file states none; state it with --gpu")
    if context.settings.license is None:
        context.null("license", "the file states none; state it with --license")
    first = context.settings.first_id
    if first is None:
        context.note("problems whose numbering (from 0 or from 1) is not stated; state it with --first-id")
    return kernel_row(
        kernelbench.problem_id(context.settings, level, task, first), kernelbench.FAMILY, backend_of(source), source,
        gpu=context.settings.gpu, origin=f"cuda-l1 {path.name}", license=context.settings.license,
        split=context.settings.split, proposer="llm", status=None if speedup is None else Status.OK.value,
        speedup=speedup,
    )  # fmt: skip


def _speedup(record: Mapping[str, Any]) -> float | None:
    scores = record.get("scores", record)
    if not isinstance(scores, Mapping):
        raise RowError("scores", scores, "must be an object")
    for name in EAGER:
        if scores.get(name) is not None:
            return positive(scores, name)
    return None
