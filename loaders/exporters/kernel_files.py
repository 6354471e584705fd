"""Kernels as files again: one source file per kernel, and a manifest with what was measured of each."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from kbench.loaders.corpus.filters.selection import Selection
from kbench.loaders.storage.atomic import whole_folder
from kbench.schemas import Backend, UserError

MANIFEST = "manifest.jsonl"
"""One line per row: a kernel measured on two GPUs has two."""
COLUMNS = ("kernel_id", "problem_id", "backend", "gpu", "status", "runtime_us")
SHOWN_DIGITS = 12


def write_kernel_files(selection: Selection, folder: Path, advance: Callable[[int], object]) -> int:
    """Write kernels into a new folder, which appears only when it is whole.

    Sources are written as they are, without a header: a comment would change the kernel's id.

    Returns:
        how many rows the manifest has.

    Raises:
        UserError: the rows are not kernels, or the folder holds something already.
    """
    if selection.config.name != "kernels" or selection.columns is not None:
        raise UserError("--format files takes whole rows of the config 'kernels'; leave --config and --columns out")
    written: dict[str, str] = {}
    lines: list[str] = []
    with whole_folder(folder) as aside:
        for batch in selection.batches():
            for row in batch.to_pylist():
                name = file_name(row)
                if written.setdefault(name, row["kernel_id"]) != row["kernel_id"]:
                    name = file_name(row, digits=len(row["kernel_id"]))
                (aside / name).write_bytes(row["source"].encode())
                lines.append(json.dumps({"file": name} | {column: row[column] for column in COLUMNS}) + "\n")
            advance(batch.num_rows)
        (aside / MANIFEST).write_text("".join(lines), encoding="utf-8")
    return len(lines)


def file_name(row: Mapping[str, Any], digits: int = SHOWN_DIGITS) -> str:
    """A kernel's file: problem, backend and the beginning of its id; a configuration is JSON."""
    ending = "json" if row["backend"] == Backend.CONFIG else "py"
    return f"{row['problem_id']}__{row['backend']}__{row['kernel_id'][:digits]}.{ending}"
