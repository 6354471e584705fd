"""Results of auto-tuners: Kernel Tuner caches, T4 files and the Kernel Tuning Toolkit (KTT).

A tuned kernel is a parametric space: a pool whose sources are configurations.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from kbench.loaders.importers import fields
from kbench.loaders.importers.fields import RowError
from kbench.loaders.importers.inputs import gpu_named, stem
from kbench.loaders.importers.json_stream import CutShortError, JsonStream, Opening
from kbench.loaders.importers.reader import Entry, Reader
from kbench.loaders.importers.rows import Row, configuration, failure, problem
from kbench.schemas import Backend, DataError, Status
from kbench.schemas.ids import content_hash

NAMED_UNITS = {"seconds": "s", "milliseconds": "ms", "microseconds": "us", "nanoseconds": "ns"} | {
    u: u for u in fields.UNITS
}
SPELLED_UNITS = (
    NAMED_UNITS
    | {name.removesuffix("s"): unit for name, unit in NAMED_UNITS.items() if len(name) > 2}
    | {"miliseconds": "ms", "milisecond": "ms", "sec": "s", "msec": "ms", "usec": "us", "µs": "us", "μs": "us"}
)
"""Units as files spell them, in lower case; one l is missing in what Kernel Tuner writes."""

Figures = tuple[Row, list[float] | None]
"""A configuration's verdict and runtime, and the samples behind it."""


class TunerReader(Reader):
    """Reads the results of one tuner: configurations, all on the GPU and in the unit of their file."""

    PROPOSER = "auto_tuner"
    FAMILY = "auto_tuning"
    RESULTS = ""
    """Key of the file's list of results."""
    device: str | None = None
    unit: str | None = None

    def configured(
        self, problem: Callable[[], Row], problem_id: str, number: int, values: Mapping[str, Any], figures: Figures
    ) -> Entry:
        """A configuration's kernel, and its measurement."""
        verdict, samples = figures
        source = Backend.CONFIG, configuration(values), {"keys": tuple(values)}
        kernel = self.kernel(problem_id, source, gpu=self.device, proposer=self.PROPOSER, **verdict)
        return Entry(kernel, problem, [self.measured(kernel, number, samples_us=samples)])

    def records(self) -> Iterator[tuple[object, Any]]:
        """Each result with its number; the rest is read before, since device and unit may stand after the results."""
        head: dict[str, Any] = {}
        stream = JsonStream(self.path)
        for key in stream.members():
            if key == self.RESULTS and stream.peek() == "[":
                for _ in stream.elements():
                    stream.value()
            else:
                head[key] = stream.value()
        stated = head.get("metadata", head.get("Metadata"))
        try:
            self.take_head(head, stated if isinstance(stated, Mapping) else {})
        except RowError as error:
            raise DataError(f"{self.path}: {error}") from None
        stream = JsonStream(self.path, self.context.advance)
        for key in stream.members():
            if key != self.RESULTS:
                stream.value()
                continue
            for number in stream.elements():
                yield number, stream.value()
        stream.end()

    def take_head(self, head: Mapping[str, Any], metadata: Mapping[str, Any]) -> None:
        """Set what all configurations share."""


def _unit(stated: object, field: str) -> str | None:
    """A unit as a file spells it; None for none."""
    if stated is None or stated == "":
        return None
    unit = SPELLED_UNITS.get(str(stated).strip().lower())
    return unit or fields.one_of(stated, field, NAMED_UNITS)


def _timed(runtime_us: float | None = None) -> Row:
    return {"status": Status.OK.value, "runtime_us": runtime_us}


def _with_samples(given: Mapping[str, Any], field: str, mean: tuple[str, Any], unit: str) -> Figures:
    """A mean and the samples behind it; a mean outside its own samples is of another unit, or of another run."""
    runtime = fields.microseconds(mean[1], unit, mean[0])
    if given.get(field) is None:
        return _timed(runtime), None
    samples = [fields.microseconds(value, unit, field) for value in fields.sequence(given, field)]
    if samples and not min(samples) * (1 - 1e-6) <= runtime <= max(samples) * (1 + 1e-6):
        raise RowError(mean[0], mean[1], f"lies outside its {field}, {min(samples):g} to {max(samples):g} us")
    return _timed(runtime), samples or None


CACHE_FAILURES = {
    "CompilationFailedConfig": Status.COMPILE_ERROR,
    "RuntimeFailedConfig": Status.LAUNCH_ERROR,
    "InvalidConfig": Status.REJECTED,
}
OLD_FAILURE = 1e20
"""What caches of before these words hold for a configuration that failed."""
DATED_SCHEMA = "1."
"""Caches that name a schema of version 1 state times in milliseconds; older ones do not say."""


