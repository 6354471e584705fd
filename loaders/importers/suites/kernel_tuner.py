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
    name_text,
    plain,
    sequence,
    slug,
    text,
)
from kbench.loaders.importers.files import digest
from kbench.loaders.importers.json_stream import CutShortError, JsonStream, Opening
from kbench.loaders.importers.problems import problem
from kbench.loaders.importers.rows import Items, Row, configuration, failure, kernel_row, measurement_row
from kbench.schemas import Backend, DataError, Status
from kbench.schemas.ids import content_hash

FAMILY = "kernel_tuner"
FAILED = {
    "CompilationFailedConfig": Status.COMPILE_ERROR,
    "RuntimeFailedConfig": Status.LAUNCH_ERROR,
    "InvalidConfig": Status.REJECTED,
}
OLD_FAILURE = 1e20
"""What caches of before these words hold for a configuration that failed."""
DATED_SCHEMA = "1."
"""Caches that name a schema of version 1 state times in milliseconds; older ones do not say."""


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
                yield "problems", space.described(), "the cache"
                for number, name in enumerate(stream.members(once=False)):
                    record = stream.value()
                    try:
                        row, measurement = space.rows(number, name, record)
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
            self.kernel = text(head, "kernel_name")
            self.size = _size(head.get("problem_size"))
            # Two spaces of one kernel are two templates: what a parameter may be decides what the code is.
            space = content_hash("space", configuration({"keys": self.keys, "values": head.get("tune_params")}))[:8]
            self.problem = slug("_".join(["kernel_tuner", self.kernel, self.size, "s" + space]), "kernel_name")
            self.gpu = context.gpu(path, name_text(head, "device_name"), "device_name is empty")
            self.unit = context.known("unit", _unit(head))
        except RowError as error:
            raise DataError(f"{path}: {error}") from None
        self.context, self.origin, self.file = context, f"kernel-tuner {plain(path.name)}", digest(path)
        self.license = context.license()

    def described(self) -> Row:
        """The problem's row."""
        title = f"{plain(self.kernel)} of Kernel Tuner, problem size {self.size or 'not stated'}"
        return problem(self.problem, FAMILY, f"{title}, parameters {', '.join(map(plain, self.keys))}")

    def rows(self, number: int, name: str, record: Any) -> tuple[Row, Row | None]:
        """A configuration's kernel and measurement."""
        if not isinstance(record, Mapping):
            raise RowError("entry", record, "must be an object")
        missing = [key for key in self.keys if key not in record]
        if missing:
            raise RowError(missing[0], None, "the entry lacks this tuning parameter")
        values = {key: record[key] for key in self.keys}
        # Keys are written in the order of the space at the time, which later versions sort.
        if sorted(name.split(",")) != sorted(",".join(str(value) for value in values.values()).split(",")):
            raise RowError("cache key", name, f"contradicts the entry's parameters {list(values.values())}")
        figures, samples = self._figures(record)
        row = kernel_row(
            self.problem, FAMILY, Backend.CONFIG, configuration(values), keys=self.keys, gpu=self.gpu,
            origin=self.origin, license=self.license, split=self.context.settings.split,
            proposer="kernel_tuner", **figures,
        )  # fmt: skip
        if self.gpu is None or row["status"] is None:
            return row, None
        measured = measurement_row(
            row, "published", f"{self.file}/{number}", runtime_us=row["runtime_us"], samples_us=samples
        )
        return row, measured

    def _figures(self, record: Mapping[str, Any]) -> tuple[Row, list[float] | None]:
        time = record.get("time")
        if time is None:
            self.context.null("runtime_us", "the entry holds no time: it was not measured, or tuned for something else")
            return {}, None
        if isinstance(time, str):
            if time not in FAILED:
                raise RowError("time", time, f"must be a number or one of {', '.join(FAILED)}")
            return failure(FAILED[time], time), None
        if is_number(time) and time >= OLD_FAILURE:
            return failure(Status.REJECTED, "the cache marks the configuration as failed (1e20)"), None
        if not is_number(time) or time <= 0:
            raise RowError("time", time, "must be a positive number, or the word of a failure")
        if self.unit is None:
            self.context.null("runtime_us", "the cache states no unit (Kernel Tuner's own is ms); state it with --unit")
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
        if not isinstance(stated, str) or stated not in UNITS:
            raise RowError("unit", stated, f"must be one of {', '.join(UNITS)}")
        return stated
    return "ms" if str(head.get("schema_version")).startswith(DATED_SCHEMA) else None


def _size(value: Any) -> str:
    """A problem size as part of a name: 4096 or [4096, 4096] or text."""
    parts = value if isinstance(value, list) else [value]
    return "x".join(str(part) for part in parts if part is not None)
