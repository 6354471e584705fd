"""GPU MODE exports: Parquet with code, leaderboard and GPU; one row per submission, or one per run of it.

Scores are seconds, lower is better; the results of a run list nanoseconds of each benchmark case.
"""

from __future__ import annotations

import decimal
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from kbench.loaders.importers.context import Context
from kbench.loaders.importers.fields import RowError, microseconds, name_text, plain, slug, source_text
from kbench.loaders.importers.gpu_forecasters import FAMILY, PROBLEMS
from kbench.loaders.importers.inputs import digest, files_below, kernel_text, read_inside, records
from kbench.loaders.importers.rows import (
    NOT_STATED,
    Items,
    Row,
    kernel_row,
    measurement_row,
    problem,
    with_workloads,
    written,
)
from kbench.loaders.importers.stated_inputs import workload_of
from kbench.loaders.storage.parquet_stream import open_parquet
from kbench.schemas import DataError, Status

COLUMNS: Mapping[str, tuple[str, ...]] = {
    "code": ("code", "submission_code"),
    "score": ("score", "run_score", "submission_score"),
    "leaderboard": ("leaderboard", "leaderboard_name", "leaderboard_id"),
    "system": ("run_system_info", "system_info"),
    "gpu": ("gpu_type", "gpu", "run_gpu_type", "runner", "run_runner"),
    "mode": ("run_mode", "mode"),
    "result": ("run_result", "result"),
    "passed": ("passed", "run_passed"),
    "run": ("run_id",),
    "license": ("license", "licence"),
}
"""What is wanted, and the names exports have had for it, best first."""
UNIT, CASE_UNIT = "s", "ns"
"""What scores are in, and the cases of a result."""
BOARDS: Mapping[str, str] = {
    **PROBLEMS,
    "princeton_cross_entropy": "cross_entropy_fwd_bwd",
    "gated_deltanet_chunk_fwd_h": "gdn_chunk_fwd_h",
    "gated_deltanet_chunk_fwd_o": "gdn_chunk_fwd_o",
    "gated_deltanet_recompute_w_u": "gdn_recompute_w_u",
}
"""Leaderboards whose task is a problem of ours, by our id."""
BOARD_FILE = "leaderboards.parquet"
TASK_FILE, MOST_CASES = "task.yml", 64
NO_CODE = "runs without code"
TIMED_MODES = (None, "benchmark", "leaderboard", "private", "public")
"""Modes whose runs are timed; the others test, profile or run a script."""


def columns_fit(columns: Sequence[str]) -> bool:
    """Whether a Parquet file may be of this format."""
    here = set(columns)
    wanted = all(here & set(COLUMNS[want]) for want in ("code", "leaderboard"))
    return wanted and bool(here & {*COLUMNS["score"], *COLUMNS["result"]})


def rows(path: Path, context: Context) -> Items:
    """For each run the kernel it is about, and its measurements where the GPU is known."""
    schema, tables = open_parquet(path, [name for names in COLUMNS.values() for name in names])
    names = _names(path, schema.names)
    boards = _boards(path)
    described: set[str] = set()
    number = 0
    for table in tables:
        for record in records(table, path):
            data = {want: record[name] for want, name in names.items()}
            try:
                yield from _items(path, context, number, data, boards, described)
            except RowError as error:
                context.bad(path, number, error)
            number += 1
        context.advance(table.nbytes)


def _names(path: Path, columns: Sequence[str]) -> dict[str, str]:
    if not columns_fit(columns):
        raise DataError(f"{path} has no columns code, leaderboard, and score or run_result; it is no GPU MODE export")
    found = {want: [name for name in names if name in columns] for want, names in COLUMNS.items()}
    for want in ("code", "score"):
        if len(found[want]) > 1:
            raise DataError(f"{path} has the columns {' and '.join(found[want])}, which mean the same; leave one out")
    return {want: here[0] for want, here in found.items() if here}


def _boards(path: Path) -> dict[int, str]:
    """Names of leaderboards by number, from the table that lies beside an export."""
    beside = path.parent / BOARD_FILE
    if not beside.is_file() or beside.resolve().parent != path.parent.resolve():
        return {}
    schema, tables = open_parquet(beside, ["id", "name"])
    found = [row for table in tables for row in records(table, beside)] if {"id", "name"} <= set(schema.names) else []
    named = {row["id"]: row["name"] for row in found if isinstance(row["id"], int) and isinstance(row["name"], str)}
    return {board: name for board, name in named.items() if plain(name).strip()}


