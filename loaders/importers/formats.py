"""The formats by name, and how a file's format is found; a file that could be two things is refused, not guessed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from kbench.loaders.importers import gpu_forecasters
from kbench.loaders.importers.auto_tuners import T4, KernelTunerCache, Ktt
from kbench.loaders.importers.gpu_mode import GpuMode
from kbench.loaders.importers.inputs import head
from kbench.loaders.importers.json_stream import Opening
from kbench.loaders.importers.kernelbench import CudaL1, KernelBenchEval, KernelBenchTiming
from kbench.loaders.importers.openevolve import OpenEvolve
from kbench.loaders.importers.reader import Reader
from kbench.loaders.importers.table import Table
from kbench.loaders.importers.traces import FlashinferTrace, SolExecBench
from kbench.loaders.storage.parquet_stream import read_schema
from kbench.schemas import UserError

FORMATS: Mapping[str, type[Reader]] = {
    reader.NAME: reader
    for reader in (
        KernelBenchEval, KernelBenchTiming, CudaL1, KernelTunerCache, T4, Ktt, FlashinferTrace, GpuMode, SolExecBench,
        OpenEvolve, Table,
    )
}  # fmt: skip
"""Formats that are read entry by entry; the published release joins its files."""
NAMES = (*FORMATS, gpu_forecasters.NAME)
HEAD_BYTES = 1 << 20


def refuse_misplaced(name: str, paths: Sequence[Path]) -> None:
    """Refuse a folder for a format that is read file by file, and a file for one that is read by folder."""
    by_folder = name in FORMATS and FORMATS[name].BY_FOLDER
    for path in paths:
        if path.is_dir() and not by_folder:
            raise UserError(f"path {str(path)!r} is a folder; name the files in it, for instance {path.name}/*.json")
        if by_folder and not path.is_dir():
            raise UserError(f"path {str(path)!r} is a file; {name} is read by folder: give the folder it lies in")


def sniff_all(paths: Sequence[Path]) -> str:
    """The one format all files have."""
    names = sorted({sniff(path) for path in paths})
    if len(names) > 1:
        raise UserError(f"the files are of different formats ({', '.join(names)}); import them one format at a time")
    return names[0]


def sniff(path: Path) -> str:
    """A file's format, by what is in it."""
    readers = FORMATS.values()
    if path.is_dir():
        fits = [reader.NAME for reader in readers if reader.folder_fits(path)]
        if not fits:
            raise UserError(f"path {str(path)!r} is a folder; name the files in it, for instance {path.name}/*.json")
    elif (start := head(path, HEAD_BYTES))[:4] == b"PAR1":
        columns = read_schema(path).names
        fits = [gpu_forecasters.NAME] if gpu_forecasters.dataset_of(columns) else []
        fits += [reader.NAME for reader in readers if reader.columns_fit(columns)]
    else:
        opening = Opening(start)
        fits = [reader.NAME for reader in readers if reader.looks_like(opening)]
    if len(fits) != 1:
        reason = f"it could be {' or '.join(fits)}" if fits else "it looks like none that is known"
        choices = f"name it with --format {'|'.join(NAMES)}, or describe its columns with --map"
        raise UserError(f"the format of {str(path)!r} is unclear: {reason}; {choices}")
    return fits[0]
