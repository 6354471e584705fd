"""The Hub's client: every wait has an end, what it raises is one line, and a damaged cache is noticed."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from kbench.loaders.storage.atomic import file_sha256
from kbench.schemas import InfrastructureError, UserError
from kbench.schemas.errors import first_line

WAIT_S = float(os.environ.get("KBENCH_HUB_TIMEOUT_S") or 30.0)
"""Longest silence of the Hub; $KBENCH_HUB_TIMEOUT_S changes it."""
SHA256 = re.compile(r"[0-9a-f]{64}")
TRANSPORT = ("httpx", "httpx2", "httpcore", "httpcore2", "huggingface_hub")
"""Packages whose errors mean that the Hub or the way to it failed."""


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


def download(repository: str, revision: str | None = None, patterns: Sequence[str] | None = None) -> Path:
    """The files of a dataset repository, downloaded once into the Hub's cache; an interrupted download resumes.

    Raises:
        UserError: there is no such repository or revision.
        InfrastructureError: the Hub does not answer, or the disk is full.
    """
    from huggingface_hub import snapshot_download

    limit_waits()
    allowed = None if patterns is None else list(patterns)
    with plain_errors(repository):
        return Path(snapshot_download(repository, repo_type="dataset", revision=revision, allow_patterns=allowed))


@contextmanager
def plain_errors(repository: str) -> Iterator[None]:
    """What the Hub's client raises, as one line that says what to do."""
    from huggingface_hub import errors

    try:
        yield
    except errors.RepositoryNotFoundError as error:
        hint = "check the name, or log in with `hf auth login` if it is private"
        raise UserError(f"repository {repository!r} was not found on the Hub; {hint}") from error
    except errors.RevisionNotFoundError as error:
        raise UserError(f"repository {repository!r} has no such revision; give a commit, tag or branch") from error
    except errors.HFValidationError as error:
        raise UserError(f"repository {repository!r} has no name the Hub allows: {first_line(error)}") from error
    except errors.LocalEntryNotFoundError as error:
        raise InfrastructureError(f"the Hub did not answer for {repository!r}: {first_line(error)}") from error
    except errors.HfHubHTTPError as error:
        raise _explained(repository, error) from error
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise InfrastructureError(
                f"the disk is full while fetching {repository!r}; free some space and run the same command"
            ) from error
        raise InfrastructureError(f"the Hub did not answer for {repository!r}: {first_line(error)}") from error
    except Exception as error:
        # The client wraps what broke an upload in errors of no family of its own; the cause tells them from ours.
        chain = list(_causes(error))
        refusal = next((cause for cause in chain if isinstance(cause, errors.HfHubHTTPError)), None)
        if refusal is not None:
            raise _explained(repository, refusal) from error
        if not any(type(cause).__module__.split(".")[0] in TRANSPORT for cause in chain):
            raise
        reason = f"{type(error).__name__}: {first_line(error)}"
        raise InfrastructureError(f"the connection to the Hub broke ({reason}); run the command again") from error


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__


def _explained(repository: str, error: Exception) -> Exception:
    status = getattr(getattr(error, "response", None), "status_code", None)
    if status == 401:
        return UserError(f"the Hub refused the token for {repository!r}; log in with `hf auth login` or set HF_TOKEN")
    if status == 403:
        return UserError(f"the token may not do this with {repository!r}; ask its owner, or use a token that may write")
    if status is not None and status < 500:
        return UserError(f"the Hub refused {repository!r} ({status}): {first_line(error)}")
    return InfrastructureError(f"the Hub failed for {repository!r} ({status}); run the same command to resume")


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
