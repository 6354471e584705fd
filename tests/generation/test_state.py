from __future__ import annotations

from typing import Any

import pytest

from kbench.generation.log import LogEntry
from kbench.generation.search.reducer import replay
from kbench.generation.search.state import FRESH
from kbench.schemas import DataError

from .conftest import settings_for, ticking

BEGUN = {"settings": settings_for("random").to_json()}
CLOCK = ticking()


def entry(index: int, kind: str, payload: dict[str, Any], at: str = CLOCK) -> LogEntry:
    return LogEntry("r", index, kind, 0, at, payload)


@pytest.mark.parametrize(
    "first",
    [
        entry(0, "run_started", {}),
        entry(0, "run_started", {"settings": None}),
        entry(0, "run_started", {"settings": []}),
        entry(0, "run_started", {"settings": BEGUN["settings"] | {"seeds": "4"}}),
        entry(0, "run_started", {"settings": BEGUN["settings"] | {"budget": {"hours": 3}}}),
        entry(0, "run_started", BEGUN, at="yesterday"),
        entry(0, "step_completed", {}),
    ],
    ids=["no settings", "null", "a list", "a wrong type", "an unknown limit", "a bad time", "another kind"],
)
def test_a_first_fact_that_begins_no_run_is_refused_with_run_and_index(first: LogEntry) -> None:
    with pytest.raises(DataError, match=r"run 'r' entry 0"):
        replay([first])


@pytest.mark.parametrize(
    ("kind", "payload", "at"),
    [
        ("step_completed", {}, "yesterday"),
        ("step_completed", {}, "2026-01-01T00:00:00"),
        ("step_started", {"requests": [FRESH.to_json() | {"operator": "imagine"}]}, CLOCK),
        ("step_started", {}, CLOCK),
        ("kernel_lost", {"kernel_id": "unknown", "reason": "gone"}, CLOCK),
        ("kernel_measured", {"kernel_id": "unknown", "measurements": "none"}, CLOCK),
        ("proposal_failed", {"slot": 0, "reason": None}, CLOCK),
        ("candidates_filtered", {"decisions": [{"kernel_id": "unknown", "measure": True, "forecast": None}]}, CLOCK),
        ("budget_changed", {"budget": {"measurements": "4"}}, CLOCK),
    ],
)  # fmt: skip
def test_a_fact_that_does_not_fit_is_refused_with_run_and_index(kind: str, payload: dict[str, Any], at: str) -> None:
    with pytest.raises(DataError, match=rf"run 'r' entry 1 \({kind}\)"):
        replay([entry(0, "run_started", BEGUN), entry(1, kind, payload, at)])
