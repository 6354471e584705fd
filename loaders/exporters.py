"""Export a selection as Parquet, JSON lines, CSV, T4, flashinfer-bench traces or kernel files, batch by batch."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from kbench.loaders.corpus.selection import Selection
from kbench.loaders.corpus.shards import marked
from kbench.loaders.storage.atomic import replacing, whole_folder
from kbench.schemas import Backend, Status, UnknownNameError, UserError, arrow_schema

BY_ENDING = ("parquet", "jsonl", "csv")
FOLDER = "files"
"""The format that is a folder of kernel files."""
FORMATS = (*BY_ENDING, "t4", "flashinfer-trace", FOLDER)
ENDINGS: Mapping[str, tuple[str, ...]] = {
    "parquet": ("parquet",), "jsonl": ("jsonl", "ndjson", "json"), "csv": ("csv", "txt"), "t4": ("json",),
    "flashinfer-trace": ("jsonl", "ndjson", "json"),
}  # fmt: skip
"""Endings of a file's name that fit each format."""
OTHER_ENDINGS = (
    "arrow", "feather", "gz", "h5", "npz", "pickle", "pkl", "tsv", "xls", "xlsx", "xz", "yaml", "zip", "zst",
)  # fmt: skip
"""Endings that promise what no format writes; one that is not known promises nothing."""
US_PER_MS = 1000.0


def format_of(path: Path) -> str:
    """The format a file's name asks for."""
    ending = path.suffix.lstrip(".").lower()
    if ending not in BY_ENDING:
        raise UnknownNameError("export format", ending or str(path), FORMATS)
    return ending


def check_ending(path: Path, form: str, endings: Sequence[str]) -> None:
    """Refuse a file whose name promises another format than it would get."""
    ending = path.suffix.lstrip(".").lower()
    promised = {*OTHER_ENDINGS, *(one for fitting in ENDINGS.values() for one in fitting)}
    if ending in promised - {*endings}:
        fitting_ends = " or ".join(f".{one}" for one in endings)
        raise UserError(
            f"--format {form} writes no .{ending} file, as {str(path)!r} says; let the name end in {fitting_ends}"
        )


def check_format(path: Path, form: str | None) -> str:
    """The format to write a file in; refuses a name that does not fit it."""
    form = form or format_of(path)
    if form in ENDINGS:
        check_ending(path, form, ENDINGS[form])
    return form


def export(
    selection: Selection, path: Path, form: str | None = None, advance: Callable[[int], object] = lambda _: None
) -> int:
    """Write a selection to a file, which appears when it is whole, in a format or in that of its ending."""
    form = check_format(path, form)
    if form == FOLDER:
        return _write_kernel_files(selection, path, advance)
    try:
        with replacing(path) as file:
            return write_stream(selection, file, form, advance)
    except OSError as error:
        raise UserError(f"path {str(path)!r} cannot be written: {error.strerror}; choose another target") from error


def write_stream(
    selection: Selection, file: IO[bytes], form: str, advance: Callable[[int], object] = lambda _: None
) -> int:
    """Write a selection to an open file."""
    if form not in FORMATS:
        raise UnknownNameError("export format", form, FORMATS)
    if form == FOLDER:
        raise UserError("--format files writes a folder, not to standard output; name it with --out")
    if form == "parquet":
        return _write_parquet(selection, file, advance)
    lines = {"jsonl": _json_lines, "csv": _csv_lines, "t4": _t4_results, "flashinfer-trace": _traces}
    rows = 0
    for batch, text in lines[form](selection):
        file.write(text.encode())
        rows += batch
        advance(batch)
    return rows


def _write_parquet(selection: Selection, file: IO[bytes], advance: Callable[[int], object]) -> int:
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = arrow_schema(selection.config.record)
    chosen = marked(pa.schema([schema.field(name) for name in selection.columns or schema.names]), selection.config)
    rows = 0
    with pq.ParquetWriter(file, chosen, compression="zstd") as writer:
        for batch in selection.batches():
            writer.write_batch(batch)
            rows += batch.num_rows
            advance(batch.num_rows)
    return rows


def _json_lines(selection: Selection) -> Iterator[tuple[int, str]]:
    for batch in selection.batches():
        rows = (json.dumps(row, ensure_ascii=False) for row in batch.to_pylist())
        yield batch.num_rows, "".join(f"{row}\n" for row in rows)


def _csv_lines(selection: Selection) -> Iterator[tuple[int, str]]:
    """CSV with a header; a list or a nested record is its JSON, null is empty."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(selection.columns or arrow_schema(selection.config.record).names)
    for batch in selection.batches():
        for row in batch.to_pylist():
            writer.writerow(json.dumps(cell) if isinstance(cell, list | dict) else cell for cell in row.values())
        yield batch.num_rows, buffer.getvalue()
        buffer.seek(0)
        buffer.truncate()
    yield 0, buffer.getvalue()


T4_INVALIDITY: Mapping[str, str] = {
    Status.OK: "correct",
    Status.COMPILE_ERROR: "compile",
    Status.LAUNCH_ERROR: "runtime",
    Status.OUT_OF_MEMORY: "runtime",
    Status.INCORRECT: "correctness",
    Status.NONDETERMINISTIC: "correctness",
    Status.TIMEOUT: "timeout",
    Status.REJECTED: "constraints",
}


def _t4_results(selection: Selection) -> Iterator[tuple[int, str]]:
    """The file's text in pieces, each with the rows it holds; kernels nobody measured are left out."""
    if selection.config.name != "kernels" or selection.columns is not None:
        raise UserError("--format t4 takes whole rows of the config 'kernels'; leave --config and --columns out")
    space: tuple[str, str] | None = None
    for batch in selection.batches():
        for row in batch.to_pylist():
            if row["status"] is None:
                continue
            place = (row["problem_id"], str(row["gpu"]))
            if space is None:
                head = {"schema_version": "1.0.0", "metadata": {"kernel_name": place[0], "device": row["gpu"] or ""}}
                yield 0, json.dumps(head)[:-1] + ', "results": [\n'
            elif place != space:
                both = " and ".join(f"{problem} on {gpu}" for problem, gpu in (space, place))
                raise UserError(f"--format t4 takes one problem on one GPU, found {both}; add --problem and --gpu")
            yield 1, (",\n" if space else "") + json.dumps(_t4_result(row))
            space = place
    if space is None:
        raise UserError("--format t4 found no measured kernel; choose other rows")
    yield 0, "\n]}\n"


