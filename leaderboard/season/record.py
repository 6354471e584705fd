"""Season: what season.json holds. The record says what was published, who entered when, and how it ended."""

from __future__ import annotations

import dataclasses
import datetime
import json
from pathlib import Path
from typing import Annotated, ClassVar

from kbench.schemas import DataError, Record, UserError, from_dict, to_dict
from kbench.schemas.record import Count, Limit, Sha

FILE = "season.json"
Slug = Annotated[str, Limit(pattern="^[a-z0-9][a-z0-9-]{0,99}$")]
Instant = Annotated[str, Limit(pattern=r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(\+00:00|Z)$")]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class SeasonEntry(Record):
    """A submission as it was when it entered."""

    TYPE: ClassVar[str] = "season_entry"
    VERSION: ClassVar[str] = "1.0.0"

    entry_id: Slug
    """Name and version; its folder under entries/."""
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
    VERSION: ClassVar[str] = "1.0.0"

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
    """Hash of every query's text by track; entries state it as the dataset they forecast."""
    trained_on: Sha
    """Fingerprint of the dataset that held none of the kernels, and that priors come from."""
    entries: tuple[SeasonEntry, ...] = ()
    """In the order they entered."""
    closing: Closing | None = None
    """Null while the season is open."""

    def to_bytes(self) -> bytes:
        """The content of season.json."""
        return (json.dumps(to_dict(self), indent=1, ensure_ascii=False) + "\n").encode()


def read_season(folder: Path) -> Season:
    """Read a season's record.

    Raises:
        UserError: there is no such season.
        DataError: its record is damaged or of another version.
    """
    path = folder / FILE
    try:
        season = from_dict(Season, json.loads(path.read_text("utf-8")))
    except FileNotFoundError:
        raise UserError(
            f"no season in {str(folder)!r}; open one: kbench leaderboard season open {folder.name}"
        ) from None
    except (OSError, ValueError) as error:
        raise DataError(f"{path} is no season's record ({error}); restore it from the repository") from None
    if season.schema_version != Season.VERSION:
        raise DataError(f"{path}: schema_version is {season.schema_version!r}; this kbench reads {Season.VERSION!r}")
    return season


def instant(text: str) -> datetime.datetime:
    """A stated instant; UTC where no zone is stated."""
    found = datetime.datetime.fromisoformat(text)
    return found if found.tzinfo else found.replace(tzinfo=datetime.UTC)


def written(moment: datetime.datetime) -> str:
    """An instant as records hold it."""
    return moment.astimezone(datetime.UTC).isoformat()
