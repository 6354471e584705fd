"""CampaignProgress: what a campaign has done since it was started or resumed, and the lines that say so."""

from __future__ import annotations

import dataclasses
import time
from collections import Counter
from typing import Any

LONGEST_REASON = 120
"""Characters of a reason shown in a line."""


@dataclasses.dataclass(slots=True)
class CampaignProgress:
    """What has happened since the campaign was started or resumed."""

    total: int = 0
    """Measurements all runs together may still make; 0 where no budget counts them."""
    measured: int = 0
    ok: int = 0
    lost: int = 0
    reused: int = 0
    in_flight: int = 0
    live: int = 0
    gpu_seconds: float = 0.0
    best: float = 0.0
    """Highest speedup measured."""
    failures: Counter[str] = dataclasses.field(default_factory=Counter)
    """Incorrect or failed kernels, by status."""
    failed_forecasts: int = 0
    """Candidates a surrogate gave no forecast for."""
    forecast_failure: str | None = None
    """Why, for the first of them."""
    halted: dict[str, str] = dataclasses.field(default_factory=dict)
    """Runs that could not go on because their proposer could not be reached, with the reason."""
    waiting: int = 0
    """Runs that wait for responses of a language model."""
    started: float = dataclasses.field(default_factory=time.monotonic)

    @property
    def rate(self) -> float:
        """Kernels measured per second."""
        return self.measured / max(1e-9, time.monotonic() - self.started)

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "measured": self.measured, "ok": self.ok, "best_speedup": self.best or None,
            "failures": dict(self.failures), "reused": self.reused, "lost": self.lost,
            "failed_forecasts": self.failed_forecasts, "forecast_failure": self.forecast_failure,
            "halted": self.halted, "waiting": self.waiting, "gpu_seconds": self.gpu_seconds,
            "kernels_per_s": self.rate,
        }  # fmt: skip

    def line(self) -> str:
        """One line while the campaign runs, with what is still to come."""
        count = f"{self.measured}/{self.total}" if self.total else f"{self.measured}"
        to_come = [f"{self.live} runs live", f"{self.in_flight} in flight"]
        if self.waiting:
            to_come.append(f"{self.waiting} wait for responses")
        if self.measured and self.total:
            to_come.append(f"{max(0, self.total - self.measured) / self.rate:.0f} s left")
        return ", ".join([f"{count} kernels", *self._found(), *to_come, *self._silent()])

    def result(self) -> str:
        """One line when the campaign has ended."""
        return ", ".join([f"{self.measured} kernels", *self._found(), *self._silent()])

    def _found(self) -> list[str]:
        failed = ", ".join(f"{name} {count}" for name, count in self.failures.most_common()) or "none"
        return [
            f"{self.rate:.1f}/s",
            f"best {self.best:.2f}x" if self.best else "best -",
            f"ok {self.ok / self.measured:.0%}" if self.measured else "ok -",
            f"failed: {failed}",
            f"reused {self.reused}",
            f"lost {self.lost}",
        ]

    def _silent(self) -> list[str]:
        return [failed_forecasts(self.failed_forecasts, self.forecast_failure)] if self.failed_forecasts else []


def failed_forecasts(count: int, first: str | None) -> str:
    """How many forecasts failed and why the first did, short enough for a line."""
    return f"{count} forecasts failed, the first: {' '.join((first or 'no reason given').split())[:LONGEST_REASON]}"
