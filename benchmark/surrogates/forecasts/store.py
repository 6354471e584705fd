"""Forecasts already made, one JSON object per line: what makes a run resumable."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType

from kbench.schemas import DataError, Forecast, from_dict, to_dict

Key = tuple[str, int]
"""Query id and repeat."""


class ForecastStore:
    """Appends forecasts as they come; on opening, gives back every success. Failures are tried again."""

    def __init__(self, path: Path | None) -> None:
        """Open.

        Args:
            path: the file, made when absent; None keeps nothing.
        """
        self.done: dict[Key, Forecast] = {}
        self._file = None
        if path is None:
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists():
            self.done = _read(path)
        self._file = path.open("ab")

    def add(self, forecasts: Iterable[Forecast]) -> None:
        """Keep forecasts; they are on disk when this returns."""
        made = list(forecasts)
        self.done.update({(f.query_id, f.repeat): f for f in made if f.failure is None})
        if self._file is not None:
            self._file.write(b"".join(json.dumps(to_dict(f)).encode() + b"\n" for f in made))
            self._file.flush()
            os.fsync(self._file.fileno())

    def __enter__(self) -> ForecastStore:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._file is not None:
            self._file.close()


def _read(path: Path) -> dict[Key, Forecast]:
    found: dict[Key, Forecast] = {}
    data = path.read_bytes()
    whole, cut, _ = data.rpartition(b"\n")
    if len(whole) + len(cut) < len(data):
        # A run that was killed while writing leaves half a line; the forecasts before it are whole.
        with path.open("r+b") as file:
            file.truncate(len(whole) + len(cut))
    for number, text in enumerate(whole.splitlines(), start=1):
        try:
            forecast = from_dict(Forecast, json.loads(text))
        except (ValueError, DataError) as error:
            raise DataError(f"{path} line {number} is not a forecast ({error}); remove it to start over") from None
        if forecast.failure is None:
            found[forecast.query_id, forecast.repeat] = forecast
    return found
