"""Where corpora are: shipped with the package, pulled into $KBENCH_HOME, in a folder, or on the Hub."""

from __future__ import annotations

import os
import re
from difflib import get_close_matches
from pathlib import Path

from kbench.loaders.corpus.configs import CONFIGS
from kbench.loaders.corpus.manifest import NAME, PULLED
from kbench.loaders.storage.hub_client import download, in_hub_cache
from kbench.schemas import InfrastructureError, UserError

Location = str | os.PathLike[str]
HUB_ID = re.compile(r"^[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*$")

SHIPPED = "shipped"
"""The word for kbench's own dataset among corpora."""


def shipped() -> Path:
    """The dataset that comes with the package."""
    return Path(__file__).parents[2] / "benchmark" / "dataset"


def located(path: str | Path) -> Path:
    """A path; the word `shipped` names kbench's own dataset."""
    return shipped() if str(path) == SHIPPED else Path(path)


def data_home() -> Path:
    """The folder of pulled corpora: $KBENCH_HOME, or ~/.cache/kbench."""
    return Path(os.environ.get("KBENCH_HOME") or Path.home() / ".cache" / "kbench")


def pulled(name: str) -> Path | None:
    """The folder of a pulled corpus, by its bare name; None when there is none."""
    if not name or "/" in name or name in (".", ".."):
        return None
    folder = data_home() / name
    return folder if is_corpus(folder) else None


def is_corpus(folder: Path) -> bool:
    """Whether a folder holds a corpus."""
    return (folder / NAME).is_file()


def from_hub(folder: Path) -> bool:
    """Whether a folder came from the Hub: it lies in the Hub's cache, or was pulled."""
    return in_hub_cache(folder) or (folder / PULLED).is_file()


def folder_of(path: Location | None) -> Path:
    """The folder of a corpus, by path, bare name or Hub id."""
    if path is None or path == SHIPPED:
        folder = shipped()
        if not folder.is_dir():
            raise UserError("no corpus is shipped with this install; give the path of a corpus folder or a Hub id")
        return folder
    folder = Path(path)
    if isinstance(path, str) and not folder.exists():
        folder = pulled(path) or folder
    if folder.exists() or not isinstance(path, str) or not HUB_ID.match(path):
        if not folder.exists():
            meant = f"did you mean config={path!r}? or " if path in CONFIGS else ""
            meant = f"did you mean {SHIPPED!r}? or " if get_close_matches(str(path), [SHIPPED]) else meant
            raise UserError(
                f"path {str(path)!r} does not exist; {meant}give a corpus folder, Parquet files or a Hub id"
            )
        return folder
    try:
        return download(path)
    except (UserError, InfrastructureError) as error:
        raise type(error)(f"path {path!r} is no local folder; {error}") from error
