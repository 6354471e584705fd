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
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath

import yaml

from kbench.loaders.corpus.places import data_home
from kbench.loaders.hub.pull import Pulled
from kbench.loaders.importers.context import ImportSettings
from kbench.loaders.importers.formats import format_named
from kbench.loaders.importers.inputs import files_below
from kbench.loaders.importers.run import import_files
from kbench.schemas import DataError, InfrastructureError, UnknownNameError, UserError

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
    """Fetch a set and import it; an earlier fetch is replaced when the new one is whole.

    Args:
        name: the set.
        out: the corpus folder; the set's name in the data folder when left out.
        checkouts: copies of the repositories that are already here, instead of the network.
        say: told what begins.

    Raises:
        UnknownNameError: there is no such set.
        UserError: no checkout has a repository's folders, or the target is taken.
        InfrastructureError: the network does not answer.
        DataError: the files are not those of the recipe.
    """
    if name not in foreign_sets():
        raise UnknownNameError("set", name, tuple(foreign_sets()))
    recipe = foreign_sets()[name]
    with tempfile.TemporaryDirectory(prefix="kbench-fetch-") as scratch:
        folder = Path(scratch) / name
        for place in recipe.places:
            if checkouts:
                _copy(_checkout_of(place, checkouts), place, folder)
            else:
                say(f"fetching {place.repository}@{place.commit[:12]}")
                _unpack(_download(name, place, Path(scratch) / "archive.tar.gz"), place, folder)
        digest = folder_digest(folder)
        if digest != recipe.digest:
            stated = " with ".join(f"{place.repository} at {place.commit}" for place in recipe.places)
            raise DataError(
                f"the files of {name} have the hash {digest[:16]}, not {recipe.digest[:16]}: this is not {stated}"
            )
        say(f"importing {name}")
        settings = ImportSettings(gpu=recipe.gpu, license=recipe.license)
        target = out or data_home() / name
        paths = [folder] if format_named(recipe.format).BY_FOLDER else list(files_below(folder, "*"))
        report = import_files(recipe.format, paths, target, settings, replace=out is None)
    return Pulled(target, {place.repository: place.commit for place in recipe.places}, report.to_json())


def folder_digest(folder: Path) -> str:
    """Hash over the relative names and bytes of a folder's files, in order of their names."""
    total = hashlib.sha256()
    for path in sorted(files_below(folder, "*"), key=lambda path: path.relative_to(folder).as_posix()):
        with path.open("rb") as file:
            content = hashlib.file_digest(file, "sha256").hexdigest()
        total.update(f"{path.relative_to(folder).as_posix()}\0{content}\n".encode())
    return total.hexdigest()


def _download(name: str, place: Place, target: Path) -> Path:
    url = ARCHIVE.format(repository=place.repository, commit=place.commit)
    help_line = f"fetch it elsewhere and name the copy: kbench data fetch {name} --checkout FOLDER"
    try:
        with urllib.request.urlopen(url, timeout=TIMEOUT_S) as answer, target.open("wb") as file:
            shutil.copyfileobj(answer, file, CHUNK)
    except urllib.error.HTTPError as error:
        raise InfrastructureError(f"{url} answers {error.code} ({error.reason}); {help_line}") from None
    except (urllib.error.URLError, TimeoutError, ConnectionError) as error:
        raise InfrastructureError(f"{url} does not answer ({error}); check the network, or {help_line}") from None
    return target


def _unpack(archive: Path, place: Place, folder: Path) -> None:
    """Unpack the files of a place; an archive has one folder at its top."""
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


def _checkout_of(place: Place, checkouts: Sequence[Path]) -> Path:
    """The copy that holds a place's folders.

    Raises:
        UserError: none does.
    """
    for checkout in checkouts:
        if all(next(checkout.glob(one), None) is not None for one in place.folders):
            return checkout
    names, first = ", ".join(map(str, checkouts)), place.folders[0]
    raise UserError(f"--checkout {names} has no folder {first}; give a copy of {place.repository} too")


def _copy(checkout: Path, place: Place, folder: Path) -> None:
    for one in place.folders:
        files: Iterable[Path] = (
            files_below(checkout / one, "*") if (checkout / one).is_dir() else sorted(checkout.glob(one))
        )
        for path in (path for path in files if path.is_file() and not path.is_symlink()):
            target = folder / path.relative_to(checkout)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target)


def listing() -> Iterator[tuple[str, str]]:
    """Names of the sets, with what they are."""
    return ((one.name, one.about) for one in foreign_sets().values())
