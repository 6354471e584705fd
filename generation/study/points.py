"""Points: how much a method has found after so many measurements, and how sure that is.

Noise is not called a difference: intervals are drawn over problems and over the searches on each pool, and where there
are too few of them to say, there is no interval.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from kbench.benchmark.metrics.arrays import Floats
from kbench.benchmark.metrics.bootstrap import LEVEL, interval_level

DRAWS = 2000
"""Bootstrap draws for an interval."""
ENOUGH = 10
"""Problems, or searches where there is one pool, from which an interval says something."""
SAME = 0.005
"""Mean shares of a pool that are closer than this count as equal: times repeat to about half a percent."""


@dataclasses.dataclass(frozen=True, slots=True)
class Point:
    """How much of the pool's best speedup a method has found after so many measurements, over pools and seeds.

    `gain` is how much more that is than the study's first method found on the same pools. Pools differ far more than
    methods do, so the gain's interval tells methods apart where those of their shares overlap. Intervals are 95 %
    bootstraps; null where there are too few pools to say, or where nothing varies.
    """

    method: str
    measurements: int
    share: float
    low: float | None
    high: float | None
    gain: float
    gain_low: float | None
    gain_high: float | None
    sure_low: float | None
    """The gain's interval that holds for all methods of the study at once."""
    sure_high: float | None
    pools: int
    seeds: int
    searches: int
    """Searches that made this measurement; the others ended before it, and what they found counts on."""
    ahead: int
    """Pools on which the method found more than the first one, mean over seeds."""
    equal: int
    behind: int
    decided: bool
    """Whether zero lies outside that interval."""
    needed: int | None
    """Measurements in which the method's mean share reaches the first's after this many; None beyond the budget."""
    needed_low: int | None
    """Their interval that holds for all methods of the study at once."""
    needed_high: int | None


def points_of(
    method: str, own: Floats, first: Floats, problems: Sequence[str], others: int, lengths: Sequence[int]
) -> Iterator[Point]:
    """The points of a method.

    Args:
        method: its name.
        own: shares by pool, seed and measurement.
        first: those of the method compared with, whose searches of a pool and seed began with the same kernels.
        problems: the problem of each pool.
        others: methods that are compared with the first: the more there are, the likelier luck alone sets one apart.
        lengths: measurements of each of its searches.
    """
    pools, seeds, budget = own.shape
    gains = own - first
    bounds = gain_bounds = sure_bounds = None
    counts = measurements_needed(own.mean(axis=(0, 1))[None], first.mean(axis=(0, 1))[None])
    ends = np.full((2, budget), budget + 1)
    if too_few(problems, seeds) is None:
        drawn = weights(problems, seeds, np.random.default_rng(0))
        clusters = seeds if pools == 1 else len(set(problems))
        at_once = 1 - (1 - LEVEL) / others
        bounds, gain_bounds = interval(own, drawn, clusters), interval(gains, drawn, clusters)
        sure_bounds = interval(gains, drawn, clusters, at_once)
        drawn_counts = measurements_needed(means(own, drawn), means(first, drawn))
        ends = np.quantile(drawn_counts, tails(clusters, at_once), axis=0, method="inverted_cdf")
    of_pools = gains.mean(axis=1)
    for n in range(budget):
        needed, needed_low, needed_high = (int(c) if c <= budget else None for c in (counts[0, n], *ends[:, n]))
        low, high = _wide(bounds, n)
        gain_low, gain_high = _wide(gain_bounds, n)
        sure_low, sure_high = _wide(sure_bounds, n)
        yield Point(
            method=method, measurements=n + 1, share=float(own[:, :, n].mean()), low=low, high=high,
            gain=float(gains[:, :, n].mean()), gain_low=gain_low, gain_high=gain_high,
            sure_low=sure_low, sure_high=sure_high, pools=pools, seeds=seeds,
            searches=sum(length > n for length in lengths),
            ahead=int((of_pools[:, n] > SAME).sum()), equal=int((abs(of_pools[:, n]) <= SAME).sum()),
            behind=int((of_pools[:, n] < -SAME).sum()),
            decided=sure_low is not None and sure_high is not None and not sure_low <= 0 <= sure_high,
            needed=needed, needed_low=needed_low, needed_high=needed_high,
        )  # fmt: skip


def too_few(problems: Sequence[str], seeds: int) -> str | None:
    """Why no interval can be given for pools of these problems; None where one can."""
    if len(problems) == 1:
        return None if seeds >= ENOUGH else f"one pool with fewer than {ENOUGH} seeds; raise --seeds"
    if len(set(problems)) >= ENOUGH:
        return None
    if len(set(problems)) == 1:
        return f"several pools of one problem; take one of them (--backend) with {ENOUGH} seeds, or more problems"
    return f"too few pools to say: fewer than {ENOUGH} problems; raise --pools, or lower --least"


def _wide(bounds: Floats | None, n: int) -> tuple[float, float] | tuple[None, None]:
    """Bounds after measurement n; none where all draws agree, which says nothing about the next pool."""
    if bounds is None or bounds[1, n] - bounds[0, n] < 1e-9:
        return None, None
    return float(bounds[0, n]), float(bounds[1, n])


def weights(problems: Sequence[str], seeds: int, rng: np.random.Generator) -> npt.NDArray[np.int64]:
    """How often each draw of the bootstrap takes each search: an array by draw, pool and seed.

    Problems are drawn with all their pools, since what helps on one helps on the other; then searches within each pool,
    so that the luck of a seed is never taken for a property of its pool.
    """
    names = sorted(set(problems))
    of_problems = rng.multinomial(len(names), [1 / len(names)] * len(names), size=DRAWS)
    of_pools = of_problems[:, [names.index(name) for name in problems]]
    return rng.multinomial(of_pools * seeds, [1 / seeds] * seeds)


def interval(values: Floats, drawn: npt.NDArray[np.int64], clusters: int, level: float = LEVEL) -> Floats:
    """Bootstrap interval of the mean after each measurement: lower bounds, then upper ones."""
    return np.quantile(means(values, drawn), tails(clusters, level), axis=0)


def means(values: Floats, drawn: npt.NDArray[np.int64]) -> Floats:
    """The mean after each measurement, in every draw of the bootstrap."""
    searches = drawn.reshape(len(drawn), -1).astype(float)
    of_draws: Floats = searches @ values.reshape(searches.shape[1], -1) / searches.sum(axis=1, keepdims=True)
    return of_draws


def tails(clusters: int, level: float) -> tuple[float, float]:
    """Between which quantiles of the draws an interval lies."""
    tail = (1 - interval_level(clusters, level)) / 2
    return tail, 1 - tail


def measurements_needed(own: Floats, first: Floats) -> npt.NDArray[np.int64]:
    """In how many measurements a method finds what another has after each number of them; budget + 1 if in none.

    Rows are draws: curves that never fall.
    """
    return np.array([np.searchsorted(a, b - 1e-9) + 1 for a, b in zip(own, first, strict=True)])