class KernelTunerCache(TunerReader):
    """A cache is appended to while tuning runs and closed only at the end, so one that stops after a whole entry is
    taken as it is. Its `time` is a number, or a word when the configuration failed."""

    NAME = "kernel-tuner"
    FAMILY = PROPOSER = "kernel_tuner"

    @staticmethod
    def looks_like(opening: Opening) -> bool:
        return opening.has_keys("tune_params_keys", "cache")

    def records(self) -> Iterator[tuple[object, Any]]:
        head: dict[str, Any] = {}
        opened = False
        stream = JsonStream(self.path, self.context.advance)
        try:
            for key in stream.members():
                if key != "cache":
                    head[key] = stream.value()
                    continue
                self._read_head(head)
                opened = True
                for number, entry in enumerate(stream.members(once=False)):
                    yield entry, (number, stream.value())
            stream.end()
        except CutShortError as error:
            if not opened or error.inside_value:
                raise
            self.context.note("caches that were never closed; taken up to their last whole entry")
        if "tune_params_keys" not in head:
            raise DataError(f"{self.path} has no tune_params_keys; it is not a Kernel Tuner cache")

    def _read_head(self, head: Mapping[str, Any]) -> None:
        """The problem, the names of its parameters, and what all configurations share."""
        names = head.get("tune_params_keys")
        if not isinstance(names, list) or not names or not all(isinstance(name, str) for name in names):
            raise DataError(f"{self.path}: {RowError('tune_params_keys', names, 'must be a list of names')}")
        self._names = tuple(names)
        try:
            kernel, given_size = fields.text(head, "kernel_name"), head.get("problem_size")
            parts = given_size if isinstance(given_size, list) else [given_size]
            size = "x".join(str(part) for part in parts if part is not None)
            # Two spaces of one kernel are two templates: what a parameter may be decides what the code is.
            space = content_hash("space", configuration({"keys": self._names, "values": head.get("tune_params")}))[:8]
            self._problem_id = fields.slug("_".join(["kernel_tuner", kernel, size, "s" + space]), "kernel_name")
            self.device = self.gpu(fields.name_text(head, "device_name"), "device_name is empty")
            unit = head.get("time_unit", head.get("unit"))
            if unit is not None:
                fields.one_of(unit, "unit", fields.UNITS)
            elif str(head.get("schema_version")).startswith(DATED_SCHEMA):
                unit = "ms"
            self.unit = self.context.known("unit", unit)
        except RowError as error:
            raise DataError(f"{self.path}: {error}") from None
        title = f"{fields.plain(kernel)} of Kernel Tuner, problem size {size or 'not stated'}"
        self._title = f"{title}, parameters {', '.join(map(fields.plain, self._names))}"

    def entry(self, place: object, record: Any) -> Entry:
        number, tuned = record
        values = self._values(str(place), fields.an_object(tuned, "entry"))
        return self.configured(
            lambda: problem(self._problem_id, self.FAMILY, self._title), self._problem_id, number, values,
            self._figures(tuned),
        )  # fmt: skip

    def _values(self, key: str, tuned: Mapping[str, Any]) -> dict[str, Any]:
        missing = [name for name in self._names if name not in tuned]
        if missing:
            raise RowError(missing[0], None, "the entry lacks this tuning parameter")
        values = {name: tuned[name] for name in self._names}
        # Keys are written in the order of the space at the time, which later versions sort.
        if sorted(key.split(",")) != sorted(",".join(str(value) for value in values.values()).split(",")):
            raise RowError("cache key", key, f"contradicts the entry's parameters {list(values.values())}")
        return values

    def _figures(self, tuned: Mapping[str, Any]) -> Figures:
        time = tuned.get("time")
        if time is None:
            self.context.null("runtime_us", "the entry holds no time: it was not measured, or tuned for something else")
            return {}, None
        if isinstance(time, str):
            if time not in CACHE_FAILURES:
                raise RowError("time", time, f"must be a number or one of {', '.join(CACHE_FAILURES)}")
            return failure(CACHE_FAILURES[time], time), None
        if fields.is_number(time) and time >= OLD_FAILURE:
            return failure(Status.REJECTED, "the cache marks the configuration as failed (1e20)"), None
        if not fields.is_number(time) or time <= 0:
            raise RowError("time", time, "must be a positive number, or the word of a failure")
        if self.unit is None:
            self.context.null("runtime_us", "the cache states no unit (Kernel Tuner's own is ms); state it with --unit")
            return _timed(), None
        return _with_samples(tuned, "times", ("time", time), self.unit)


INVALIDITY = {
    "correct": Status.OK,
    "timeout": Status.TIMEOUT,
    "compile": Status.COMPILE_ERROR,
    "runtime": Status.LAUNCH_ERROR,
    "correctness": Status.INCORRECT,
    "constraints": Status.REJECTED,
}
GENERIC = ("results", "t4", "t4_results", "output")
"""Names of files that name no kernel."""


