"""Databases of evolutionary searches by OpenEvolve and its relatives: programs with parents, islands and scores.

Two forms are read below a folder, and each text is counted once:

- a program: `programs/ID.json` or `solutions/ID.json` with its text, parent, island, iteration and evaluation;
- an evaluation: `evaluation_result.json` beside the text it is about, as the searches' evaluators leave them.

A checkpoint repeats every program that is still alive, so that one program lies in many files.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from kbench.loaders.importers import fields
from kbench.loaders.importers.fields import RowError
from kbench.loaders.importers.inputs import files_below, kernel_text, read_inside
from kbench.loaders.importers.reader import Entry, Reader
from kbench.loaders.importers.rows import Row, backend_of, failure, measurement_row, problem, written
from kbench.loaders.importers.traces import definition_in
from kbench.schemas import Status
from kbench.schemas.ids import content_hash, kernel_id

EVALUATION = "evaluation_result.json"
PROGRAM_FOLDERS = ("programs", "solutions")
STATUSES = {"success": Status.OK, "validation_failed": Status.INCORRECT, "execution_failed": Status.LAUNCH_ERROR}
NOT_THE_KERNELS = ("framework_error",)
"""Failures of the search, not of the program."""
COMPILE = ("compilation failed", "compile_error")
TIMES = {
    "exec_time_ms": "ms", "execution_time_ms": "ms", "latency_ms": "ms", "runtime_ms": "ms", "time_ms": "ms",
    "runtime_us": "us", "latency_us": "us", "time_us": "us",
}  # fmt: skip
"""Metrics that are a time, with the unit of their name. A score alone says nothing about time."""
SPEEDUPS = ("speedup", "speed_up", "mean_speedup", "geomean_speedup")
"""Metrics that are a speedup. Scores of one (`speedup_score`) are scaled by rules of their own and are not read."""
COMPILED = ("compiled", "compiles")
CORRECT = ("correct", "correctness", "correctness_score", "is_valid", "validity")
"""Metrics that are a verdict: true, or all of its tests, is 1."""
NAMED_UNREAD = 12
"""Metrics that are not read and are named in the report."""
NO_TEXT, NO_RESULT = "evaluations without a text", "texts without an evaluation"
TEXTS = ("llm_code_*", "program.*", "solution.*")
"""Names of a text that an evaluation lies beside."""

Program = Mapping[str, Any]


@dataclasses.dataclass(slots=True)
class Node:
    """A text of a search, and where it stands in it."""

    place: str
    """The file that holds it."""
    program: Program
    source: str
    search: str

    @property
    def key(self) -> tuple[str, str]:
        """What tells it from other texts: a program lies in many checkpoints."""
        return self.search, content_hash(self.source)


class OpenEvolve(Reader):
    """One kernel per text that was evaluated, with its parent and iteration; its measurement where it was timed."""

    NAME = FAMILY = "openevolve"
    BY_FOLDER = PROBLEM_STATED = True

    @staticmethod
    def folder_fits(folder: Path) -> bool:
        return any(path.name == EVALUATION or path.parent.name in PROGRAM_FOLDERS
                   for path in files_below(folder, "*.json"))  # fmt: skip

    def records(self) -> Iterator[tuple[str, tuple[Node, Any]]]:
        self._read_database()
        evaluated = set()
        for path in files_below(self.path, EVALUATION):
            place = path.relative_to(self.path).as_posix()
            try:
                texts = list(files_below(path.parent, *TEXTS))
                source = kernel_text(texts[0], self.path) if len(texts) == 1 else None
                result = None if source is None else self._read(path, place)
            except RowError as error:
                self.context.bad(self.path, place, error)
                continue
            if source is None or result is None:
                self.context.became(self.path, NO_TEXT)
                continue
            node = Node(place, {}, source, _search(place))
            node.program = self._nodes[node.key].program if node.key in self._nodes else {}
            evaluated.add(node.key)
            yield place, (node, result)
        for path in files_below(self.path, TEXTS[0]):
            if not (path.parent / EVALUATION).is_file():
                self.context.became(self.path, NO_RESULT)
        # Programs that no evaluation on file is about, with the evaluation that the database keeps.
        for node in self._nodes.values():
            if node.key not in evaluated:
                evaluation = node.program.get("evaluation") or {"status": None, "metrics": node.program.get("metrics")}
                with contextlib.suppress(RowError):  # an evaluation that cannot be read is none
                    evaluation = (
                        fields.json_value(evaluation, "evaluation", node.place)
                        if isinstance(evaluation, str)
                        else evaluation
                    )
                yield node.place, (node, evaluation if isinstance(evaluation, Mapping) else {})

    def _read(self, path: Path, place: str) -> Program:
        data = read_inside(path, self.path) or b""
        self.context.advance(len(data))
        return fields.an_object(fields.json_value(data, "evaluation", place), "evaluation")

    def _read_database(self) -> None:
        """The programs of the folder by search and text, each as its last checkpoint has it; their texts by id."""
        self._nodes: dict[tuple[str, str], Node] = {}
        self._texts: dict[tuple[str, str], str] = {}
        for path in files_below(self.path, "*.json"):
            if path.parent.name not in PROGRAM_FOLDERS:
                continue
            place = path.relative_to(self.path).as_posix()
            try:
                program = self._read(path, place)
                source = fields.source_text(program, "solution" if "solution" in program else "code")
            except RowError as error:
                self.context.bad(self.path, place, error)
                continue
            node = Node(place, program, source, _search(place))
            identity = program.get("solution_id", program.get("id"))
            if isinstance(identity, str):
                self._texts[node.search, identity] = source
            self._nodes[node.key] = node
        self._iterations = self._read_iterations()

    def _read_iterations(self) -> dict[tuple[str, str], int]:
        """The first iteration whose folder holds a text, by search and text."""
        first: dict[tuple[str, str], int] = {}
        for path in files_below(self.path, "solution_*.py"):
            parts = path.relative_to(self.path).parts
            at = next((n for n, part in enumerate(parts[:-1]) if part == "iteration"), None)
            if at is None or not parts[at + 1].isdigit():
                continue
            try:
                source = kernel_text(path, self.path) or ""
            except RowError as error:
                self.context.bad(self.path, "/".join(parts), error, entry=False)
                continue
            key = (fields.plain("/".join(parts[:at])), content_hash(source))
            first[key] = min(int(parts[at + 1]), first.get(key, int(parts[at + 1])))
        return first

    def entry(self, place: object, record: Any) -> Entry:
        node, result = record
        metrics = fields.an_object(result.get("metrics") or {}, "metrics")
        artifacts = fields.an_object(result.get("artifacts") or {}, "artifacts")
        named = fields.name_text(artifacts, "task_id")
        stated = self.context.settings.problem
        problem_id = (
            fields.slug(stated, "problem") if stated else fields.slug(f"openevolve_{named or node.search}", "task_id")
        )
        program = node.program
        step = self._iterations.get(node.key, program.get("iteration", program.get("iteration_found")))
        kernel = self.kernel(
            problem_id, written(node.source), gpu=self.gpu(None, "the search names no GPU"), proposer="llm",
            search_method="evolve", run_id=node.search, step=_count(step) or 0,
            parent_id=self._parent_id(problem_id, node), generation=_count(program.get("generation")),
            **self._figures(result, metrics),
        )  # fmt: skip
        evaluated = content_hash("evaluation", json.dumps(result, sort_keys=True))[:12]
        return Entry(kernel, lambda: self._problem(problem_id), [measurement_row(kernel, "published", evaluated)])

    def _parent_id(self, problem_id: str, node: Node) -> str | None:
        """The kernel it was made from; a copy that differs in blanks alone is the same kernel, and no child."""
        parent = self._texts.get((node.search, str(node.program.get("parent_id"))))
        if parent is None:
            return None
        ids = [kernel_id(problem_id, backend_of(source), source) for source in (parent, node.source)]
        return ids[0] if ids[0] != ids[1] else None

    def _figures(self, result: Program, metrics: Program) -> Row:
        """Verdict, time and speedup of an evaluation; a score states none of them."""
        unread = sorted(set(metrics) - {*TIMES, *SPEEDUPS, *COMPILED, *CORRECT})
        if unread:
            named = ", ".join(fields.plain(name) for name in unread[:NAMED_UNREAD])
            self.context.note(f"metrics found and not read: {named}{', …' if len(unread) > NAMED_UNREAD else ''}")
        status, summary = result.get("status"), fields.optional_text(result, "summary")
        if status in NOT_THE_KERNELS:
            self.context.null("status", "the search failed, or states no verdict")
            return {}
        if status is not None:
            fields.one_of(status, "status", (*STATUSES, *NOT_THE_KERNELS))
        if status is not None and STATUSES[status] is not Status.OK:
            compiled = not any(word in (summary or "").lower() for word in COMPILE)
            return failure(STATUSES[status] if compiled else Status.COMPILE_ERROR, summary)
        if status is None and (failed := _failed(metrics)):
            return failure(*failed)
        time = next((name for name in TIMES if _above_zero(metrics.get(name))), None)
        speedup = next((name for name in SPEEDUPS if _above_zero(metrics.get(name))), None)
        if status is None and time is None and speedup is None:
            zero = any(name in metrics for name in (*TIMES, *SPEEDUPS))
            reason = "a time or speedup of 0 says that a program failed, not how" if zero else "no metric is a verdict"
            self.context.null("status", f"the search states none, and {reason}")
            return {}
        if time is None:
            self.context.null("runtime_us", f"no metric is a time ({', '.join(TIMES)})")
        return {
            "status": Status.OK.value,
            "runtime_us": None if time is None else fields.microseconds(metrics[time], TIMES[time], time),
            "speedup": None if speedup is None else fields.positive(metrics, speedup),
        }

    def _problem(self, problem_id: str) -> Row:
        """The problem's row, with the reference of the definition that is named after the task."""
        self.context.null("workloads", "the search does not state its shapes")
        task = problem_id.removeprefix("openevolve_")
        path = next(files_below(self.path, f"{task}.json"), None)
        try:
            reference = None if path is None else definition_in(path, self.path).get("reference")
        except RowError as error:
            self.context.bad(self.path, task, error, entry=False)
            reference = None
        title = f"{task} of a recorded evolution"
        return problem(problem_id, self.FAMILY, title, reference)


def _above_zero(value: Any) -> bool:
    return fields.is_number(value) and value > 0


def _failed(metrics: Program) -> tuple[Status, str] | None:
    """The failure that metrics state; None where they state none."""
    for names, status in ((COMPILED, Status.COMPILE_ERROR), (CORRECT, Status.INCORRECT)):
        for name in names:
            value = metrics.get(name)
            if isinstance(value, bool | int | float) and value < 1:
                return status, f"metric {name} is {float(value):g}; the origin states no more"
    return None


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and 0 <= value < 2**31 else None


def _search(place: str) -> str:
    """The search that a file belongs to: the folders above its evaluator or database."""
    parts = place.split("/")
    above = next(
        (n for n, part in enumerate(parts) if part in ("evaluator", "database", "checkpoints")), len(parts) - 1
    )
    return fields.plain("/".join(parts[:above])) or "search"
