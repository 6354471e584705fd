"""Packing: a run folder as a few compressed files, small enough to carry, that read back as the same log."""

from __future__ import annotations

import concurrent.futures
import lzma
from collections.abc import Iterator
from pathlib import Path

from kbench.generation.log import log_files, open_log
from kbench.schemas import UserError

PART_BYTES = 12 * 2**20
"""Raw bytes of a part: parts are compressed side by side, and neighbours in a log are near-copies that shrink well."""
ENVIRONMENTS = "environments.jsonl"


def pack(folder: Path, out: Path, part_bytes: int = PART_BYTES, processes: int = 8) -> list[Path]:
    """Compress a run folder's log into numbered parts, and copy its environments.

    Args:
        folder: the run folder.
        out: where the parts go; must hold no parts yet.
        part_bytes: raw bytes of a part; parts end at a line.
        processes: how many compress at once.

    Returns:
        The files written.
    """
    out.mkdir(parents=True, exist_ok=True)
    if any(out.glob("events*.jsonl*")):
        raise UserError(f"{str(out)!r} already holds a log; choose an empty folder for --pack")
    written: list[Path] = []
    with concurrent.futures.ThreadPoolExecutor(processes) as pool:
        jobs = [
            pool.submit(_compress, part, out / f"events-{number:03d}.jsonl.xz")
            for number, part in enumerate(_parts(folder, part_bytes))
        ]
        written = [job.result() for job in jobs]
    environments = folder / ENVIRONMENTS
    if environments.is_file():
        copy = out / ENVIRONMENTS
        copy.write_bytes(environments.read_bytes())
        written.append(copy)
    return written


def _parts(folder: Path, part_bytes: int) -> Iterator[bytes]:
    lines: list[bytes] = []
    size = 0
    for path in log_files(folder):
        with open_log(path) as stream:
            for line in stream:
                if not line.endswith(b"\n"):
                    break
                lines.append(line)
                size += len(line)
                if size >= part_bytes:
                    yield b"".join(lines)
                    lines, size = [], 0
    if lines:
        yield b"".join(lines)


def _compress(data: bytes, path: Path) -> Path:
    # lzma releases the interpreter lock, so threads compress in parallel without copying parts between processes.
    path.write_bytes(lzma.compress(data, preset=4))
    return path
