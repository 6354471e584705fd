"""Fetch a dataset by name: the published release or recorded searches, imported, or a kbench corpus from the Hub.

Every file is checked. Code of others is never part of this package: a recipe in sets.yaml says where recorded searches
lie, and what their bytes must be.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
import shutil
import tarfile
import tempfile
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

import yaml

from kbench.loaders.corpus.corpus import Corpus
from kbench.loaders.corpus.manifest import NAME as MANIFEST
from kbench.loaders.corpus.manifest import PULLED, other_files, read_manifest
from kbench.loaders.corpus.places import HUB_ID, data_home, is_corpus
from kbench.loaders.hub.repository import commit_of, fetch_files
from kbench.loaders.importers import gpu_forecasters as published
from kbench.loaders.importers.formats import FORMATS
from kbench.loaders.importers.inputs import files_below
from kbench.loaders.importers.reader import ImportSettings
from kbench.loaders.importers.run import REPORT, import_files
from kbench.loaders.storage.atomic import file_sha256, whole_folder
from kbench.loaders.storage.hub_client import evict_damaged
from kbench.schemas import DataError, InfrastructureError, UnknownNameError, UserError

UNSAID = f"which does not say where it came from (no readable {PULLED})"
"""Of a corpus that may have been pulled from anywhere, or from nowhere."""


@dataclasses.dataclass(frozen=True, slots=True)
class Pulled:
    """What came of a pull."""

    folder: Path
    revisions: Mapping[str, str]
    """Commit by repository."""
    report: Mapping[str, Any]


def pull_release(
    out: Path | None = None,
    *,
    only: Sequence[str] = (),
    revisions: Mapping[str, str] | None = None,
    say: Callable[[str], object] = lambda _: None,
) -> Pulled:
    """Download the published release and import it; what was pulled before is replaced when the new one is whole.

    `revisions` names a commit, tag or branch by dataset; `""` stands for all.
    """
    names = tuple(only) or published.DATASETS
    pinned = revisions or {}
    for name in (*names, *(name for name in pinned if name)):
        if name not in published.DATASETS:
            raise UnknownNameError("dataset of gpu-forecasters", name, published.DATASETS)
    if published.PREDICTIONS in names and published.EVAL not in names:
        raise UserError(f"--only {published.PREDICTIONS} needs {published.EVAL} too: forecasts answer its rows")
    target = out or data_home() / published.NAME
    _refuse_other(target, published.NAME)
    commits: dict[str, str] = {}
    files: list[Path] = []
    for name in names:
        repository = published.repository(name)
        commits[name] = commit_of(repository, pinned.get(name) or pinned.get("") or None)
        say(f"fetching {repository}@{commits[name][:12]}")
        folder = fetch_files(repository, commits[name], ["*.parquet", "**/*.parquet", "README.md"])
        parquet_files = sorted(folder.rglob("*.parquet"))
        if not parquet_files:
            raise DataError(
                f"repository {repository!r} holds no Parquet file at {commits[name]}; its layout has changed"
            )
        files += parquet_files
    settings = ImportSettings(on_bad_rows="skip", revisions=commits)
    say(f"importing {published.NAME}")
    report = import_files(published.NAME, files, target, settings, replace=out is None)
    return Pulled(target, {published.repository(name): sha for name, sha in commits.items()}, report.to_json())


def pull_corpus(repository: str, out: Path | None = None, revision: str | None = None) -> Pulled:
    """Download a kbench corpus and check every file against its manifest."""
    if HUB_ID.match(repository) is None:
        raise UserError(f"{repository!r} is neither gpu-forecasters nor a Hub id such as owner/name")
    target = out or data_home() / repository.split("/")[1]
    commit = commit_of(repository, revision)
    _refuse_other(target, repository)
    folder = fetch_files(repository, commit)
    try:
        corpus = Corpus.open(folder, verified=True)
    except DataError:
        # The cache may be damaged, not the repository: a second look is at bytes that were fetched again.
        evict_damaged(folder, unproven=True)
        folder = fetch_files(repository, commit)
        corpus = Corpus.open(folder, verified=True)
    manifest = read_manifest(folder)
    unnamed = {path.relative_to(folder).as_posix() for path in manifest.strays(folder)}
    with whole_folder(target, replace=out is None and is_corpus(target)) as aside:
        for relative in (name for name in other_files(folder) if name not in unnamed):
            (aside / relative).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(folder / relative, aside / relative)
        source = {"repository": repository, "commit": commit}
        (aside / PULLED).write_text(json.dumps(source, indent=1) + "\n", encoding="utf-8")
        shutil.copyfile(folder / MANIFEST, aside / MANIFEST)
    rows = {name: corpus.rows(name) for name in corpus.configs}
    return Pulled(target, {repository: commit}, {"rows": rows, "fingerprint": corpus.fingerprint})


def _refuse_other(target: Path, source: str) -> None:
    """Refuse to put a corpus in the place of one from elsewhere: the data folder tells corpora apart by bare names."""
    if not is_corpus(target):
        return
    origin = _source(target)
    if origin == source:
        return
    whose = f"one pulled from {origin!r}" if origin else UNSAID
    raise UserError(
        f"pulling {source!r} would replace the corpus in {str(target)!r}, {whose}; "
        "pull into another folder with --out, or remove that one first"
    )


def _source(folder: Path) -> str | None:
    """The repository a corpus was pulled from, or the format it was imported from; None when nothing says."""
    for name, field in ((PULLED, "repository"), (REPORT, "format")):
        try:
            return str(json.loads((folder / name).read_text(encoding="utf-8"))[field])
        except FileNotFoundError:
            continue
        except (OSError, ValueError, LookupError, TypeError):
            return None
    return None


ARCHIVE = "https://codeload.github.com/{repository}/tar.gz/{commit}"
LARGEST_BYTES = 4 << 30
"""Unpacked; what is larger is not the set that the recipe is about."""
CHUNK, TIMEOUT_S = 1 << 20, 60


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where files lie."""

    repository: str
    commit: str
    folders: tuple[str, ...]
    """Folders of the repository that are read, or patterns of files; nothing else is unpacked."""

    def holds(self, inside: str) -> bool:
        """Whether a file of the repository is read."""
        path = PurePosixPath(inside)
        alike = (one for one in self.folders if one.count("/") == inside.count("/"))
        return any(inside.startswith(f"{one}/") for one in self.folders) or any(map(path.match, alike))


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ForeignSet:
    """A set of kernels that anyone may fetch."""

    name: str
    about: str
    places: tuple[Place, ...]
    """The set's repository, and others whose files belong to it, such as definitions of its problems."""
    digest: str
    """Hash over the names and bytes of their files."""
    format: str
    license: str
    gpu: str | None = None
    """Where the set does not state its GPU."""


