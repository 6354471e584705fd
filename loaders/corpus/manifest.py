"""The manifest: which files a corpus consists of. It is written last, so that what it names is whole."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

from kbench.loaders.corpus.configs import CONFIGS
from kbench.loaders.corpus.fingerprint import MODULUS, config_hash, corpus_fingerprint, dataset_version
from kbench.loaders.storage.atomic import file_sha256
from kbench.schemas import DataError, Record, UserError, from_dict
from kbench.schemas.record import ID_PATTERN, Count, Limit, field_types

NAME = "manifest.json"
CARD, CROISSANT, LEDGER, EVAL, PLOTS = "README.md", "croissant.json", "ledger.json", "eval.yaml", "plots"
"""What describes a corpus beside its manifest; all of it is generated from the data."""
PULLED = "pull.json"
"""Where a pulled corpus came from."""
FORMAT = "kbench-corpus/1"
SHA256 = "[0-9a-f]{64}"
RELEASE = re.compile(r"[0-9]+(\.[0-9]+){0,2}")
Hash = Annotated[str, Limit(pattern=SHA256)]


@dataclasses.dataclass(frozen=True, slots=True)
class StatedFile(Record):
    """What a manifest states of a Parquet file, but for its facets."""

    path: str
    """Relative to the corpus folder."""
    split: str
    rows: Count
    bytes: Count
    sha256: Hash
    """Of the file's bytes."""
    rows_hash: Hash
    """Summed row hashes, in hex."""
    schema_version: str


@dataclasses.dataclass(frozen=True, slots=True)
class FileEntry(StatedFile):
    """One Parquet file."""

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
        """The `version:` of every config in the card: the release's number, or what follows from the content.

        A change of rows takes the release away, so either way `datasets` never serves rows of an earlier state.
        """
        if self.release is not None:
            return dict.fromkeys(self.config_hashes, self.release)
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
    new_files = written or {}
    tables = {entry.path for entries in manifest.files.values() for entry in entries}
    beside = [name for name in other_files(folder) if name not in tables and Path(name).parts[0] not in CONFIGS]
    hashes = {name: file_sha256(folder / name) for name in beside if name not in new_files}
    hashes |= {name: hashlib.sha256(data).hexdigest() for name, data in new_files.items() if data is not None}
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
        file = folder / entry.path
        try:
            size = file.stat().st_size
        except OSError as error:
            gone = isinstance(error, FileNotFoundError)
            what = "is missing" if gone else f"cannot be read ({error.strerror})"
            raise DataError(f"{file} {what}, though the manifest names it; fetch the corpus again") from None
        if size != entry.bytes:
            raise DataError(f"{file} has {size} bytes where the manifest says {entry.bytes}; fetch the corpus again")
    return manifest


def _parse(text: str, path: Path) -> Manifest:
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path} is not JSON ({error}); fetch the corpus again") from None
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        stated_format = data.get("format") if isinstance(data, dict) else data
        raise DataError(f"{path} has format {stated_format!r}; this kbench reads {FORMAT!r}")
    try:
        files = {
            name: tuple(_entry(name, file) for file in stated["files"]) for name, stated in data["configs"].items()
        }
        companions = data.get("companions", {})
        listed = [*companions, *(entry.path for entries in files.values() for entry in entries)]
        fingerprint, release = data["fingerprint"], data.get("release")
        _refuse_strange(listed, {"fingerprint": fingerprint, "release": release or "1", **companions})
    except DataError as error:
        raise DataError(f"{path} is damaged: {error}; fetch the corpus again") from None
    except (LookupError, TypeError, AttributeError) as error:
        reason = f"{type(error).__name__}: {error}"
        raise DataError(f"{path} is damaged: it is not what a manifest is ({reason}); fetch the corpus again") from None
    unknown = sorted(set(files) - set(CONFIGS))
    if unknown:
        raise DataError(f"{path} names the unknown config {unknown[0]!r}; a newer kbench may have written it")
    return Manifest(files, fingerprint, companions, release)


def _entry(config: str, item: Mapping[str, Any]) -> FileEntry:
    where = f"a file of config {config!r}"
    stated = from_dict(StatedFile, {name: value for name, value in item.items() if name != "values"}, where)
    values = {name: tuple(listed) for name, listed in item["values"].items()}
    if not all(isinstance(value, str) for listed in values.values() for value in listed):
        raise DataError(f"{where}.values holds what is no text")
    return FileEntry(**{name: getattr(stated, name) for name in field_types(StatedFile)}, values=values)


def _refuse_strange(paths: Iterable[str], texts: Mapping[str, str]) -> None:
    """Refuse paths that are not of files in the folder, as we write them, and hashes and numbers that are none."""
    # A manifest from elsewhere must not make the loader read outside the corpus.
    for name in paths:
        path = Path(name)
        if path.is_absolute() or ".." in path.parts or path.as_posix() != name or not name.isprintable():
            raise DataError(f"path is {name!r:.60}, not a file in the folder")
    for name, text in texts.items():
        if RELEASE.fullmatch(text) is None and re.fullmatch(ID_PATTERN, text) is None:
            raise DataError(f"{name} is {text!r:.60}, neither a hash nor a number such as 2.2.0")
