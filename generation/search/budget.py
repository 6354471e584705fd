"""Budget: what a run may spend, and what its log says it has spent."""

from __future__ import annotations

import dataclasses
import re
from typing import Annotated, ClassVar

from kbench.schemas import UserError
from kbench.schemas.record import Limit, Positive, Record

PositiveCount = Annotated[int, Limit(exclusive_minimum=0)]

IDLE_LIMIT_S = 300.0
"""Longest gap between two facts that counts as search time; after a longer one the search was not running."""

UNITS = {"": "measurements", "m": "measurements", "s": "gpu_seconds", "t": "tokens", "w": "wall_seconds"}
COUNTED = ("measurements", "tokens")
"""Amounts that are whole numbers."""


@dataclasses.dataclass(frozen=True, slots=True)
class Charge:
    """What has been spent, computed from the log alone."""

    measurements: int = 0
    gpu_seconds: float = 0.0
    build_seconds: float = 0.0
    tokens: int = 0
    wall_seconds: float = 0.0


@dataclasses.dataclass(frozen=True, slots=True)
class Budget(Record):
    """Upper limits; None means no limit. A search stops at the first one reached."""

    TYPE: ClassVar[str] = "budget"
    VERSION: ClassVar[str] = "1.0.0"

    measurements: PositiveCount | None = None
    gpu_seconds: Positive | None = None
    tokens: PositiveCount | None = None
    wall_seconds: Positive | None = None

    def spent(self, charge: Charge) -> str | None:
        """Which limit is reached, in words; None while budget is left."""
        for field in dataclasses.fields(self):
            limit = getattr(self, field.name)
            used = getattr(charge, field.name)
            if limit is not None and used >= limit:
                return f"{field.name} {used:g} of {limit:g}"
        return None

    def tokens_left(self, charge: Charge) -> int | None:
        """Tokens still allowed; None when unlimited."""
        return None if self.tokens is None else max(0, self.tokens - charge.tokens)

    def measurements_left(self, charge: Charge) -> int | None:
        """Measurements still allowed; None when unlimited."""
        return None if self.measurements is None else max(0, self.measurements - charge.measurements)


UNLIMITED = Budget()
NOTHING_SPENT = Charge()


def parse_budget(text: str) -> Budget:
    """Read `--budget`: comma-separated amounts with a unit letter.

    `320` or `320m` measurements, `600s` GPU-seconds, `2000000t` tokens, `3600w` wall seconds.

    Raises:
        UserError: names the part that cannot be read.
    """
    limits: dict[str, int | float] = {}
    for part in filter(None, (piece.strip() for piece in text.split(","))):
        found = re.fullmatch(r"(\d+(?:\.\d+)?)([mstw]?)", part)
        if found is None or float(found[1]) <= 0:
            raise UserError(f"budget {part!r} is not an amount with a unit; write 320m, 600s, 2000000t or 3600w")
        unit = UNITS[found[2]]
        if unit in limits:
            raise UserError(f"budget names {unit} twice in {text!r}; give it once")
        limits[unit] = _amount(found[1], unit)
    if not limits:
        raise UserError("budget is empty; write for example --budget 320 (measurements) or --budget 600s (GPU-seconds)")
    return Budget(**limits)  # type: ignore[arg-type]


def _amount(digits: str, unit: str) -> int | float:
    if unit not in COUNTED:
        return float(digits)
    if not digits.isdecimal():
        raise UserError(f"budget has {digits} {unit}; give a whole number")
    return int(digits)
