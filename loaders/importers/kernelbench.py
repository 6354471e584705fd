"""KernelBench: results of samples, timing baselines of the references, and CUDA-L1, which answers the same problems."""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from kbench.loaders.importers import fields
from kbench.loaders.importers.fields import RowError
from kbench.loaders.importers.inputs import kernel_text, stem
from kbench.loaders.importers.json_stream import JsonStream, Opening, json_lines
from kbench.loaders.importers.kernelbench_samples import (
    LEVEL,
    NUMBER,
    RESULTS,
    SAMPLE_FOLDER,
    Sample,
    level_named,
    problems_in,
    samples_in,
)
from kbench.loaders.importers.reader import Context, Entry, Reader
from kbench.loaders.importers.rows import NOT_STATED, Row, Source, failure, named, problem, written
from kbench.loaders.importers.stated_inputs import with_stated_inputs
from kbench.schemas import Status

LAST_OF_LEVEL = {1: 100, 2: 100, 3: 50}
"""Number of the last problem of a level, where problems are numbered from 1."""
SUITES = {"v0": "v0", "v0.1": "v0_1"}
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
        return with_stated_inputs(problem(problem_id, self.FAMILY, title, reference), reference)

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
        outer = self.context.settings.level or level_named(self.path)
        numbered = [(level, NUMBER.fullmatch(key)) for level, key, _ in problems_in(self.path, outer)]
        self._first = self.first_numbers((level, int(match[1]) if match else None) for level, match in numbered)
        self.note_unstated(level=None not in self._first)
        for sample in samples_in(self.path, outer, self.context):
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
        compiled = fields.optional(fields.truth, record, "compiled")
        verdicts = {fields.optional(fields.truth, record, name) for name in RESULTS if name in record}
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
        # Files that timed the reference beside the sample have a speedup.
        is_timed = record.get("ref_runtime") not in (None, *SENTINELS)
        speedup = fields.positive(record, "ref_runtime") / runtime if is_timed else None
        return {"status": Status.OK.value, "runtime_us": runtime_us, "speedup": speedup}


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


def _words(metadata: Mapping[str, Any], *names: str) -> str | None:
    return ": ".join(str(metadata[name]) for name in names if metadata.get(name)) or None


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
        stream = JsonStream(self.path, context.advance if context else lambda _: None)
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
        source = written(fields.source_text(record, "custom_code"))
        scores = fields.an_object(record.get("scores", record), "scores")
        score = next((name for name in SCORES if scores.get(name) is not None), None)
        speedup = None if score is None else fields.positive(scores, score)
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
