"""KernelBench timing baselines: times of the PyTorch references by level and problem file, in milliseconds."""

from __future__ import annotations

import re
import statistics
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from kbench.loaders.importers.context import Context
from kbench.loaders.importers.fields import RowError, is_number, microseconds, optional_text, positive
from kbench.loaders.importers.json_stream import JsonStream, Opening
from kbench.loaders.importers.rows import Items, configuration, kernel_row, measurement_row
from kbench.loaders.importers.suites import kernelbench
from kbench.schemas import Backend, Status

LEVEL = re.compile(r"level[_ ]?([1-4])")
NUMBER = re.compile(r"(\d+)_")
PLAUSIBLE_MS = (0.004, 500.0)
"""Between these lies the median time of a file in milliseconds; a file outside is in another unit."""


def looks_like(opening: Opening) -> bool:
    """Whether a file may be of this format."""
    return opening.has_keys("mean", "num_trials", "hardware") and not opening.has_keys("compiled")


def rows(path: Path, context: Context) -> Items:
    """References, and their measurements where the hardware is stated."""
    kernelbench.note_suite(context)
    unit = context.known("unit", _unit(path))
    if unit is None:
        context.note("files whose unit is unclear (their median is no time in ms); state it with --unit")
    for level, name, record in _entries(path, context):
        place = f"{level}/{name}"
        try:
            row, runtime = _row(path, context, (level, name), record, unit)
        except RowError as error:
            context.bad(path, place, error)
            continue
        yield "kernels", row, place
        if row["gpu"] is not None:
            yield "measurements", measurement_row(row, "published", f"{path.name}/{place}", runtime_us=runtime), place


def _entries(path: Path, context: Context | None) -> Iterator[tuple[str, str, Any]]:
    with JsonStream(path, context.advance if context else lambda _: None) as stream:
        for level in stream.members():
            for name in stream.members():
                yield level, name, stream.value()
        stream.end()


def _unit(path: Path) -> str | None:
    means = [record.get("mean") for _, _, record in _entries(path, None) if isinstance(record, Mapping)]
    known = [mean for mean in means if is_number(mean) and mean > 0]
    middle = statistics.median(known) if known else 0.0
    return "ms" if PLAUSIBLE_MS[0] <= middle <= PLAUSIBLE_MS[1] else None


def _row(path: Path, context: Context, where: tuple[str, str], record: Any, unit: str | None) -> tuple[Any, Any]:
    if not isinstance(record, Mapping):
        raise RowError("timing", record, "must be an object")
    level, number = LEVEL.fullmatch(where[0]), NUMBER.match(where[1])
    if level is None:
        raise RowError("level", where[0], "must be level1 to level4")
    if number is None:
        raise RowError("problem", where[1], "must begin with the problem's number")
    mean, low, high = (positive(record, name) for name in ("mean", "min", "max"))
    if not low <= mean <= high:
        raise RowError("mean", mean, f"must lie between min {low!r} and max {high!r}")
    gpu = context.known("gpu", optional_text(record, "hardware"))
    if gpu is None:
        context.null("gpu", "the timing names no hardware; the folder's name is not trusted")
    runtime = None if unit is None else microseconds(mean, unit, "mean")
    if runtime is None:
        context.null("runtime_us", "the file's unit is unclear")
    # Problem files are named with their number from 1.
    problem = kernelbench.problem_id(context.settings, int(level.group(1)), int(number.group(1)[:6]), 1)
    names = {"suite": "kernelbench", "reference": f"{where[0]}/{where[1]}"}
    row = kernel_row(
        problem, kernelbench.FAMILY, Backend.CONFIG, configuration(names), keys=tuple(names), gpu=gpu,
        origin=f"kernelbench-timing {path.name}", license=context.settings.license, split=context.settings.split,
        status=Status.OK.value, runtime_us=runtime,
    )  # fmt: skip
    return row, runtime
