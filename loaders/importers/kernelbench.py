"""KernelBench: results of samples, timing baselines of the references, and CUDA-L1, which answers the same problems."""

from __future__ import annotations

import dataclasses
import math
import re
import statistics
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from kbench.loaders.importers import fields
from kbench.loaders.importers.context import Context
from kbench.loaders.importers.fields import RowError
from kbench.loaders.importers.inputs import digest, kernel_text, stem
from kbench.loaders.importers.json_stream import JsonStream, Opening, json_lines
from kbench.loaders.importers.reader import Entry, Reader
from kbench.loaders.importers.rows import NOT_STATED, Row, Source, failure, named, problem, with_workloads, written
from kbench.loaders.importers.stated_inputs import workload_of
from kbench.schemas import Status

LAST_OF_LEVEL = {1: 100, 2: 100, 3: 50}
"""Number of the last problem of a level, where problems are numbered from 1."""
SUITES = {"v0": "v0", "v0.1": "v0_1"}
LEVEL = re.compile(r"(?:^|[^a-z])level[_ -]?([1-9])(?![0-9])", re.IGNORECASE)
First = dict[int | None, int | None]
"""Number of the first problem of each level; None where the file does not show it."""


class KernelBenchReader(Reader):
    """Reads answers to the problems of KernelBench, which files name by suite, level and number."""

    FAMILY = "kernelbench"

    def problem_id(self, level: int | None, number: int | str, first: int | None) -> str:
        """A problem's id. Suites share numbers while shapes changed, so what is not stated is part of the name.

        Args:
            level: 1 to 9; None when not stated.
            number: as the file has it; a name where problems have none.
            first: number of the file's first problem; None when not stated.

        Raises:
            RowError: the number lies before the first.
        """
        suite = SUITES.get(self.context.settings.suite or "", "unstated_suite")
        where = f"l{level}" if level is not None else "unstated_level"
        if isinstance(number, str):
            return f"kernelbench_{suite}_{where}_{number}"
        if first is not None and number < first:
            raise RowError("problem_id", number, f"problems are numbered from {first} in this file")
        # Problems are numbered from 1 in every name that claims to know.
        which = str(number + 1 - first) if first is not None else f"entry_{number}"
        return f"kernelbench_{suite}_{where}_{which}"

    def problem(self, problem_id: str, reference: str = "") -> Row:
        """A problem's row: ours where its id is an alias of one, else its name with its reference and its shapes."""
        title = problem_id.removeprefix("kernelbench_").replace("_", " ")
        row = problem(problem_id, self.FAMILY, title, reference)
        workload = workload_of(reference) if reference else None
        return row if workload is None else with_workloads(row, [workload])

    def first_numbers(self, numbers: Iterable[tuple[int | None, int | None]]) -> First:
        """Number of each level's first problem: stated, or proved by a number that only one way of counting has.

        Args:
            numbers: level and number of every entry; None for an entry whose problem has no number.
        """
        by_level: dict[int | None, set[int]] = {}
        for level, number in numbers:
            by_level.setdefault(level, set()).update([] if number is None else [number])
        if self.context.settings.first_id is not None:
            return dict.fromkeys(by_level, self.context.settings.first_id)
        if any(0 in given for given in by_level.values()):
            return dict.fromkeys(by_level, 0)
        if any(level is not None and LAST_OF_LEVEL.get(level) in given for level, given in by_level.items()):
            return dict.fromkeys(by_level, 1)
        self.context.note(
            "problems whose numbering (from 0 or from 1) is not stated; state it with --kernelbench first-id=N",
            sum(map(len, by_level.values())),
        )
        return dict.fromkeys(by_level, None)

    def note_unstated(self, *, level: bool = True) -> None:
        """Say what would have to be stated for problems to be known ones."""
        if self.context.settings.suite is None:
            self.context.null(
                "suite",
                "the file does not say whether it is KernelBench v0 or v0.1; state it with --kernelbench suite=NAME",
            )
        if not level:
            self.context.null(
                "level", "neither the file nor its folders name a level; state it with --kernelbench level=N"
            )


SENTINELS = (-1, -2)
"""Stored for a runtime that was not measured."""
TIMES = ("runtime", "avg_runtime")
RESULTS = ("correctness", "correct")
TEXTS = ("kernel_src", "kernel_code", "kernel", "custom_cuda", "custom_code", "generated_kernel", "code", "source")
"""Names records have had for the kernel's text."""
LAUNCHES = ("runtime_error", "cuda_error", "runtime_error_name")
UNIT = "ms"
"""What every runtime is in."""