def _t4_result(row: Mapping[str, Any]) -> dict[str, Any]:
    """One kernel as a T4 result."""
    invalidity = T4_INVALIDITY[row["status"]]
    is_config = row["backend"] == Backend.CONFIG
    identity = {"kernel_id": row["kernel_id"], "backend": row["backend"]}
    time = None if row["runtime_us"] is None else row["runtime_us"] / US_PER_MS
    measured = [] if time is None else [{"name": "time", "value": time, "unit": "ms"}]
    return {
        "configuration": json.loads(row["source"]) if is_config else identity,
        "times": {"compilation_time": row["compile_ms"], "runtimes": [] if time is None else [time]},
        "invalidity": invalidity,
        "correctness": int(invalidity == "correct"),
        "measurements": measured,
        "objectives": ["time"],
    }


TRACE_STATUSES: Mapping[str, str] = {
    Status.OK: "PASSED",
    Status.COMPILE_ERROR: "COMPILE_ERROR",
    Status.LAUNCH_ERROR: "RUNTIME_ERROR",
    Status.OUT_OF_MEMORY: "RUNTIME_ERROR",
    Status.REJECTED: "RUNTIME_ERROR",
    Status.INCORRECT: "INCORRECT_NUMERICAL",
    Status.NONDETERMINISTIC: "INCORRECT_NUMERICAL",
    Status.TIMEOUT: "TIMEOUT",
}


def _traces(selection: Selection) -> Iterator[tuple[int, str]]:
    """The file's text in pieces, each with the rows it holds."""
    if selection.config.name != "measurements" or selection.columns is not None:
        raise UserError("--format flashinfer-trace takes whole rows of --config measurements; leave --columns out")
    for batch in selection.batches():
        rows = batch.to_pylist()
        yield len(rows), "".join(json.dumps(_trace(row)) + "\n" for row in rows)


def _trace(row: Mapping[str, Any]) -> dict[str, Any]:
    """One measurement as a trace; the solution is named by the kernel's id."""
    performance = correctness = None
    if row["runtime_us"] is not None:
        latency = row["runtime_us"] / US_PER_MS
        reference = None if row["speedup"] is None else latency * row["speedup"]
        performance = {
            "latency_ms": latency, "reference_latency_ms": reference, "speedup_factor": row["speedup"],
        }  # fmt: skip
    if row["max_abs_error"] is not None:
        correctness = {"max_relative_error": row["max_rel_error"], "max_absolute_error": row["max_abs_error"]}
    evaluation = {
        "status": TRACE_STATUSES[row["status"]],
        "log": row["error"] or "",
        "timestamp": row["started_at"],
        "environment": {"hardware": row["gpu"], "libs": {}},
        "correctness": correctness,
        "performance": performance,
    }
    workload = {"axes": {}, "inputs": {}, "uuid": row["workload"]}
    return {
        "definition": row["problem_id"], "workload": workload, "solution": row["kernel_id"], "evaluation": evaluation,
    }  # fmt: skip


KERNEL_LIST = "manifest.jsonl"
"""One line per row: a kernel measured on two GPUs has two."""
LISTED_COLUMNS = ("kernel_id", "problem_id", "backend", "gpu", "status", "runtime_us")
SHOWN_DIGITS = 12


def _write_kernel_files(selection: Selection, folder: Path, advance: Callable[[int], object]) -> int:
    """Write kernels into a new folder, which appears only when it is whole.

    Sources are written as they are, without a header: a comment would change the kernel's id.
    """
    if selection.config.name != "kernels" or selection.columns is not None:
        raise UserError("--format files takes whole rows of the config 'kernels'; leave --config and --columns out")
    written: dict[str, str] = {}
    lines: list[str] = []
    with whole_folder(folder) as aside:
        for batch in selection.batches():
            for row in batch.to_pylist():
                name = _file_name(row)
                if written.setdefault(name, row["kernel_id"]) != row["kernel_id"]:
                    name = _file_name(row, digits=len(row["kernel_id"]))
                (aside / name).write_bytes(row["source"].encode())
                lines.append(json.dumps({"file": name} | {column: row[column] for column in LISTED_COLUMNS}) + "\n")
            advance(batch.num_rows)
        (aside / KERNEL_LIST).write_text("".join(lines), encoding="utf-8")
    return len(lines)


def _file_name(row: Mapping[str, Any], digits: int = SHOWN_DIGITS) -> str:
    """A kernel's file: problem, backend and the beginning of its id; a configuration is JSON."""
    ending = "json" if row["backend"] == Backend.CONFIG else "py"
    return f"{row['problem_id']}__{row['backend']}__{row['kernel_id'][:digits]}.{ending}"
