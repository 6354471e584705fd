"""T4 results of auto-tuners: configurations with their measurements, which state their units."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kbench.loaders.importers.context import Context
from kbench.loaders.importers.fields import UNITS, RowError, mapping, microseconds, optional_text, sequence, slug, text
from kbench.loaders.importers.json_stream import JsonStream, Opening
from kbench.loaders.importers.rows import Items, Row, configuration, failure, kernel_row, measurement_row
from kbench.schemas import Backend, DataError, Status

FAMILY = "auto_tuning"
INVALIDITY = {
    "timeout": Status.TIMEOUT,
    "compile": Status.COMPILE_ERROR,
    "runtime": Status.LAUNCH_ERROR,
    "correctness": Status.INCORRECT,
    "constraints": Status.REJECTED,
}
CORRECT = "correct"
NAMED = {"seconds": "s", "milliseconds": "ms", "microseconds": "us", "nanoseconds": "ns"} | {u: u for u in UNITS}


def looks_like(opening: Opening) -> bool:
    """Whether a file may be of this format."""
    return opening.has_keys("results", "configuration", "invalidity")


def rows(path: Path, context: Context) -> Items:
    """Configurations, and their measurements where a device is named."""
    head: dict[str, Any] = {}
    with JsonStream(path, context.advance) as stream:
        for key in stream.members():
            if key != "results":
                head[key] = stream.value()
                continue
            space = _Space(path, head, context)
            for number in stream.elements():
                try:
                    row, measurement = space.rows(number, stream.value())
                except RowError as error:
                    context.bad(path, number, error)
                    continue
                yield "kernels", row, number
                if measurement is not None:
                    yield "measurements", measurement, number
        stream.end()
    if "schema_version" not in head:
        raise DataError(f"{path} has no schema_version; it is not a T4 file")


class _Space:
    """What all results of one file share."""

    def __init__(self, path: Path, head: Mapping[str, Any], context: Context) -> None:
        metadata = head.get("metadata") if isinstance(head.get("metadata"), Mapping) else {}
        assert isinstance(metadata, Mapping)
        try:
            named = optional_text(metadata, "device") or optional_text(head, "device_name")
            name = optional_text(metadata, "kernel_name") or optional_text(head, "kernel_name") or path.stem
            self.problem = f"t4_{slug(name, 'kernel_name')}"
        except RowError as error:
            raise DataError(f"{path}: {error}") from None
        self.gpu = context.known("gpu", named)
        self.context, self.origin, self.file = context, f"t4 {path.name}", path.name
        if self.gpu is None:
            context.null("gpu", "the file names no device; state it with --gpu")
        if context.settings.license is None:
            context.null("license", "the file states none; state it with --license")

    def rows(self, number: int, record: Any) -> tuple[Row, Row | None]:
        """A result's kernel and measurement."""
        if not isinstance(record, Mapping):
            raise RowError("result", record, "must be an object")
        values = mapping(record, "configuration")
        if not values:
            raise RowError("configuration", values, "must name at least one parameter")
        figures, samples = self._figures(record)
        row = kernel_row(
            self.problem, FAMILY, Backend.CONFIG, configuration(values), keys=tuple(sorted(values)), gpu=self.gpu,
            origin=self.origin, license=self.context.settings.license, split=self.context.settings.split,
            proposer="auto_tuner", **figures,
        )  # fmt: skip
        if self.gpu is None:
            return row, None
        place = f"{self.file}/{number}"
        return row, measurement_row(row, "published", place, runtime_us=row["runtime_us"], samples_us=samples)

    def _figures(self, record: Mapping[str, Any]) -> tuple[Row, list[float] | None]:
        invalidity = text(record, "invalidity")
        if invalidity in INVALIDITY:
            return failure(INVALIDITY[invalidity], f"the tuner reports: {invalidity}"), None
        if invalidity != CORRECT:
            raise RowError("invalidity", invalidity, f"must be {CORRECT} or one of {', '.join(INVALIDITY)}")
        named = [item for item in sequence(record, "measurements") if isinstance(item, Mapping)]
        times = [item for item in named if item.get("name") == "time"]
        if len(times) != 1:
            raise RowError("measurements", record["measurements"], "must hold one measurement named time")
        stated = times[0].get("unit")
        if stated and str(stated) not in NAMED:
            raise RowError("unit", stated, f"must be one of {', '.join(NAMED)}")
        unit = self.context.known("unit", NAMED.get(str(stated)))
        if unit is None:
            self.context.null("runtime_us", "the measurement states no unit; state it with --unit")
            return {"status": Status.OK.value}, None
        runtime = microseconds(times[0].get("value"), unit, "value")
        return {"status": Status.OK.value, "runtime_us": runtime}, self._samples(record, unit, runtime)

    def _samples(self, record: Mapping[str, Any], unit: str, runtime: float) -> list[float] | None:
        times = record.get("times")
        if not isinstance(times, Mapping) or times.get("runtimes") is None:
            return None
        found = [microseconds(value, unit, "runtimes") for value in sequence(times, "runtimes")]
        if found and not min(found) * (1 - 1e-6) <= runtime <= max(found) * (1 + 1e-6):
            raise RowError("value", runtime, f"lies outside its runtimes, {min(found):g} to {max(found):g} us")
        return found or None