def _items(
    path: Path, context: Context, number: int, data: dict[str, Any], boards: Mapping[int, str], described: set[str]
) -> Items:
    code = data["code"]
    if code is None:
        context.became(path, NO_CODE)
        return
    if isinstance(code, bytes):
        try:
            data["code"] = code.decode()
        except UnicodeDecodeError:
            raise RowError("code", code, "is not text in UTF-8") from None
    backend, source, _ = written(source_text(data, "code"))
    board = _board(data, boards)
    found = BOARDS.get(board) or slug(f"gpu_mode_{board}", "leaderboard")
    system = _map(data.get("system"), "run_system_info")
    gpu = context.gpu(path, name_text(system, "gpu") or name_text(data, "gpu"), "the export states no GPU")
    figures, cases = _figures(context, data)
    run = data.get("run")
    licence = context.license(name_text(data, "license"), "it changed over time, and the row states none")
    kernel = kernel_row(
        found, FAMILY, backend, source, gpu=gpu, origin=f"gpu-mode {plain(path.name)}",
        license=licence, split=context.settings.split,
        run_id=NOT_STATED if run is None else plain(str(run)), proposer="human", **figures,
    )  # fmt: skip
    if found not in described:
        described.add(found)
        row = problem(found, FAMILY, f"{board} of GPU MODE")
        if not row["workloads"]:
            row = with_workloads(row, _task_workloads(path.parent, board, context))
        yield "problems", row, number
    yield "kernels", kernel, number
    if gpu is not None and kernel["status"] is not None:
        place = f"{digest(path)}/{number}"
        for name, runtime in cases or [("published", kernel["runtime_us"])]:
            yield "measurements", measurement_row(kernel, name, place, runtime_us=runtime), number


def _task_workloads(folder: Path, board: str, context: Context) -> list[Row]:
    """The benchmarks of the task folder that is named after a leaderboard and lies below the export's folder."""
    names = (board, f"{board}_py")
    path = next((one for one in files_below(folder, TASK_FILE) if one.parent.name in names), None)
    if path is None:
        context.null("workloads", f"no {TASK_FILE} of the leaderboard lies below the export's folder")
        return []
    try:
        stated = yaml.safe_load(read_inside(path, folder) or b"")
        cases = stated.get("benchmarks") if isinstance(stated, Mapping) else None
        source = kernel_text(path.with_name("reference.py"), folder) or ""
    except (yaml.YAMLError, RecursionError, UnicodeDecodeError) as error:
        context.bad(path, board, RowError(TASK_FILE, board, f"is no YAML ({type(error).__name__})"), entry=False)
        return []
    except RowError as error:
        context.bad(path, board, error, entry=False)
        return []
    given = [case for case in cases or [] if isinstance(case, Mapping)][:MOST_CASES]
    made = [workload_of(source, "generate_input", f"case_{n}", case) for n, case in enumerate(given)]
    if None in made:
        context.null("workloads", "the shapes of generate_input are not plain to see")
    return [one for one in made if one is not None]


def _board(data: Mapping[str, Any], boards: Mapping[int, str]) -> str:
    board = data["leaderboard"]
    if isinstance(board, int):
        return plain(boards.get(board, f"leaderboard_{board}"))
    found = name_text(data, "leaderboard")
    if found is None:
        raise RowError("leaderboard", board, "must be non-empty text or a number")
    return found


def _figures(context: Context, data: Mapping[str, Any]) -> tuple[Row, list[tuple[str, float]]]:
    """A run's verdict and runtime, and the time of each benchmark case."""
    mode, score = data.get("mode"), data.get("score")
    if data.get("passed") is False:
        context.note("runs that did not pass, for a reason that is not stated; kept as not measured")
        return {}, []
    if mode not in TIMED_MODES:
        context.note(
            f"runs of mode {plain(str(mode))}, which times nothing; they tell that the kernel passed, or nothing"
        )
        return ({"status": Status.OK.value} if data.get("passed") else {}), []
    cases = list(_cases(_map(data.get("result"), "run_result")))
    if score is None and not cases:
        context.null("runtime_us", "the run has neither a score nor the times of its cases")
        return {}, []
    if score is not None:
        number = float(score) if isinstance(score, decimal.Decimal) else score
        runtime = microseconds(number, context.known("unit", UNIT), "score")
    else:
        runtime = math.exp(sum(math.log(time) for _, time in cases) / len(cases))
    return {"status": Status.OK.value, "runtime_us": runtime}, cases


def _cases(result: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    """The times in a result, which is flat: benchmark.0.mean, benchmark.0.spec, …, as numbers or text."""
    for key, value in result.items():
        word, _, rest = key.partition(".")
        number, _, field = rest.partition(".")
        if word == "benchmark" and field == "mean" and number.isdigit() and value is not None:
            try:
                time = float(value)
            except (TypeError, ValueError):
                raise RowError(f"run_result.{key}", value, "must be a number") from None
            yield f"case_{number}", microseconds(time, CASE_UNIT, f"run_result.{key}")


def _map(value: Any, field: str) -> Mapping[str, Any]:
    """A struct, a map (which Arrow gives as pairs), or JSON text."""
    if value is None or value == "":
        return {}
    if isinstance(value, str | bytes):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            raise RowError(field, value, "must be an object, or JSON of one") from None
    if isinstance(value, list) and all(isinstance(pair, tuple) and len(pair) == 2 for pair in value):
        value = dict(value)
    if not isinstance(value, Mapping):
        raise RowError(field, value, "must be an object, or JSON of one")
    return value
