"""`replay`: forecasts made earlier, read from a file."""

from __future__ import annotations

import functools
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kbench.benchmark.surrogates.forecasts.table import DATASET_KEY, check_repeats, read_forecasts
from kbench.benchmark.surrogates.protocol import failure
from kbench.loaders.splits.lineage import published_releases
from kbench.schemas import Forecast, Query, UserError


class ReplaySurrogate:
    """Answers with the forecasts of a file; what the file does not hold is a failure."""

    def __init__(self, path: str) -> None:
        """Name the file; it is read on first use.

        Args:
            path: .parquet or .jsonl forecasts.
        """
        self.path = Path(path)
        self.inputs = self._submission.get("inputs", "source")

    @property
    def repeats(self) -> int:
        """Repeats the file holds."""
        return max((repeat for _, repeat in self._forecasts), default=0) + 1

    def check_dataset(self, fingerprint: str) -> None:
        """Refuse forecasts made for other data.

        Raises:
            UserError: the file, or submission.json beside it, names a dataset that is no release of this one.
        """
        found = (read_forecasts(self.path).schema.metadata or {}).get(DATASET_KEY, b"").decode()
        found = found or str(self._submission.get("dataset_fingerprint", ""))
        # Releases of one dataset share questions: those that a file does not answer are failures.
        if found and found != fingerprint and not {found, fingerprint} <= published_releases():
            raise UserError(
                f"{self.path} holds forecasts for dataset {found}, this is {fingerprint}; evaluate them on their own"
            )

    def forecast(self, queries: Sequence[Query]) -> list[Forecast]:
        """The stored forecasts of these queries."""
        known = self._forecasts
        keys = [(query.query_id, repeat) for query in queries for repeat in range(self.repeats)]
        return [known.get(key) or failure(key[0], "the file holds no forecast of this query", key[1]) for key in keys]

    @functools.cached_property
    def _submission(self) -> dict[str, Any]:
        path = self.path.parent / "submission.json"
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
        return found

    @functools.cached_property
    def _forecasts(self) -> dict[tuple[str, int], Forecast]:
        table = read_forecasts(self.path)
        check_repeats(table, str(self.path))
        found: dict[tuple[str, int], Forecast] = {}
        for values in table.to_pylist():
            values["repeat"] = values["repeat"] or 0
            probabilities = values["probabilities"]
            values["probabilities"] = None if probabilities is None else tuple(probabilities)
            key = (str(values["query_id"]), values["repeat"])
            if key in found:
                raise UserError(f"{self.path} holds query {key[0]} repeat {key[1]} twice; keep one of them")
            found[key] = Forecast(**values)
        return found
