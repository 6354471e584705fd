"""Bootstrap over clusters: how sure a figure is.

Rows of one problem are alike, so problems are drawn with replacement, not rows. A resample's sum over rows is the sum
over clusters of how often each was drawn times the cluster's own sum, so a million rows cost no more per resample than
the few clusters they fall into.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from kbench.benchmark.metrics.arrays import Floats, Ints, encode

R = TypeVar("R")
T = TypeVar("T")

RESAMPLES = 2000
LEVEL = 0.95
MOST_LEVELS = 1024
MOST_CELLS = 20_000_000
"""Most cells of a clusters × levels table, which bounds memory when there are very many clusters."""


@dataclasses.dataclass(frozen=True, slots=True)
class Figure:
    """A metric's value and its value in every resample."""

    value: float
    draws: Floats = dataclasses.field(repr=False)
    level: float = LEVEL
    """Share of the draws inside the interval."""

    @classmethod
    def of(cls, totals: Floats) -> Figure:
        """From an array whose first entry belongs to the data and the others to the resamples."""
        return cls(float(totals[0]), totals[1:])

    @property
    def low(self) -> float:
        """Lower end of the interval."""
        return self.interval[0]

    @property
    def high(self) -> float:
        """Upper end."""
        return self.interval[1]

    @property
    def interval(self) -> tuple[float, float]:
        """Both ends; NaN where no draw is defined."""
        draws = self.draws[~np.isnan(self.draws)]
        if not len(draws):
            return math.nan, math.nan
        low, high = np.quantile(draws, ((1 - self.level) / 2, (1 + self.level) / 2))
        return float(low), float(high)

    def minus(self, other: Figure) -> Figure:
        """Paired difference: both must come from the same draws."""
        return Figure(self.value - other.value, self.draws - other.draws, self.level)

    def moved_to(self, value: float) -> Figure:
        """Another value with the same spread of draws around it."""
        return Figure(value, self.draws + (value - self.value), self.level)


