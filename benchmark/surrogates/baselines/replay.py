"""`replay`: forecasts somebody made earlier, read from a file and given again."""

from __future__ import annotations

import functools
import json
from collections.abc import Sequence
from pathlib import Path

from kbench.benchmark.surrogates.forecasts.table import DATASET_KEY, check_repeats, read_forecasts
from kbench.benchmark.surrogates.protocol import failure
from kbench.schemas import Forecast, Query, UserError


class ReplaySurrogate:
    """Answers with the forecasts of a file; what the file does not hold is a failure."""

    inputs = "source"

    def __init__(self, path: str) -> None:
        """Name the file; it is read on first use.

        Args:
            path: .parquet or .jsonl forecasts.
        """
        self.path = Path(path)
        submission = self.path.parent / "submission.json"
        if submission.is_file():
            self.inputs = json.loads(submission.read_text(encoding="utf-8")).get("inputs", "source")

    @property
    def repeats(self) -> int:
        """Repeats the file holds."""
        return max((repeat for _, repeat in self._forecasts), default=0) + 1

    def check_dataset(self, fingerprint: str) -> None:
        """Refuse forecasts made for other data.

        Raises:
            UserError: the file, or submission.json beside it, names another dataset.
        """
        found = (read_forecasts(self.path).schema.metadata or {}).get(DATASET_KEY, b"").decode()
        submission = self.path.parent / "submission.json"
        if not found and submission.is_file():
            found = str(json.loads(submission.read_text(encoding="utf-8")).get("dataset_fingerprint", ""))
        if found and found != fingerprint:
            raise UserError(
                f"{self.path} holds forecasts for dataset {found}, this is {fingerprint}; evaluate them on their own"
            )

    def forecast(self, queries: Sequence[Query]) -> list[Forecast]:
        """The stored forecasts of these queries."""
        known = self._forecasts
        keys = [(query.query_id, repeat) for query in queries for repeat in range(self.repeats)]
        return [known.get(key) or failure(key[0], "the file holds no forecast of this query", key[1]) for key in keys]

    @functools.cached_property
    def _forecasts(self) -> dict[tuple[str, int], Forecast]:
        table = read_forecasts(self.path)
        check_repeats(table, str(self.path))
        names = table.column_names
        found: dict[tuple[str, int], Forecast] = {}
        for row in zip(*(table.column(name).to_pylist() for name in names), strict=True):
            values = dict(zip(names, row, strict=True))
            values["repeat"] = values["repeat"] or 0
            probabilities = values["probabilities"]
            values["probabilities"] = None if probabilities is None else tuple(probabilities)
            key = (str(values["query_id"]), values["repeat"])
            if key in found:
                raise UserError(f"{self.path} holds query {key[0]} repeat {key[1]} twice; keep one of them")
            found[key] = Forecast(**values)
        return found
