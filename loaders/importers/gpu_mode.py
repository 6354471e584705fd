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

from kbench.loaders.importers import fields
from kbench.loaders.importers.fields import RowError
from kbench.loaders.importers.gpu_forecasters import FAMILY, PROBLEMS
from kbench.loaders.importers.inputs import files_below, kernel_text, parquet_rows, read_inside
from kbench.loaders.importers.reader import Entry, Reader
from kbench.loaders.importers.rows import NOT_STATED, Row, problem, with_workloads, written
from kbench.loaders.importers.stated_inputs import workload_of
from kbench.loaders.storage.parquet_stream import read_schema
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


class GpuMode(Reader):
    """One kernel per text and GPU, with the times of every run."""

    NAME, FAMILY = "gpu-mode", FAMILY

    @staticmethod
    def columns_fit(columns: Sequence[str]) -> bool:
        names = set(columns)
        has_kernels = all(names & set(COLUMNS[want]) for want in ("code", "leaderboard"))
        return has_kernels and bool(names & {*COLUMNS["score"], *COLUMNS["result"]})

    def records(self) -> Iterator[tuple[int, dict[str, Any]]]:
        names = self._names(read_schema(self.path).names)
        self._boards = _boards(self.path)
        for number, record in parquet_rows(self.path, tuple(names.values()), self.context.advance):
            yield number, {want: record[name] for want, name in names.items()}

    def _names(self, columns: Sequence[str]) -> dict[str, str]:
        """The column of each thing that is wanted and there."""
        if not self.columns_fit(columns):
            raise DataError(
                f"{self.path} has no columns code, leaderboard, and score or run_result; it is no GPU MODE export"
            )
        candidates = {want: [name for name in names if name in columns] for want, names in COLUMNS.items()}
        for want in ("code", "score"):
            if len(candidates[want]) > 1:
                both = " and ".join(candidates[want])
                raise DataError(f"{self.path} has the columns {both}, which mean the same; leave one out")
        return {want: names[0] for want, names in candidates.items() if names}

    def entry(self, place: object, record: Any) -> Entry | str:
        code, run = record["code"], record.get("run")
        if code is None:
            return NO_CODE
        if isinstance(code, bytes):
            try:
                record["code"] = code.decode()
            except UnicodeDecodeError:
                raise RowError("code", code, "is not text in UTF-8") from None
        source = written(fields.source_text(record, "code"))
        board = self._board(record)
        problem_id = BOARDS.get(board) or fields.slug(f"gpu_mode_{board}", "leaderboard")
        system = _map(record.get("system"), "run_system_info")
        gpu = self.gpu(fields.name_text(system, "gpu") or fields.name_text(record, "gpu"), "the export states no GPU")
        figures, cases = self._figures(record)
        kernel = self.kernel(
            problem_id, source, gpu=gpu, license=fields.name_text(record, "license"),
            missing="it changed over time, and the row states none",
            run_id=NOT_STATED if run is None else fields.plain(str(run)), proposer="human", **figures,
        )  # fmt: skip
        timed = cases or [("published", kernel["runtime_us"])]
        measurements = [self.measured(kernel, place, name, runtime_us=runtime) for name, runtime in timed]
        return Entry(kernel, lambda: self._problem(problem_id, board), measurements)

    def _board(self, record: Mapping[str, Any]) -> str:
        board = record["leaderboard"]
        if isinstance(board, int):
            return fields.plain(self._boards.get(board, f"leaderboard_{board}"))
        name = fields.name_text(record, "leaderboard")
        if name is None:
            raise RowError("leaderboard", board, "must be non-empty text or a number")
        return name

    def _problem(self, problem_id: str, board: str) -> Row:
        row = problem(problem_id, FAMILY, f"{board} of GPU MODE")
        return row if row["workloads"] else with_workloads(row, self._task_workloads(board))

    def _task_workloads(self, board: str) -> list[Row]:
        """The benchmarks of the task folder that is named after a leaderboard and lies below the export's folder."""
        folder = self.path.parent
        names = (board, f"{board}_py")
        path = next((one for one in files_below(folder, TASK_FILE) if one.parent.name in names), None)
        if path is None:
            self.context.null("workloads", f"no {TASK_FILE} of the leaderboard lies below the export's folder")
            return []
        try:
            stated = yaml.safe_load(read_inside(path, folder) or b"")
            source = kernel_text(path.with_name("reference.py"), folder) or ""
        except (yaml.YAMLError, RecursionError, UnicodeDecodeError) as error:
            fault = RowError(TASK_FILE, board, f"is no YAML ({type(error).__name__})")
            self.context.bad(path, board, fault, entry=False)
            return []
        except RowError as error:
            self.context.bad(path, board, error, entry=False)
            return []
        benchmarks = stated.get("benchmarks") if isinstance(stated, Mapping) else None
        cases = [case for case in benchmarks or [] if isinstance(case, Mapping)][:MOST_CASES]
        workloads = [workload_of(source, "generate_input", f"case_{n}", case) for n, case in enumerate(cases)]
        if None in workloads:
            self.context.null("workloads", "the shapes of generate_input are not plain to see")
        return [workload for workload in workloads if workload is not None]

    def _figures(self, record: Mapping[str, Any]) -> tuple[Row, list[tuple[str, float]]]:
        """A run's verdict and runtime, and the time of each benchmark case."""
        mode, score = record.get("mode"), record.get("score")
        if record.get("passed") is False:
            self.context.note("runs that did not pass, for a reason that is not stated; kept as not measured")
            return {}, []
        if mode not in TIMED_MODES:
            untimed = f"runs of mode {fields.plain(str(mode))}, which times nothing"
            self.context.note(f"{untimed}; they tell that the kernel passed, or nothing")
            return ({"status": Status.OK.value} if record.get("passed") else {}), []
        cases = list(_cases(_map(record.get("result"), "run_result")))
        if score is None and not cases:
            self.context.null("runtime_us", "the run has neither a score nor the times of its cases")
            return {}, []
        if score is not None:
            number = float(score) if isinstance(score, decimal.Decimal) else score
            runtime = fields.microseconds(number, self.context.known("unit", UNIT), "score")
        else:
            runtime = math.exp(sum(math.log(time) for _, time in cases) / len(cases))
        return {"status": Status.OK.value, "runtime_us": runtime}, cases


def _boards(path: Path) -> dict[int, str]:
    """Names of leaderboards by number, from the table that lies beside an export."""
    beside = path.parent / BOARD_FILE
    if not beside.is_file() or beside.resolve().parent != path.parent.resolve():
        return {}
    if not {"id", "name"} <= set(read_schema(beside).names):
        return {}
    rows = [row for _, row in parquet_rows(beside, ("id", "name"))]
    names = {row["id"]: row["name"] for row in rows if isinstance(row["id"], int) and isinstance(row["name"], str)}
    return {board: name for board, name in names.items() if fields.plain(name).strip()}


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
            yield f"case_{number}", fields.microseconds(time, CASE_UNIT, f"run_result.{key}")


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
