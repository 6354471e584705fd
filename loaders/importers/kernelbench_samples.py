"""Where results of KernelBench keep their samples, in every nesting they have been written in.

A file is an object by problem (under levels or not), a list of records, or one record. A problem's value is a record,
a list of records, or an object of records by sample.
"""

from __future__ import annotations

import dataclasses
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from kbench.loaders.importers import fields
from kbench.loaders.importers.fields import RowError
from kbench.loaders.importers.inputs import digest, stem
from kbench.loaders.importers.json_stream import JsonStream
from kbench.loaders.importers.reader import Context

LEVEL = re.compile(r"(?:^|[^a-z])level[_ -]?([1-9])(?![0-9])", re.IGNORECASE)
RESULTS = ("correctness", "correct")
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


def samples_in(path: Path, outer: int | None, context: Context) -> Iterator[Sample]:
    """Every sample of a file; what is none is reported as a bad row."""
    seen: Counter[tuple[int | None, int, str | None, str]] = Counter()
    for level, key, value in problems_in(path, outer, context):
        match = NUMBER.fullmatch(key)
        if match is None:
            context.bad(path, key, RowError("problem_id", key, "must be the number of a problem"))
            continue
        number = int(match[1])
        try:
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


def problems_in(path: Path, outer: int | None, context: Context | None = None) -> Iterator[tuple[int | None, str, Any]]:
    """Level, problem and value of every problem of a file."""
    stream = JsonStream(path, context.advance if context else lambda _: None)
    if stream.peek() == "[":
        for _ in stream.elements():
            value = stream.value()
            stated = value if isinstance(value, Mapping) else {}
            level, key = (stated.get(a, stated.get(b)) for a, b in (("level", "level_id"), ("problem_id", "task_id")))
            # A level is a number, or text such as 2 or level_2.
            match = re.fullmatch(r"(?:level[_ -]?)?([0-9]{1,3})", str(level), re.IGNORECASE)
            yield int(match[1]) if match else outer, str(key), value
    else:
        yield from _members(stream, path, outer)
    stream.end()


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
        # The file is one record, whose problem it states, or a folder such as problem_9 names.
        folders = [part for part in reversed(path.absolute().parts) if re.search(r"problem[_ ]?\d", part)]
        named = re.findall(r"\d+", folders[0])[-1] if folders else " ".join(record)
        yield outer, str(record.get("problem_id", named)), record


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


def level_named(path: Path) -> int | None:
    """The level that a file's name or its folder's states, or a folder above that is named by a level alone."""
    parts = path.absolute().parts[::-1]
    matches = [LEVEL.search(part) for part in parts[:2]] + [LEVEL.fullmatch(part) for part in parts[2:5]]
    return next((int(match.group(1)) for match in matches if match), None)
