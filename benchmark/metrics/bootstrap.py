"""Seeded bootstrap over clusters, from sums per cluster rather than resampled rows.

Rows of one problem are alike, so problems are drawn with replacement, not rows. Every metric here is a function of sums
over rows; a resample's sums are the clusters' sums times how often each cluster was drawn. Cost is one pass over the
rows plus a product of [resamples × clusters] with [clusters × sums], whatever the number of rows.
"""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import numpy.typing as npt

from kbench.benchmark.metrics.arrays import Floats, Ints, encode
from kbench.benchmark.metrics.forecast.ece import BUCKETS, equal_mass, equal_width, gap

RESAMPLES = 2000
LEVEL = 0.95
CELLS = 20_000_000
"""Most cells of a clusters × levels table: bounds memory when there are very many clusters."""


@dataclasses.dataclass(frozen=True, slots=True)
class Figure:
    """A metric's value and its value in every resample."""

    value: float
    draws: Floats

    @property
    def low(self) -> float:
        """Lower end of the percentile interval."""
        return self._quantile((1 - LEVEL) / 2)

    @property
    def high(self) -> float:
        """Upper end."""
        return self._quantile((1 + LEVEL) / 2)

    def minus(self, other: Figure) -> Figure:
        """Paired difference: both must come from one Bootstrap."""
        return Figure(self.value - other.value, self.draws - other.draws)

    def _quantile(self, share: float) -> float:
        known = self.draws[~np.isnan(self.draws)]
        return float(np.quantile(known, share)) if len(known) else math.nan


class Bootstrap:
    """Draws of clusters shared by every metric of one set of rows, so that differences are paired."""

    def __init__(self, clusters: npt.ArrayLike, resamples: int = RESAMPLES, seed: int = 0) -> None:
        """Draw.

        Args:
            clusters: the cluster of each row: any array of names or numbers.
            resamples: how many draws.
            seed: of the generator; equal seeds and cluster names give equal draws.
        """
        names, self.index = encode(np.asarray(clusters))
        self.count = len(names)
        self.resamples = resamples if self.count > 1 else 0
        generator = np.random.default_rng(seed)
        chances = np.full(self.count, 1 / max(self.count, 1))
        drawn = generator.multinomial(self.count, chances, size=self.resamples) if self.resamples else None
        self._weights = np.zeros((0, self.count)) if drawn is None else drawn.astype(np.float64)
        self._rows = self._resampled(np.ones(len(self.index)))

    def sums(self, rows: Floats) -> Floats:
        """Sum per cluster."""
        result: Floats = np.bincount(self.index, weights=rows, minlength=self.count).astype(np.float64)
        return result

    def _resampled(self, rows: Floats) -> Floats:
        result: Floats = self._weights @ self._on_grid(self.sums(rows))
        return result

    def _on_grid(self, sums: Floats) -> Floats:
        """The sums, rounded so little that their products with the weights add up without any rounding.

        A matrix product adds in an order that depends on the processor and its threads; exact sums have no order.
        """
        largest = float(np.abs(sums).sum(axis=0).max(initial=0.0)) * self._weights.max(initial=1.0)
        if not 0.0 < largest < math.inf:
            return sums
        places = 52 - math.frexp(largest)[1]
        result: Floats = np.ldexp(np.rint(np.ldexp(sums, places)), -places)
        return result

    def _table(self, column: Ints, width: int, rows: Floats) -> Floats:
        """Resampled sums per column: [resamples, width]."""
        cells = np.bincount(self.index * width + column, weights=rows, minlength=self.count * width).astype(np.float64)
        result: Floats = self._weights @ self._on_grid(cells.reshape(self.count, width))
        return result

    def mean(self, rows: Floats) -> Figure:
        """Mean of a column; rows that are NaN are left out."""
        known = ~np.isnan(rows)
        filled = np.where(known, rows, 0.0)
        count = self._rows if known.all() else self._resampled(known.astype(np.float64))
        value = float(filled.sum() / known.sum()) if known.any() else math.nan
        return Figure(value, _divide(self._resampled(filled), count))

    def skill(self, rows: Floats, baseline: Floats) -> Figure:
        """One minus the ratio of two means."""
        base = baseline.sum()
        value = float(1.0 - rows.sum() / base) if base > 0 else math.nan
        return Figure(value, 1.0 - _divide(self._resampled(rows), self._resampled(baseline)))

    def exp_mean(self, logs: Floats) -> Figure:
        """Geometric mean, given logarithms."""
        figure = self.mean(logs)
        return Figure(math.exp(figure.value), np.exp(figure.draws))

    def ece(self, confidences: Floats, hits: Floats, adaptive: bool = False) -> Figure:
        """Expected calibration error; adaptive buckets keep their cuts over resamples."""
        bucket = (equal_mass if adaptive else equal_width)(confidences)
        draws = _divide(np.abs(self._table(bucket, BUCKETS, confidences - hits)).sum(axis=1), self._rows)
        value = gap(bucket, confidences, hits)
        # Noise in a bucket never cancels, so resamples are too high on average; they are moved back by that much.
        centred = draws - (draws.mean() - value) if len(draws) else draws
        return Figure(value, np.maximum(centred, 0.0))

    def ordered(self, keys: Floats, levels: int = 1024) -> OrderedSums:
        """Rows grouped by descending key into at most `levels` levels, for metrics of an order."""
        levels = int(np.clip(CELLS // max(self.count, 1), 64, levels))
        distinct = np.unique(keys)
        if len(distinct) > levels:
            cuts = np.quantile(keys, np.arange(1, levels) / levels)
            level = np.searchsorted(cuts, keys, side="right")
        else:
            level = np.searchsorted(distinct, keys)
        width = max(min(levels, len(distinct)), 1)
        return OrderedSums(self, (width - 1 - level).astype(np.int64), width)


@dataclasses.dataclass(frozen=True, slots=True)
class OrderedSums:
    """Rows in levels, surest first; sums per level are all that risk–coverage and ROC curves need."""

    bootstrap: Bootstrap
    level: Ints
    width: int

    def cumulative(self, rows: Floats) -> tuple[Floats, Floats]:
        """Running sums over levels: of the data, and of every resample."""
        value = np.bincount(self.level, weights=rows, minlength=self.width)
        return np.cumsum(value), np.cumsum(self.bootstrap._table(self.level, self.width, rows), axis=1)


def _divide(top: Floats, bottom: Floats) -> Floats:
    return np.divide(top, bottom, out=np.full_like(top, np.nan), where=bottom > 0)
