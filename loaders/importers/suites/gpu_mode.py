"""GPU MODE submission exports: Parquet with code, score in seconds (lower is better), leaderboard and GPU type."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from kbench.loaders.importers.context import Context
from kbench.loaders.importers.fields import RowError, microseconds, optional_text, slug, text
from kbench.loaders.importers.published.release import FAMILY, PROBLEMS
from kbench.loaders.importers.rows import Items, Row, backend_of, kernel_row, measurement_row
from kbench.loaders.storage.parquet_stream import open_parquet
from kbench.schemas import DataError, Status

COLUMNS: Mapping[str, tuple[str, ...]] = {
    "code": ("code",),
    "score": ("score", "run_score"),
    "leaderboard": ("leaderboard", "leaderboard_name", "leaderboard_id"),
    "gpu": ("gpu_type", "gpu", "runner"),
    "passed": ("passed", "run_passed"),
    "license": ("license", "licence"),
}
"""What is wanted, and the names exports have had for it."""
UNIT = "s"
"""What every score is in."""
REQUIRED = ("code", "score", "leaderboard")
BOARDS: Mapping[str, str] = {
    **PROBLEMS,
    "princeton_cross_entropy": "cross_entropy_fwd_bwd",
    "gated_deltanet_chunk_fwd_h": "gdn_chunk_fwd_h",
    "gated_deltanet_chunk_fwd_o": "gdn_chunk_fwd_o",
    "gated_deltanet_recompute_w_u": "gdn_recompute_w_u",
}
"""Leaderboards whose task is a problem of ours, by our id."""


def columns_fit(columns: Sequence[str]) -> bool:
    """Whether a Parquet file may be of this format."""
    return all(set(COLUMNS[want]) & set(columns) for want in REQUIRED)


def rows(path: Path, context: Context) -> Items:
    """Kernels, and measurements where the GPU is stated."""
    schema, tables = open_parquet(path, [name for names in COLUMNS.values() for name in names])
    names = _names(path, schema.names)
    number = 0
    for table in tables:
        for record in table.to_pylist():
            data = {want: record[name] for want, name in names.items()}
            try:
                row = _row(path, context, data)
            except RowError as error:
                context.bad(path, number, error)
            else:
                yield "kernels", row, number
                if row["gpu"] is not None and row["status"] is not None:
                    place = f"{path.name}/{number}"
                    made = measurement_row(row, "published", place, runtime_us=row["runtime_us"])
                    yield "measurements", made, number
            number += 1
        context.advance(table.nbytes)


def _names(path: Path, columns: Sequence[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for want, names in COLUMNS.items():
        here = [name for name in names if name in columns]
        if not here and want in REQUIRED:
            raise DataError(f"{path} has no column {' or '.join(names)}; it is not a GPU MODE export")
        if len(here) > 1 and want != "leaderboard":
            raise DataError(f"{path} has the columns {' and '.join(here)}, which mean the same; leave one out")
        if here:
            found[want] = here[0]
    return found


def _row(path: Path, context: Context, data: dict[str, Any]) -> Row:
    if isinstance(data["code"], bytes):
        try:
            data["code"] = data["code"].decode()
        except UnicodeDecodeError:
            raise RowError("code", data["code"], "is not text in UTF-8") from None
    source = text(data, "code")
    board = data["leaderboard"]
    name = f"leaderboard_{board}" if isinstance(board, int) else text(data, "leaderboard")
    problem = BOARDS.get(name) or f"gpu_mode_{slug(name, 'leaderboard')}"
    gpu = context.known("gpu", optional_text(data, "gpu"))
    if gpu is None:
        context.null("gpu", "the export states no GPU type; state it with --gpu")
    licence = context.known("license", optional_text(data, "license"))
    if licence is None:
        context.null("license", "it changed over time and the row states none; state it with --license")
    figures: Row = {}
    if data.get("passed") is False:
        context.note("submissions that did not pass, for a reason that is not stated; kept as not measured")
    elif data["score"] is None:
        context.null("runtime_us", "the submission has no score")
    else:
        runtime = microseconds(data["score"], context.known("unit", UNIT), "score")
        figures = {"status": Status.OK.value, "runtime_us": runtime}
    return kernel_row(
        problem, FAMILY, backend_of(source), source, gpu=gpu, origin=f"gpu-mode {path.name}", license=licence,
        split=context.settings.split, **figures,
    )  # fmt: skip
