"""The environments a run folder's measurements were made in: `environments.jsonl` beside the log."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from kbench.loaders.storage.lines import LineWriter, parse_json, read_lines
from kbench.schemas import Environment, from_dict, to_dict

ENVIRONMENTS = "environments.jsonl"


def read_environments(path: Path) -> list[Environment]:
    """The environments of a run folder, or of the folder a log file lies in; none where none were recorded.

    Raises:
        DataError: names the line that is damaged or is not an environment.
    """
    file = (path if path.is_dir() else path.parent) / ENVIRONMENTS
    if not file.is_file():
        return []
    # Damage is what is not JSON: a last line with fields of a later version must be refused, not taken for damage.
    rows = (row for row, _ in read_lines(file, parse_json))
    return [from_dict(Environment, row, f"{file} line {number}") for number, row in enumerate(rows, 1)]


def record_environments(folder: Path, current: Sequence[Environment]) -> None:
    """Add the environments that are not in the folder yet."""
    known = {environment.env_id for environment in read_environments(folder)}
    fresh = [environment for environment in current if environment.env_id not in known]
    if fresh:
        with LineWriter(folder / ENVIRONMENTS, parse_json) as lines:
            lines.append(json.dumps(to_dict(environment), sort_keys=True) + "\n" for environment in fresh)