class Bootstrap:
    """Draws of clusters shared by every metric of one set of rows, so that differences are paired."""

    def __init__(
        self,
        clusters: npt.ArrayLike,
        resamples: int = RESAMPLES,
        seed: int = 0,
        names: Sequence[str] | None = None,
    ) -> None:
        """Draw.

        Args:
            clusters: the cluster of each row: any array of names or numbers.
            resamples: how many draws; rows of a single cluster get none.
            seed: of the generator; equal seeds and cluster names give equal draws.
            names: all clusters that are drawn from, in ascending order, those without a row here included: other
                rows that are drawn from the same names are paired with these. By default the clusters of the rows.
        """
        present, self.index = encode(clusters)
        self.level = interval_level(len(present))
        """Share of the draws inside an interval."""
        if names is not None:
            self.index = np.searchsorted(np.asarray(names), np.asarray(present, dtype=str))[self.index]
        self.seed = seed
        self.count = len(present if names is None else names)
        self.weights = _drawn(self.count, resamples if len(present) > 1 else 0, seed)
        """How often each cluster occurs: once in the data, which come first, and as drawn in each resample."""
        self._made: dict[Callable[..., Any], tuple[Any, Any]] = {}

    def once(self, make: Callable[[Bootstrap, R], T], rows: R) -> T:
        """What several metrics need of the same rows: made for the first that asks."""
        known, result = self._made.get(make, (None, None))
        if known is not rows:
            result = make(self, rows)
            self._made[make] = rows, result
        return result

    def totals(self, values: Floats, group: Ints | None = None, groups: int = 1) -> Floats:
        """Sums over the rows of the data and of every resample: [1 + resamples, groups]."""
        cell = self.index * groups + (0 if group is None else group)
        cells = np.bincount(cell, weights=values, minlength=self.count * groups)
        return self.weights @ cells.reshape(self.count, groups)

    def mean(self, values: Floats) -> Figure:
        """Mean of a column; rows that are NaN are left out."""
        defined = ~np.isnan(values)
        return Figure.of(
            divide(self.totals(np.where(defined, values, 0.0)), self.totals(defined.astype(np.float64)))[:, 0]
        )

    def cluster_means(self, values: Floats) -> Floats:
        """Mean of a column in each cluster; rows that are NaN are left out, and NaN stands where none is left."""
        defined = ~np.isnan(values)
        columns = (np.where(defined, values, 0.0), defined.astype(np.float64))
        totals, rows = (np.bincount(self.index, column, self.count).astype(np.float64) for column in columns)
        return divide(totals, rows)

    def mean_of_clusters(self, values: Floats, counts: Floats | None = None) -> Figure:
        """Mean of numbers, one for each cluster; NaN is left out."""
        counts = np.where(np.isnan(values), 0.0, 1.0 if counts is None else counts)
        return Figure.of(divide(self.weights @ (counts * np.nan_to_num(values)), self.weights @ counts))

    def skill_of_clusters(self, values: Floats, baseline: Floats, counts: Floats) -> Figure:
        """One minus the ratio of two means over clusters.

        Args:
            values: losses, one per row; rows that are NaN are left out.
            baseline: losses of what is to be beaten.
            counts: how much each cluster counts.
        """
        losses, of_baseline = (counts * np.nan_to_num(self.cluster_means(column)) for column in (values, baseline))
        return Figure.of(1.0 - divide(self.weights @ losses, self.weights @ of_baseline))

    def median(self, values: Floats) -> Figure:
        """Median of a column: the lower middle where rows are even in number."""
        order = np.argsort(values, kind="stable")
        reached = np.cumsum(self.weights[:, self.index[order]], axis=1)
        middle = (2 * reached >= reached[:, -1:]).argmax(axis=1)
        return Figure.of(values[order][middle])

    def share(self, values: Floats, wholes: Floats | None = None) -> Figure:
        """Sum of parts over the sum of wholes, with draws from the clusters, half an imagined hit and half a miss.

        Without these two, a share near 0 or 1 has draws that hardly differ, and intervals that cover far too seldom.
        Halves, as in Jeffreys' prior: whole ones make intervals near 1 too wide, and pull those below 0 upwards.

        Args:
            values: the parts: hits and misses, or what was attained.
            wholes: the most each could be; 1 when not given.
        """
        columns = (values, np.ones_like(values) if wholes is None else wholes)
        parts, most = (np.bincount(self.index, column, self.count) for column in columns)
        value = float(divide(parts.sum(keepdims=True), most.sum(keepdims=True))[0])
        chances = np.append(np.ones(self.count), [0.5, 0.5]) / (self.count + 1)
        weights = np.random.default_rng((self.seed, 1)).multinomial(self.count, chances, size=len(self.weights) - 1)
        typical = most.mean()
        sums = weights @ np.append(parts, [0.0, typical]), weights @ np.append(most, [typical, typical])
        return Figure(value, divide(*(each.astype(np.float64) for each in sums)))

    def levels(self, keys: Floats) -> Levels:
        """Rows grouped by descending key into at most 1,024 levels, for metrics of an order."""
        most = int(np.clip(MOST_CELLS // max(self.count, 1), 64, MOST_LEVELS))
        distinct, place = np.unique(keys, return_inverse=True)
        level = np.arange(len(distinct))
        if len(distinct) > most:
            level = np.searchsorted(np.quantile(keys, np.arange(1, most) / most), distinct, side="right")
        width = max(min(most, len(distinct)), 1)
        return Levels(self, (width - 1 - level)[place], width, len(distinct) - 1 - place)


@functools.lru_cache(maxsize=2)
def _drawn(count: int, resamples: int, seed: int) -> Floats:
    """Weights of so many clusters; most sets of rows that are scored one after the other have the same."""
    weights = np.ones((1 + resamples, count))
    if resamples:
        weights[1:] = np.random.default_rng(seed).multinomial(count, np.full(count, 1 / count), size=resamples)
    weights.flags.writeable = False
    return weights


@dataclasses.dataclass(frozen=True, slots=True)
class Levels:
    """Rows in levels, surest first: a resample of an order then costs its levels, not its rows."""

    bootstrap: Bootstrap
    level: Ints
    width: int
    place: Ints
    """Of each row's key among all keys, however many, the highest first."""

    def running(self, values: Floats) -> Floats:
        """Running sums from the surest level on: [1 + resamples, levels], the data first."""
        return np.cumsum(self.bootstrap.totals(values, self.level, self.width), axis=1)


def interval_level(clusters: int, wanted: float = LEVEL) -> float:
    """Share of the draws that an interval of a wanted level takes where there are this many clusters.

    Draws of few clusters differ by less than new samples of clusters would: by √((n − 1) / n), and the normal quantile
    that they imply is not Student's. The expanded percentile interval (Hesterberg 2015) takes as many more of the draws
    as make up for both: 96.4 % for 95 % of 29 clusters.
    """
    from scipy.special import ndtr, stdtrit

    if clusters < 2:
        return wanted
    freedom = clusters - 1
    level = 2 * ndtr(math.sqrt(clusters / freedom) * stdtrit(freedom, (1 + wanted) / 2)) - 1
    # The last bits depend on the processor.
    return min(round(float(level), 12), 1.0)


def divide(top: Floats, bottom: Floats) -> Floats:
    """The quotient; NaN where there is nothing to divide by."""
    return np.divide(top, bottom, out=np.full_like(top, np.nan), where=bottom > 0)
