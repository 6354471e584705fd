"""Flaw: one problem of a submission, with file, field, value and fix."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True, slots=True)
class Flaw:
    """One problem of a submission."""

    file: str
    field: str
    value: str
    message: str

    def __str__(self) -> str:
        return f"{self.file}: {self.field} is {self.value}; {self.message}"
