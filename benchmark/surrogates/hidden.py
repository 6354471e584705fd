"""Hidden places: where answers lie on this machine, as far as kbench knows, and what must not be changed there.

Beside the folders of the corpus: what their links lead to, the shipped dataset, pulled corpora, the Hub's caches, the
packages that installers keep, and in every checkout of the repository its history, its evidence, its packages and its
leaderboard's entries.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import json
import os
import re
import sys
import tempfile
import urllib.parse
from collections.abc import Iterable, Iterator
from pathlib import Path

from kbench.loaders.corpus.places import data_home, shipped
from kbench.loaders.storage.hub_client import in_hub_cache
from kbench.loaders.storage.mounts import keys_and_tokens
from kbench.schemas import UserError

ROOT = Path(__file__).resolve().parents[2]
"""The checkout, or the installed package."""
PACKAGES = ("schemas", "loaders", "benchmark", "harness", "generation", "leaderboard", "src")
ANSWERS = ("benchmark/dataset", "leaderboard/submissions", "leaderboard/seasons", "docs/evidence", "dist", "build")
"""Folders of a checkout that hold answers, or forecasts of others, or packages with the dataset."""
CONTROLS = ("/run/docker.sock", "/run/containerd", "/run/podman", "/run/crio", "/run/dbus", "/run/user", "/run/libvirt",
            "/run/systemd/private", "/run/snapd.socket", "/run/screen")  # fmt: skip
"""Services that start programs for whoever asks, outside of what confines the one who asks."""
PATH_IN_TEXT = re.compile(r"[^\s'\"():,]*/[^\s'\"():,]+")
CACHES_IN_HOME = (".cache", ".nv", ".triton")
CACHE_VARIABLES = ("XDG_CACHE_HOME", "HF_HOME", "HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "HF_DATASETS_CACHE",
                   "HF_XET_CACHE", "TORCH_HOME", "TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR", "TRITON_HOME",
                   "CUDA_CACHE_PATH")  # fmt: skip
SHARED = ("/dev/shm", "/var/tmp")
KEPT_IN_HOME = (".cache", ".local", ".nv", ".triton")
"""Dotfolders where surrogates find weights and compilers; keys and tokens lie in others."""


def hidden_places(folders: Iterable[Path], own: Path | None) -> list[Path]:
    """Everything that a user's surrogate must not see, each place once."""
    corpus = [folder.resolve() for folder in folders]
    places = [*corpus, shipped(), data_home(), *_link_targets(corpus), *_hub_copies(), *_packages(), *_secrets(own)]
    origin = _installed_from()
    for start in (ROOT, Path.cwd(), *corpus, *([origin] if origin else [])):
        places += _checkouts(start)
    places += [folder / name for folder in (ROOT, origin) if folder for name in ANSWERS]
    found = _outermost(place.resolve() for place in places if os.path.lexists(place))
    for needed in (*([own] if own else []), Path(sys.prefix), Path(sys.base_prefix), ROOT / "loaders"):
        place = next((one for one in found if needed.resolve().is_relative_to(one)), None)
        if place is not None:
            raise UserError(f"{needed} lies in {place}, which is hidden from surrogates; keep it in another folder")
    return found


def hidden_remark(text: str, hidden: Iterable[Path]) -> str:
    """A failure's text, after the hidden place that it names, where that is why it could not be read."""
    places = list(hidden)
    for named in PATH_IN_TEXT.findall(text):
        with contextlib.suppress(OSError, ValueError):
            if any(Path(named).resolve().is_relative_to(place) for place in places):
                return f"{named} is hidden from your surrogate (docs/threat-model.md): {text}"
    return text


def writable_folders(own: Path | None) -> list[Path]:
    """Where a surrogate may write: caches, temporary files, beside its own file, and the working directory.

    Nowhere else: what it changes in the system, or plants where programs and modules are looked for, as in the home
    folder, would run outside of what confines it, as soon as its process is started again.
    """
    home, variables = Path.home().resolve(), os.environ
    with contextlib.suppress(OSError):
        (home / ".cache").mkdir(exist_ok=True)
    places = [Path.cwd(), *([own.parent] if own else []), Path(tempfile.gettempdir()), *map(Path, SHARED)]
    places += [home / name for name in CACHES_IN_HOME]
    places += [Path(variables[name]) for name in CACHE_VARIABLES if variables.get(name)]
    found = {place.resolve() for place in places if place.is_dir()}
    # Some containers have the home folder among temporary files; those are then written elsewhere.
    return _outermost(found - {home, *home.parents})


