"""Fetch recorded searches of other people: a repository at a commit, checked by hash, imported into the data folder.

Their code is never part of this package: a recipe in sets.yaml says where it lies, and what its bytes must be.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import shutil
import tarfile
import tempfile
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import yaml

from kbench.loaders.corpus.places import data_home
from kbench.loaders.hub.pull import Pulled
from kbench.loaders.importers.context import ImportSettings
from kbench.loaders.importers.inputs import files_below
from kbench.loaders.importers.run import import_files
from kbench.schemas import DataError, InfrastructureError, UnknownNameError, UserError

ARCHIVE = "https://codeload.github.com/{repository}/tar.gz/{commit}"
LARGEST_BYTES = 4 << 30
"""Unpacked; what is larger is not the set that the recipe is about."""
CHUNK, TIMEOUT_S = 1 << 20, 60


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ForeignSet:
    """A set of kernels that anyone may fetch."""

    name: str
    about: str
    repository: str
    commit: str
    folders: tuple[str, ...]
    """Folders of the repository that are read; nothing else is unpacked."""
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
        name: ForeignSet(name=name, **{**given, "folders": tuple(given["folders"])}) for name, given in stated.items()
    }


def fetch_set(
    name: str,
    out: Path | None = None,
    checkout: Path | None = None,
    say: Callable[[str], object] = lambda _: None,
) -> Pulled:
    """Fetch a set and import it; an earlier fetch is replaced when the new one is whole.

    Args:
        name: the set.
        out: the corpus folder; the set's name in the data folder when left out.
        checkout: a copy of the repository that is already here, instead of the network.
        say: told what begins.

    Raises:
        UnknownNameError: there is no such set.
        UserError: the checkout lacks the set's folders, or the target is taken.
        InfrastructureError: the network does not answer.
        DataError: the files are not those of the recipe.
    """
    if name not in foreign_sets():
        raise UnknownNameError("set", name, tuple(foreign_sets()))
    recipe = foreign_sets()[name]
    with tempfile.TemporaryDirectory(prefix="kbench-fetch-") as scratch:
        folder = Path(scratch) / name
        if checkout is None:
            say(f"fetching {recipe.repository}@{recipe.commit[:12]}")
            _unpack(_download(recipe, Path(scratch) / "archive.tar.gz"), recipe, folder)
        else:
            _copy(checkout, recipe, folder)
        found = folder_digest(folder)
        if found != recipe.digest:
            raise DataError(
                f"the files of {name} have the hash {found[:16]}, not {recipe.digest[:16]}: "
                f"this is not {recipe.repository} at {recipe.commit}"
            )
        say(f"importing {name}")
        settings = ImportSettings(gpu=recipe.gpu, license=recipe.license)
        target = out or data_home() / name
        report = import_files(recipe.format, [folder], target, settings, replace=out is None)
    return Pulled(target, {recipe.repository: recipe.commit}, report.to_json())


def folder_digest(folder: Path) -> str:
    """Hash over the relative names and bytes of a folder's files, in order of their names."""
    total = hashlib.sha256()
    for path in sorted(files_below(folder, "*"), key=lambda path: path.relative_to(folder).as_posix()):
        with path.open("rb") as file:
            content = hashlib.file_digest(file, "sha256").hexdigest()
        total.update(f"{path.relative_to(folder).as_posix()}\0{content}\n".encode())
    return total.hexdigest()


def _download(recipe: ForeignSet, target: Path) -> Path:
    url = ARCHIVE.format(repository=recipe.repository, commit=recipe.commit)
    help_line = f"fetch it elsewhere and name the copy: kbench data fetch {recipe.name} --checkout FOLDER"
    try:
        with urllib.request.urlopen(url, timeout=TIMEOUT_S) as answer, target.open("wb") as file:
            shutil.copyfileobj(answer, file, CHUNK)
    except urllib.error.HTTPError as error:
        raise InfrastructureError(f"{url} answers {error.code} ({error.reason}); {help_line}") from None
    except (urllib.error.URLError, TimeoutError, ConnectionError) as error:
        raise InfrastructureError(f"{url} does not answer ({error}); check the network, or {help_line}") from None
    return target


def _unpack(archive: Path, recipe: ForeignSet, folder: Path) -> None:
    """Unpack the files of the set's folders; an archive has one folder at its top."""
    unpacked = 0
    try:
        with tarfile.open(archive, "r:gz") as members:
            for member in members:
                inside = member.name.partition("/")[2]
                if not member.isfile() or not _wanted(inside, recipe):
                    continue
                unpacked += member.size
                if unpacked > LARGEST_BYTES:
                    raise DataError(f"the archive of {recipe.name} unpacks to more than {LARGEST_BYTES >> 30} GiB")
                member.name = inside
                members.extract(member, folder, filter="data")
    except (tarfile.TarError, EOFError, OSError) as error:
        raise DataError(f"the archive of {recipe.name} is cut or damaged ({error}); fetch it again") from None


def _wanted(inside: str, recipe: ForeignSet) -> bool:
    return any(inside.startswith(f"{folder}/") for folder in recipe.folders)


def _copy(checkout: Path, recipe: ForeignSet, folder: Path) -> None:
    missing = [name for name in recipe.folders if not (checkout / name).is_dir()]
    if missing:
        raise UserError(f"--checkout {str(checkout)!r} has no folder {missing[0]}; give a copy of {recipe.repository}")
    for name in recipe.folders:
        for path in files_below(checkout / name, "*"):
            if path.is_file() and not path.is_symlink():
                place = folder / path.relative_to(checkout)
                place.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(path, place)


def listing() -> Iterator[tuple[str, str]]:
    """Names of the sets, with what they are."""
    return ((one.name, one.about) for one in foreign_sets().values())
