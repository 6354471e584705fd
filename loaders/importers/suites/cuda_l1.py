"""CUDA-L1: JSON lines with reference, optimised code and scores; rows without code are failures nobody can see.

A file is of one GPU, which its name states alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kbench.loaders.importers.context import Context
from kbench.loaders.importers.fields import LARGEST_SOURCE, RowError, plain, positive, source_text, whole
from kbench.loaders.importers.files import digest
from kbench.loaders.importers.json_stream import Opening, json_lines
from kbench.loaders.importers.rows import Items, Row, kernel_row, measurement_row, written
from kbench.loaders.importers.suites import kernelbench
from kbench.schemas import Status

EAGER = ("score_default", "default")
"""The score against PyTorch as it is; other baselines are not our reference."""
SUSPECT = 100.0
NO_CODE = "entries without code: failed, or slower than every baseline; so the speedups are truncated at 1"


def looks_like(opening: Opening) -> bool:
    """Whether a file may be of this format."""
    return opening.first_line is not None and {"level_id", "task_id", "custom_code"} <= set(opening.first_line)


def rows(path: Path, context: Context) -> Items:
    """Problems and kernels, and measurements where the GPU is known."""
    kernelbench.note_unstated(context)
    firsts = kernelbench.first_numbers(context.settings, _numbers(path), context)
    described: set[str] = set()
    for line, record in json_lines(path, context.advance):
        try:
            row = _row(path, context, record, firsts)
        except RowError as error:
            context.bad(path, line, error)
            continue
        if row is None:
            context.became(path, NO_CODE)
            continue
        if row["problem_id"] not in described:
            described.add(row["problem_id"])
            given = record.get("ref_code")
            fits = isinstance(given, str) and given.isascii() and len(given) <= LARGEST_SOURCE
            reference = plain(given) if fits else ""
            yield "problems", kernelbench.problem_of(row["problem_id"], reference), line
        yield "kernels", row, line
        if row["gpu"] is not None and row["status"] is not None:
            made = measurement_row(row, "published", f"{digest(path)}/{line}", speedup=row["speedup"])
            yield "measurements", made, line


def _numbers(path: Path) -> dict[int | None, set[int]]:
    found: dict[int | None, set[int]] = {}
    for _, record in json_lines(path):
        if isinstance(record, Mapping) and all(isinstance(record.get(name), int) for name in ("level_id", "task_id")):
            found.setdefault(record["level_id"], set()).add(record["task_id"])
    return found


def _row(path: Path, context: Context, record: Any, firsts: Mapping[int | None, int | None]) -> Row | None:
    if not isinstance(record, Mapping):
        raise RowError("record", record, "must be an object")
    level, task = whole(record, "level_id", 1), whole(record, "task_id")
    if "custom_code" not in record:
        raise RowError("custom_code", None, "must be there; null says that there is none")
    if record["custom_code"] is None:
        return None
    backend, source, _ = written(source_text(record, "custom_code"))
    speedup = _speedup(record)
    if speedup is None:
        context.null("speedup", "no score against PyTorch as it is")
    elif speedup > SUSPECT:
        context.note(f"speedups above {SUSPECT:g}, which look like artefacts; kept as stated")
    return kernel_row(
        kernelbench.problem_id(context.settings, level, task, firsts.get(level)), kernelbench.FAMILY, backend, source,
        gpu=context.gpu(path, None, "the file states none"), origin=f"cuda-l1 {plain(path.name)}",
        license=context.license(), split=context.settings.split, proposer="llm",
        status=None if speedup is None else Status.OK.value, speedup=speedup,
    )  # fmt: skip


def _speedup(record: Mapping[str, Any]) -> float | None:
    scores = record.get("scores", record)
    if not isinstance(scores, Mapping):
        raise RowError("scores", scores, "must be an object")
    for name in EAGER:
        if scores.get(name) is not None:
            return positive(scores, name)
    return None