class KernelBenchEval(KernelBenchReader):
    """Samples of problems with their verdicts and times, which are milliseconds."""

    NAME = "kernelbench-eval"

    @staticmethod
    def looks_like(opening: Opening) -> bool:
        return opening.has_keys("compiled") and any(opening.has_keys(name) for name in RESULTS)

    def records(self) -> Iterator[tuple[str, Sample]]:
        outer = self.context.settings.level or _level_named(self.path)
        numbered = [(level, NUMBER.fullmatch(key)) for level, key, _ in _problems(self.path, outer)]
        self._first = self.first_numbers((level, int(match[1]) if match else None) for level, match in numbered)
        self.note_unstated(level=None not in self._first)
        for sample in _samples(self.path, outer, self.context):
            yield sample.place, sample

    def entry(self, place: object, record: Sample) -> Entry:
        problem_id = self.problem_id(record.level, record.number, self._first.get(record.level))
        kernel = self._kernel(problem_id, record)
        where = f"{record.level}/{record.stated_run}/{record.place}"
        return Entry(kernel, lambda: self.problem(problem_id), [self.measured(kernel, where)])

    def _kernel(self, problem_id: str, sample: Sample) -> Row:
        stated = sample.record or {}
        result = fields.mapping(stated, "eval_result") if stated.get("eval_result") else stated
        stats = fields.mapping(result, "runtime_stats") if result.get("runtime_stats") else {}
        # Old records hold at their top what later ones hold in metadata.
        metadata = {**result, **(fields.mapping(result, "metadata") if result.get("metadata") else {})}
        hardware = fields.name_text(stats, "hardware") or fields.name_text(metadata, "hardware")
        gpu = self.gpu(hardware, "the sample names no hardware")
        figures = {} if sample.record is None else self._figures(result, stats, metadata)
        if sample.record is None:
            self.context.null("status", "the file holds null where the sample's result would be")
        return self.kernel(
            problem_id, self._source(sample, stated), gpu=gpu, license=fields.name_text(stated, "license"),
            run_id=sample.run, proposer=fields.name_text(stated, "model") or NOT_STATED, **figures,
        )  # fmt: skip

    def _source(self, sample: Sample, record: Mapping[str, Any]) -> Source:
        """The kernel's text, in the record or where KernelBench leaves it beside the results; else what names it."""
        for name in TEXTS:
            if isinstance(record.get(name), str) and record[name].strip():
                return written(fields.source_text(record, name))
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
        self.context.null(
            "source", "the results hold no kernel text, and none lies beside them; the source names the sample"
        )
        return named(**sample.names())

    def _figures(self, record: Mapping[str, Any], stats: Mapping[str, Any], metadata: Mapping[str, Any]) -> Row:
        compiled = _truth(record, "compiled")
        verdicts = {_truth(record, name) for name in RESULTS if name in record}
        if len(verdicts) > 1:
            raise RowError("correctness", [record[name] for name in RESULTS], "correctness and correct differ")
        correct = next(iter(verdicts), None)
        if compiled is False:
            words = ("compilation_error_name", "compilation_error", "other_error", "cuda_error", "runtime_error")
            return failure(Status.COMPILE_ERROR, _words(metadata, *words))
        if compiled is None or correct is None:
            if "compiled" not in record or not verdicts:
                raise RowError(
                    "correctness", None, "compiled and correctness must be there; null says that nobody knows"
                )
            self.context.null("status", "compiled or correctness is null: nobody knows whether the kernel works")
            return {}
        if not correct:
            crashed = any(metadata.get(name) is not None for name in LAUNCHES)
            status = Status.LAUNCH_ERROR if crashed else Status.INCORRECT
            return failure(status, _words(metadata, "runtime_error_name", *LAUNCHES[:2], "correctness_issue"))
        runtime = _runtime(record, stats)
        if runtime is None:
            self.context.null(
                "runtime_us", "the sample holds the mark of a runtime that was not measured (-1, -2 or null)"
            )
            return {"status": Status.OK.value}
        runtime_us = fields.microseconds(runtime, self.context.known("unit", UNIT), "runtime")
        return {"status": Status.OK.value, "runtime_us": runtime_us, "speedup": _speedup(record, runtime)}


