"""Traces of flashinfer-bench, and trajectories of SOL-ExecBench, which takes its definitions and statuses from there.

A trace is a line of JSON: the evaluation of a solution on one workload. A trajectory is a folder named after its
problem that holds the kernels an agent evaluated on its way: for each evaluation `eval-STAMP.json`, with its times on
every workload, and the text `kernel-STAMP.py` it is about.
"""

from __future__ import annotations

import functools
import itertools
import json
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from kbench.loaders.importers import fields
from kbench.loaders.importers.fields import RowError, is_number, plain, slug
from kbench.loaders.importers.inputs import files_below, kernel_text, read_inside
from kbench.loaders.importers.json_stream import Opening, json_lines
from kbench.loaders.importers.reader import Context, Entry, Reader
from kbench.loaders.importers.rows import Row, Source, failure, measurement_row, named, problem, with_workloads, written
from kbench.loaders.importers.stated_inputs import LARGEST_AXIS, Tensor, size_in, workload
from kbench.schemas import Status
from kbench.schemas.ids import content_hash

UNIT = "ms"
"""What `latency_ms` is in, by its name."""
STATUSES = {
    "PASSED": Status.OK,
    "COMPILE_ERROR": Status.COMPILE_ERROR,
    "RUNTIME_ERROR": Status.LAUNCH_ERROR,
    "INCORRECT_SHAPE": Status.INCORRECT,
    "INCORRECT_NUMERICAL": Status.INCORRECT,
    "INCORRECT_DTYPE": Status.INCORRECT,
    "INCORRECT": Status.INCORRECT,
    "TIMEOUT": Status.TIMEOUT,
}
WORKLOAD_ALONE = "traces of a workload alone, without a solution and an evaluation"
UNKNOWN_ERRORS = ("NaN", "Infinity", "-Infinity")
ERRORS = (("max_abs_error", "max_absolute_error"), ("max_rel_error", "max_relative_error"))
"""Our names of correctness errors, and theirs."""


