"""The manifest: which files a corpus consists of. It is written last, so that what it names is whole."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

from kbench.loaders.corpus.configs import CONFIGS
from kbench.loaders.corpus.fingerprint import MODULUS, config_hash, corpus_fingerprint, dataset_version
from kbench.loaders.storage.atomic import file_sha256
from kbench.schemas import DataError, UserError
from kbench.schemas.record import field_types

NAME = "manifest.json"
CARD, CROISSANT, LEDGER, EVAL, PLOTS = "README.md", "croissant.json", "ledger.json", "eval.yaml", "plots"
"""What describes a corpus beside its manifest; all of it is generated from the data."""
PULLED = "pull.json"
"""Where a pulled corpus came from."""
FORMAT = "kbench-corpus/1"
SHA256 = re.compile(r"[0-9a-f]{64}")
RELEASE = re.compile(r"[0-9]+(\.[0-9]+){0,2}")
KINDS: Mapping[type, str] = {str: "text", int: "a whole number", list: "a list", dict: "an object"}

T = TypeVar("T")


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
    stated: str | None = None
    """The fingerprint its file states; None when it was not read from one."""
    companions: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """SHA-256 of every other file of the corpus by path; manifests of earlier versions list none."""
    release: str | None = None
    """The number under which it is published, such as 2.2.0; None of a corpus that is no release."""

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
        counted = {name: value for name, value in self.config_hashes.items() if CONFIGS[name].in_fingerprint}
        return corpus_fingerprint(counted)

    def versions(self) -> dict[str, str]:
        """The `version:` of every config in the card."""
        return {
            name: dataset_version(value, CONFIGS[name].record.VERSION) for name, value in self.config_hashes.items()
        }

    def values(self, config: str, column: str) -> set[str] | None:
        """The values a facet takes in a config; None when some file does not list them."""
        listed: set[str] = set()
        for entry in self.files.get(config, ()):
            if column not in entry.values:
                return None
            listed |= set(entry.values[column])
        return listed

    def to_json(self) -> str:
        """The manifest's text."""
        configs = {
            name: {"version": self.versions()[name], "files": [dataclasses.asdict(entry) for entry in entries]}
            for name, entries in self.files.items()
            if entries
        }
        released = {"release": self.release} if self.release else {}
        stated = {"format": FORMAT, **released, "fingerprint": self.fingerprint, "configs": configs}
        if self.companions:
            stated["companions"] = dict(sorted(self.companions.items()))
        return json.dumps(stated, indent=1) + "\n"

    def faults(self, folder: Path) -> Iterator[tuple[Path, str | None, str | None, str]]:
        """What it says of itself and of files beside the tables, and is not so: path, field, value and message."""
        if self.stated is not None and self.stated != self.fingerprint:
            message = f"states the fingerprint {self.stated[:32]!r}, and its files make it {self.fingerprint!r}"
            yield folder / NAME, "fingerprint", self.stated, message
        for path, sha256 in self.companions.items():
            if not (folder / path).is_file():
                yield folder / path, None, None, "is missing, though the manifest names it"
            elif file_sha256(folder / path) != sha256:
                yield folder / path, None, None, "differs from the manifest's hash"

    def strays(self, folder: Path) -> list[Path]:
        """Files that it does not name, where it names all."""
        named = {entry.path for entries in self.files.values() for entry in entries} | {*self.companions}
        return [folder / name for name in other_files(folder) if name not in named] if self.companions else []


EMPTY = Manifest({})
MOST_BYTES = 64 << 20
"""Of a manifest; one of a thousand files has a few."""


def other_files(folder: Path) -> list[str]:
    """Every file of a corpus folder but its manifest, hidden ones, and the note of a pull, which is of this machine."""
    paths = (path for path in sorted(folder.rglob("*")) if path.is_file())
    names = [path.relative_to(folder) for path in paths]
    hidden = {name for name in names if any(part.startswith(".") for part in name.parts)}
    return [name.as_posix() for name in names if name not in hidden and name.as_posix() not in (NAME, PULLED)]


def covering(folder: Path, manifest: Manifest, written: Mapping[str, bytes | None] | None = None) -> Manifest:
    """A manifest that names every file of its folder beside the tables."""
    coming = written or {}
    tables = {entry.path for entries in manifest.files.values() for entry in entries}
    there = [name for name in other_files(folder) if name not in tables and Path(name).parts[0] not in CONFIGS]
    hashes = {name: file_sha256(folder / name) for name in there if name not in coming}
    hashes |= {name: hashlib.sha256(data).hexdigest() for name, data in coming.items() if data is not None}
    return dataclasses.replace(manifest, companions=hashes)


