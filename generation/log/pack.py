"""Packing: a run folder as a few compressed files that read back as the same log."""

from __future__ import annotations

import concurrent.futures
import lzma
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from kbench.generation.log.environments import ENVIRONMENTS
from kbench.generation.log.log import LIVE_NAME, found_files, log_files
from kbench.loaders.storage.atomic import replace_together
from kbench.loaders.storage.lines import raw_lines
from kbench.schemas import InfrastructureError, UserError

PART_BYTES = 12 * 2**20
"""Raw bytes of a part: parts are compressed in parallel, and neighbouring kernels in a log are near-copies."""


def pack(folder: Path, out: Path, part_bytes: int = PART_BYTES, processes: int = 8) -> list[Path]:
    """Compress a run folder's log into numbered parts, and copy its environments.

    An earlier pack of the same log is replaced. Parts are written whole and in order, so that an interrupted pack
    holds the beginning of the log.

    Args:
        folder: the run folder.
        out: where the parts go.
        part_bytes: raw bytes of a part; a part ends with a whole line.
        processes: how many parts are compressed at once.

    Returns:
        The files written.

    Raises:
        UserError: `out` cannot be a folder, or holds something other than an earlier pack of this log.
        DataError: a compressed file cannot be read.
        InfrastructureError: the disk fails; names the file, or `out` where the system does not say which.
    """
    check_target(folder, out)
    try:
        return _pack(folder, out, part_bytes, processes)
    except OSError as error:
        raise InfrastructureError(
            f"{error.filename or out} cannot be packed ({error.strerror or error}); fix that and run the same command "
            "again: the search can be resumed"
        ) from error


def _pack(folder: Path, out: Path, part_bytes: int, processes: int) -> list[Path]:
    with concurrent.futures.ThreadPoolExecutor(processes) as pool:
        # lzma releases the interpreter lock, so threads compress in parallel without copying parts between processes.
        parts = list(pool.map(lambda part: lzma.compress(part, preset=4), _parts(folder, part_bytes)))
    files: dict[str, bytes | None] = {f"events-{number:03d}.jsonl.xz": part for number, part in enumerate(parts)}
    environments = folder / ENVIRONMENTS
    if environments.is_file():
        files[ENVIRONMENTS] = environments.read_bytes()
    written = [out / name for name in files]
    files |= {old.name: None for old in found_files(out) if old.name not in files}
    replace_together(out, files)
    return written


def check_target(folder: Path, out: Path) -> None:
    """Check that a run folder can be packed into `out`: a new or empty folder, or one with an earlier pack of this log.

    A new folder is created, the only proof that it can be.

    Raises:
        UserError: names the folder and what is wrong with it.
        DataError: a compressed file cannot be read.
    """
    # Not Path.resolve, which raises for a loop of links: such a path is refused below, like any that cannot be created.
    if os.path.realpath(out) == os.path.realpath(folder):
        raise UserError(f"{str(out)!r} is the --out folder itself; choose another folder for --pack")
    try:
        out.mkdir(parents=True, exist_ok=True)
    except FileExistsError:
        raise UserError(f"{str(out)!r} is not a folder; name a folder for --pack") from None
    except OSError as error:
        raise UserError(f"{str(out)!r} cannot be made ({error.strerror}); choose another folder for --pack") from None
    if not os.access(out, os.R_OK | os.W_OK | os.X_OK):
        raise UserError(f"{str(out)!r} cannot be read and written; choose another folder for --pack")
    if (out / LIVE_NAME).is_file():
        raise UserError(f"{str(out)!r} holds the live log of a search; choose an empty folder for --pack")
    packed = found_files(out)
    if packed and not _begins_with(found_files(folder), packed):
        raise UserError(f"{str(out)!r} already holds another log; choose an empty folder for --pack")


def _begins_with(files: Sequence[Path], start: Sequence[Path]) -> bool:
    lines = _whole_lines(files)
    return all(line == next(lines, None) for line in _whole_lines(start))


def _whole_lines(files: Sequence[Path]) -> Iterator[bytes]:
    for path in files:
        yield from (line for line in raw_lines(path) if line.endswith(b"\n"))


def _parts(folder: Path, part_bytes: int) -> Iterator[bytes]:
    lines: list[bytes] = []
    size = 0
    for line in _whole_lines(log_files(folder)):
        lines.append(line)
        size += len(line)
        if size >= part_bytes:
            yield b"".join(lines)
            lines, size = [], 0
    if lines:
        yield b"".join(lines)