class FlashinferTrace(Reader):
    """One measurement per trace, with a latency but no samples.

    Sources are looked up among the solutions of the same trace set, references among its definitions; a solution
    without a file is named, not sourced. Nothing outside the set's folder is read.
    """

    NAME, FAMILY = "flashinfer-trace", "flashinfer"
    OVER_WORKLOADS = True

    def __init__(self, path: Path, context: Context) -> None:
        super().__init__(path, context)
        parents = path.absolute().parents[:4]
        # A file that lies in no trace set is alone: below its own name there is nothing.
        self._root = next((parent for parent in parents if (parent / "solutions").is_dir()), path.absolute())
        self._files = functools.cache(self._listed)
        self._source = functools.lru_cache(maxsize=1024)(self._looked_up)

    @staticmethod
    def looks_like(opening: Opening) -> bool:
        return opening.first_line is not None and {"definition", "workload"} <= set(opening.first_line)

    def records(self) -> Iterator[tuple[int, Any]]:
        return json_lines(self.path, self.context.advance)

    def entry(self, place: object, record: Any) -> Entry | str:
        trace = fields.an_object(record, "trace")
        if trace.get("solution") is None and trace.get("evaluation") is None:
            return WORKLOAD_ALONE
        definition, solution = fields.text(trace, "definition"), fields.text(trace, "solution")
        workload, evaluation = fields.mapping(trace, "workload"), fields.mapping(trace, "evaluation")
        if workload.get("uuid") is not None:
            name = workload_name(fields.text(workload, "uuid"))
        else:  # the early form, which names workloads by what they consist of
            name = f"w_{content_hash('workload', json.dumps(workload, sort_keys=True))[:12]}"
        environment = evaluation.get("environment")
        machine = environment if isinstance(environment, Mapping) else {}
        stated = (fields.name_text(machine, field) for field in ("hardware", "device"))
        hardware = next((name for name in stated if name and not name.startswith("cuda")), None)
        gpu = self.gpu(hardware, "the trace names no hardware")
        figures, errors = self._figures(evaluation)
        problem_id = fields.slug(f"flashinfer_{definition}", "definition")
        kernel = self.kernel(problem_id, self._source(definition, solution), gpu=gpu, **figures)
        return Entry(
            kernel, lambda: self._problem(problem_id, definition), [self.measured(kernel, place, name, **errors)]
        )

    def _figures(self, evaluation: Mapping[str, Any]) -> tuple[Row, Row]:
        """Verdict and figures of an evaluation, and its correctness errors."""
        stated = fields.one_of(fields.text(evaluation, "status").upper(), "evaluation.status", STATUSES)
        errors: Row = {}
        if evaluation.get("correctness") is not None:
            correctness = fields.mapping(evaluation, "correctness")
            for field, name in ERRORS:
                unbounded = _is_unbounded(correctness.get(name))
                if unbounded:
                    self.context.null(field, "the trace states no finite number")
                errors[field] = None if unbounded else fields.non_negative(correctness, name)
        status = STATUSES[stated]
        if status is not Status.OK:
            return failure(status, fields.optional_text(evaluation, "log") or stated), errors
        performance = fields.mapping(evaluation, "performance")
        latency = fields.positive(performance, "latency_ms")
        runtime = fields.microseconds(latency, self.context.known("unit", UNIT), "latency_ms")
        speedup = self._speedup(performance, latency)
        return {"status": status.value, "runtime_us": runtime, "speedup": speedup}, errors

    def _speedup(self, performance: Mapping[str, Any], latency: float) -> float | None:
        """Against the reference; none where the reference was not timed, which traces mark by a time of zero."""
        stated = performance.get("speedup_factor")
        if performance.get("reference_latency_ms") in (None, 0) or stated in (None, 0) or _is_unbounded(stated):
            self.context.null("speedup", "the reference was not timed (its latency is missing or 0)")
            return None
        ratio = fields.positive(performance, "reference_latency_ms") / latency
        factor = fields.positive(performance, "speedup_factor")
        if not math.isclose(ratio, factor, rel_tol=0.02):
            raise RowError("speedup_factor", factor, f"the latencies give {ratio:g}")
        return factor

    def _listed(self, folder: str) -> Mapping[tuple[str, str | None], Path]:
        """Files below a folder of the trace set by name alone, and by name and the folder they lie in."""
        paths = sorted(files_below(self._root / folder, "*.json"), reverse=True)
        return {(path.stem, None): path for path in paths} | {(path.stem, path.parent.name): path for path in paths}

    def _file(self, folder: str, name: str, within: str | None = None) -> Any:
        """The JSON file of this name below a folder, best in a folder of its definition; None when there is none."""
        files = self._files(folder)
        path = files.get((name, within)) or files.get((name, None))
        data = None if path is None else read_inside(path, self._root)
        return None if data is None else fields.json_value(data, folder, f"{name}.json")

    def _looked_up(self, definition: str, solution: str) -> Source:
        stated = self._file("solutions", solution, definition)
        if stated is None:
            self.context.null(
                "source", "no solution file of this name lies in the trace set; the source names the solution"
            )
            return named(definition=definition, solution=solution)
        try:
            if stated.get("definition", definition) != definition:
                raise RowError("solution", solution, f"its file is of definition {fields.shown(stated['definition'])}")
            parts = [str(item["content"]) for item in stated["sources"]]
        except (AttributeError, KeyError, TypeError):
            raise RowError("solution", solution, "its file holds no sources") from None
        return written(fields.source_text({"sources": "\n".join(parts)}, "sources"))

    def _problem(self, problem_id: str, definition: str) -> Row:
        """The problem's row, with the definition's reference where the trace set holds it."""
        try:
            stated = self._file("definitions", definition)
        except RowError:
            stated = None
        facts = stated if isinstance(stated, Mapping) else {}
        title = f"{fields.plain(definition)} of flashinfer-bench"
        row = problem(problem_id, self.FAMILY, title, facts.get("reference"))
        listed = next(files_below(self._root / "workloads", f"{definition}.jsonl"), None)
        missing = "the trace set has no list of the definition's workloads"
        workloads = workloads_in(listed, self._root, facts, self.context, missing)
        return {**row, "workloads": workloads} if workloads else row


def _is_unbounded(value: object) -> bool:
    return value in UNKNOWN_ERRORS or (isinstance(value, float) and not fields.is_number(value))


SOL_STATUSES = {**STATUSES, "REWARD_HACK": Status.REJECTED}
NOT_THE_KERNELS = "INVALID_REFERENCE"
"""A verdict on the reference: it says nothing about the kernel."""
EVALUATIONS, STAMP = "eval-*.json", "eval-"
DEFINITION, WORKLOADS = "definition.json", "workload.jsonl"
NO_TEXT = "evaluations without a file of the kernel's text"


