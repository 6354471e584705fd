"""Results of auto-tuners: Kernel Tuner caches, T4 files and the Kernel Tuning Toolkit (KTT).

A tuned kernel is a parametric space: a pool whose sources are configurations.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from kbench.loaders.importers.context import Context
from kbench.loaders.importers.fields import (
    UNITS,
    RowError,
    an_object,
    is_number,
    mapping,
    microseconds,
    name_text,
    plain,
    sequence,
    slug,
    text,
)
from kbench.loaders.importers.inputs import digest, gpu_named, stem
from kbench.loaders.importers.json_stream import CutShortError, JsonStream, Opening
from kbench.loaders.importers.rows import Items, Row, configuration, failure, kernel_row, measurement_row, problem
from kbench.schemas import Backend, DataError, Status
from kbench.schemas.ids import content_hash

NAMED_UNITS = {"seconds": "s", "milliseconds": "ms", "microseconds": "us", "nanoseconds": "ns"} | {u: u for u in UNITS}
SPELLED_UNITS = (
    NAMED_UNITS
    | {name.removesuffix("s"): unit for name, unit in NAMED_UNITS.items() if len(name) > 2}
    | {"miliseconds": "ms", "milisecond": "ms", "sec": "s", "msec": "ms", "usec": "us", "µs": "us", "μs": "us"}
)
"""Units as files spell them, in lower case; one l is missing in what Kernel Tuner writes."""

Figures = tuple[Row, list[float] | None]
"""A configuration's verdict and runtime, and the samples behind it."""


@dataclasses.dataclass(frozen=True, slots=True)
class Tuning:
    """What all results of one file share."""

    path: Path
    context: Context
    family: str
    origin: str
    proposer: str
    gpu: str | None
    unit: str | None
    license: str | None

    def items(self, problem_id: str, number: int, values: Mapping[str, Any], figures: Figures, place: object) -> Items:
        """A configuration's kernel, and its measurement where the device is named."""
        fields, samples = figures
        row = kernel_row(
            problem_id, self.family, Backend.CONFIG, configuration(values), keys=tuple(values), gpu=self.gpu,
            origin=self.origin, license=self.license, split=self.context.settings.split, proposer=self.proposer,
            **fields,
        )  # fmt: skip
        yield "kernels", row, place
        if self.gpu is not None and row["status"] is not None:
            at = f"{digest(self.path)}/{number}"
            measured = measurement_row(row, "published", at, runtime_us=row["runtime_us"], samples_us=samples)
            yield "measurements", measured, place


def _head_of(path: Path, results: str) -> dict[str, Any]:
    """Everything but the results, which may stand before it."""
    head: dict[str, Any] = {}
    with JsonStream(path) as stream:
        for key in stream.members():
            if key == results and stream.peek() == "[":
                for _ in stream.elements():
                    stream.value()
            else:
                head[key] = stream.value()
    return head


def _results(path: Path, context: Context, results: str) -> Iterator[tuple[int, Any]]:
    """Each result with its number."""
    with JsonStream(path, context.advance) as stream:
        for key in stream.members():
            if key != results:
                stream.value()
                continue
            for number in stream.elements():
                yield number, stream.value()
        stream.end()


def _unit(stated: object, field: str) -> str | None:
    """A unit as a file spells it; None for none.

    Raises:
        RowError: nobody knows it.
    """
    if stated is None or stated == "":
        return None
    unit = SPELLED_UNITS.get(str(stated).strip().lower())
    if unit is None:
        raise RowError(field, stated, f"must be one of {', '.join(NAMED_UNITS)}")
    return unit


def _samples(given: Mapping[str, Any], field: str, mean: tuple[str, Any], unit: str) -> list[float] | None:
    """The samples behind a mean; a mean outside its own samples is of another unit, or of another run."""
    if given.get(field) is None:
        return None
    samples = [microseconds(value, unit, field) for value in sequence(given, field)]
    runtime = microseconds(mean[1], unit, mean[0])
    if samples and not min(samples) * (1 - 1e-6) <= runtime <= max(samples) * (1 + 1e-6):
        raise RowError(mean[0], mean[1], f"lies outside its {field}, {min(samples):g} to {max(samples):g} us")
    return samples or None


