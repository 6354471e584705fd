"""Request: what a method wants proposed for one slot of a step."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from enum import StrEnum
from typing import Any


class Operator(StrEnum):
    """How a candidate comes about."""

    FRESH = "fresh"
    MUTATE = "mutate"
    CROSS = "cross"


@dataclasses.dataclass(frozen=True, slots=True)
class Request:
    """One slot of a step: an operator, the parents it works on and, for islands, where the child lives."""

    operator: Operator
    parent_id: str | None = None
    other_id: str | None = None
    island: int = 0

    def to_json(self) -> dict[str, Any]:
        """Plain values for the log."""
        data = dataclasses.asdict(self)
        data["operator"] = self.operator.value
        return data


def request_from_json(data: Mapping[str, Any]) -> Request:
    """Read a request back from the log."""
    return Request(Operator(data["operator"]), data["parent_id"], data["other_id"], data["island"])


FRESH = Request(Operator.FRESH)
