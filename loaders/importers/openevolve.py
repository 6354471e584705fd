"""Databases of evolutionary searches by OpenEvolve and its relatives: programs with parents, islands and scores.

Two forms are read below a folder, and each text is counted once:

- a program: `programs/ID.json` or `solutions/ID.json` with its text, parent, island, iteration and evaluation;
- an evaluation: `evaluation_result.json` beside the text it is about, as the searches' evaluators leave them.

A checkpoint repeats every program that is still alive, so that one program lies in many files.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from kbench.loaders.importers.context import Context
from kbench.loaders.importers.fields import (
    RowError,
    an_object,
    is_number,
    microseconds,
    name_text,
    optional_text,
    plain,
    positive,
    slug,
    source_text,
)
from kbench.loaders.importers.inputs import files_below, kernel_text, read_inside
from kbench.loaders.importers.rows import Items, Row, backend_of, failure, kernel_row, measurement_row, problem, written
from kbench.loaders.importers.shapes import definition_in
from kbench.schemas import Status
from kbench.schemas.ids import content_hash, kernel_id

FAMILY = "openevolve"
EVALUATION = "evaluation_result.json"
PROGRAM_FOLDERS = ("programs", "solutions")
STATUSES = {"success": Status.OK, "validation_failed": Status.INCORRECT, "execution_failed": Status.LAUNCH_ERROR}
NOT_THE_KERNELS = ("framework_error",)
"""Failures of the search, not of the program."""
COMPILE = ("compilation failed", "compile_error")
TIMES = {"exec_time_ms": "ms", "latency_ms": "ms", "runtime_ms": "ms", "runtime_us": "us", "latency_us": "us"}
"""Metrics that are a time, with the unit of their name. A score alone says nothing about time."""
NO_TEXT, NO_RESULT = "evaluations without a text", "texts without an evaluation"
TEXTS = ("llm_code_*", "program.*", "solution.*")
"""Names of a text that an evaluation lies beside."""

Program = Mapping[str, Any]


def fits(folder: Path) -> bool:
    """Whether a folder may hold such a database."""
    return next(_evaluations(folder), None) is not None or next(_programs(folder), None) is not None


def _evaluations(folder: Path) -> Iterator[Path]:
    return files_below(folder, EVALUATION)


def _programs(folder: Path) -> Iterator[Path]:
    return (path for path in files_below(folder, "*.json") if path.parent.name in PROGRAM_FOLDERS)


def rows(folder: Path, context: Context) -> Items:
    """For each evaluated text the kernel, and its measurement where it was timed."""
    database = _Database(folder, context)
    described: set[str] = set()
    for place, source, result in itertools.chain(_evaluated(folder, context), database.only()):
        try:
            items = _items(folder, context, source, result, database.program(place, source))
        except RowError as error:
            context.bad(folder, place, error)
            continue
        kernel = items[0][1]
        if kernel["problem_id"] not in described:
            described.add(kernel["problem_id"])
            context.null("workloads", "the search does not state its shapes")
            task = kernel["problem_id"].removeprefix("openevolve_")
            title = f"{task} of a recorded evolution"
            yield "problems", problem(kernel["problem_id"], FAMILY, title, _reference(folder, context, task)), place
        for config, row in items:
            yield config, row, place


def _evaluated(folder: Path, context: Context) -> Iterator[tuple[str, str, Program]]:
    """Texts with the evaluation that lies beside them."""
    for path in _evaluations(folder):
        place = path.relative_to(folder).as_posix()
        try:
            data = read_inside(path, folder) or b""
            context.advance(len(data))
            texts = list(files_below(path.parent, *TEXTS))
            source = kernel_text(texts[0], folder) if len(texts) == 1 else None
            if source is None:
                context.became(folder, NO_TEXT)
                continue
            yield place, source, _parsed(data, place)
        except RowError as error:
            context.bad(folder, place, error)
    for path in files_below(folder, TEXTS[0]):
        if not (path.parent / EVALUATION).is_file():
            context.became(folder, NO_RESULT)


def _parsed(data: bytes | str, place: str) -> Program:
    try:
        return an_object(json.loads(data), "evaluation")
    except (ValueError, RecursionError) as error:
        raise RowError("evaluation", place, f"is no JSON ({type(error).__name__})") from None


def _reference(folder: Path, context: Context, task: str) -> str:
    """The reference of a task, from the definition that is named after it; empty where there is none."""
    path = next(files_below(folder, f"{task}.json"), None)
    try:
        stated = {} if path is None else definition_in(path, folder)
    except RowError as error:
        context.bad(folder, task, error, entry=False)
        stated = {}
    reference = stated.get("reference")
    return plain(reference) if isinstance(reference, str) else ""


def _search(place: str) -> str:
    """The search that a file belongs to: the folders above its evaluator or database."""
    parts = place.split("/")
    above = next(
        (n for n, part in enumerate(parts) if part in ("evaluator", "database", "checkpoints")), len(parts) - 1
    )
    return plain("/".join(parts[:above])) or "search"


class _Database:
    """The programs of a folder by search and text, each as its last checkpoint has it."""

    def __init__(self, folder: Path, context: Context) -> None:
        self._by_text: dict[tuple[str, str], tuple[str, Program]] = {}
        self._texts: dict[tuple[str, str], str] = {}
        self._used: set[tuple[str, str]] = set()
        self._iterations = _iterations(folder, context)
        for path in _programs(folder):
            place = path.relative_to(folder).as_posix()
            try:
                data = read_inside(path, folder) or b""
                context.advance(len(data))
                program = _parsed(data, place)
                source = source_text(program, "solution" if "solution" in program else "code")
            except RowError as error:
                context.bad(folder, place, error)
                continue
            search = _search(place)
            identity = program.get("solution_id", program.get("id"))
            if isinstance(identity, str):
                self._texts[search, identity] = source
            self._by_text[search, content_hash(source)] = (place, program)

    def program(self, place: str, source: str) -> Row:
        """Where a text stands in its search: the parent's text, and the iteration, where the database says so."""
        search = _search(place)
        key = (search, content_hash(source))
        self._used.add(key)
        _, program = self._by_text.get(key, ("", {}))
        stated = program.get("iteration", program.get("iteration_found"))
        step = self._iterations.get(key, stated)
        generation = program.get("generation")
        return {
            "search": search,
            "parent": self._texts.get((search, str(program.get("parent_id")))),
            "step": step if isinstance(step, int) and 0 <= step < 2**31 else 0,
            "generation": generation if isinstance(generation, int) and 0 <= generation < 2**31 else None,
        }

    def only(self) -> Iterator[tuple[str, str, Program]]:
        """Programs that no evaluation on file is about, with the evaluation the database keeps."""
        for (_, _), (place, program) in list(self._by_text.items()):
            source = program.get("solution", program.get("code"))
            if (_search(place), content_hash(source)) in self._used:
                continue
            kept = program.get("evaluation") or {"status": None, "metrics": program.get("metrics")}
            try:
                yield place, source, _parsed(kept, place) if isinstance(kept, str) else an_object(kept, "evaluation")
            except RowError:
                yield place, source, {}