class SolExecBench(Reader):
    """One kernel per text, in the order of evaluation. The folder of a run holds one trajectory per problem."""

    NAME, FAMILY = "sol-execbench", "sol_execbench"
    BY_FOLDER = True

    @staticmethod
    def folder_fits(folder: Path) -> bool:
        return next(files_below(folder, EVALUATIONS), None) is not None

    def records(self) -> Iterator[tuple[str, tuple[Path, int]]]:
        self._definitions = Definitions(self.path, self.context)
        evaluations = files_below(self.path, EVALUATIONS)
        for _, trajectory in itertools.groupby(evaluations, key=lambda path: path.parent):
            for step, path in enumerate(trajectory):
                yield path.relative_to(self.path).as_posix(), (path, step)

    def entry(self, place: object, record: Any) -> Entry | str:
        path, step = record
        data = read_inside(path, self.path) or b""
        source = kernel_text(path.with_name(f"kernel-{path.stem.removeprefix(STAMP)}.py"), self.path)
        self.context.advance(len(data))
        if source is None:
            return NO_TEXT
        evaluation = fields.an_object(fields.json_value(data, "evaluation", path.name), "evaluation")
        provenance = fields.an_object(evaluation.get("_provenance") or {}, "_provenance")
        workloads = [fields.an_object(one, "per_workload") for one in fields.sequence(evaluation, "per_workload")]
        results = [(workload_name(fields.text(one, "workload_uuid")), *self._result(one)) for one in workloads]
        trajectory = path.parent
        run = fields.plain(trajectory.relative_to(self.path).as_posix())
        problem_id = fields.slug(f"sol_execbench_{trajectory.name}", "problem")
        torch = provenance.get("torch")
        devices = torch.get("devices") if isinstance(torch, Mapping) else None
        device = fields.name_text({"device": devices[0]}, "device") if isinstance(devices, list) and devices else None
        kernel = self.kernel(
            problem_id, written(source), gpu=self.gpu(device, "the evaluation names no device"),
            proposer="llm", search_method="agent", run_id=trajectory.name if run == "." else run, step=step,
            **self._verdict(evaluation, [row for _, row, _ in results]),
        )  # fmt: skip
        evaluated = content_hash("evaluation", path.stem, data)[:12]
        measurements = [
            measurement_row(kernel, name, evaluated, **{"error": None} | row, **errors)
            for name, row, errors in results
            if row
        ]
        payload = {name: kernel[name] for name in ("kernel_id", "runtime_us", "status")}
        event = {
            "run_id": run, "index": step, "kind": "kernel_evaluated", "step": step,
            "at": fields.plain(str(provenance.get("utc") or "")), "payload_json": json.dumps(payload, sort_keys=True),
        }  # fmt: skip
        return Entry(kernel, lambda: self._problem(problem_id, trajectory), measurements, event)

    def _result(self, workload: Mapping[str, Any]) -> tuple[Row, Row]:
        """What a workload says of the kernel, and its correctness errors; nothing where its reference is at fault."""
        stated = fields.text(workload, "status").upper()
        if stated == NOT_THE_KERNELS:
            self.context.note("workloads whose reference was invalid; they are left out")
            return {}, {}
        fields.one_of(stated, "status", (*SOL_STATUSES, NOT_THE_KERNELS))
        if SOL_STATUSES[stated] is not Status.OK:
            return failure(SOL_STATUSES[stated], f"{stated}: {fields.optional_text(workload, 'log') or ''}"), {}
        runtime = fields.microseconds(
            fields.positive(workload, "latency_ms"), self.context.known("unit", UNIT), "latency_ms"
        )
        reference = fields.microseconds(fields.positive(workload, "reference_latency_ms"), UNIT, "reference_latency_ms")
        errors = {field: fields.non_negative(workload, name) for field, name in ERRORS}
        return {"status": Status.OK.value, "runtime_us": runtime, "speedup": reference / runtime}, errors

    def _verdict(self, evaluation: Mapping[str, Any], results: list[Row]) -> Row:
        """The kernel's figures over the workloads of an evaluation; one failure is the kernel's."""
        stated = [row for row in results if row]
        failed = next((row for row in stated if row["status"] != Status.OK.value), None)
        if failed is not None:
            return failed
        message = fields.optional_text(evaluation, "error")
        if message is not None and not results:
            return failure(Status.LAUNCH_ERROR, message)
        if not stated or len(stated) < fields.whole(evaluation, "workloads"):
            self.context.null("status", "the evaluation does not judge every workload")
            return {}
        logs = {name: sum(math.log(row[name]) for row in stated) for name in ("runtime_us", "speedup")}
        means = {name: math.exp(total / len(stated)) for name, total in logs.items()}
        return {"status": Status.OK.value, **means}

    def _problem(self, problem_id: str, trajectory: Path) -> Row:
        stated = self._definitions.named(trajectory.name).get("reference")
        reference = stated if isinstance(stated, str) else kernel_text(trajectory / "reference.py", self.path) or ""
        row = problem(problem_id, self.FAMILY, f"{trajectory.name} of SOL-ExecBench", reference)
        return with_workloads(row, self._definitions.workloads(trajectory.name))