def protected_folders(own: Path | None, run: Path | None = None) -> list[Path]:
    """Folders that it may not write to, though they may lie in those: of the code that judges it, and of its run.

    Args:
        own: the surrogate's file, where it is one; it may write beside it.
        run: the folder of the evaluation, with what others forecast.
    """
    entries = [sys.prefix, sys.base_prefix, *(path for path in sys.path if path), *(str(ROOT / n) for n in PACKAGES)]
    entries += [str(Path.home() / ".local"), *filter(None, (sys.pycache_prefix, None if run is None else str(run)))]
    folders = _outermost(Path(entry).resolve() for entry in entries if os.path.isdir(entry))
    kept = [Path.cwd(), Path(tempfile.gettempdir()), *([own.parent] if own else [])]
    return [folder for folder in folders if not any(one.resolve().is_relative_to(folder) for one in kept)]


def _outermost(paths: Iterable[Path]) -> list[Path]:
    """Paths without those that lie in another."""
    kept: list[Path] = []
    for path in sorted(set(paths), key=lambda path: len(path.parts)):
        if not any(path.is_relative_to(other) for other in kept):
            kept.append(path)
    return kept


def _link_targets(folders: Iterable[Path]) -> Iterator[Path]:
    """What links in a folder lead to; of a snapshot in the Hub's cache, the whole repository."""
    for folder in folders:
        if in_hub_cache(folder):
            yield folder.parents[1]
            continue
        for path in folder.rglob("*"):
            if path.is_symlink() and path.exists():
                yield path.resolve()


def _hub_copies() -> Iterator[Path]:
    """Datasets in the Hub's caches; models stay, because surrogates are made of them."""
    variables = os.environ
    cache = Path(variables.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    home = Path(variables.get("HF_HOME") or cache / "huggingface")
    hubs = [home / "hub", *(Path(variables[n]) for n in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE") if variables.get(n))]
    for hub in hubs:
        yield from hub.glob("datasets--*")
    yield Path(variables.get("HF_DATASETS_CACHE") or home / "datasets")
    yield Path(variables.get("HF_XET_CACHE") or home / "xet")
    yield home / "token"
    yield home / "stored_tokens"


def _packages() -> Iterator[Path]:
    """Copies of our package, dataset included, that installers keep to install it again."""
    variables = os.environ
    cache = Path(variables.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    yield Path(variables.get("PIP_CACHE_DIR") or cache / "pip")
    uv = Path(variables.get("UV_CACHE_DIR") or cache / "uv")
    # Not all of it: environments of `uvx` run from there.
    yield from uv.glob("archive-v*/*/kbench/benchmark/dataset")
    yield from uv.glob("sdists-v*")
    origin = _installed_from()
    if origin is not None and origin.is_file():
        yield origin


def _installed_from() -> Path | None:
    """The file or folder that the installed package was made from, where that was on this machine."""
    try:
        stated = importlib.metadata.distribution("kbench").read_text("direct_url.json")
        url = urllib.parse.urlsplit(json.loads(stated or "{}").get("url", ""))
    except (importlib.metadata.PackageNotFoundError, ValueError):
        return None
    return Path(urllib.parse.unquote(url.path)) if url.scheme == "file" else None


def _secrets(own: Path | None) -> list[Path]:
    """Keys and tokens in the home folder, raw disks, and services that would undo all this."""
    disks = [path for path in Path("/dev").glob("*") if path.is_block_device() and os.access(path, os.R_OK)]
    kept = [*(Path.home() / name for name in KEPT_IN_HOME), *([own] if own else [])]
    return [*keys_and_tokens(kept), *map(Path, CONTROLS), *_listening(), *disks]


def _listening() -> Iterator[Path]:
    """Sockets in the file system that somebody listens at: terminals, editors and clusters run what they are sent."""
    try:
        lines = Path("/proc/net/unix").read_text(errors="surrogateescape").splitlines()[1:]
    except OSError:
        return
    for line in lines:
        place = Path(*line.split(maxsplit=7)[7:])
        with contextlib.suppress(OSError):  # in a folder of another user, who is the only one to reach it
            # Those of the GPU's driver run nothing.
            if place.is_absolute() and "nvidia" not in str(place) and place.is_socket():
                yield place


def _checkouts(start: Path) -> Iterator[Path]:
    """The history of the repository that a folder lies in, and the answers in each of its work trees."""
    marker = next((folder / ".git" for folder in (start, *start.parents) if (folder / ".git").exists()), None)
    if marker is None:
        return
    with contextlib.suppress(OSError, UnicodeDecodeError):
        folder = marker
        if marker.is_file():
            folder = (marker.parent / marker.read_text().partition("gitdir:")[2].strip()).resolve()
        if (folder / "commondir").is_file():
            folder = (folder / (folder / "commondir").read_text().strip()).resolve()
        yield folder
        alternates = folder / "objects" / "info" / "alternates"
        if alternates.is_file():
            yield from (folder / "objects" / line for line in alternates.read_text().splitlines() if line)
        trees = [marker.parent, folder.parent]
        trees += [Path(file.read_text().strip()).parent for file in folder.glob("worktrees/*/gitdir")]
        yield from (tree / name for tree in trees for name in ANSWERS)
