"""Published forecasts of the release by surrogate: joined to the evaluation set by position within a comparison id."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kbench.loaders.importers import fields
from kbench.loaders.importers.context import Context
from kbench.loaders.importers.fields import RowError
from kbench.schemas import Forecast, arrow_schema
from kbench.schemas.bins import NUMBERS

SURROGATES = (
    "gemini3_flash", "gpt_oss_120b", "gpt_oss_20b_untrained", "deepseek_v4", "trained_correctness",
    "trained_correctness_brier", "trained_correctness_crps",
)  # fmt: skip
REPEATS = 3
DATASET_KEY = "kbench.dataset"
"""Where a forecasts file names the corpus it is for."""
SAFE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")


class PublishedForecasts:
    """Forecasts of the release, by surrogate."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self.asked: dict[str, list[tuple[str, str]]] = {}
        """For each comparison id its questions in the evaluation set's order, each with its pack."""
        self._occurrences: Counter[tuple[str, int, str]] = Counter()
        self._forecasts: dict[str, list[dict[str, Any]]] = {}

    def add(self, data: Mapping[str, Any]) -> None:
        """Take one row.

        Raises:
            RowError: a value is missing, or the row answers nothing in the evaluation set.
        """
        surrogate, comparison = fields.text(data, "surrogate_label"), fields.text(data, "comparison_id")
        repeat = fields.whole(data, "repeat")
        if SAFE_NAME.fullmatch(surrogate) is None:
            raise RowError("surrogate_label", surrogate, "must be a plain name; it becomes a file's")
        pairs = self.asked.get(comparison)
        if pairs is None:
            raise RowError("comparison_id", comparison, "is not in the evaluation set")
        key = (surrogate, repeat, comparison)
        if self._occurrences[key] >= len(pairs):
            raise RowError("comparison_id", comparison, f"occurs more often than in the evaluation set ({len(pairs)})")
        pair_id, pack = pairs[self._occurrences[key]]
        if fields.text(data, "pack") != pack:
            raise RowError("pack", data["pack"], f"the comparison is of pack {pack!r}")
        forecast = {
            "query_id": pair_id, "repeat": repeat, **self._answer(data),
            "input_tokens": fields.optional_whole(data, "input_tokens"),
            "output_tokens": fields.optional_whole(data, "output_tokens"),
            "elapsed_s": fields.non_negative(data, "elapsed_s"),
        }  # fmt: skip
        self._occurrences[key] += 1
        self._forecasts.setdefault(surrogate, []).append(forecast)

    def _answer(self, data: Mapping[str, Any]) -> dict[str, Any]:
        predicted = data.get("predicted_bin")
        if predicted is not None and predicted not in NUMBERS:
            raise RowError("predicted_bin", predicted, f"must be null or one of {NUMBERS}")
        values = _probabilities(data)
        reason = fields.optional_text(data, "parse_error")
        if fields.truth(data, "parse_failed"):
            return {"failure": (reason or "the answer could not be parsed; no more is stated")[:500]}
        total = math.fsum(values)
        if total <= 0:
            why = "no probability was given" if not data.get("bin_probabilities") else "all probabilities are zero"
            return {"failure": why, "raw_sum": 0.0}
        stated = fields.non_negative(data, "raw_probability_sum")
        sums = () if stated is None else (1.0, stated)
        if sums and not any(math.isclose(total, wanted, rel_tol=1e-3, abs_tol=1e-3) for wanted in sums):
            raise RowError("raw_probability_sum", stated, f"the probabilities sum to {total:g}")
        raw = total if stated is None else stated
        if abs(raw - 1) > 1e-6:
            self._context.note("forecasts whose probabilities did not sum to one; normalised, the sum is kept")
        if predicted is not None and values[predicted - 1] < max(values):
            self._context.note("forecasts whose predicted_bin is not their most probable bin; the distribution counts")
        return {"probabilities": [value / total for value in values], "raw_sum": raw}

    def check(self) -> None:
        """Report forecasts that are not there."""
        wanted = sum(map(len, self.asked.values())) * REPEATS
        for surrogate in SURROGATES:
            count = len(self._forecasts.get(surrogate, ()))
            if count != wanted:
                difference = f"forecasts of {surrogate}: {wanted:,} expected, {count:,} found"
                self._context.report.differences.append(difference)

    def write(self, folder: Path, fingerprint: str) -> int:
        """Write one Parquet file per surrogate.

        Args:
            folder: made when missing.
            fingerprint: of the corpus the forecasts are for.

        Returns:
            how many forecasts there are.
        """
        import pyarrow as pa
        import pyarrow.parquet as pq

        schema = arrow_schema(Forecast).with_metadata({DATASET_KEY: fingerprint})
        folder.mkdir(parents=True, exist_ok=True)
        for surrogate, rows in self._forecasts.items():
            first = min(row["repeat"] for row in rows)
            if first:
                self._context.note(f"repeats of {surrogate} are numbered from {first}; here from 0")
            table = pa.Table.from_pylist([row | {"repeat": row["repeat"] - first} for row in rows], schema=schema)
            pq.write_table(table, folder / f"{surrogate}.parquet", compression="zstd")
        return sum(map(len, self._forecasts.values()))


def _probabilities(data: Mapping[str, Any]) -> list[float]:
    """Eight numbers; bins the list does not name are zero."""
    probabilities: dict[int, float] = {}
    for item in data.get("bin_probabilities") or ():
        if not isinstance(item, Mapping) or item.get("bin") not in NUMBERS:
            raise RowError("bin_probabilities", item, f"each item must name a bin of {NUMBERS}")
        number, value = item["bin"], item.get("p")
        if number in probabilities:
            raise RowError("bin_probabilities", item, "names a bin twice")
        if not fields.is_number(value) or value < 0:
            raise RowError("bin_probabilities", item, "p must be a number of at least 0")
        probabilities[number] = float(value)
    return [probabilities.get(number, 0.0) for number in NUMBERS]
