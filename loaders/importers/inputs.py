"""The files of an import: what may be read, how it is unpacked, and what a file's name says."""

from __future__ import annotations

import fnmatch
import gzip
import itertools
import os
import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any

from kbench.loaders.importers.fields import RowError, plain, source_text
from kbench.loaders.storage.atomic import file_sha256
from kbench.loaders.storage.parquet_stream import open_parquet
from kbench.schemas import DataError, UserError

GZIP = b"\x1f\x8b"
BOM, WIDE_BOMS = b"\xef\xbb\xbf", (b"\xff\xfe", b"\xfe\xff")
LARGEST_KERNEL_BYTES = 1_000_000
LONGEST_FILE_NAME = 255
"""Bytes; a sample or solution with a longer name has no file."""
SEPARATORS = re.compile(r"[\s_.,()+-]+")
DATA_CENTRE = re.compile(
    r"a10g?|a16|a30|a40|a100|a800|[bh][12]00|b300|gb[23]00|gh200|h20|h800|k80|l20|l40s?|p40|p100|v100|"
    r"mi(?:50|60|100|210|250x?|300[ax]?|325x|350x|355x)|w(?:6600|6800|7800|7900)"
)
CONSUMER = re.compile(r"(?:rtx|gtx)?([2-5]0[5-9]0|1080|a[24]000|a4500|a5[05]00|a6000)(ti)?")
"""Names of models, in lower case."""
SUFFIXES = {"pcie": "PCIe", "sxm": "SXM", "xsm": "SXM", "sxm2": "SXM2", "sxm4": "SXM4", "sxm5": "SXM5", "nvl": "NVL",
            "ti": "Ti", "super": "Super", "laptop": "Laptop", "40gb": "40GB", "80gb": "80GB"}  # fmt: skip
"""What may follow a model's name in a file's name, as it is written."""


def files_below(folder: Path, *patterns: str) -> Iterator[Path]:
    """Files below a folder whose names match one of the patterns, folder by folder in order of their names.

    Links are not followed, so that a folder cannot hold itself.
    """
    for parent, folders, names in os.walk(folder, followlinks=False):
        folders.sort()
        for name in sorted(names):
            if any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns):
                yield Path(parent) / name


def require_files(paths: Iterable[Path]) -> None:
    """Refuse what is neither a regular file nor a folder, and a file named twice, whose entries would seem new."""
    # By name, not by what a link leads to: the Hub's cache keeps equal files once.
    seen: set[str] = set()
    for path in paths:
        name = os.path.abspath(path)
        if path.exists() and not path.is_file() and not path.is_dir():
            raise UserError(f"path {str(path)!r} is a device, pipe or socket; give regular files or folders")
        if not path.exists():
            raise UserError(f"path {str(path)!r} does not exist; give the files to import")
        if name in seen:
            raise UserError(f"path {str(path)!r} is given twice; name each file once")
        seen.add(name)
        try:
            os.listdir(path) if path.is_dir() else path.open("rb").close()
        except OSError as error:
            raise UserError(f"path {str(path)!r} cannot be read ({error.strerror}); check its permissions") from None


@contextmanager
def open_unpacked(path: Path) -> Iterator[Any]:
    """A file's bytes, gunzipped where it is packed, without a byte order mark."""
    with path.open("rb") as file:
        packed = file.read(2) == GZIP
    # Damage is an error about the file, not about the machine.
    with gzip.open(path) if packed else path.open("rb") as opened:
        try:
            start = opened.peek(3)[:3]
            if start[:2] in WIDE_BOMS:
                raise DataError(f"{path} begins with the byte order mark (BOM) of UTF-16; convert it to UTF-8")
            if start == BOM:
                opened.read(3)
            yield opened
        except (gzip.BadGzipFile, EOFError, zlib.error) as error:
            reason = plain(str(error))[:100]
            raise DataError(f"{path} is cut or damaged gzip ({reason}); fetch it again") from None


def has_bom(path: Path) -> bool:
    """Whether a file begins with the byte order mark of UTF-8; a folder does not."""
    if path.is_dir():
        return False
    with path.open("rb") as file:
        return file.read(3) == BOM


