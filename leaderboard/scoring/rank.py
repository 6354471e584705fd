"""Rank entries per track and overall, with intervals, from paired bootstrap draws.

Every entry is scored with the same seed on the same dataset, so draw number b resamples the same problems for all of
them: ranking within each draw shows how much an order depends on which problems were picked.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np

from kbench.benchmark.metrics.arrays import Floats

OVERALL_RULE = (
    "Within each track entries are ranked by the track's headline figure. The overall figure is the mean of an entry's "
    "track ranks, where a track it did not enter counts as last; lower is better. Intervals come from ranking again in "
    "every bootstrap draw (problems resampled, the same problems for all entries). Entries with equal figures share a "
    "rank, and entries whose rank intervals overlap are not told apart by this data."
)


@dataclasses.dataclass(frozen=True, slots=True)
class Place:
    """An entry's rank with its 95 % interval."""

    entry_id: str
    rank: int
    rank_low: int
    rank_high: int
    figure: float | None
    """What was ranked: a headline value, or the mean rank overall."""


@dataclasses.dataclass(frozen=True, slots=True)
class Headline:
    """One entry's headline on one track: value and paired draws, both so that higher is better."""

    value: float
    draws: Sequence[float]


def rank_track(headlines: Mapping[str, Headline]) -> list[Place]:
    """Places on one track, best first."""
    names = sorted(headlines)
    if not names:
        return []
    values = np.array([headlines[name].value for name in names])
    draws = np.array([headlines[name].draws for name in names], dtype=np.float64)
    return _places(names, values, _ranks(values[:, None])[:, 0], _ranks(draws))


def rank_overall(tracks: Mapping[str, Mapping[str, Headline]], entries: Sequence[str]) -> list[Place]:
    """Places over all tracks, best first; see OVERALL_RULE."""
    names = sorted(entries)
    if not names or not tracks:
        return []
    columns, sheets = [], []
    for headlines in tracks.values():
        count = min((len(h.draws) for h in headlines.values()), default=1)
        values = np.full((len(names), 1), -np.inf)
        draws = np.full((len(names), count), -np.inf)
        for row, name in enumerate(names):
            if name in headlines:
                values[row, 0] = headlines[name].value
                draws[row] = np.asarray(headlines[name].draws[:count])
        columns.append(_ranks(values, last=len(names))[:, 0])
        sheets.append(_ranks(draws, last=len(names)))
    shortest = min(sheet.shape[1] for sheet in sheets)
    mean_rank = np.mean(columns, axis=0)
    mean_draws = np.mean([sheet[:, :shortest] for sheet in sheets], axis=0)
    return _places(names, -mean_rank, _ranks(-mean_rank[:, None])[:, 0], _ranks(-mean_draws), figures=mean_rank)


def _ranks(values: Floats, last: int | None = None) -> Floats:
    """Competition ranks down each column, higher values first; minus infinity ranks `last`."""
    from scipy.stats import rankdata

    ranks: Floats = rankdata(-values, method="min", axis=0).astype(np.float64)
    if last is not None:
        ranks[np.isneginf(values)] = last
    return ranks


def _places(
    names: Sequence[str], order_by: Floats, ranks: Floats, rank_draws: Floats, figures: Floats | None = None
) -> list[Place]:
    shown = order_by if figures is None else figures
    low, high = np.quantile(rank_draws, [0.025, 0.975], axis=1, method="inverted_cdf")
    places = [
        Place(name, int(ranks[i]), int(min(low[i], ranks[i])), int(max(high[i], ranks[i])), float(shown[i]))
        for i, name in enumerate(names)
    ]
    return sorted(places, key=lambda place: (place.rank, place.entry_id))