# Kernel Tuner caches. A cache is appended to while tuning runs and closed only at the end, so one that stops after a
# whole entry is taken as it is. Its `time` is a number, or a word when the configuration failed.

CACHE_FAILURES = {
    "CompilationFailedConfig": Status.COMPILE_ERROR,
    "RuntimeFailedConfig": Status.LAUNCH_ERROR,
    "InvalidConfig": Status.REJECTED,
}
OLD_FAILURE = 1e20
"""What caches of before these words hold for a configuration that failed."""
DATED_SCHEMA = "1."
"""Caches that name a schema of version 1 state times in milliseconds; older ones do not say."""


def is_cache(opening: Opening) -> bool:
    """Whether a file may be a cache of Kernel Tuner."""
    return opening.has_keys("tune_params_keys", "cache")


def cache_rows(path: Path, context: Context) -> Items:
    """Configurations of a cache, and their measurements where the device is named."""
    head: dict[str, Any] = {}
    opened = False
    with JsonStream(path, context.advance) as stream:
        try:
            for key in stream.members():
                if key != "cache":
                    head[key] = stream.value()
                    continue
                described, tuning, names = _cache_space(path, head, context)
                opened = True
                yield "problems", described, "the cache"
                for number, entry in enumerate(stream.members(once=False)):
                    record = stream.value()
                    try:
                        values = _cache_values(names, entry, record)
                        figures = _cache_figures(tuning, record)
                    except RowError as error:
                        context.bad(path, entry, error)
                        continue
                    yield from tuning.items(described["problem_id"], number, values, figures, entry)
            stream.end()
        except CutShortError as error:
            if not opened or error.inside_value:
                raise
            context.note("caches that were never closed; taken up to their last whole entry")
    if "tune_params_keys" not in head:
        raise DataError(f"{path} has no tune_params_keys; it is not a Kernel Tuner cache")


def _cache_space(path: Path, head: Mapping[str, Any], context: Context) -> tuple[Row, Tuning, tuple[str, ...]]:
    """A cache's problem, what its configurations share, and the names of its parameters."""
    try:
        names = _cache_names(head)
        kernel, given_size = text(head, "kernel_name"), head.get("problem_size")
        parts = given_size if isinstance(given_size, list) else [given_size]
        size = "x".join(str(part) for part in parts if part is not None)
        # Two spaces of one kernel are two templates: what a parameter may be decides what the code is.
        space = content_hash("space", configuration({"keys": names, "values": head.get("tune_params")}))[:8]
        problem_id = slug("_".join(["kernel_tuner", kernel, size, "s" + space]), "kernel_name")
        gpu = context.gpu(path, name_text(head, "device_name"), "device_name is empty")
        unit = context.known("unit", _cache_unit(head))
    except RowError as error:
        raise DataError(f"{path}: {error}") from None
    title = f"{plain(kernel)} of Kernel Tuner, problem size {size or 'not stated'}"
    described = problem(problem_id, "kernel_tuner", f"{title}, parameters {', '.join(map(plain, names))}")
    origin = f"kernel-tuner {plain(path.name)}"
    tuning = Tuning(path, context, "kernel_tuner", origin, "kernel_tuner", gpu, unit, context.license())
    return described, tuning, names


def _cache_names(head: Mapping[str, Any]) -> tuple[str, ...]:
    names = sequence(head, "tune_params_keys")
    if not names or not all(isinstance(name, str) for name in names):
        raise RowError("tune_params_keys", names, "must be a list of names")
    return tuple(names)


def _cache_unit(head: Mapping[str, Any]) -> str | None:
    stated = head.get("time_unit", head.get("unit"))
    if stated is None:
        return "ms" if str(head.get("schema_version")).startswith(DATED_SCHEMA) else None
    if not isinstance(stated, str) or stated not in UNITS:
        raise RowError("unit", stated, f"must be one of {', '.join(UNITS)}")
    return stated


def _cache_values(names: tuple[str, ...], entry: str, record: Any) -> dict[str, Any]:
    """An entry's configuration."""
    an_object(record, "entry")
    missing = [name for name in names if name not in record]
    if missing:
        raise RowError(missing[0], None, "the entry lacks this tuning parameter")
    values = {name: record[name] for name in names}
    # Keys are written in the order of the space at the time, which later versions sort.
    if sorted(entry.split(",")) != sorted(",".join(str(value) for value in values.values()).split(",")):
        raise RowError("cache key", entry, f"contradicts the entry's parameters {list(values.values())}")
    return values


