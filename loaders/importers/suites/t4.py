"""T4 results of auto-tuners: configurations with their measurements.

The unit stands beside a measurement, or once in the metadata; the device and the kernel stand in the metadata, or only
in the names of the file and of its folder.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kbench.loaders.importers.context import Context
from kbench.loaders.importers.fields import (
    UNITS,
    RowError,
    mapping,
    microseconds,
    name_text,
    plain,
    sequence,
    slug,
    text,
)
from kbench.loaders.importers.files import digest, gpu_named, stem
from kbench.loaders.importers.json_stream import JsonStream, Opening
from kbench.loaders.importers.problems import problem
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
GENERIC = ("results", "t4", "t4_results", "output")
"""Names of files that name no kernel."""
NAMED = {"seconds": "s", "milliseconds": "ms", "microseconds": "us", "nanoseconds": "ns"} | {u: u for u in UNITS}
SPELLED = (
    NAMED
    | {name.removesuffix("s"): unit for name, unit in NAMED.items() if len(name) > 2}
    | {"miliseconds": "ms", "milisecond": "ms", "sec": "s", "msec": "ms", "usec": "us", "µs": "us", "μs": "us"}
)
"""Units as files spell them, in lower case; one l is missing in what Kernel Tuner writes."""


def looks_like(opening: Opening) -> bool:
    """Whether a file may be of this format."""
    return opening.has_keys("results", "configuration", "invalidity")


def rows(path: Path, context: Context) -> Items:
    """Configurations, and their measurements where a device is named."""
    space = _Space(path, head_of(path, "results"), context)
    yield "problems", space.described(), "metadata"
    with JsonStream(path, context.advance) as stream:
        for key in stream.members():
            if key != "results":
                stream.value()
                continue
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


def head_of(path: Path, results: str) -> dict[str, Any]:
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


def unit_spelled(stated: object, field: str) -> str | None:
    """A unit as a file spells it; None for none.

    Raises:
        RowError: nobody knows it.
    """
    if stated is None or stated == "":
        return None
    found = SPELLED.get(str(stated).strip().lower())
    if found is None:
        raise RowError(field, stated, f"must be one of {', '.join(NAMED)}")
    return found


class _Space:
    """What all results of one file share."""

    def __init__(self, path: Path, head: Mapping[str, Any], context: Context) -> None:
        stated = head.get("metadata")
        metadata: Mapping[str, Any] = stated if isinstance(stated, Mapping) else {}
        try:
            device = name_text(metadata, "device") or name_text(head, "device_name")
            self.name = name_text(metadata, "kernel_name") or name_text(head, "kernel_name") or _kernel_named(path)
            self.problem = slug(f"t4_{self.name}", "kernel_name")
            self.unit = unit_spelled(metadata.get("timeunit"), "timeunit")
            self.gpu = context.gpu(path, device, "the file names no device")
        except RowError as error:
            raise DataError(f"{path}: {error}") from None
        self.context, self.origin, self.file = context, f"t4 {plain(path.name)}", digest(path)
        self.license = context.license()

    def described(self) -> Row:
        """The problem's row."""
        return problem(self.problem, FAMILY, f"{self.name}, tuned by its configuration")

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
            origin=self.origin, license=self.license, split=self.context.settings.split,
            proposer="auto_tuner", **figures,
        )  # fmt: skip
        if self.gpu is None or row["status"] is None:
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
        if len(times) > 1:
            raise RowError("measurements", record["measurements"], "must hold one measurement named time")
        if not times or times[0].get("value") is None:
            self.context.null("runtime_us", "the result holds no time: it was tuned for something else")
            return {"status": Status.OK.value}, None
        unit = self.context.known("unit", unit_spelled(times[0].get("unit"), "unit") or self.unit)
        if unit is None:
            self.context.null(
                "runtime_us", "neither the measurement nor the metadata states a unit; state it with --unit"
            )
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


def _kernel_named(path: Path) -> str:
    """The kernel's name where no field has it: the file's, or its folder's when the file's names a GPU or nothing."""
    own = stem(path).removesuffix("_T4").removesuffix("-results")
    return plain(path.absolute().parent.name) if gpu_named(path) or own.lower() in GENERIC else own
