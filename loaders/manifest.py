"""The manifest: which files a corpus consists of. It is written last, so that what it names is whole."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kbench.loaders.configs import CONFIGS
from kbench.loaders.fingerprint import MODULUS, config_hash, corpus_fingerprint, dataset_version
from kbench.schemas import DataError, UserError
from kbench.schemas.record import field_types

NAME = "manifest.json"
FORMAT = "kbench-corpus/1"


@dataclasses.dataclass(frozen=True, slots=True)
class FileEntry:
    """One Parquet file."""

    path: str
    """Relative to the corpus folder."""
    split: str
    rows: int
    bytes: int
    sha256: str
    """Of the file's bytes."""
    rows_hash: str
    """Summed row hashes, in hex."""
    schema_version: str
    values: Mapping[str, tuple[str, ...]]
    """For each facet the values that occur, when they are few."""


@dataclasses.dataclass(frozen=True, slots=True)
class Manifest:
    """The files of each config."""

    files: Mapping[str, tuple[FileEntry, ...]]

    @property
    def config_hashes(self) -> dict[str, str]:
        """Content hash of every config that has rows."""
        return {
            name: config_hash(
                name,
                (field for field in field_types(CONFIGS[name].record) if field not in CONFIGS[name].later),
                sum(entry.rows for entry in entries),
                sum(int(entry.rows_hash, 16) for entry in entries) % MODULUS,
            )
            for name, entries in self.files.items()
            if entries
        }

    @property
    def fingerprint(self) -> str:
        """The corpus's content fingerprint."""
        return corpus_fingerprint(self.config_hashes)

    def versions(self) -> dict[str, str]:
        """The `version:` of every config in the card."""
        return {
            name: dataset_version(value, CONFIGS[name].record.VERSION) for name, value in self.config_hashes.items()
        }

    def values(self, config: str, column: str) -> set[str] | None:
        """The values a facet takes in a config; None when some file does not list them."""
        found: set[str] = set()
        for entry in self.files.get(config, ()):
            if column not in entry.values:
                return None
            found |= set(entry.values[column])
        return found

    def to_json(self) -> str:
        """The manifest's text."""
        configs = {
            name: {"version": self.versions()[name], "files": [dataclasses.asdict(entry) for entry in entries]}
            for name, entries in self.files.items()
            if entries
        }
        return json.dumps({"format": FORMAT, "fingerprint": self.fingerprint, "configs": configs}, indent=1) + "\n"


EMPTY = Manifest({})


def file_sha256(path: Path) -> str:
    """SHA-256 of a file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def read_manifest(folder: Path, *, check_files: bool = True) -> Manifest:
    """The manifest of a corpus folder.

    Args:
        folder: the corpus folder.
        check_files: whether to look that every file is there and has its size.

    Raises:
        UserError: the folder is not a corpus.
        DataError: the manifest is damaged, or a file it names is missing or cut short.
    """
    path = folder / NAME
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise UserError(
            f"path {str(folder)!r} is not a corpus: it has no {NAME}; give a folder written by kbench, Parquet files, "
            "or a Hub id such as owner/name"
        ) from None
    except OSError as error:
        raise UserError(f"path {str(folder)!r} cannot be read: {error.strerror}") from error
    manifest = _parse(text, path)
    for entry in (entry for entries in manifest.files.values() for entry in entries if check_files):
        _check_file(folder / entry.path, entry)
    return manifest


def _check_file(path: Path, entry: FileEntry) -> None:
    try:
        size = path.stat().st_size
    except FileNotFoundError:
        raise DataError(f"{path} is missing, though the manifest names it; fetch the corpus again") from None
    if size != entry.bytes:
        raise DataError(f"{path} has {size} bytes where the manifest says {entry.bytes}; fetch the corpus again")


def _parse(text: str, path: Path) -> Manifest:
    try:
        data = json.loads(text)
    except ValueError as error:
        raise DataError(f"{path} is not JSON ({error}); fetch the corpus again") from None
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        found = data.get("format") if isinstance(data, dict) else data
        raise DataError(f"{path} has format {found!r}; this kbench reads {FORMAT!r}")
    try:
        files = {name: tuple(_entry(item) for item in value["files"]) for name, value in data["configs"].items()}
    except (KeyError, TypeError, AttributeError) as error:
        raise DataError(f"{path} is damaged at {error}; fetch the corpus again") from None
    unknown = sorted(set(files) - set(CONFIGS))
    if unknown:
        raise DataError(f"{path} names the unknown config {unknown[0]!r}; a newer kbench may have written it")
    return Manifest(files)


def _entry(item: dict[str, Any]) -> FileEntry:
    path = Path(item["path"])
    if path.is_absolute() or ".." in path.parts:
        # A manifest from elsewhere must not make the loader read outside the corpus.
        raise KeyError(f"file path {item['path']!r}")
    values = {name: tuple(found) for name, found in item["values"].items()}
    return FileEntry(**(item | {"values": values}))