class T4(TunerReader):
    """The unit stands beside a measurement, or once in the metadata; the device and the kernel stand in the metadata,
    or only in the names of the file and of its folder."""

    NAME = "t4"
    RESULTS = "results"

    @staticmethod
    def looks_like(opening: Opening) -> bool:
        return opening.has_keys("results", "configuration", "invalidity")

    def take_head(self, head: Mapping[str, Any], metadata: Mapping[str, Any]) -> None:
        device = fields.name_text(metadata, "device") or fields.name_text(head, "device_name")
        named = fields.name_text(metadata, "kernel_name") or fields.name_text(head, "kernel_name")
        # Where no field has it, the file's name does, or its folder's when the file's names a GPU or nothing.
        own = stem(self.path).removesuffix("_T4").removesuffix("-results")
        unnamed = gpu_named(self.path) or own.lower() in GENERIC
        self._kernel = named or (fields.plain(self.path.absolute().parent.name) if unnamed else own)
        self._problem_id = fields.slug(f"t4_{self._kernel}", "kernel_name")
        self.unit = _unit(metadata.get("timeunit"), "timeunit")
        self.device = self.gpu(device, "the file names no device")

    def entry(self, place: object, record: Any) -> Entry:
        values = fields.mapping(fields.an_object(record, "result"), "configuration")
        if not values:
            raise RowError("configuration", values, "must name at least one parameter")
        title = f"{self._kernel}, tuned by its configuration"
        return self.configured(
            lambda: problem(self._problem_id, self.FAMILY, title), self._problem_id, int(str(place)),
            dict(sorted(values.items())), self._figures(record),
        )  # fmt: skip

    def _figures(self, record: Mapping[str, Any]) -> Figures:
        invalidity = fields.one_of(record.get("invalidity"), "invalidity", INVALIDITY)
        if INVALIDITY[invalidity] is not Status.OK:
            return failure(INVALIDITY[invalidity], f"the tuner reports: {invalidity}"), None
        objects = [item for item in fields.sequence(record, "measurements") if isinstance(item, Mapping)]
        times = [item for item in objects if item.get("name") == "time"]
        if len(times) > 1:
            raise RowError("measurements", record["measurements"], "must hold one measurement named time")
        if not times or times[0].get("value") is None:
            self.context.null("runtime_us", "the result holds no time: it was tuned for something else")
            return _timed(), None
        unit = self.context.known("unit", _unit(times[0].get("unit"), "unit") or self.unit)
        if unit is None:
            self.context.null(
                "runtime_us", "neither the measurement nor the metadata states a unit; state it with --unit"
            )
            return _timed(), None
        runs = record.get("times")
        return _with_samples(runs if isinstance(runs, Mapping) else {}, "runtimes", ("value", times[0]["value"]), unit)


KTT_STATUSES = {
    "Ok": Status.OK,
    "CompilationFailed": Status.COMPILE_ERROR,
    "ComputationFailed": Status.LAUNCH_ERROR,
    "ValidationFailed": Status.INCORRECT,
    "DeviceLimitsExceeded": Status.REJECTED,
}


class Ktt(TunerReader):
    """Configurations as lists of parameters, with the unit in the metadata."""

    NAME = "ktt"
    RESULTS = "Results"

    @staticmethod
    def looks_like(opening: Opening) -> bool:
        return opening.has_keys("Metadata", "Results", "TimeUnit")

    def take_head(self, head: Mapping[str, Any], metadata: Mapping[str, Any]) -> None:
        self.unit = self.context.known("unit", _unit(metadata.get("TimeUnit"), "TimeUnit"))
        self.device = self.gpu(fields.name_text(metadata, "Device"), "the metadata name no device")

    def entry(self, place: object, record: Any) -> Entry:
        stated = fields.sequence(fields.an_object(record, "result"), "Configuration")
        if not stated or not all(isinstance(one, Mapping) and isinstance(one.get("Name"), str) for one in stated):
            raise RowError("Configuration", stated, "must be a list of parameters with Name and Value")
        values = {one["Name"]: one.get("Value") for one in stated}
        if len(values) < len(stated):
            raise RowError("Configuration", stated, "names a parameter twice")
        problem_id = fields.slug(f"ktt_{fields.text(record, 'KernelName')}", "KernelName")
        return self.configured(
            lambda: problem(problem_id, self.FAMILY, f"{problem_id}, tuned with KTT"), problem_id, int(str(place)),
            dict(sorted(values.items())), self._figures(record),
        )  # fmt: skip

    def _figures(self, record: Mapping[str, Any]) -> Figures:
        status = fields.one_of(record.get("Status"), "Status", KTT_STATUSES)
        if KTT_STATUSES[status] is not Status.OK:
            return failure(KTT_STATUSES[status], f"the tuner reports: {status}"), None
        if self.unit is None:
            self.context.null("runtime_us", "the metadata state no time unit; state it with --unit")
            return _timed(), None
        runtime = fields.microseconds(record.get("TotalDuration"), self.unit, "TotalDuration")
        launches = fields.sequence(record, "ComputationResults") if record.get("ComputationResults") else ()
        parts = [
            one["Duration"] for one in launches if isinstance(one, Mapping) and fields.is_number(one.get("Duration"))
        ]
        extra = record.get("ExtraDuration")
        sum_us = (sum(parts) + (extra if fields.is_number(extra) else 0.0)) * fields.UNITS[self.unit]
        if parts and len(parts) == len(launches) and not math.isclose(sum_us, runtime, rel_tol=0.01):
            raise RowError("TotalDuration", record["TotalDuration"], f"its launches add up to {sum_us:g} us")
        return _timed(runtime), None
