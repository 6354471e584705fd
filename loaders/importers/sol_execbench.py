"""SOL-ExecBench trajectories: the kernels an agent evaluated on its way, in order, with their times per workload.

A trajectory is a folder named after its problem that holds, for each evaluation, `eval-STAMP.json` and the text
`kernel-STAMP.py` it is about. The folder of a run holds one trajectory per problem. Definitions and lists of workloads
are read where they lie in the imported folder.
"""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kbench.loaders.importers.context import Context
from kbench.loaders.importers.fields import (
    RowError,
    an_object,
    microseconds,
    name_text,
    non_negative,
    optional_text,
    plain,
    positive,
    sequence,
    slug,
    text,
    whole,
)
from kbench.loaders.importers.flashinfer_trace import STATUSES as TRACE_STATUSES
from kbench.loaders.importers.inputs import files_below, kernel_text, read_inside
from kbench.loaders.importers.rows import (
    Items,
    Row,
    failure,
    kernel_row,
    measurement_row,
    problem,
    with_workloads,
    written,
)
from kbench.loaders.importers.shapes import Definitions, workload_name
from kbench.schemas import Status
from kbench.schemas.ids import content_hash

FAMILY = "sol_execbench"
UNIT = "ms"
STATUSES = {**TRACE_STATUSES, "REWARD_HACK": Status.REJECTED}
NOT_THE_KERNELS = "INVALID_REFERENCE"
"""A verdict on the reference: it says nothing about the kernel."""
EVALUATIONS, STAMP = "eval-*.json", "eval-"
NO_TEXT = "evaluations without a file of the kernel's text"


def fits(folder: Path) -> bool:
    """Whether a folder may hold trajectories."""
    return next(files_below(folder, EVALUATIONS), None) is not None


def rows(folder: Path, context: Context) -> Items:
    """For each evaluation the kernel it is about, and its measurement on each workload."""
    definitions = Definitions(folder, context)
    described: set[str] = set()
    for trajectory, evaluations in itertools.groupby(files_below(folder, EVALUATIONS), key=lambda path: path.parent):
        for step, path in enumerate(evaluations):
            place = path.relative_to(folder).as_posix()
            try:
                data = read_inside(path, folder) or b""
                source = kernel_text(path.with_name(f"kernel-{path.stem.removeprefix(STAMP)}.py"), folder)
                context.advance(len(data))
                if source is None:
                    context.became(folder, NO_TEXT)
                    continue
                items = _evaluation(folder, context, path, step, data, source)
            except RowError as error:
                context.bad(folder, place, error)
                continue
            found = items[0][1]["problem_id"]
            if found not in described:
                described.add(found)
                yield "problems", _problem(found, trajectory, definitions, folder), place
            for config, row in items:
                yield config, row, place
            yield "events", _event(trajectory.relative_to(folder).as_posix(), step, data, items[0][1]), place


def _event(run: str, step: int, data: bytes, kernel: Row) -> Row:
    """When a kernel was evaluated, and as the how manieth of its trajectory; no question shows it."""
    stated = json.loads(data).get("_provenance") or {}
    said = {"kernel_id": kernel["kernel_id"], "runtime_us": kernel["runtime_us"], "status": kernel["status"]}
    return {
        "run_id": plain(run), "index": step, "kind": "kernel_evaluated", "step": step,
        "at": plain(str(stated.get("utc") or "")), "payload_json": json.dumps(said, sort_keys=True),
    }  # fmt: skip


def _problem(problem_id: str, trajectory: Path, definitions: Definitions, folder: Path) -> Row:
    stated = definitions.definition(trajectory.name).get("reference")
    reference = stated if isinstance(stated, str) else kernel_text(trajectory / "reference.py", folder) or ""
    row = problem(problem_id, FAMILY, f"{trajectory.name} of SOL-ExecBench", plain(reference))
    return with_workloads(row, definitions.workloads(trajectory.name))


def _evaluation(
    folder: Path, context: Context, path: Path, step: int, data: bytes, source: str
) -> list[tuple[str, Row]]:
    try:
        record = an_object(json.loads(data), "evaluation")
    except (ValueError, RecursionError) as error:
        raise RowError("evaluation", path.name, f"is no JSON ({type(error).__name__})") from None
    provenance = an_object(record.get("_provenance") or {}, "_provenance")
    workloads = [an_object(one, "per_workload") for one in sequence(record, "per_workload")]
    results = [(workload_name(text(one, "workload_uuid")), *_result(context, one)) for one in workloads]
    backend, canonical, more = written(source)
    trajectory = path.parent
    run = trajectory.relative_to(folder).parts
    kernel = kernel_row(
        slug(f"sol_execbench_{trajectory.name}", "problem"), FAMILY, backend, canonical,
        gpu=context.gpu(folder, _device(provenance), "the evaluation names no device"),
        origin=f"sol-execbench {folder.name}", license=context.license(), split=context.settings.split,
        proposer="llm", search_method="agent", run_id=plain("/".join(run) or trajectory.name), step=step,
        **more, **_verdict(context, record, [row for _, row, _ in results]),
    )  # fmt: skip
    items: list[tuple[str, Row]] = [("kernels", kernel)]
    if kernel["gpu"] is not None:
        digest = content_hash("evaluation", path.stem, data)[:12]
        for name, row, errors in results:
            if row:
                items.append(("measurements", measurement_row(kernel, name, digest, **{"error": None} | row, **errors)))
    return items


def _device(provenance: Mapping[str, Any]) -> str | None:
    torch = provenance.get("torch")
    devices = torch.get("devices") if isinstance(torch, Mapping) else None
    return name_text({"device": devices[0]}, "device") if isinstance(devices, list) and devices else None


def _result(context: Context, workload: Mapping[str, Any]) -> tuple[Row, Row]:
    """What a workload says of the kernel, and its correctness errors; nothing where its reference is at fault."""
    status = text(workload, "status").upper()
    if status == NOT_THE_KERNELS:
        context.note("workloads whose reference was invalid; they are left out")
        return {}, {}
    if status not in STATUSES:
        raise RowError("status", status, f"must be one of {', '.join((*STATUSES, NOT_THE_KERNELS))}")
    if STATUSES[status] is not Status.OK:
        return failure(STATUSES[status], f"{status}: {optional_text(workload, 'log') or ''}"), {}
    runtime = microseconds(positive(workload, "latency_ms"), context.known("unit", UNIT), "latency_ms")
    reference = microseconds(positive(workload, "reference_latency_ms"), UNIT, "reference_latency_ms")
    errors = {
        short: non_negative(workload, name)
        for short, name in (("max_abs_error", "max_absolute_error"), ("max_rel_error", "max_relative_error"))
    }
    return {"status": Status.OK.value, "runtime_us": runtime, "speedup": reference / runtime}, errors


def _verdict(context: Context, record: Mapping[str, Any], results: list[Row]) -> Row:
    """The kernel's figures over the workloads of an evaluation; one failure is the kernel's."""
    stated = [row for row in results if row]
    failed = next((row for row in stated if row["status"] != Status.OK.value), None)
    if failed is not None:
        return failed
    message = optional_text(record, "error")
    if message is not None and not results:
        return failure(Status.LAUNCH_ERROR, message)
    if not stated or len(stated) < whole(record, "workloads"):
        context.null("status", "the evaluation does not judge every workload")
        return {}
    mean = {
        name: math.exp(sum(math.log(row[name]) for row in stated) / len(stated)) for name in ("runtime_us", "speedup")
    }
    return {"status": Status.OK.value, **mean}
