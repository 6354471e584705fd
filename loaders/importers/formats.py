"""The formats by name, and how a file's format is found; a file that could be two things is refused, not guessed."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from kbench.loaders.importers import (
    auto_tuners,
    flashinfer_trace,
    gpu_forecasters,
    gpu_mode,
    kernelbench,
    openevolve,
    sol_execbench,
    table,
)
from kbench.loaders.importers.context import Context
from kbench.loaders.importers.inputs import head
from kbench.loaders.importers.json_stream import Opening
from kbench.loaders.importers.rows import Items
from kbench.loaders.storage.parquet_stream import read_schema
from kbench.schemas import UnknownNameError, UserError


@dataclasses.dataclass(frozen=True, slots=True)
class Format:
    """A format that is read row by row."""

    name: str
    rows: Callable[[Path, Context], Items]
    looks_like: Callable[[Opening], bool] = lambda _: False
    """Whether a file of JSON may be of this format."""
    columns_fit: Callable[[Sequence[str]], bool] = lambda _: False
    """Whether a Parquet file with these columns may be of this format."""
    folder_fits: Callable[[Path], bool] | None = None
    """Whether a folder may hold files of this format; None where the format is read file by file."""
    over_workloads: bool = False
    """Whether entries about one kernel are its workloads, so that one failure is the kernel's; else they are runs."""


FORMATS: Mapping[str, Format] = {
    one.name: one
    for one in (
        Format("kernelbench-eval", kernelbench.eval_rows, kernelbench.is_eval),
        Format("kernelbench-timing", kernelbench.timing_rows, kernelbench.is_timing),
        Format("cuda-l1", kernelbench.cuda_l1_rows, kernelbench.is_cuda_l1),
        Format("kernel-tuner", auto_tuners.cache_rows, auto_tuners.is_cache),
        Format("t4", auto_tuners.t4_rows, auto_tuners.is_t4),
        Format("ktt", auto_tuners.ktt_rows, auto_tuners.is_ktt),
        Format("flashinfer-trace", flashinfer_trace.rows, flashinfer_trace.looks_like, over_workloads=True),
        Format("gpu-mode", gpu_mode.rows, columns_fit=gpu_mode.columns_fit),
        Format("sol-execbench", sol_execbench.rows, folder_fits=sol_execbench.fits),
        Format("openevolve", openevolve.rows, folder_fits=openevolve.fits),
        Format("table", table.rows),
    )
}
TABLE = "table"
NAMES = (*FORMATS, gpu_forecasters.NAME)
HEAD_BYTES = 1 << 20


def format_named(name: str) -> Format:
    """The format of a name.

    Raises:
        UnknownNameError: there is no such format.
    """
    if name not in FORMATS:
        raise UnknownNameError("import format", name, NAMES)
    return FORMATS[name]


def refuse_misplaced(name: str, paths: Sequence[Path]) -> None:
    """Refuse a folder for a format that is read file by file, and a file for one that is read by folder.

    Raises:
        UserError: says which to give.
    """
    by_folder = name in FORMATS and FORMATS[name].folder_fits is not None
    for path in paths:
        if path.is_dir() and not by_folder:
            raise UserError(f"path {str(path)!r} is a folder; name the files in it, for instance {path.name}/*.json")
        if by_folder and not path.is_dir():
            raise UserError(f"path {str(path)!r} is a file; {name} is read by folder: give the folder it lies in")


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
    if path.is_dir():
        fits = [one.name for one in FORMATS.values() if one.folder_fits is not None and one.folder_fits(path)]
        if not fits:
            raise UserError(f"path {str(path)!r} is a folder; name the files in it, for instance {path.name}/*.json")
    elif (start := head(path, HEAD_BYTES))[:4] == b"PAR1":
        columns = read_schema(path).names
        fits = [gpu_forecasters.NAME] if gpu_forecasters.dataset_of(columns) else []
        fits += [one.name for one in FORMATS.values() if one.columns_fit(columns)]
    else:
        opening = Opening(start)
        fits = [one.name for one in FORMATS.values() if one.looks_like(opening)]
    if len(fits) != 1:
        reason = f"it could be {' or '.join(fits)}" if fits else "it looks like none that is known"
        choices = f"name it with --format {'|'.join(NAMES)}, or describe its columns with --map"
        raise UserError(f"the format of {str(path)!r} is unclear: {reason}; {choices}")
    return fits[0]