def read_manifest(folder: Path, *, check_files: bool = True) -> Manifest:
    """The manifest of a corpus folder.

    Raises:
        UserError: the folder is not a corpus.
        DataError: the manifest is damaged, or a file it names is missing or cut short.
    """
    path = folder / NAME
    if path.is_fifo():  # reading it would never end
        raise DataError(f"{path} is a pipe; fetch the corpus again")
    try:
        if path.stat().st_size > MOST_BYTES:
            raise DataError(f"{path} is larger than {MOST_BYTES:,} bytes; no manifest is: fetch the corpus again")
        text = path.read_text(encoding="utf-8")
    except (FileNotFoundError, NotADirectoryError):
        raise UserError(
            f"path {str(folder)!r} is not a corpus: it has no {NAME}; give a folder written by kbench, Parquet files, "
            "or a Hub id such as owner/name"
        ) from None
    except OSError as error:
        raise UserError(f"path {str(folder)!r} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise DataError(f"{path} is not text in UTF-8 ({error.reason}); fetch the corpus again") from None
    manifest = _parse(text, path)
    for entry in (entry for entries in manifest.files.values() for entry in entries if check_files):
        _check_file(folder / entry.path, entry)
    return manifest


def _check_file(path: Path, entry: FileEntry) -> None:
    try:
        size = path.stat().st_size
    except OSError as error:
        gone = isinstance(error, FileNotFoundError)
        what = "is missing" if gone else f"cannot be read ({error.strerror})"
        raise DataError(f"{path} {what}, though the manifest names it; fetch the corpus again") from None
    if size != entry.bytes:
        raise DataError(f"{path} has {size} bytes where the manifest says {entry.bytes}; fetch the corpus again")


def _parse(text: str, path: Path) -> Manifest:
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path} is not JSON ({error}); fetch the corpus again") from None
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        stated_format = data.get("format") if isinstance(data, dict) else data
        raise DataError(f"{path} has format {stated_format!r}; this kbench reads {FORMAT!r}")
    try:
        configs = _must(dict, "configs", data.get("configs"))
        files = {name: tuple(_entries(name, value)) for name, value in configs.items()}
        stated = _must(str, "fingerprint", data.get("fingerprint"))
        listed = _must(dict, "companions", data.get("companions", {}))
        companions = {_companion(name): _hash("sha256", value) for name, value in listed.items()}
        release = _release(data["release"]) if "release" in data else None
    except _DamageError as error:
        raise DataError(f"{path} is damaged: {error}; fetch the corpus again") from None
    unknown = sorted(set(files) - set(CONFIGS))
    if unknown:
        raise DataError(f"{path} names the unknown config {unknown[0]!r}; a newer kbench may have written it")
    return Manifest(files, stated, companions, release)


class _DamageError(Exception):
    """Something in a manifest is not what it must be."""


def _must(kind: type[T], what: str, value: Any) -> T:
    if not isinstance(value, kind) or isinstance(value, bool):
        raise _DamageError(f"{what} is {value!r:.60}, not {KINDS[kind]}")
    return value


def _entries(config: str, value: Any) -> Iterator[FileEntry]:
    files = _must(dict, f"config {config!r}", value).get("files")
    for item in _must(list, f"files of config {config!r}", files):
        yield _entry(_must(dict, f"a file of config {config!r}", item))


def _entry(item: dict[str, Any]) -> FileEntry:
    fields = [field.name for field in dataclasses.fields(FileEntry)]
    if set(item) != set(fields):
        odd = sorted(set(item) ^ set(fields))[0]
        raise _DamageError(f"a file's field {odd!r} is {'unknown' if odd in item else 'missing'}")
    # A manifest from elsewhere must not make the loader read outside the corpus.
    path = _companion(_must(str, "path", item["path"]))
    if not path.endswith(".parquet"):
        raise _DamageError(f"path is {path!r:.60}, not a Parquet file in the folder")
    values = {
        name: tuple(_must(str, f"a value of {name!r}", value) for value in _must(list, f"values of {name!r}", found))
        for name, found in _must(dict, "values of a file", item["values"]).items()
    }
    return FileEntry(
        path=path,
        split=_must(str, "split", item["split"]),
        rows=_count("rows", item["rows"]),
        bytes=_count("bytes", item["bytes"]),
        sha256=_hash("sha256", item["sha256"]),
        rows_hash=_hash("rows_hash", item["rows_hash"]),
        schema_version=_must(str, "schema_version", item["schema_version"]),
        values=values,
    )


def _count(name: str, value: Any) -> int:
    if _must(int, name, value) < 0:
        raise _DamageError(f"{name} is {value}, less than 0")
    return int(value)


def _hash(name: str, value: Any) -> str:
    if SHA256.fullmatch(_must(str, name, value)) is None:
        raise _DamageError(f"{name} is {value!r:.60}, not 64 hex digits")
    return str(value)


def _release(value: Any) -> str:
    if RELEASE.fullmatch(_must(str, "release", value)) is None:
        raise _DamageError(f"release is {value!r:.60}, not a number such as 2.2.0")
    return str(value)


def _companion(value: str) -> str:
    path = Path(value)
    # As it is written by us, so that no file has two names.
    if path.is_absolute() or ".." in path.parts or path.as_posix() != value or not value.isprintable():
        raise _DamageError(f"path is {value!r:.60}, not a file in the folder")
    return value
