"""Event: one fact in a search's append-only log."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from kbench.schemas.record import Count, Name, Record


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Event(Record):
    """One fact in a search's append-only log; a run is its log."""

    TYPE: ClassVar[str] = "event"
    VERSION: ClassVar[str] = "1.0.0"

    run_id: str
    """The run."""
    index: Count
    """Position in the log, from 0 without gaps."""
    kind: Name
    """What happened, such as candidate_proposed."""
    step: Count
    """The search step it belongs to."""
    at: str
    """When, ISO 8601 in UTC; the only field replay may change."""
    payload_json: str
    """The fact's fields as a JSON object with sorted keys."""