def _level_named(path: Path) -> int | None:
    """The level that a file's name or its folder's states, or a folder above that is named by a level alone."""
    parts = path.absolute().parts[::-1]
    matches = [LEVEL.search(part) for part in parts[:2]] + [LEVEL.fullmatch(part) for part in parts[2:5]]
    return next((int(match.group(1)) for match in matches if match), None)


def _truth(record: Mapping[str, Any], field: str) -> bool | None:
    value = record.get(field)
    if value is not None and not isinstance(value, bool):
        raise RowError(field, value, "must be true or false")
    return value


def _runtime(record: Mapping[str, Any], stats: Mapping[str, Any]) -> float | None:
    times = [record[name] for name in TIMES if record.get(name) is not None]
    if len(times) > 1 and times[0] != times[1]:
        raise RowError("runtime", times, "runtime and avg_runtime differ")
    runtime = times[0] if times else None
    if runtime is None or runtime in SENTINELS:
        return None
    mean = stats.get("mean")
    if (
        fields.is_number(runtime)
        and fields.is_number(mean)
        and not math.isclose(runtime, mean, rel_tol=0.01, abs_tol=0.006)
    ):
        raise RowError("runtime", runtime, f"contradicts runtime_stats.mean {mean!r}")
    return runtime  # type: ignore[no-any-return]


def _speedup(record: Mapping[str, Any], runtime: float) -> float | None:
    """Against the reference that was timed beside the sample, in files that hold one."""
    if record.get("ref_runtime") in (None, *SENTINELS):
        return None
    reference = fields.optional_positive(record, "ref_runtime")
    return None if reference is None else reference / runtime


def _words(metadata: Mapping[str, Any], *names: str) -> str | None:
    return ": ".join(str(metadata[name]) for name in names if metadata.get(name)) or None


# Where results keep their samples, in every nesting they have been written in. A file is an object by problem (under
# levels or not), a list of records, or one record. A problem's value is a record, a list of records, or an object of
# records by sample.

NUMBER = re.compile(r"(?:level_?\d+_)?(?:problem[_ ]?)?(\d{1,5})(?:_.*|\.py)?")
SAMPLE_FOLDER = re.compile(r"sample[_ ]?(\d+)")
RUNS = ("run_name", "run", "model_name", "model")
"""Names for what tells runs apart that sampled the same problems."""


@dataclasses.dataclass(frozen=True, slots=True)
class Sample:
    """One sample of one problem, and what tells it from all others."""

    path: Path
    level: int | None
    number: int
    sample: str
    record: Mapping[str, Any] | None
    stated_run: str | None
    occurrence: int

    @property
    def place(self) -> str:
        """Where in the file it is."""
        again = f" ({self.occurrence})" if self.occurrence > 1 else ""
        return f"{self.number}/{self.sample}{again}"

    @property
    def run(self) -> str:
        """The run it is of: stated, or the name of its file, or of its folder where the file is named as all are."""
        name = stem(self.path)
        generic = name in ("eval_results", "results")
        return self.stated_run or (fields.plain(self.path.absolute().parent.name) if generic else name)

    def names(self) -> dict[str, Any]:
        """What stands for its text where there is none."""
        identity = {"suite": "kernelbench", "run": self.run, "level": self.level, "problem": self.number}
        identity |= {"sample": self.sample} | ({"file": digest(self.path)} if self.stated_run is None else {})
        return identity | ({"occurrence": self.occurrence} if self.occurrence > 1 else {})


def _samples(path: Path, outer: int | None, context: Context) -> Iterator[Sample]:
    """Every sample of a file; what is none is reported as a bad row."""
    seen: Counter[tuple[int | None, int, str | None, str]] = Counter()
    for level, key, value in _problems(path, outer, context):
        try:
            number = _number(key)
            samples = list(_samples_of(path, value))
        except RowError as error:
            context.bad(path, key, error)
            continue
        for sample, record in samples:
            try:
                stated = {} if record is None else fields.an_object(record, "sample")
                run = next((run for name in RUNS if (run := fields.name_text(stated, name))), None)
            except RowError as error:
                context.bad(path, f"{key}/{sample}", error)
                continue
            identity = (level, number, run, sample)
            seen[identity] += 1
            yield Sample(path, level, number, sample, record, run, seen[identity])


def _number(key: str) -> int:
    match = NUMBER.fullmatch(key)
    if match is None:
        raise RowError("problem_id", key, "must be the number of a problem")
    return int(match.group(1))


