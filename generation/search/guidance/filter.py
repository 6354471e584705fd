"""The surrogate filter: forecast every candidate, measure those ranked high and those the surrogate is unsure about."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

from kbench.benchmark.surrogates.protocol import accept
from kbench.generation.search.settings import FilterSettings
from kbench.schemas import Forecast, bins


@dataclasses.dataclass(frozen=True, slots=True)
class Guess:
    """What is expected of a candidate."""

    forecast: Forecast
    improvement: float | None = None
    """Expected rise of the best log2 speedup; None where it is not known."""


Decision = dict[str, Any]
"""What the filter decided on one candidate, as the log has it: `kernel_id`, `measure`, `why` (`rank`, `unsure` or
`no forecast` if measured, else `below` or `no place`), `score`, `confidence` and `forecast`."""


def decide(kernel_ids: Sequence[str], guesses: Sequence[Guess], settings: FilterSettings, keep: int) -> list[Decision]:
    """Which candidates to measure, in the order given.

    Candidates without a forecast come first, up to `keep`: nothing is known against them. Of the remaining places a
    share goes to the least confident forecasts below the threshold, the rest to the highest scores.
    """
    scored = {key: score(guess) for key, guess in zip(kernel_ids, guesses, strict=True)}
    sure = {key: confidence(guess.forecast) for key, guess in zip(kernel_ids, guesses, strict=True)}
    silent = [key for key in kernel_ids if scored[key] is None]
    why = dict.fromkeys(silent[:keep], "no forecast")
    passed_over = dict.fromkeys(silent, "no place")
    answered = [key for key in kernel_ids if scored[key] is not None]
    unsure = [key for key in answered if (sure[key] or 0.0) < settings.confidence]
    unsure.sort(key=lambda key: sure[key] or 0.0)
    for key in unsure[: math.floor((keep - len(why)) * settings.unsure_share)]:
        why[key] = "unsure"
    ranked = sorted((k for k in answered if k not in why), key=lambda k: -(scored[k] or 0.0))
    for key in ranked[: keep - len(why)]:
        why[key] = "rank"
    return [
        {
            "kernel_id": key,
            "measure": key in why,
            "why": why.get(key) or passed_over.get(key, "below"),
            "score": scored[key],
            "confidence": sure[key],
            "forecast": _summary(guess.forecast),
        }
        for key, guess in zip(kernel_ids, guesses, strict=True)
    ]


def score(guess: Guess) -> float | None:
    """Expected improvement where it is known, else expected log2 speedup, weighed by the chance of being valid."""
    return expected_log2(guess.forecast) if guess.improvement is None else guess.improvement


def expected_log2(forecast: Forecast) -> float | None:
    """Expected log2 speedup, with the slowest bin for an invalid kernel; None without a forecast."""
    if forecast.probabilities is None:
        return None
    if forecast.speedup is not None:
        expected = math.log2(forecast.speedup)
    else:
        expected = sum(p * math.log2(bins.center(n)) for n, p in zip(bins.NUMBERS, forecast.probabilities, strict=True))
    valid = 1.0 if forecast.p_valid is None else forecast.p_valid
    return valid * expected + (1 - valid) * math.log2(bins.center(1))


def confidence(forecast: Forecast) -> float | None:
    """The surrogate's own confidence, else its largest probability."""
    if forecast.confidence is not None:
        return forecast.confidence
    return max(forecast.probabilities) if forecast.probabilities else None


def _summary(forecast: Forecast) -> dict[str, Any]:
    if forecast.probabilities is None:
        return {"failure": forecast.failure}
    summary: dict[str, Any] = {"probabilities": list(forecast.probabilities)}
    if forecast.p_valid is not None:
        summary["p_valid"] = forecast.p_valid
    return summary


def in_order(query_ids: Sequence[str], forecasts: Sequence[Forecast]) -> list[Forecast]:
    """Forecasts in the queries' order, checked; a query without an answer gets a failure."""
    answers = {forecast.query_id: accept(forecast) for forecast in forecasts}
    missing = "the surrogate gave no forecast"
    return [answers.get(key) or Forecast(query_id=key, failure=missing) for key in query_ids]


def tokens(forecasts: Sequence[Forecast]) -> tuple[int, int]:
    """Tokens read and written for these forecasts."""
    return sum(f.input_tokens or 0 for f in forecasts), sum(f.output_tokens or 0 for f in forecasts)
