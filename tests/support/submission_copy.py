"""Copies of a submission with something changed."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

Rows = list[dict[str, Any]]


def submission_copy(honest: Path, to: Path, edit: Callable[[Rows], Rows] | None = None, **metadata: Any) -> Path:
    """The two files of a submission in another folder.

    Args:
        honest: the submission.
        to: the folder, which is made where it is missing.
        edit: changes the rows of forecasts, which are then written as JSON Lines.
        **metadata: fields of submission.json that get other values.
    """
    to.mkdir(parents=True, exist_ok=True)
    data = json.loads((honest / "submission.json").read_text("utf-8")) | metadata
    (to / "submission.json").write_text(json.dumps(data), "utf-8")
    if edit is None:
        shutil.copy(honest / "forecasts.parquet", to)
    else:
        rows = edit(pq.read_table(honest / "forecasts.parquet").to_pylist())
        (to / "forecasts.jsonl").write_text("\n".join(map(json.dumps, rows)), "utf-8")
    return to
