"""KernelBench `eval_results.json`: problems, each with its samples, as dict or list; times are milliseconds."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from kbench.loaders.importers.context import Context
from kbench.loaders.importers.fields import RowError, is_number, mapping, microseconds, optional_text, truth
from kbench.loaders.importers.json_stream import JsonStream, Opening
from kbench.loaders.importers.rows import Items, Row, backend_of, configuration, failure, kernel_row, measurement_row
from kbench.loaders.importers.suites import kernelbench
from kbench.schemas import Backend, Status

SENTINELS = (-1, -2)
"""Stored for a runtime that was not measured."""
RESULTS = ("correctness", "correct")
TIMES = ("runtime", "avg_runtime")
UNIT = "ms"
"""What every runtime is in."""
LEVEL = re.compile(r"level[_ ]?([123])")


def looks_like(opening: Opening) -> bool:
    """Whether a file may be of this format."""
    return opening.has_keys("compiled") and any(opening.has_keys(name) for name in RESULTS)


def rows(path: Path, context: Context) -> Items:
    """Kernels, and measurements of those whose GPU is known."""
    kernelbench.note_suite(context)
    level = context.settings.level or _level(path)
    first = kernelbench.first_number(context.settings, level, _numbers(path), context)
    with JsonStream(path, context.advance) as stream:
        for key in stream.members():
            value = stream.value()
            try:
                number = _number(key)
                samples = list(_samples(value))
                problem = kernelbench.problem_id(context.settings, level, number, first)
            except RowError as error:
                context.bad(path, key, error)
                continue
            for sample, record in samples:
                place = f"{key}/{sample}"
                try:
                    kernel, runtime = _row(path, context, problem, (level, number, sample), record)
                except RowError as error:
                    context.bad(path, place, error)
                    continue
                yield "kernels", kernel, place
                if kernel["gpu"] is not None and kernel["status"] is not None:
                    made = measurement_row(kernel, "published", f"{path.name}/{place}", runtime_us=runtime)
                    yield "measurements", made, place
        stream.end()


def _numbers(path: Path) -> list[int]:
    """Every problem number, for what they prove about the numbering; a damaged file is reported by the second pass."""
    found = []
    with JsonStream(path) as stream:
        for key in stream.members():
            stream.value()
            if key.isascii() and key.isdigit():
                found.append(int(key[:9]))
    return found


def _level(path: Path) -> int | None:
    found = LEVEL.search(path.parent.name) or LEVEL.search(path.name)
    return int(found.group(1)) if found else None


def _number(key: str) -> int:
    if not (key.isascii() and key.isdigit() and len(key) < 6):
        raise RowError("problem_id", key, "must be the number of a problem")
    return int(key)


def _samples(value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping) and "compiled" in value:
        yield str(value.get("sample_id", 0)), value
    elif isinstance(value, Mapping):
        yield from ((str(key), record) for key, record in value.items())
    elif isinstance(value, list):
        for number, record in enumerate(value):
            stated = record.get("sample_id") if isinstance(record, Mapping) else None
            yield str(number if stated is None else stated), record
    else:
        raise RowError("samples", value, "must be an object or a list of samples")


def _row(
    path: Path, context: Context, problem: str, where: tuple[int | None, int, str], record: Any
) -> tuple[Row, float | None]:
    if not isinstance(record, Mapping):
        raise RowError("sample", record, "must be an object")
    stats = mapping(record, "runtime_stats") if record.get("runtime_stats") else {}
    metadata = mapping(record, "metadata") if record.get("metadata") else {}
    gpu = context.known("gpu", optional_text(stats, "hardware") or optional_text(metadata, "hardware"))
    if gpu is None:
        context.null("gpu", "the sample names no hardware; state it with --gpu")
    figures = _figures(context, record, stats, metadata)
    backend, source, keys = _source(path, context, where)
    kernel = kernel_row(
        problem, kernelbench.FAMILY, backend, source, gpu=gpu, origin=f"kernelbench-eval {path.name}",
        license=context.settings.license, split=context.settings.split, keys=keys, **figures,
    )  # fmt: skip
    if context.settings.license is None:
        context.null("license", "the file states none; state it with --license")
    return kernel, figures.get("runtime_us")


def _source(path: Path, context: Context, where: tuple[int | None, int, str]) -> tuple[Backend, str, tuple[str, ...]]:
    """The kernel's text, where KernelBench left it beside the results; else what names it."""
    level, number, sample = where
    for name in (f"level_{level}_problem_{number}_sample_{sample}_kernel.py",):
        beside = path.parent / name
        if re.fullmatch(r"\w+", sample) and beside.is_file():
            try:
                text = beside.read_text(encoding="utf-8")
            except (OSError, UnicodeDecodeError) as error:
                raise RowError("kernel file", name, f"cannot be read as text ({error})") from None
            return backend_of(text), text, ()
    context.null("source", "the results hold no kernel text, and none lies beside them; the source names the sample")
    names = {"suite": "kernelbench", "file": path.name, "level": level, "problem": number, "sample": sample}
    return Backend.CONFIG, configuration(names), tuple(names)


def _figures(context: Context, record: Any, stats: Any, metadata: Any) -> Row:
    named = [name for name in RESULTS if name in record]
    if len(named) != 1:
        raise RowError("correctness", None, "exactly one of correctness and correct must be there")
    compiled, correct = truth(record, "compiled"), truth(record, named[0])
    if not compiled:
        return failure(Status.COMPILE_ERROR, _words(metadata, "compilation_error_name", "compilation_error"))
    if not correct:
        ran = metadata.get("runtime_error") is None
        status = Status.INCORRECT if ran else Status.LAUNCH_ERROR
        return failure(status, _words(metadata, "runtime_error_name", "runtime_error", "correctness_issue"))
    runtime = _runtime(record, stats)
    if runtime is None:
        context.null("runtime_us", "the sample holds the mark of a runtime that was not measured (-1, -2 or null)")
        return {"status": Status.OK.value}
    found = microseconds(runtime, context.known("unit", UNIT), "runtime")
    return {"status": Status.OK.value, "runtime_us": found}


def _runtime(record: Any, stats: Any) -> float | None:
    given = [record[name] for name in TIMES if record.get(name) is not None]
    if len(given) > 1 and given[0] != given[1]:
        raise RowError("runtime", given, "runtime and avg_runtime differ")
    runtime = given[0] if given else None
    if runtime is None or runtime in SENTINELS:
        return None
    mean = stats.get("mean")
    if is_number(runtime) and is_number(mean) and not math.isclose(runtime, mean, rel_tol=0.01, abs_tol=0.006):
        raise RowError("runtime", runtime, f"contradicts runtime_stats.mean {mean!r}")
    return runtime  # type: ignore[no-any-return]


def _words(metadata: Any, *names: str) -> str | None:
    return ": ".join(str(metadata[name]) for name in names if metadata.get(name)) or None
