"""The Hub's client within bounds: every wait has an end, listings name plain files, a damaged cache is noticed."""

from __future__ import annotations

import os
import queue
import re
import threading
from collections.abc import Callable, Sequence
from pathlib import Path, PurePosixPath
from typing import Any, TypeVar

from kbench.loaders.storage.atomic import file_sha256
from kbench.schemas import DataError, InfrastructureError

WAIT_S = float(os.environ.get("KBENCH_HUB_TIMEOUT_S") or 30.0)
"""Longest silence of the Hub; $KBENCH_HUB_TIMEOUT_S changes it."""
ANSWER_S = 4 * WAIT_S
"""Longest time a small answer may take as a whole."""
LONGEST_NAME = 400
SHA256 = re.compile(r"[0-9a-f]{64}")

T = TypeVar("T")


def limit_waits() -> None:
    """Give every request of the Hub's client a limit: its own default is to wait for ever."""
    from huggingface_hub import get_session

    session: Any = get_session()
    hooks = session.event_hooks
    if _limit not in hooks.get("request", []):
        session.event_hooks = {**hooks, "request": [*hooks.get("request", []), _limit]}


def _limit(request: Any) -> None:
    given = request.extensions.get("timeout") or {}
    names = ("connect", "read", "write", "pool")
    request.extensions["timeout"] = {name: min(given.get(name) or WAIT_S, WAIT_S) for name in names}


def within(call: Callable[[], T], what: str, seconds: float = ANSWER_S) -> T:
    """A call's result, unless it takes too long: a server may send a byte now and then for ever.

    Raises:
        InfrastructureError: it took too long.
    """
    limit_waits()
    done: queue.SimpleQueue[tuple[T | None, BaseException | None]] = queue.SimpleQueue()

    def run() -> None:
        try:
            done.put((call(), None))
        except BaseException as error:  # noqa: BLE001 - handed to the asking thread, which raises it
            done.put((None, error))

    threading.Thread(target=run, daemon=True).start()
    try:
        result, error = done.get(timeout=seconds)
    except queue.Empty:
        raise InfrastructureError(f"the Hub did not answer for {what!r} within {seconds:g} s; try again") from None
    if error is not None:
        raise error
    return result  # type: ignore[return-value]


def check_names(repository: str, names: Sequence[Any]) -> None:
    """Refuse a listing with names that no file of a repository has.

    Raises:
        DataError: names the first.
    """
    for name in names:
        plain = isinstance(name, str) and 0 < len(name) <= LONGEST_NAME and name.isprintable() and "\\" not in name
        parts = PurePosixPath(name).parts if plain else ()
        if not plain or name.startswith("/") or ".." in parts or ":" in name:
            raise DataError(f"repository {repository!r} lists a file {ascii(name)[:80]}, which is no name of one")


def in_hub_cache(folder: Path) -> bool:
    """Whether a folder is a snapshot in the Hub's cache, by the names the cache gives."""
    parts = folder.absolute().parts
    return len(parts) > 3 and parts[-2] == "snapshots" and parts[-3].startswith("datasets--")


def evict_damaged(snapshot: Path, *, unproven: bool = False) -> list[str]:
    """Remove files of a snapshot whose bytes are not those that the cache names them by, to be fetched again.

    Large files are named by their SHA-256; other names prove nothing.

    Args:
        snapshot: the folder; one that is not in the Hub's cache is left alone.
        unproven: whether files that nothing is known of go too.

    Returns:
        The names of what was removed.
    """
    removed = []
    for path in sorted(snapshot.rglob("*")) if in_hub_cache(snapshot) else []:
        if path.is_dir():
            continue
        blob = path.resolve()
        proven = SHA256.fullmatch(blob.name) is not None
        if (unproven and not proven) or not blob.is_file() or (proven and file_sha256(blob) != blob.name):
            blob.unlink(missing_ok=True)
            path.unlink(missing_ok=True)
            removed.append(path.relative_to(snapshot).as_posix())
    return removed