def _cache_figures(tuning: Tuning, record: Mapping[str, Any]) -> Figures:
    time, context = record.get("time"), tuning.context
    if time is None:
        context.null("runtime_us", "the entry holds no time: it was not measured, or tuned for something else")
        return {}, None
    if isinstance(time, str):
        if time not in CACHE_FAILURES:
            raise RowError("time", time, f"must be a number or one of {', '.join(CACHE_FAILURES)}")
        return failure(CACHE_FAILURES[time], time), None
    if is_number(time) and time >= OLD_FAILURE:
        return failure(Status.REJECTED, "the cache marks the configuration as failed (1e20)"), None
    if not is_number(time) or time <= 0:
        raise RowError("time", time, "must be a positive number, or the word of a failure")
    if tuning.unit is None:
        context.null("runtime_us", "the cache states no unit (Kernel Tuner's own is ms); state it with --unit")
        return {"status": Status.OK.value}, None
    figures = {"status": Status.OK.value, "runtime_us": microseconds(time, tuning.unit, "time")}
    return figures, _samples(record, "times", ("time", time), tuning.unit)


# T4 files. The unit stands beside a measurement, or once in the metadata; the device and the kernel stand in the
# metadata, or only in the names of the file and of its folder.

INVALIDITY = {
    "timeout": Status.TIMEOUT,
    "compile": Status.COMPILE_ERROR,
    "runtime": Status.LAUNCH_ERROR,
    "correctness": Status.INCORRECT,
    "constraints": Status.REJECTED,
}
CORRECT = "correct"
GENERIC = ("results", "t4", "t4_results", "output")
"""Names of files that name no kernel."""


def is_t4(opening: Opening) -> bool:
    """Whether a file may be of T4."""
    return opening.has_keys("results", "configuration", "invalidity")


def t4_rows(path: Path, context: Context) -> Items:
    """Configurations of a T4 file, and their measurements where a device is named."""
    head = _head_of(path, "results")
    stated = head.get("metadata")
    metadata: Mapping[str, Any] = stated if isinstance(stated, Mapping) else {}
    try:
        device = name_text(metadata, "device") or name_text(head, "device_name")
        kernel = name_text(metadata, "kernel_name") or name_text(head, "kernel_name") or _kernel_named(path)
        problem_id = slug(f"t4_{kernel}", "kernel_name")
        unit = _unit(metadata.get("timeunit"), "timeunit")
        gpu = context.gpu(path, device, "the file names no device")
    except RowError as error:
        raise DataError(f"{path}: {error}") from None
    origin = f"t4 {plain(path.name)}"
    tuning = Tuning(path, context, "auto_tuning", origin, "auto_tuner", gpu, unit, context.license())
    yield "problems", problem(problem_id, tuning.family, f"{kernel}, tuned by its configuration"), "metadata"
    for number, record in _results(path, context, "results"):
        try:
            values = _t4_values(an_object(record, "result"))
            figures = _t4_figures(tuning, record)
        except RowError as error:
            context.bad(path, number, error)
            continue
        yield from tuning.items(problem_id, number, values, figures, number)


def _t4_values(record: Mapping[str, Any]) -> dict[str, Any]:
    values = mapping(record, "configuration")
    if not values:
        raise RowError("configuration", values, "must name at least one parameter")
    return dict(sorted(values.items()))


def _kernel_named(path: Path) -> str:
    """The kernel's name where no field has it: the file's, or its folder's when the file's names a GPU or nothing."""
    own = stem(path).removesuffix("_T4").removesuffix("-results")
    return plain(path.absolute().parent.name) if gpu_named(path) or own.lower() in GENERIC else own


