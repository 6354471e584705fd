"""Check a submission in a child process with limits: whatever it does to its reader is its own refusal.

Every problem is explained at once, with file, field, value and fix.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kbench.leaderboard.submission.archive import METADATA_FILE, read_files
from kbench.leaderboard.submission.forecast_rows import Expected, check_forecasts
from kbench.leaderboard.submission.metadata import UNSTATED, check_metadata
from kbench.leaderboard.submission.untrusted import Flaw
from kbench.loaders.storage.isolation import shared_reader
from kbench.loaders.storage.parquet_stream import warm_up as warm_up_pyarrow
from kbench.schemas import DataError, Submission, from_dict, to_dict

if TYPE_CHECKING:
    import pyarrow as pa

PARSER = "kbench.leaderboard.submission.check:inspected"
CPU_SECONDS, DATA_BYTES = 120, 320 << 20
"""Limits of one submission's child."""


@dataclasses.dataclass(frozen=True, slots=True)
class Checked:
    """A submission and what is wrong with it; usable only when nothing is."""

    flaws: tuple[Flaw, ...]
    submission: Submission | None
    forecasts: pa.Table | None
    digest: str = ""
    """Of its files."""
    forecasts_digest: str = ""
    """Of all but its metadata."""

    @property
    def ok(self) -> bool:
        """Whether it can be scored."""
        return not self.flaws


def check(path: Path, expected: Expected | None = None, *, draft: bool = False) -> Checked:
    """Read a submission from a folder or archive and list everything wrong with it.

    Args:
        path: folder, .zip or .tar.gz.
        expected: the questions it must answer; None checks the format alone.
        draft: whether its author need not have said yet what only an author knows.
    """
    import pyarrow as pa

    request = {
        "path": str(path),
        "expected": None if expected is None else dataclasses.asdict(expected),
        "draft": draft,
    }
    try:
        head, *rest = shared_reader(PARSER).stream(json.dumps(request).encode(), path.name)
        report = json.loads(head)
        submission = None if report["submission"] is None else from_dict(Submission, report["submission"])
    except (DataError, ValueError) as error:
        return Checked((Flaw(path.name, "file", "unreadable", str(error)),), None, None)
    table = pa.ipc.open_stream(b"".join(rest)).read_all() if rest else None
    return Checked(tuple(Flaw(*flaw) for flaw in report["flaws"]), submission, table, *report["digests"])


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

    options: dict[str, Any] = json.loads(request)
    try:
        expected = None if options["expected"] is None else Expected(**options["expected"])
        files = read_files(Path(options["path"]))
        submission, flaws = check_metadata(files.get(METADATA_FILE))
        table, more = check_forecasts(files, submission, expected)
        flaws += more
        if submission is not None and expected is not None and submission.dataset_fingerprint != expected.fingerprint:
            fix = f"this dataset is {expected.fingerprint}: forecast its queries and state that fingerprint"
            flaws.append(Flaw(METADATA_FILE, "dataset_fingerprint", submission.dataset_fingerprint, fix))
        if options.get("draft"):
            flaws = [flaw for flaw in flaws if not flaw.message.startswith(UNSTATED)]
        rows = [dataclasses.astuple(flaw) for flaw in flaws]
        forecasts = {name: data for name, data in files.items() if name != METADATA_FILE}
        plain = None if submission is None else to_dict(submission)
        digests = [_digest(files), _digest(forecasts)]
        report = {"flaws": rows, "submission": plain, "digests": digests}
        head = json.dumps(report).encode()
    except (DataError, MemoryError):
        raise
    except Exception as error:
        reason = ascii(str(error).splitlines()[0] if str(error) else "")[:200]
        raise DataError(f"cannot be checked ({type(error).__name__}: {reason})") from error
    yield head
    if table is not None and not flaws:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
        yield bytes(sink.getvalue())


def _digest(files: Mapping[str, bytes]) -> str:
    digest = hashlib.sha256()
    for name, data in sorted(files.items()):
        digest.update(f"{name} {len(data)} ".encode() + data)
    return digest.hexdigest()
