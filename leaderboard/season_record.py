"""What a season's folder holds: its record, its entries and its figures, read and packed."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, ClassVar

from kbench.loaders.storage.atomic import parquet_bytes
from kbench.schemas import DataError, Record, Score, UserError, arrow_schema, from_dict, to_dict
from kbench.schemas.record import Count, Limit, Sha

SEASONS = Path(__file__).parent / "seasons"
"""Where seasons are published, one folder each."""
FILE, EDITION = "season.json", "edition"
ENTRIES, ANSWERS, RESULTS = "entries.parquet", "answers.parquet", "results.parquet"
LOOK_UP = "look-up"
"""What tables call the baseline that copies the nearest public kernel."""
Slug = Annotated[str, Limit(pattern="^[a-z0-9][a-z0-9-]{0,99}$")]
Instant = Annotated[str, Limit(pattern=r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(\+00:00|Z)$")]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class SeasonEntry(Record):
    """A submission as it was when it entered."""

    TYPE: ClassVar[str] = "season_entry"
    VERSION: ClassVar[str] = "1.0.0"

    entry_id: Slug
    """Name and version."""
    digest: Sha
    """SHA-256 of its files."""
    entered_at: Instant
    """When it entered, ISO 8601 in UTC."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Closing(Record):
    """How a season ended."""

    TYPE: ClassVar[str] = "season_closing"
    VERSION: ClassVar[str] = "1.0.0"

    closed_at: Instant
    """When, ISO 8601 in UTC."""
    measured_from: Instant
    """When the first of its measurements began; entries are older."""
    measurements_fingerprint: Sha
    """The corpus of measurements that the labels come from."""
    refused: tuple[str, ...]
    """Entries that were not scored, and why."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Season(Record):
    """A season: queries about kernels that nobody had measured when they were published."""

    TYPE: ClassVar[str] = "season"
    VERSION: ClassVar[str] = "3.0.0"

    schema_version: str
    """Version of this schema."""
    name: Slug
    """Its name and folder."""
    opened_at: Instant
    """When its queries were published, ISO 8601 in UTC."""
    gpu: str
    """The GPU that is asked about, as the driver reports it."""
    kernels: Count
    """Kernels asked about."""
    queries: Count
    """Queries about them."""
    fingerprint: Sha
    """Of its edition: kernels, problems and questions; entries state it as the dataset they forecast."""
    trained_on: Sha
    """Fingerprint of the dataset that held none of the kernels, and that priors come from."""
    entries: tuple[SeasonEntry, ...] = ()
    """In the order they entered."""
    closing: Closing | None = None
    """Null while the season is open."""

    def to_bytes(self) -> bytes:
        """The content of season.json."""
        return (json.dumps(to_dict(self), indent=1, ensure_ascii=False) + "\n").encode()


def read_season(folder: Path, *, to_change: bool = False) -> Season:
    """Read a season's record.

    Args:
        folder: the season's.
        to_change: whether the season must still be open.

    Raises:
        UserError: there is no such season, or it is closed and must not be.
        DataError: its record is damaged or of another version.
    """
    path = folder / FILE
    try:
        season = from_dict(Season, json.loads(path.read_text("utf-8")))
    except FileNotFoundError:
        raise UserError(f"no season in {str(folder)!r}; open one: kbench leaderboard season open") from None
    except (OSError, ValueError) as error:
        raise DataError(f"{path} is no season's record ({error}); restore it from the repository") from None
    if season.schema_version != Season.VERSION:
        raise DataError(f"{path}: schema_version is {season.schema_version!r}; this kbench reads {Season.VERSION!r}")
    if to_change and season.closing is not None:
        raise UserError(f"season {season.name!r} closed on {season.closing.closed_at[:10]}; enter the next one")
    return season


def read_entry_files(folder: Path) -> dict[str, dict[str, bytes]]:
    """The files of every entry as they were handed in, by entry and name.

    Raises:
        DataError: the table of entries is damaged.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = folder / ENTRIES
    if not path.is_file():
        return {}
    entries: dict[str, dict[str, bytes]] = {}
    try:
        for row in pq.read_table(path).to_pylist():
            entries.setdefault(row["entry_id"], {})[row["file"]] = row["content"]
    except (OSError, pa.ArrowException, KeyError) as error:
        raise DataError(f"{path} is no table of entries ({error}); restore it from the repository") from None
    return entries


def packed_entries(entries: Mapping[str, Mapping[str, bytes]]) -> bytes:
    """Entries as one table: their bytes are what was checked and what the digest is of."""
    import pyarrow as pa

    rows = [{"entry_id": entry, "file": name, "content": content}
            for entry, files in entries.items() for name, content in files.items()]  # fmt: skip
    schema = pa.schema([("entry_id", pa.string()), ("file", pa.string()), ("content", pa.binary())])
    return parquet_bytes(pa.Table.from_pylist(rows, schema=schema))


def packed_results(scores: Mapping[str, Sequence[Score]]) -> bytes:
    """Every figure of every entry, and of looking kernels up, as one table."""
    import pyarrow as pa

    rows = [{"entry_id": entry, **to_dict(score)} for entry, found in scores.items() for score in found]
    return parquet_bytes(pa.Table.from_pylist(rows, pa.schema([("entry_id", pa.string()), *arrow_schema(Score)])))


def season_scores(folder: Path) -> dict[str, list[Score]]:
    """The published figures of a closed season by entry; the look-up is one of them."""
    import pyarrow.parquet as pq

    scores: dict[str, list[Score]] = {}
    for row in pq.read_table(folder / RESULTS).to_pylist():
        scores.setdefault(row.pop("entry_id"), []).append(from_dict(Score, row))
    return scores