def _iterations(folder: Path, context: Context) -> dict[tuple[str, str], int]:
    """The first iteration whose folder holds a text, by search and text."""
    found: dict[tuple[str, str], int] = {}
    for path in files_below(folder, "solution_*.py"):
        parts = path.relative_to(folder).parts
        at = next((n for n, part in enumerate(parts[:-1]) if part == "iteration"), None)
        if at is None or not parts[at + 1].isdigit():
            continue
        try:
            source = kernel_text(path, folder) or ""
        except RowError as error:
            context.bad(folder, "/".join(parts), error, entry=False)
            continue
        key = (plain("/".join(parts[:at])), content_hash(source))
        found[key] = min(int(parts[at + 1]), found.get(key, int(parts[at + 1])))
    return found


def _items(folder: Path, context: Context, source: str, result: Program, standing: Row) -> list[tuple[str, Row]]:
    metrics = an_object(result.get("metrics") or {}, "metrics")
    artifacts = an_object(result.get("artifacts") or {}, "artifacts")
    task = name_text(artifacts, "task_id") or standing["search"]
    found = slug(f"openevolve_{task}", "task_id")
    backend, canonical, more = written(source)
    parent = standing["parent"]
    kernel = kernel_row(
        found, FAMILY, backend, canonical, gpu=context.gpu(folder, None, "the search names no GPU"),
        origin=f"openevolve {folder.name}", license=context.license(), split=context.settings.split,
        proposer="llm", search_method="evolve", run_id=standing["search"], step=standing["step"],
        parent_id=None if parent is None else kernel_id(found, backend_of(parent), parent),
        generation=standing["generation"], **more, **_figures(context, result, metrics),
    )  # fmt: skip
    items = [("kernels", kernel)]
    if kernel["gpu"] is not None and kernel["status"] is not None:
        place = content_hash("evaluation", json.dumps(result, sort_keys=True))[:12]
        figures = {name: kernel[name] for name in ("runtime_us", "speedup")}
        items.append(("measurements", measurement_row(kernel, "published", place, **figures)))
    return items


def _figures(context: Context, result: Program, metrics: Program) -> Row:
    """Verdict and time of an evaluation; a score without a time leaves the time null."""
    status, summary = result.get("status"), optional_text(result, "summary")
    if status in NOT_THE_KERNELS or status is None:
        context.null("status", "the search failed, or states no verdict")
        return {}
    if status not in STATUSES:
        raise RowError("status", status, f"must be one of {', '.join((*STATUSES, *NOT_THE_KERNELS))}")
    if STATUSES[status] is not Status.OK:
        compiled = not any(word in (summary or "").lower() for word in COMPILE)
        return failure(STATUSES[status] if compiled else Status.COMPILE_ERROR, summary)
    name = next((name for name in TIMES if is_number(metrics.get(name)) and metrics[name] > 0), None)
    if name is None:
        context.null("runtime_us", f"no metric is a time ({', '.join(TIMES)})")
        return {"status": Status.OK.value}
    speedup = positive(metrics, "speedup") if metrics.get("speedup") else None
    return {"status": Status.OK.value, "runtime_us": microseconds(metrics[name], TIMES[name], name), "speedup": speedup}
