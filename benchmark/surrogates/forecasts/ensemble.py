"""Repeats of a query averaged into one forecast."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from statistics import fmean
from typing import TypeVar

from kbench.benchmark.surrogates.protocol import failure
from kbench.schemas import Forecast

Number = TypeVar("Number", int, float)


def ensembled(forecasts: Iterable[Forecast]) -> list[Forecast]:
    """One forecast per query, in the order in which queries first appear: the mean over the repeats that answered."""
    by_query: dict[str, list[Forecast]] = {}
    for forecast in forecasts:
        by_query.setdefault(forecast.query_id, []).append(forecast)
    return [_averaged(repeats) for repeats in by_query.values()]


def _averaged(repeats: Sequence[Forecast]) -> Forecast:
    """Probabilities and P(valid) by their mean, speedups by their geometric mean; costs add up."""
    answered = [forecast for forecast in repeats if forecast.probabilities is not None]
    query_id, elapsed_s = repeats[0].query_id, _sum([forecast.elapsed_s for forecast in repeats])
    if not answered:
        return failure(query_id, repeats[0].failure or "", elapsed_s=elapsed_s)
    columns = zip(*(forecast.probabilities for forecast in answered if forecast.probabilities), strict=True)
    logs = [math.log(forecast.speedup) for forecast in answered if forecast.speedup is not None]
    return Forecast(
        query_id=query_id,
        probabilities=tuple(fmean(column) for column in columns),
        speedup=math.exp(fmean(logs)) if logs else None,
        p_valid=_mean([forecast.p_valid for forecast in answered]),
        input_tokens=_sum([forecast.input_tokens for forecast in repeats]),
        output_tokens=_sum([forecast.output_tokens for forecast in repeats]),
        elapsed_s=elapsed_s,
    )


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return fmean(known) if known else None


def _sum(values: Iterable[Number | None]) -> Number | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None
