"""A corpus folder while it is written: its lock, what is there already, and what no manifest names any more."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from kbench.loaders.corpus.configs import CONFIGS
from kbench.loaders.corpus.manifest import (
    CARD,
    CROISSANT,
    EMPTY,
    EVAL,
    LEDGER,
    NAME,
    PLOTS,
    Manifest,
    read_manifest,
)
from kbench.loaders.storage.atomic import ENDING
from kbench.schemas import InfrastructureError, UserError


def texts(folder: Path) -> str:
    """Card and manifest as they are now."""
    paths = (folder / CARD, folder / NAME)
    return "".join(path.read_text("utf-8", "replace") for path in paths if path.is_file())


def existing(folder: Path) -> Manifest:
    """The manifest of the corpus that is there, or an empty one.

    Raises:
        UserError: the folder holds something else.
    """
    if (folder / NAME).exists():
        return read_manifest(folder)
    foreign = [item.name for item in folder.iterdir() if not _is_ours(item)]
    if foreign:
        raise UserError(f"path {str(folder)!r} holds {foreign[0]!r} and is not a corpus; give an empty or new folder")
    return EMPTY


def _is_ours(item: Path) -> bool:
    # What a writer that was killed before its first commit leaves.
    return item.name in (CARD, CROISSANT, EVAL, PLOTS, LEDGER, *CONFIGS) or item.name.endswith(ENDING)


def remove_strays(folder: Path, manifest: Manifest) -> None:
    """Files no manifest names any more: replaced shards, and leftovers of writers that were killed."""
    named = {folder / entry.path for entries in manifest.files.values() for entry in entries}
    for name in CONFIGS:
        for path in (folder / name).glob("*.parquet"):
            if path not in named:
                path.unlink()
    for place in (folder, *(folder / name for name in (PLOTS, *CONFIGS))):
        for path in (path for path in place.glob(f".*{ENDING}") if path.is_file()):
            path.unlink()
    for name in CONFIGS:
        with suppress(OSError):  # not there, or not empty
            (folder / name).rmdir()


@contextmanager
def plain_errors(folder: Path) -> Iterator[None]:
    """An operating-system error as one line that says what to do."""
    try:
        yield
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else str(error)
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EIO):
            raise InfrastructureError(
                f"writing to {str(folder)!r} failed: {reason}; the corpus is unchanged"
            ) from error
        raise UserError(f"path {str(folder)!r} cannot be written: {reason}; choose another target") from error
