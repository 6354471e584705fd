"""Check a submission in a child process with limits: whatever it does to its reader is its own refusal."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kbench.leaderboard.submission.flaws import Flaw
from kbench.leaderboard.submission.rules import Expected, inspect
from kbench.loaders.storage.isolation import shared_reader
from kbench.loaders.storage.parquet_stream import warm_up as warm_up_pyarrow
from kbench.schemas import DataError, Submission, from_dict, to_dict

if TYPE_CHECKING:
    import pyarrow as pa

PARSER = "kbench.leaderboard.submission.check:inspected"
CPU_SECONDS = 120
"""Limit of one submission's child."""


@dataclasses.dataclass(frozen=True, slots=True)
class Checked:
    """A submission and what is wrong with it; usable only when nothing is."""

    flaws: tuple[Flaw, ...]
    submission: Submission | None
    forecasts: pa.Table | None
    digest: str = ""
    """Of its files."""

    @property
    def ok(self) -> bool:
        """Whether it can be scored."""
        return not self.flaws


def check(path: Path, expected: Expected | None = None) -> Checked:
    """Read a submission from a folder or archive and list everything wrong with it.

    Args:
        path: folder, .zip or .tar.gz.
        expected: the questions it must answer; None checks the format alone.
    """
    import pyarrow as pa

    request = {"path": str(path), "expected": None if expected is None else expected.to_json()}
    try:
        head, *rest = shared_reader(PARSER).stream(json.dumps(request).encode(), path.name)
        found = json.loads(head)
        submission = None if found["submission"] is None else from_dict(Submission, found["submission"])
    except (DataError, ValueError) as error:
        return Checked((Flaw(path.name, "file", "unreadable", str(error)),), None, None)
    table = pa.ipc.open_stream(b"".join(rest)).read_all() if rest else None
    return Checked(tuple(Flaw(*flaw) for flaw in found["flaws"]), submission, table, found["digest"])


def warm_up() -> None:
    """In the server, before it forks."""
    import jsonschema  # noqa: F401 - every child would import it

    warm_up_pyarrow()


def inspected(request: bytes) -> Iterator[bytes]:
    """In the child: what is wrong with the submission and its metadata as JSON, then its forecasts.

    Raises:
        DataError: it broke the reader in a way that no rule foresees.
    """
    import pyarrow as pa

    asked: dict[str, Any] = json.loads(request)
    try:
        expected = None if asked["expected"] is None else Expected.from_json(asked["expected"])
        flaws, submission, table, digest = inspect(Path(asked["path"]), expected)
        rows = [dataclasses.astuple(flaw) for flaw in flaws]
        told = {"flaws": rows, "submission": None if submission is None else to_dict(submission), "digest": digest}
        head = json.dumps(told).encode()
    except (DataError, MemoryError):
        raise
    except Exception as error:
        reason = ascii(str(error).splitlines()[0] if str(error) else "")[:200]
        raise DataError(f"cannot be checked ({type(error).__name__}: {reason})") from error
    yield head
    if table is not None:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
        yield bytes(sink.getvalue())
