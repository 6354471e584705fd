"""Results of the Kernel Tuning Toolkit (KTT): configurations as lists of parameters, with the unit in the metadata."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kbench.loaders.importers.context import Context
from kbench.loaders.importers.fields import (
    UNITS,
    RowError,
    is_number,
    microseconds,
    name_text,
    plain,
    sequence,
    slug,
    text,
)
from kbench.loaders.importers.files import digest
from kbench.loaders.importers.json_stream import JsonStream, Opening
from kbench.loaders.importers.problems import problem
from kbench.loaders.importers.rows import Items, Row, configuration, failure, kernel_row, measurement_row
from kbench.loaders.importers.suites.t4 import head_of, unit_spelled
from kbench.schemas import Backend, DataError, Status

FAMILY = "auto_tuning"
OK = "Ok"
STATUSES = {
    "CompilationFailed": Status.COMPILE_ERROR,
    "ComputationFailed": Status.LAUNCH_ERROR,
    "ValidationFailed": Status.INCORRECT,
    "DeviceLimitsExceeded": Status.REJECTED,
}


def looks_like(opening: Opening) -> bool:
    """Whether a file may be of this format."""
    return opening.has_keys("Metadata", "Results", "TimeUnit")


def rows(path: Path, context: Context) -> Items:
    """Configurations, and their measurements where the device is named."""
    stated = head_of(path, "Results").get("Metadata")
    metadata: Mapping[str, Any] = stated if isinstance(stated, Mapping) else {}
    try:
        unit = context.known("unit", unit_spelled(metadata.get("TimeUnit"), "TimeUnit"))
        gpu = context.gpu(path, name_text(metadata, "Device"), "the metadata name no device")
    except RowError as error:
        raise DataError(f"{path}: {error}") from None
    with JsonStream(path, context.advance) as stream:
        for key in stream.members():
            if key != "Results":
                stream.value()
                continue
            for number in stream.elements():
                try:
                    row = _row(path, context, stream.value(), unit, gpu)
                except RowError as error:
                    context.bad(path, number, error)
                    continue
                yield "problems", problem(row["problem_id"], FAMILY, f"{row['problem_id']}, tuned with KTT"), number
                yield "kernels", row, number
                if gpu is not None and row["status"] is not None:
                    at = f"{digest(path)}/{number}"
                    yield "measurements", measurement_row(row, "published", at, runtime_us=row["runtime_us"]), number
        stream.end()


def _row(path: Path, context: Context, record: Any, unit: str | None, gpu: str | None) -> Row:
    if not isinstance(record, Mapping):
        raise RowError("result", record, "must be an object")
    given = sequence(record, "Configuration")
    if not given or not all(isinstance(one, Mapping) and isinstance(one.get("Name"), str) for one in given):
        raise RowError("Configuration", given, "must be a list of parameters with Name and Value")
    values = {one["Name"]: one.get("Value") for one in given}
    if len(values) < len(given):
        raise RowError("Configuration", given, "names a parameter twice")
    return kernel_row(
        slug(f"ktt_{text(record, 'KernelName')}", "KernelName"), FAMILY, Backend.CONFIG, configuration(values),
        keys=tuple(sorted(values)), gpu=gpu, origin=f"ktt {plain(path.name)}", license=context.license(),
        split=context.settings.split, proposer="auto_tuner", **_figures(context, record, unit),
    )  # fmt: skip


def _figures(context: Context, record: Mapping[str, Any], unit: str | None) -> Row:
    status = text(record, "Status")
    if status in STATUSES:
        return failure(STATUSES[status], f"the tuner reports: {status}")
    if status != OK:
        raise RowError("Status", status, f"must be {OK} or one of {', '.join(STATUSES)}")
    if unit is None:
        context.null("runtime_us", "the metadata state no time unit; state it with --unit")
        return {"status": Status.OK.value}
    runtime = microseconds(record.get("TotalDuration"), unit, "TotalDuration")
    launches = sequence(record, "ComputationResults") if record.get("ComputationResults") else ()
    parts = [one["Duration"] for one in launches if isinstance(one, Mapping) and is_number(one.get("Duration"))]
    extra = record.get("ExtraDuration")
    whole = (sum(parts) + (extra if is_number(extra) else 0.0)) * UNITS[unit]
    if parts and len(parts) == len(launches) and not math.isclose(whole, runtime, rel_tol=0.01):
        raise RowError("TotalDuration", record["TotalDuration"], f"its launches add up to {whole:g} us")
    return {"status": Status.OK.value, "runtime_us": runtime}
