"""Open a submission's files without trusting them: a folder, a .zip or a .tar.gz.

Nothing is extracted to disk and no link is followed; every file is bounded before it is read.
"""

from __future__ import annotations

import gzip
import os
import tarfile
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import IO

from kbench.schemas import DataError

METADATA_FILE = "submission.json"
FORECAST_FILES = ("forecasts.parquet", "forecasts.jsonl")
KNOWN_FILES = (METADATA_FILE, *FORECAST_FILES)
FOLDERS = frozenset({"cache", "compared"})
LEFT_ALONE = FOLDERS | {"README.md", "results.json", "report.html", "published_prompt.json", "surrogate.log"}
"""What an evaluation or its author puts beside the entry; none of it is read."""

MAX_METADATA_BYTES = 64 * 1024
MAX_FORECAST_BYTES = 96 * 1024 * 1024
MAX_MEMBERS = 64
CHUNK = 1 << 20


def read_files(path: Path) -> Mapping[str, bytes]:
    """The submission's known files by name.

    Args:
        path: folder, .zip, .tar.gz or .tgz. In an archive the files may lie in one top folder.

    Raises:
        DataError: a file is too large, a link, outside the submission, unknown or unreadable.
    """
    if path.is_symlink():
        raise DataError(f"{path} is a symbolic link; give the folder or archive itself")
    if path.is_dir():
        return dict(_folder_files(path))
    if not path.is_file():
        raise DataError(f"{path} does not exist; give a folder, a .zip or a .tar.gz")
    try:
        if zipfile.is_zipfile(path):
            return dict(_zip_files(path))
        if path.name.endswith((".tar.gz", ".tgz")):
            return dict(_tar_files(path))
    except (zipfile.BadZipFile, tarfile.TarError, zlib.error, EOFError, OSError, RuntimeError, ValueError) as error:
        raise DataError(f"{path.name} cannot be read as an archive ({error}); pack the folder again") from None
    raise DataError(f"{path.name} is neither a folder, a .zip nor a .tar.gz")


def _folder_files(folder: Path) -> Iterator[tuple[str, bytes]]:
    for entry in sorted(folder.iterdir()):
        if entry.is_symlink():
            raise DataError(f"{entry.name!r} is a symbolic link; put the file itself into the submission")
        if entry.name in LEFT_ALONE:
            continue
        if entry.name not in KNOWN_FILES:
            raise _unexpected(entry.name)
        if not entry.is_file():
            raise DataError(f"{entry.name} is not a plain file")
        # A link or pipe that has taken the place of what was looked at is refused, or holds nothing.
        with open(
            entry, "rb", opener=lambda path, flags: os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK)
        ) as stream:
            yield entry.name, _bounded(stream, entry.name)


def _zip_files(path: Path) -> Iterator[tuple[str, bytes]]:
    with zipfile.ZipFile(path) as archive:
        members = archive.infolist()
        _check_count(len(members))
        seen: set[str] = set()
        for member in members:
            name = _member_name(member.filename, is_folder=member.is_dir())
            if member.external_attr >> 28 == 0o12:
                raise DataError(f"{member.filename!r} is a symbolic link; archives may hold plain files only")
            if name is None:
                continue
            _check_once(name, seen)
            with archive.open(member) as stream:
                yield name, _bounded(stream, name)


def _tar_files(path: Path) -> Iterator[tuple[str, bytes]]:
    with _BoundedGzip(path) as stream_of_all, tarfile.open(fileobj=stream_of_all, mode="r:") as archive:
        seen: set[str] = set()
        for count, member in enumerate(archive, start=1):
            _check_count(count)
            if not (member.isfile() or member.isdir()):
                raise DataError(f"{member.name!r} is a link or device; archives may hold plain files only")
            name = _member_name(member.name, is_folder=member.isdir())
            if member.size > MAX_FORECAST_BYTES:
                raise DataError(f"{member.name!r} claims {member.size:,} bytes; the limit is {MAX_FORECAST_BYTES:,}")
            if name is None:
                continue
            _check_once(name, seen)
            stream = archive.extractfile(member)
            assert stream is not None
            yield name, _bounded(stream, name)


class _BoundedGzip(gzip.GzipFile):
    """A compressed archive of which no piece is read that no submission has, a header for instance."""

    def read(self, size: int | None = -1) -> bytes:
        if size is None or size < 0 or size > MAX_FORECAST_BYTES:
            raise DataError(f"the archive wants {size:,} bytes read at once; no submission needs that")
        return super().read(size)


def _check_count(members: int) -> None:
    if members > MAX_MEMBERS:
        raise DataError(f"the archive holds more than {MAX_MEMBERS} files; a submission has two")


def _check_once(name: str, seen: set[str]) -> None:
    if name in seen:
        raise DataError(f"the archive holds {name} twice; keep one")
    seen.add(name)


def _member_name(raw: str, *, is_folder: bool) -> str | None:
    """The file's plain name, or None for what a submission does not use."""
    pure = PurePosixPath(raw.replace("\\", "/"))
    if pure.is_absolute() or ".." in pure.parts or ":" in raw:
        raise DataError(f"{raw!r} points outside the archive; store files by their plain names")
    # The archive's own folder has no parts.
    left_alone = not LEFT_ALONE.isdisjoint(pure.parts[:1]) or not FOLDERS.isdisjoint(pure.parts[1:2])
    if is_folder or pure.parts[-1:] == ("README.md",) or left_alone:
        return None
    if len(pure.parts) > 2 or pure.name not in KNOWN_FILES:
        if pure.name in LEFT_ALONE and len(pure.parts) == 2:
            return None
        raise _unexpected(raw)
    return pure.name


def _unexpected(name: str) -> DataError:
    return DataError(f"{ascii(name)[:80]} is no file of a submission; it holds {METADATA_FILE} and one forecasts file")


def _bounded(stream: IO[bytes], name: str) -> bytes:
    """Read at most the file's limit; the archive's own size claims are not believed."""
    limit = MAX_METADATA_BYTES if name == METADATA_FILE else MAX_FORECAST_BYTES
    parts: list[bytes] = []
    total = 0
    while chunk := stream.read(CHUNK):
        total += len(chunk)
        if total > limit:
            raise DataError(f"{name} is larger than {limit:,} bytes; a submission's {name} never is")
        parts.append(chunk)
    return b"".join(parts)