@functools.cache
def foreign_sets() -> Mapping[str, ForeignSet]:
    """The sets by name."""
    stated = yaml.safe_load((Path(__file__).parent / "sets.yaml").read_text(encoding="utf-8"))
    return {
        name: ForeignSet(
            name=name,
            **{**given, "places": tuple(Place(**{**one, "folders": tuple(one["folders"])}) for one in given["places"])},
        )
        for name, given in stated.items()
    }


def fetch_set(
    name: str,
    out: Path | None = None,
    checkouts: Sequence[Path] = (),
    say: Callable[[str], object] = lambda _: None,
) -> Pulled:
    """Fetch a set and import it; an earlier fetch is replaced when the new one is whole."""
    if name not in foreign_sets():
        raise UnknownNameError("set", name, tuple(foreign_sets()))
    recipe = foreign_sets()[name]
    with tempfile.TemporaryDirectory(prefix="kbench-fetch-") as scratch:
        folder = Path(scratch) / name
        for place in recipe.places:
            if checkouts:
                _copy(place, checkouts, folder)
            else:
                say(f"fetching {place.repository}@{place.commit[:12]}")
                _download(name, place, Path(scratch) / "archive.tar.gz", folder)
        digest = folder_digest(folder)
        if digest != recipe.digest:
            stated = " with ".join(f"{place.repository} at {place.commit}" for place in recipe.places)
            raise DataError(
                f"the files of {name} have the hash {digest[:16]}, not {recipe.digest[:16]}: this is not {stated}"
            )
        say(f"importing {name}")
        settings = ImportSettings(gpu=recipe.gpu, license=recipe.license)
        target = out or data_home() / name
        paths = [folder] if FORMATS[recipe.format].BY_FOLDER else list(files_below(folder, "*"))
        report = import_files(recipe.format, paths, target, settings, replace=out is None)
    return Pulled(target, {place.repository: place.commit for place in recipe.places}, report.to_json())


def folder_digest(folder: Path) -> str:
    """Hash over the relative names and bytes of a folder's files, in order of their names."""
    total = hashlib.sha256()
    for path in sorted(files_below(folder, "*"), key=lambda path: path.relative_to(folder).as_posix()):
        total.update(f"{path.relative_to(folder).as_posix()}\0{file_sha256(path)}\n".encode())
    return total.hexdigest()


def _download(name: str, place: Place, archive: Path, folder: Path) -> None:
    """Download a repository, and unpack the files of a place; an archive has one folder at its top."""
    url = ARCHIVE.format(repository=place.repository, commit=place.commit)
    help_line = f"fetch it elsewhere and name the copy: kbench data fetch {name} --checkout FOLDER"
    try:
        with urllib.request.urlopen(url, timeout=TIMEOUT_S) as answer, archive.open("wb") as file:
            shutil.copyfileobj(answer, file, CHUNK)
    except urllib.error.HTTPError as error:
        raise InfrastructureError(f"{url} answers {error.code} ({error.reason}); {help_line}") from None
    except (urllib.error.URLError, TimeoutError, ConnectionError) as error:
        raise InfrastructureError(f"{url} does not answer ({error}); check the network, or {help_line}") from None
    unpacked = 0
    try:
        with tarfile.open(archive, "r:gz") as members:
            for member in members:
                inside = member.name.partition("/")[2]
                if not member.isfile() or not place.holds(inside):
                    continue
                unpacked += member.size
                if unpacked > LARGEST_BYTES:
                    raise DataError(f"the archive of {place.repository} unpacks to more than {LARGEST_BYTES >> 30} GiB")
                member.name = inside
                members.extract(member, folder, filter="data")
    except (tarfile.TarError, EOFError, OSError) as error:
        raise DataError(f"the archive of {place.repository} is cut or damaged ({error}); fetch it again") from None


def _copy(place: Place, checkouts: Sequence[Path], folder: Path) -> None:
    """Copy the files of a place from the checkout that holds all its folders."""
    whole = (path for path in checkouts if all(next(path.glob(one), None) for one in place.folders))
    checkout = next(whole, None)
    if checkout is None:
        names, first = ", ".join(map(str, checkouts)), place.folders[0]
        raise UserError(f"--checkout {names} has no folder {first}; give a copy of {place.repository} too")
    for one in place.folders:
        files: Iterable[Path] = (
            files_below(checkout / one, "*") if (checkout / one).is_dir() else sorted(checkout.glob(one))
        )
        for path in (path for path in files if path.is_file() and not path.is_symlink()):
            target = folder / path.relative_to(checkout)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target)
