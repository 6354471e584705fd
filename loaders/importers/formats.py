"""The formats by name, and how a file's format is told; a file that could be two things is refused, not guessed."""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from kbench.loaders.importers.context import Context
from kbench.loaders.importers.published import gpu_forecasters
from kbench.loaders.importers.rows import Row
from kbench.loaders.storage.parquet_stream import read_schema
from kbench.schemas import DataError, UnknownNameError, UserError

Items = Iterator[tuple[str, Row, object]]
"""Config, row, and where in the file it was."""

MODULES: Mapping[str, str] = {
    "kernelbench-eval": "kernelbench_eval",
    "kernelbench-timing": "kernelbench_timing",
    "cuda-l1": "cuda_l1",
    "kernel-tuner": "kernel_tuner",
    "t4": "t4",
    "flashinfer-trace": "flashinfer_trace",
    "gpu-mode": "gpu_mode",
}
"""Modules of this package, each with `rows(path, context)` and `looks_like(head)`."""
NAMES = (*MODULES, gpu_forecasters.NAME)
HEAD_BYTES = 1 << 20


def importer(name: str) -> Callable[[Path, Context], Items]:
    """The function that reads a format.

    Raises:
        UnknownNameError: there is no such format.
    """
    if name not in MODULES:
        raise UnknownNameError("import format", name, NAMES)
    found: Callable[[Path, Context], Items] = _module(name).rows
    return found


def _module(name: str) -> Any:
    return importlib.import_module(f"kbench.loaders.importers.suites.{MODULES[name]}")


def sniff_all(paths: Sequence[Path]) -> str:
    """The one format all files have.

    Raises:
        UserError: a file's format is unclear, or the files differ.
    """
    found = {path: sniff(path) for path in paths}
    names = sorted(set(found.values()))
    if len(names) > 1:
        raise UserError(f"the files are of different formats ({', '.join(names)}); import them one format at a time")
    return names[0]


def sniff(path: Path) -> str:
    """A file's format, by what is in it.

    Raises:
        UserError: it could be none or several; name the format.
    """
    with path.open("rb") as file:
        head = file.read(HEAD_BYTES)
    if head[:4] == b"PAR1":
        columns = read_schema(path).names
        fits = [gpu_forecasters.NAME] if gpu_forecasters.dataset_of(columns) else []
        fits += ["gpu-mode"] if _module("gpu-mode").columns_fit(columns) else []
    else:
        opening = Opening(head)
        fits = [name for name in MODULES if name != "gpu-mode" and _module(name).looks_like(opening)]
    if len(fits) != 1:
        reason = f"it could be {' or '.join(fits)}" if fits else "it looks like none that is known"
        raise UserError(f"the format of {str(path)!r} is unclear: {reason}; name it with --format {'|'.join(NAMES)}")
    return fits[0]


class Opening:
    """The beginning of a JSON file: its first object when the file has one a line, else its first keys."""

    def __init__(self, head: bytes) -> None:
        self.text = head.decode("utf-8", "replace")
        first = self.text.lstrip().split("\n", 1)[0]
        self.first_line: Mapping[str, Any] | None = None
        try:
            value = json.loads(first)
        except (ValueError, RecursionError):
            value = None
        if isinstance(value, dict):
            self.first_line = value

    def has_keys(self, *keys: str) -> bool:
        """Whether all these keys occur as keys in the opening."""
        return all(f'"{key}"' in self.text for key in keys)


def require_object(value: Any, path: Path) -> Mapping[str, Any]:
    """A file's whole value as an object.

    Raises:
        DataError: it is something else.
    """
    if not isinstance(value, Mapping):
        raise DataError(f"{path} holds {type(value).__name__}; it must be a JSON object")
    return value