def _problems(path: Path, outer: int | None, context: Context | None = None) -> Iterator[tuple[int | None, str, Any]]:
    """Level, problem and value of every problem of a file."""
    with JsonStream(path, context.advance if context else lambda _: None) as stream:
        if stream.peek() == "[":
            for _ in stream.elements():
                value = stream.value()
                stated = value if isinstance(value, Mapping) else {}
                level, key = (
                    stated.get(a, stated.get(b)) for a, b in (("level", "level_id"), ("problem_id", "task_id"))
                )
                yield _level(level, outer), str(key), value
        else:
            yield from _members(stream, path, outer)
        stream.end()


def _level(stated: Any, outer: int | None) -> int | None:
    """A record's level: a number, or text such as 2 or level_2; the file's where it states none."""
    match = re.fullmatch(r"(?:level[_ -]?)?([0-9]{1,3})", str(stated), re.IGNORECASE)
    return int(match.group(1)) if match else outer


def _members(stream: JsonStream, path: Path, outer: int | None) -> Iterator[tuple[int | None, str, Any]]:
    record: dict[str, Any] = {}
    for key in stream.members(once=False):
        level = LEVEL.fullmatch(key)
        if level and stream.peek() == "{":
            for inner in stream.members(once=False):
                yield int(level.group(1)), inner, stream.value()
        elif NUMBER.fullmatch(key):
            yield outer, key, stream.value()
        else:
            record[key] = stream.value()
    if record:
        yield outer, _only_problem(path, record), record


def _only_problem(path: Path, record: Mapping[str, Any]) -> str:
    """The problem of a file that is one record: stated, or named by a folder such as problem_9."""
    folders = [part for part in reversed(path.absolute().parts) if re.search(r"problem[_ ]?\d", part)]
    named = re.findall(r"\d+", folders[0])[-1] if folders else " ".join(record)
    return str(record.get("problem_id", named))


def _samples_of(path: Path, value: Any) -> Iterator[tuple[str, Any]]:
    if value is None or (
        isinstance(value, Mapping) and any(name in value for name in ("compiled", *RESULTS, "eval_result"))
    ):
        folder = next((m for part in reversed(path.parts[:-1]) if (m := SAMPLE_FOLDER.fullmatch(part))), None)
        yield str((value or {}).get("sample_id", folder.group(1) if folder else 0)), value
    elif isinstance(value, Mapping):
        yield from ((str(key), record) for key, record in value.items())
    elif isinstance(value, list):
        for number, record in enumerate(value):
            stated = record.get("sample_id") if isinstance(record, Mapping) else None
            yield str(number if stated is None else stated), record
    else:
        raise RowError("samples", value, "must be an object or a list of samples")


FILE_NUMBER = re.compile(r"(\d{1,5})_")
MODE = re.compile(r"(?:baseline_time_)?(?:torch_?)?(?:compile_?)?(.*)")
EAGER = "eager"
PLAUSIBLE_MS = (0.004, 500.0)
"""Between these lies the median time of a file in milliseconds; a file outside is in another unit."""


