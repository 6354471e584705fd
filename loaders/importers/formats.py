"""The formats by name, and how a file's format is found; a file that could be two things is refused, not guessed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from kbench.loaders.importers.files import head
from kbench.loaders.importers.json_stream import Opening
from kbench.loaders.importers.published import gpu_forecasters
from kbench.loaders.importers.suites import (
    cuda_l1,
    flashinfer_trace,
    gpu_mode,
    kernel_tuner,
    kernelbench_eval,
    kernelbench_timing,
    ktt,
    t4,
    table,
)
from kbench.loaders.storage.parquet_stream import read_schema
from kbench.schemas import UnknownNameError, UserError

MODULES: Mapping[str, Any] = {
    "kernelbench-eval": kernelbench_eval,
    "kernelbench-timing": kernelbench_timing,
    "cuda-l1": cuda_l1,
    "kernel-tuner": kernel_tuner,
    "t4": t4,
    "ktt": ktt,
    "flashinfer-trace": flashinfer_trace,
    "gpu-mode": gpu_mode,
    "table": table,
}
"""Each with `rows(path, context)`; those a file shows have `looks_like(opening)` or `columns_fit(columns)`."""
TABLE = "table"
NAMES = (*MODULES, gpu_forecasters.NAME)
HEAD_BYTES = 1 << 20


def module(name: str) -> Any:
    """The module that reads a format.

    Raises:
        UnknownNameError: there is no such format.
    """
    if name not in MODULES:
        raise UnknownNameError("import format", name, NAMES)
    return MODULES[name]


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
    start = head(path, HEAD_BYTES)
    if start[:4] == b"PAR1":
        columns = read_schema(path).names
        fits = [gpu_forecasters.NAME] if gpu_forecasters.dataset_of(columns) else []
        fits += ["gpu-mode"] if gpu_mode.columns_fit(columns) else []
    else:
        opening = Opening(start)
        fits = [
            name for name, module in MODULES.items() if hasattr(module, "looks_like") and module.looks_like(opening)
        ]
    if len(fits) != 1:
        reason = f"it could be {' or '.join(fits)}" if fits else "it looks like none that is known"
        choices = f"name it with --format {'|'.join(NAMES)}, or describe its columns with --map"
        raise UserError(f"the format of {str(path)!r} is unclear: {reason}; {choices}")
    return fits[0]