def _t4_figures(tuning: Tuning, record: Mapping[str, Any]) -> Figures:
    invalidity, context = text(record, "invalidity"), tuning.context
    if invalidity in INVALIDITY:
        return failure(INVALIDITY[invalidity], f"the tuner reports: {invalidity}"), None
    if invalidity != CORRECT:
        raise RowError("invalidity", invalidity, f"must be {CORRECT} or one of {', '.join(INVALIDITY)}")
    objects = [item for item in sequence(record, "measurements") if isinstance(item, Mapping)]
    times = [item for item in objects if item.get("name") == "time"]
    if len(times) > 1:
        raise RowError("measurements", record["measurements"], "must hold one measurement named time")
    if not times or times[0].get("value") is None:
        context.null("runtime_us", "the result holds no time: it was tuned for something else")
        return {"status": Status.OK.value}, None
    unit = context.known("unit", _unit(times[0].get("unit"), "unit") or tuning.unit)
    if unit is None:
        context.null("runtime_us", "neither the measurement nor the metadata states a unit; state it with --unit")
        return {"status": Status.OK.value}, None
    value, runs = times[0]["value"], record.get("times")
    figures = {"status": Status.OK.value, "runtime_us": microseconds(value, unit, "value")}
    return figures, _samples(runs if isinstance(runs, Mapping) else {}, "runtimes", ("value", value), unit)


# KTT: configurations as lists of parameters, with the unit in the metadata.

KTT_OK = "Ok"
KTT_FAILURES = {
    "CompilationFailed": Status.COMPILE_ERROR,
    "ComputationFailed": Status.LAUNCH_ERROR,
    "ValidationFailed": Status.INCORRECT,
    "DeviceLimitsExceeded": Status.REJECTED,
}


def is_ktt(opening: Opening) -> bool:
    """Whether a file may be of KTT."""
    return opening.has_keys("Metadata", "Results", "TimeUnit")


def ktt_rows(path: Path, context: Context) -> Items:
    """Configurations of KTT results, and their measurements where the device is named."""
    stated = _head_of(path, "Results").get("Metadata")
    metadata: Mapping[str, Any] = stated if isinstance(stated, Mapping) else {}
    try:
        unit = context.known("unit", _unit(metadata.get("TimeUnit"), "TimeUnit"))
        gpu = context.gpu(path, name_text(metadata, "Device"), "the metadata name no device")
    except RowError as error:
        raise DataError(f"{path}: {error}") from None
    for number, record in _results(path, context, "Results"):
        try:
            values = _ktt_values(an_object(record, "result"))
            problem_id = slug(f"ktt_{text(record, 'KernelName')}", "KernelName")
            license_, figures = context.license(), _ktt_figures(context, record, unit)
        except RowError as error:
            context.bad(path, number, error)
            continue
        origin = f"ktt {plain(path.name)}"
        tuning = Tuning(path, context, "auto_tuning", origin, "auto_tuner", gpu, unit, license_)
        yield "problems", problem(problem_id, tuning.family, f"{problem_id}, tuned with KTT"), number
        yield from tuning.items(problem_id, number, values, figures, number)


def _ktt_values(record: Mapping[str, Any]) -> dict[str, Any]:
    given = sequence(record, "Configuration")
    if not given or not all(isinstance(one, Mapping) and isinstance(one.get("Name"), str) for one in given):
        raise RowError("Configuration", given, "must be a list of parameters with Name and Value")
    values = {one["Name"]: one.get("Value") for one in given}
    if len(values) < len(given):
        raise RowError("Configuration", given, "names a parameter twice")
    return dict(sorted(values.items()))


def _ktt_figures(context: Context, record: Mapping[str, Any], unit: str | None) -> Figures:
    status = text(record, "Status")
    if status in KTT_FAILURES:
        return failure(KTT_FAILURES[status], f"the tuner reports: {status}"), None
    if status != KTT_OK:
        raise RowError("Status", status, f"must be {KTT_OK} or one of {', '.join(KTT_FAILURES)}")
    if unit is None:
        context.null("runtime_us", "the metadata state no time unit; state it with --unit")
        return {"status": Status.OK.value}, None
    runtime = microseconds(record.get("TotalDuration"), unit, "TotalDuration")
    launches = sequence(record, "ComputationResults") if record.get("ComputationResults") else ()
    parts = [one["Duration"] for one in launches if isinstance(one, Mapping) and is_number(one.get("Duration"))]
    extra = record.get("ExtraDuration")
    sum_us = (sum(parts) + (extra if is_number(extra) else 0.0)) * UNITS[unit]
    if parts and len(parts) == len(launches) and not math.isclose(sum_us, runtime, rel_tol=0.01):
        raise RowError("TotalDuration", record["TotalDuration"], f"its launches add up to {sum_us:g} us")
    return {"status": Status.OK.value, "runtime_us": runtime}, None
