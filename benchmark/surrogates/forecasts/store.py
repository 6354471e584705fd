"""Forecasts already made, one JSON object per line: what makes a run resumable."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType

from kbench.loaders.storage.lines import LineWriter, parse_json, read_lines
from kbench.schemas import DataError, Forecast, from_dict, to_dict

Key = tuple[str, int]
"""Query id and repeat."""


class ForecastStore:
    """Appends forecasts as they come; on opening, gives back every success. Failures are tried again."""

    def __init__(self, path: Path | None) -> None:
        """Open.

        Args:
            path: the file, made when absent; None keeps nothing.

        Raises:
            UserError: another evaluation is writing the file, or it cannot be opened.
            DataError: names the line that is damaged.
        """
        self.done: dict[Key, Forecast] = {}
        self._lines: LineWriter | None = None
        if path is not None:
            self._lines = LineWriter(path, _forecast)
            made = (forecast for forecast, _ in read_lines(path, _forecast))
            self.done = {(f.query_id, f.repeat): f for f in made if f.failure is None}

    def add(self, forecasts: Iterable[Forecast]) -> None:
        """Keep forecasts; they are on disk when this returns.

        Raises:
            InfrastructureError: the disk does not take them.
        """
        made = list(forecasts)
        self.done.update({(f.query_id, f.repeat): f for f in made if f.failure is None})
        if self._lines is not None:
            self._lines.append(json.dumps(to_dict(forecast)) for forecast in made)

    def __enter__(self) -> ForecastStore:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._lines is not None:
            self._lines.close()


def _forecast(text: str, where: str) -> Forecast:
    try:
        return from_dict(Forecast, parse_json(text, where))
    except DataError as error:
        raise DataError(f"{where} is not a forecast ({error}); remove the file to start over") from None