def head(path: Path, size: int) -> bytes:
    """The first bytes of a file, unpacked."""
    with open_unpacked(path) as file:
        data: bytes = file.read(size)
        return data


def digest(path: Path) -> str:
    """A short hash of a file's bytes: what tells runs apart that do not name themselves, wherever their files lie."""
    stat = path.stat()
    return _digest(path, stat.st_size, stat.st_mtime_ns)


@lru_cache(maxsize=256)
def _digest(path: Path, *_: int) -> str:
    return file_sha256(path)[:12]


def parquet_rows(
    path: Path, columns: Sequence[str] | None = None, advance: Callable[[int], object] = lambda _: None
) -> Iterator[tuple[int, dict[str, Any]]]:
    """The rows of a Parquet file, each with its number from 0; columns that the file lacks are skipped."""
    number = itertools.count()
    for table in open_parquet(path, columns)[1]:
        try:
            rows = table.to_pylist()
        except (OverflowError, ValueError) as error:
            raise DataError(f"{path} holds a value that cannot be read ({error}); leave its column out") from None
        yield from ((next(number), row) for row in rows)
        advance(table.nbytes)


def stem(path: Path) -> str:
    """A file's name without its endings .gz, .json, …"""
    name = path.name
    for ending in (".gz", ".json", ".jsonl", ".csv", ".parquet", ".txt"):
        name = name.removesuffix(ending)
    return plain(name)


@lru_cache(maxsize=256)
def gpu_named(path: Path) -> str | None:
    """The GPU a file is named after, as `a100_pcie.json` or `RTX_3090.json.gz` are; None when no model is in the name.

    Names of two characters such as L4 and T4 are taken for other things.
    """
    words = [word for word in SEPARATORS.split(stem(path).lower()) if word]
    for place, word in enumerate(words):
        consumer = CONSUMER.fullmatch(word)
        if DATA_CENTRE.fullmatch(word):
            name = [word.upper()]
        elif consumer:
            name = ["GTX" if consumer[1] == "1080" else "RTX", consumer[1].upper(), *(["Ti"] if consumer[2] else [])]
        elif word == "titan":
            name = ["Titan", *(["RTX"] if "rtx" in words else [])]
        else:
            continue
        following = itertools.takewhile(SUFFIXES.__contains__, words[place + 1 :])
        return " ".join([*name, *(SUFFIXES[suffix] for suffix in following)])
    return None


def read_inside(path: Path, folder: Path) -> bytes | None:
    """A small file that lies in a folder; None when there is none."""
    if len(path.name.encode(errors="replace")) > LONGEST_FILE_NAME:
        return None
    if not path.is_file():
        if path.is_symlink() or path.exists():
            raise RowError("kernel file", path.name, "is no regular file")
        return None
    if not path.resolve().is_relative_to(folder.resolve()):
        raise RowError("kernel file", path.name, "is a link that leads out of the folder of the import")
    size = path.stat().st_size
    if size > LARGEST_KERNEL_BYTES:
        raise RowError("kernel file", path.name, f"has {size:,} bytes; a kernel has at most {LARGEST_KERNEL_BYTES:,}")
    if not size:
        raise RowError("kernel file", path.name, "is empty")
    try:
        return path.read_bytes()
    except OSError as error:
        raise RowError("kernel file", path.name, f"cannot be read ({error.strerror})") from None


def kernel_text(path: Path, folder: Path) -> str | None:
    """The text of a kernel file that lies in a folder; None when there is none."""
    data = read_inside(path, folder)
    if data is None:
        return None
    if data[:2] in WIDE_BOMS:
        raise RowError("kernel file", path.name, "begins with the byte order mark (BOM) of UTF-16; convert it to UTF-8")
    try:
        text = data.removeprefix(BOM).decode("utf-8")
    except UnicodeDecodeError as error:
        raise RowError("kernel file", path.name, f"is not text in UTF-8 ({error.reason})") from None
    try:
        return source_text({"text": text}, "text")
    except RowError as error:
        raise RowError("kernel file", path.name, error.message) from None
