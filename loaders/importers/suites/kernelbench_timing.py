"""KernelBench timing baselines: times of the PyTorch references by level and problem file, in milliseconds.

A file is of one mode, which its name states: eager, or one of the modes of torch.compile.
"""

from __future__ import annotations

import re
import statistics
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from kbench.loaders.importers.context import Context
from kbench.loaders.importers.fields import RowError, is_number, microseconds, name_text, plain, positive, slug
from kbench.loaders.importers.files import digest, stem
from kbench.loaders.importers.json_stream import JsonStream, Opening
from kbench.loaders.importers.rows import Items, Row, kernel_row, measurement_row, named
from kbench.loaders.importers.suites import kernelbench
from kbench.schemas import Status

NUMBER = re.compile(r"(\d{1,5})_")
MODE = re.compile(r"(?:baseline_time_)?(?:torch_?)?(?:compile_?)?(.*)")
EAGER = "eager"
PLAUSIBLE_MS = (0.004, 500.0)
"""Between these lies the median time of a file in milliseconds; a file outside is in another unit."""


def looks_like(opening: Opening) -> bool:
    """Whether a file may be of this format."""
    return opening.has_keys("mean", "num_trials", "hardware") and not opening.has_keys("compiled")


def rows(path: Path, context: Context) -> Items:
    """References, and their measurements where the hardware is stated."""
    kernelbench.note_unstated(context)
    unit = context.known("unit", _unit(path))
    if unit is None:
        context.note("files whose unit is unclear (their median is no time in ms); state it with --unit")
    for number, (level, name, record) in enumerate(_entries(path, context)):
        place = f"{level}/{name}"
        try:
            row = _row(path, context, (level, name), record, unit)
        except RowError as error:
            context.bad(path, place, error)
            continue
        yield "problems", kernelbench.problem_of(row["problem_id"]), place
        yield "kernels", row, place
        if row["gpu"] is not None and row["status"] is not None:
            at = f"{digest(path)}/{number}"
            yield "measurements", measurement_row(row, "published", at, runtime_us=row["runtime_us"]), place


def _entries(path: Path, context: Context | None) -> Iterator[tuple[str, str, Any]]:
    with JsonStream(path, context.advance if context else lambda _: None) as stream:
        for level in stream.members():
            for name in stream.members(once=False):
                yield level, name, stream.value()
        stream.end()


def _unit(path: Path) -> str | None:
    means = [record.get("mean") for _, _, record in _entries(path, None) if isinstance(record, Mapping)]
    known = [mean for mean in means if is_number(mean) and mean > 0]
    middle = statistics.median(known) if known else 0.0
    return "ms" if PLAUSIBLE_MS[0] <= middle <= PLAUSIBLE_MS[1] else None


def _row(path: Path, context: Context, where: tuple[str, str], record: Any, unit: str | None) -> Row:
    if record is not None and not isinstance(record, Mapping):
        raise RowError("timing", record, "must be an object, or null where there is none")
    level, number = kernelbench.LEVEL.fullmatch(where[0]), NUMBER.match(where[1])
    if level is None:
        raise RowError("level", where[0], "must be level1 to level9")
    # Problem files are named with their number from 1; some of level 4 have a name alone.
    which = int(number.group(1)) if number else slug("p " + where[1].removesuffix(".py"), "problem")
    problem = kernelbench.problem_id(context.settings, int(level.group(1)), which, 1)
    stated = name_text(record or {}, "hardware")
    gpu = context.gpu(path, stated, "the timing names no hardware, and the folder's name is not trusted")
    found = MODE.fullmatch(stem(path))
    mode = (found.group(1) if found else "") or EAGER
    backend, source, more = named(suite="kernelbench", reference=f"{where[0]}/{plain(where[1])}", mode=mode)
    return kernel_row(
        problem, kernelbench.FAMILY, backend, source, gpu=gpu, origin=f"kernelbench-timing {plain(path.name)}",
        license=context.license(), split=context.settings.split, run_id=mode, **more, **_figures(context, record, unit),
    )  # fmt: skip


def _figures(context: Context, record: Mapping[str, Any] | None, unit: str | None) -> Row:
    if record is None or record.get("mean") is None:
        context.null("runtime_us", "the file holds null where the problem's time would be")
        return {}
    mean, low, high = (positive(record, name) for name in ("mean", "min", "max"))
    if not low <= mean <= high:
        raise RowError("mean", mean, f"must lie between min {low!r} and max {high!r}")
    if unit is None:
        context.null("runtime_us", "the file's unit is unclear")
        return {"status": Status.OK.value}
    return {"status": Status.OK.value, "runtime_us": microseconds(mean, unit, "mean")}
