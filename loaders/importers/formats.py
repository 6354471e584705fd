"""The formats by name, and how a file's format is found; a file that could be two things is refused, not guessed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from kbench.loaders.importers.context import Context
from kbench.loaders.importers.json_stream import Opening
from kbench.loaders.importers.published import gpu_forecasters
from kbench.loaders.importers.rows import Items
from kbench.loaders.importers.suites import (
    cuda_l1,
    flashinfer_trace,
    gpu_mode,
    kernel_tuner,
    kernelbench_eval,
    kernelbench_timing,
    t4,
)
from kbench.loaders.storage.parquet_stream import read_schema
from kbench.schemas import UnknownNameError, UserError

MODULES: Mapping[str, Any] = {
    "kernelbench-eval": kernelbench_eval,
    "kernelbench-timing": kernelbench_timing,
    "cuda-l1": cuda_l1,
    "kernel-tuner": kernel_tuner,
    "t4": t4,
    "flashinfer-trace": flashinfer_trace,
    "gpu-mode": gpu_mode,
}
"""Each with `rows(path, context)`, and `looks_like(opening)` or `columns_fit(columns)`."""
NAMES = (*MODULES, gpu_forecasters.NAME)
HEAD_BYTES = 1 << 20


def importer(name: str) -> Callable[[Path, Context], Items]:
    """The function that reads a format.

    Raises:
        UnknownNameError: there is no such format.
    """
    if name not in MODULES:
        raise UnknownNameError("import format", name, NAMES)
    found: Callable[[Path, Context], Items] = MODULES[name].rows
    return found


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
        fits += ["gpu-mode"] if gpu_mode.columns_fit(columns) else []
    else:
        opening = Opening(head)
        fits = [name for name in MODULES if name != "gpu-mode" and MODULES[name].looks_like(opening)]
    if len(fits) != 1:
        reason = f"it could be {' or '.join(fits)}" if fits else "it looks like none that is known"
        raise UserError(f"the format of {str(path)!r} is unclear: {reason}; name it with --format {'|'.join(NAMES)}")
    return fits[0]