class Definitions:
    """Definitions and workloads of a folder, by name and by `LEVEL__NAME` of the folders they lie in.

    A definition is also known by the name it states, with which `LEVEL__` may stand.
    """

    def __init__(self, folder: Path, context: Context) -> None:
        self._folder, self._context = folder, context
        self._lists: dict[str, Path] = {}
        self._definitions: dict[str, Mapping[str, Any]] = {}
        for path in files_below(folder, WORKLOADS):
            for key in _keys(path):
                self._lists.setdefault(key, path)
        for path in files_below(folder, DEFINITION):
            try:
                stated = definition_in(path, folder)
            except RowError as error:
                context.bad(folder, path.relative_to(folder).as_posix(), error, entry=False)
                continue
            for key in (*_keys(path), str(stated.get("name"))):
                self._definitions.setdefault(key, stated)

    def named(self, name: str) -> Mapping[str, Any]:
        """The definition of this name, or an empty one."""
        stated = self._definitions.get(name)
        return self._definitions.get(name.partition("__")[2], {}) if stated is None else stated

    def workloads(self, name: str) -> list[Row]:
        """The workloads of the definition of this name; none, with a note, where the folder does not list them."""
        path, definition = self._lists.get(name), self.named(name)
        if path is not None and not definition:
            self._context.null(
                "inputs of workloads", f"no {DEFINITION} of the problem lies in the folder; axes are kept"
            )
        missing = f"no {WORKLOADS} of the problem lies in the folder"
        return workloads_in(path, self._folder, definition, self._context, missing)


def workloads_in(
    path: Path | None, folder: Path, definition: Mapping[str, Any], context: Context, missing: str
) -> list[Row]:
    """The workloads that a list in a folder names, one per line, as it is or as a trace's; none where there is none."""
    if path is None or not path.resolve().is_relative_to(folder.resolve()):
        context.null("workloads", missing)
        return []
    lines = (line for _, line in json_lines(path) if isinstance(line, Mapping))
    entries = (line.get("workload", line) for line in lines)
    rows = (workload_row(entry, definition) for entry in entries if isinstance(entry, Mapping))
    return [row for row in rows if row is not None]


def _keys(path: Path) -> tuple[str, str]:
    return path.parent.name, f"{path.parent.parent.name}__{path.parent.name}"


def definition_in(path: Path, folder: Path) -> Mapping[str, Any]:
    """The definition that a file of a folder holds."""
    value = fields.json_value(read_inside(path, folder) or b"{}", "definition", path.name)
    return value if isinstance(value, Mapping) else {}


def workload_name(uuid: str) -> str:
    """A workload's name, from the uuid that its suite gives it."""
    return f"w_{slug('w ' + uuid, 'workload.uuid')[2:]}"


def workload_row(entry: Mapping[str, Any], definition: Mapping[str, Any]) -> Row | None:
    """A workload of a definition; None where it has no name or its axes are no sizes.

    A definition names axes (constant, given by each workload, or an expression of others) and the shape and type of
    every input and output in them. Without one, a workload keeps its axes and has no inputs; nothing is guessed.
    """
    uuid, given = entry.get("uuid"), entry.get("axes")
    if not isinstance(uuid, str) or not uuid.strip() or not isinstance(given, Mapping):
        return None
    axes = definition.get("axes")
    items = axes.items() if isinstance(axes, Mapping) else ()
    stated = {plain(str(name)): axis for name, axis in items if isinstance(axis, Mapping)}
    constants = {name: axis.get("value") for name, axis in stated.items() if axis.get("type") == "const"}
    sizes = {name: value for name, value in constants.items() if _is_size(value)}
    sizes |= {plain(str(axis)): value for axis, value in given.items()}
    if not all(_is_size(value) for value in sizes.values()):
        return None
    expressions = {name: str(axis.get("expression")) for name, axis in stated.items() if axis.get("type") == "expr"}
    for _ in expressions:  # each round may make further ones known
        for name, expression in expressions.items():
            size = size_in(expression, sizes)
            if size is not None and _is_size(size):
                sizes.setdefault(name, size)
    inputs, outputs = (list(_tensors(definition.get(side), sizes)) for side in ("inputs", "outputs"))
    return workload(workload_name(uuid), sizes, inputs, outputs, moved=[*inputs, *outputs])


def _is_size(value: object) -> bool:
    return is_number(value) and float(value).is_integer() and 0 <= value <= LARGEST_AXIS


def _tensors(stated: Any, sizes: Mapping[str, Any]) -> Iterator[Tensor]:
    """Each tensor whose axes are known; scalars have the empty shape."""
    for tensor in stated.values() if isinstance(stated, Mapping) else ():
        if isinstance(tensor, Mapping) and isinstance(tensor.get("dtype"), str):
            shape = [size_in(str(axis), sizes) for axis in tensor.get("shape") or ()]
            if None not in shape:
                yield Tensor(plain(tensor["dtype"]), tuple(size for size in shape if size is not None))