class KernelBenchTiming(KernelBenchReader):
    """Times of the PyTorch references by level and problem file, in milliseconds. A file is of one mode, which its
    name states: eager, or one of the modes of torch.compile."""

    NAME = "kernelbench-timing"

    @staticmethod
    def looks_like(opening: Opening) -> bool:
        return opening.has_keys("mean", "num_trials", "hardware") and not opening.has_keys("compiled")

    def records(self) -> Iterator[tuple[str, Any]]:
        self.note_unstated()
        means = [record.get("mean") for _, _, record in self._timings() if isinstance(record, Mapping)]
        middle = statistics.median([mean for mean in means if fields.is_number(mean) and mean > 0] or [0.0])
        stated = UNIT if PLAUSIBLE_MS[0] <= middle <= PLAUSIBLE_MS[1] else None
        self._unit = self.context.known("unit", stated)
        if self._unit is None:
            self.context.note("files whose unit is unclear (their median is no time in ms); state it with --unit")
        for number, (level, name, record) in enumerate(self._timings(self.context)):
            yield f"{level}/{name}", (number, level, name, record)

    def _timings(self, context: Context | None = None) -> Iterator[tuple[str, str, Any]]:
        with JsonStream(self.path, context.advance if context else lambda _: None) as stream:
            for level in stream.members():
                for name in stream.members(once=False):
                    yield level, name, stream.value()
            stream.end()

    def entry(self, place: object, record: Any) -> Entry:
        number, level, name, timing = record
        if timing is not None and not isinstance(timing, Mapping):
            raise RowError("timing", timing, "must be an object, or null where there is none")
        level_number, file_number = LEVEL.fullmatch(level), FILE_NUMBER.match(name)
        if level_number is None:
            raise RowError("level", level, "must be level1 to level9")
        # Problem files are named with their number from 1; some of level 4 have a name alone.
        which = int(file_number[1]) if file_number else fields.slug("p " + name.removesuffix(".py"), "problem")
        problem_id = self.problem_id(int(level_number[1]), which, 1)
        hardware = fields.name_text(timing or {}, "hardware")
        gpu = self.gpu(hardware, "the timing names no hardware, and the folder's name is not trusted")
        mode_named = MODE.fullmatch(stem(self.path))
        mode = (mode_named[1] if mode_named else "") or EAGER
        source = named(suite="kernelbench", reference=f"{level}/{fields.plain(name)}", mode=mode)
        kernel = self.kernel(problem_id, source, gpu=gpu, run_id=mode, **self._figures(timing))
        return Entry(kernel, lambda: self.problem(problem_id), [self.measured(kernel, number)])

    def _figures(self, timing: Mapping[str, Any] | None) -> Row:
        if timing is None or timing.get("mean") is None:
            self.context.null("runtime_us", "the file holds null where the problem's time would be")
            return {}
        mean, low, high = (fields.positive(timing, name) for name in ("mean", "min", "max"))
        if not low <= mean <= high:
            raise RowError("mean", mean, f"must lie between min {low!r} and max {high!r}")
        if self._unit is None:
            self.context.null("runtime_us", "the file's unit is unclear")
            return {"status": Status.OK.value}
        return {"status": Status.OK.value, "runtime_us": fields.microseconds(mean, self._unit, "mean")}


SCORES = ("score_default", "default")
"""The score against PyTorch as it is; other baselines are not our reference."""
SUSPECT = 100.0
NO_CODE = "entries without code: failed, or slower than every baseline; so the speedups are truncated at 1"


class CudaL1(KernelBenchReader):
    """JSON lines with reference, optimised code and scores; entries without code are failures nobody can see. A file
    is of one GPU, which its name states alone."""

    NAME = "cuda-l1"

    @staticmethod
    def looks_like(opening: Opening) -> bool:
        return opening.first_line is not None and {"level_id", "task_id", "custom_code"} <= set(opening.first_line)

    def records(self) -> Iterator[tuple[int, Any]]:
        self.note_unstated()
        stated = (record for _, record in json_lines(self.path) if isinstance(record, Mapping))
        numbers = ((record.get("level_id"), record.get("task_id")) for record in stated)
        self._first = self.first_numbers(
            (level, task) for level, task in numbers if isinstance(level, int) and isinstance(task, int)
        )
        return json_lines(self.path, self.context.advance)

    def entry(self, place: object, record: Any) -> Entry | str:
        fields.an_object(record, "record")
        level, task = fields.whole(record, "level_id", 1), fields.whole(record, "task_id")
        if "custom_code" not in record:
            raise RowError("custom_code", None, "must be there; null says that there is none")
        if record["custom_code"] is None:
            return NO_CODE
        source, speedup = written(fields.source_text(record, "custom_code")), _score(record)
        if speedup is None:
            self.context.null("speedup", "no score against PyTorch as it is")
        elif speedup > SUSPECT:
            self.context.note(f"speedups above {SUSPECT:g}, which look like artefacts; kept as stated")
        kernel = self.kernel(
            self.problem_id(level, task, self._first.get(level)), source, gpu=self.gpu(None, "the file states none"),
            proposer="llm", status=None if speedup is None else Status.OK.value, speedup=speedup,
        )  # fmt: skip
        return Entry(
            kernel, lambda: self._described(kernel["problem_id"], record.get("ref_code")),
            [self.measured(kernel, place)],
        )  # fmt: skip

    def _described(self, problem_id: str, reference: Any) -> Row:
        fits = isinstance(reference, str) and reference.isascii() and len(reference) <= fields.LARGEST_SOURCE
        row = self.problem(problem_id, fields.plain(reference) if fits else "")
        if not row["workloads"]:
            self.context.null("workloads", "get_inputs is missing, or its shapes are not plain to see")
        return row


def _score(record: Mapping[str, Any]) -> float | None:
    scores = record.get("scores", record)
    if not isinstance(scores, Mapping):
        raise RowError("scores", scores, "must be an object")
    for name in SCORES:
        if scores.get(name) is not None:
            return fields.positive(scores, name)
    return None
