"""KernelBench results: samples of problems with their verdicts and times, which are milliseconds."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kbench.loaders.importers.context import Context
from kbench.loaders.importers.fields import (
    RowError,
    is_number,
    mapping,
    microseconds,
    name_text,
    optional_positive,
    plain,
    source_text,
)
from kbench.loaders.importers.files import digest, kernel_text
from kbench.loaders.importers.json_stream import Opening
from kbench.loaders.importers.rows import (
    NOT_STATED,
    Items,
    Row,
    Source,
    failure,
    kernel_row,
    measurement_row,
    named,
    written,
)
from kbench.loaders.importers.suites import kernelbench
from kbench.loaders.importers.suites.kernelbench_layout import RESULTS, SAMPLE_FOLDER, Sample, numbers, samples
from kbench.schemas import Status

SENTINELS = (-1, -2)
"""Stored for a runtime that was not measured."""
TIMES = ("runtime", "avg_runtime")
TEXTS = ("kernel_src", "kernel_code", "kernel", "custom_cuda", "custom_code", "generated_kernel", "code", "source")
"""Names records have had for the kernel's text."""
LAUNCHES = ("runtime_error", "cuda_error", "runtime_error_name")
UNIT = "ms"
"""What every runtime is in."""


def looks_like(opening: Opening) -> bool:
    """Whether a file may be of this format."""
    return opening.has_keys("compiled") and any(opening.has_keys(name) for name in RESULTS)


def rows(path: Path, context: Context) -> Items:
    """Kernels, and measurements of those whose GPU is known."""
    outer = context.settings.level or kernelbench.level_named(path)
    found = numbers(path, outer)
    firsts = kernelbench.first_numbers(context.settings, found, context)
    kernelbench.note_unstated(context, None if None in found else 0)
    described: set[str] = set()
    for sample in samples(path, outer, context):
        try:
            problem = kernelbench.problem_id(context.settings, sample.level, sample.number, firsts.get(sample.level))
            kernel = _row(context, problem, sample)
        except RowError as error:
            context.bad(path, sample.place, error)
            continue
        if problem not in described:
            described.add(problem)
            yield "problems", kernelbench.problem_of(problem), sample.place
        yield "kernels", kernel, sample.place
        if kernel["gpu"] is not None and kernel["status"] is not None:
            figures = {name: kernel[name] for name in ("runtime_us", "speedup")}
            place = f"{digest(path)}/{sample.level}/{sample.stated_run}/{sample.place}"
            yield "measurements", measurement_row(kernel, "published", place, **figures), sample.place


def _row(context: Context, problem: str, sample: Sample) -> Row:
    whole = sample.record or {}
    result = mapping(whole, "eval_result") if whole.get("eval_result") else whole
    stats = mapping(result, "runtime_stats") if result.get("runtime_stats") else {}
    # Old records hold at their top what later ones hold in metadata.
    metadata = {**result, **(mapping(result, "metadata") if result.get("metadata") else {})}
    stated = name_text(stats, "hardware") or name_text(metadata, "hardware")
    gpu = context.gpu(sample.path, stated, "the sample names no hardware")
    figures = {} if sample.record is None else _figures(context, result, stats, metadata)
    if sample.record is None:
        context.null("status", "the file holds null where the sample's result would be")
    backend, source, more = _source(context, sample, whole)
    return kernel_row(
        problem, kernelbench.FAMILY, backend, source, gpu=gpu, origin=f"kernelbench-eval {plain(sample.path.name)}",
        license=context.license(name_text(whole, "license")), split=context.settings.split,
        run_id=sample.run, proposer=name_text(whole, "model") or NOT_STATED, **more, **figures,
    )  # fmt: skip


def _source(context: Context, sample: Sample, record: Mapping[str, Any]) -> Source:
    """The kernel's text, in the record or where KernelBench leaves it beside the results; else what names it."""
    for name in TEXTS:
        if isinstance(record.get(name), str) and record[name].strip():
            return written(source_text(record, name))
    folder, level = sample.path.parent, sample.level
    if re.fullmatch(r"\w+", sample.sample):
        name = f"level_{level}_problem_{sample.number}_sample_{sample.sample}_kernel.py"
        places = [folder / name, *(folder / f"level{gap}{level}" / name for gap in ("", "_"))]
        if SAMPLE_FOLDER.fullmatch(folder.name):
            places += [folder / "kernel.py", folder / "kernel_src.py", folder / name]
        for place in places:
            text = kernel_text(place, folder)
            if text is not None:
                return written(text)
    context.null("source", "the results hold no kernel text, and none lies beside them; the source names the sample")
    return named(**sample.names())


def _figures(context: Context, record: Any, stats: Any, metadata: Any) -> Row:
    compiled = _truth(record, "compiled")
    said = {_truth(record, name) for name in RESULTS if name in record}
    if len(said) > 1:
        raise RowError("correctness", [record[name] for name in RESULTS], "correctness and correct differ")
    correct = next(iter(said), None)
    if compiled is False:
        words = ("compilation_error_name", "compilation_error", "other_error", "cuda_error", "runtime_error")
        return failure(Status.COMPILE_ERROR, _words(metadata, *words))
    if compiled is None or correct is None:
        if "compiled" not in record or not said:
            raise RowError("correctness", None, "compiled and correctness must be there; null says that nobody knows")
        context.null("status", "compiled or correctness is null: nobody knows whether the kernel works")
        return {}
    if not correct:
        crashed = any(metadata.get(name) is not None for name in LAUNCHES)
        status = Status.LAUNCH_ERROR if crashed else Status.INCORRECT
        return failure(status, _words(metadata, "runtime_error_name", *LAUNCHES[:2], "correctness_issue"))
    runtime = _runtime(record, stats)
    if runtime is None:
        context.null("runtime_us", "the sample holds the mark of a runtime that was not measured (-1, -2 or null)")
        return {"status": Status.OK.value}
    found = microseconds(runtime, context.known("unit", UNIT), "runtime")
    return {"status": Status.OK.value, "runtime_us": found, "speedup": _speedup(record, runtime)}


def _truth(record: Mapping[str, Any], field: str) -> bool | None:
    value = record.get(field)
    if value is not None and not isinstance(value, bool):
        raise RowError(field, value, "must be true or false")
    return value


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


def _speedup(record: Any, runtime: float) -> float | None:
    """Against the reference that was timed beside the sample, in files that hold one."""
    if record.get("ref_runtime") in (None, *SENTINELS):
        return None
    reference = optional_positive(record, "ref_runtime")
    return None if reference is None else reference / runtime


def _words(metadata: Any, *names: str) -> str | None:
    return ": ".join(str(metadata[name]) for name in names if metadata.get(name)) or None
