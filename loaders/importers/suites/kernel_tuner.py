"""Kernel Tuner caches: a parametric space as a pool whose sources are configurations.

A cache is appended to while tuning runs and closed only at the end, so one that stops after a whole entry is taken as
it is. Its `time` is a number, or a word when the configuration failed.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kbench.loaders.importers.context import Context
from kbench.loaders.importers.fields import (
    UNITS,
    RowError,
    is_number,
    microseconds,
    optional_text,
    sequence,
    slug,
    text,
)
from kbench.loaders.importers.json_stream import CutShortError, JsonStream, Opening
from kbench.loaders.importers.rows import Items, Row, configuration, failure, kernel_row, measurement_row
from kbench.schemas import Backend, DataError, Status

FAMILY = "kernel_tuner"
FAILED = {
    "CompilationFailedConfig": Status.COMPILE_ERROR,
    "RuntimeFailedConfig": Status.LAUNCH_ERROR,
    "InvalidConfig": Status.REJECTED,
}
OLD_FAILURE = 1e20
"""What caches of before these words hold for a configuration that failed."""
DATED_SCHEMA = "1.0.0"
"""Caches that name this schema state times in milliseconds; older ones do not say."""


def looks_like(opening: Opening) -> bool:
    """Whether a file may be of this format."""
    return opening.has_keys("tune_params_keys", "cache")


def rows(path: Path, context: Context) -> Items:
    """Configurations, and their measurements where the device is named."""
    head: dict[str, Any] = {}
    opened = False
    with JsonStream(path, context.advance) as stream:
        try:
            for key in stream.members():
                if key != "cache":
                    head[key] = stream.value()
                    continue
                space, opened = _Space(path, head, context), True
                for name in stream.members():
                    record = stream.value()
                    try:
                        row, measurement = space.rows(name, record)
                    except RowError as error:
                        context.bad(path, name, error)
                        continue
                    yield "kernels", row, name
                    if measurement is not None:
                        yield "measurements", measurement, name
            stream.end()
        except CutShortError as error:
            if not opened or error.inside_value:
                raise
            context.note("caches that were never closed; taken up to their last whole entry")
    if "tune_params_keys" not in head:
        raise DataError(f"{path} has no tune_params_keys; it is not a Kernel Tuner cache")


class _Space:
    """One tuned kernel on one device: what all its configurations share."""

    def __init__(self, path: Path, head: Mapping[str, Any], context: Context) -> None:
        try:
            self.keys = tuple(_names(head))
            self.problem = f"kernel_tuner_{slug(text(head, 'kernel_name'), 'kernel_name')}"
            self.gpu = context.known("gpu", optional_text(head, "device_name"))
            self.unit = context.known("unit", _unit(head))
        except RowError as error:
            raise DataError(f"{path}: {error}") from None
        self.context, self.origin, self.file = context, f"kernel-tuner {path.name}", path.name
        if self.gpu is None:
            context.null("gpu", "device_name is empty; state it with --gpu")
        if context.settings.license is None:
            context.null("license", "the file states none; state it with --license")

    def rows(self, name: str, record: Any) -> tuple[Row, Row | None]:
        """A configuration's kernel and measurement."""
        if not isinstance(record, Mapping):
            raise RowError("entry", record, "must be an object")
        missing = [key for key in self.keys if key not in record]
        if missing:
            raise RowError(missing[0], None, "the entry lacks this tuning parameter")
        values = {key: record[key] for key in self.keys}
        if name != ",".join(str(value) for value in values.values()):
            raise RowError("cache key", name, f"contradicts the entry's parameters {list(values.values())}")
        figures, samples = self._figures(record)
        row = kernel_row(
            self.problem, FAMILY, Backend.CONFIG, configuration(values), keys=self.keys, gpu=self.gpu,
            origin=self.origin, license=self.context.settings.license, split=self.context.settings.split,
            proposer="kernel_tuner", **figures,
        )  # fmt: skip
        if self.gpu is None or row["status"] is None:
            return row, None
        measured = measurement_row(
            row, "published", f"{self.file}/{name}", runtime_us=row["runtime_us"], samples_us=samples
        )
        return row, measured

    def _figures(self, record: Mapping[str, Any]) -> tuple[Row, list[float] | None]:
        time = record.get("time")
        if isinstance(time, str):
            if time not in FAILED:
                raise RowError("time", time, f"must be a number or one of {', '.join(FAILED)}")
            return failure(FAILED[time], time), None
        if is_number(time) and time >= OLD_FAILURE:
            return failure(Status.REJECTED, "the cache marks the configuration as failed (1e20)"), None
        if not is_number(time) or time <= 0:
            raise RowError("time", time, "must be a positive number, or the word of a failure")
        if self.unit is None:
            self.context.null("runtime_us", "the cache states no unit; state it with --unit")
            return {"status": Status.OK.value}, None
        runtime = microseconds(time, self.unit, "time")
        return {"status": Status.OK.value, "runtime_us": runtime}, self._samples(record, time)

    def _samples(self, record: Mapping[str, Any], time: float) -> list[float] | None:
        if record.get("times") is None:
            return None
        assert self.unit is not None
        given = sequence(record, "times")
        found = [microseconds(value, self.unit, "times") for value in given]
        # A mean outside its own samples is of another unit, or of another run.
        if found and not min(given) * (1 - 1e-6) <= time <= max(given) * (1 + 1e-6):
            raise RowError("time", time, f"lies outside its times, {min(given)!r} to {max(given)!r}")
        return found or None


def _names(head: Mapping[str, Any]) -> list[str]:
    names = sequence(head, "tune_params_keys")
    if not names or not all(isinstance(name, str) for name in names):
        raise RowError("tune_params_keys", names, "must be a list of names")
    return [str(name) for name in names]


def _unit(head: Mapping[str, Any]) -> str | None:
    stated = head.get("time_unit", head.get("unit"))
    if stated is not None:
        if stated not in UNITS:
            raise RowError("unit", stated, f"must be one of {', '.join(UNITS)}")
        return str(stated)
    return "ms" if head.get("schema_version") == DATED_SCHEMA else None
