"""Choice: the configurations worth measuring at a new shape, from what the same kernel took at others.

How much slower than the best a configuration was changes slowly with the logarithms of a shape's numbers, so its
slowdown at a new shape follows from those at known shapes, near ones counting most. Nothing is chosen where no shape
that was measured in full is near, or around the new one.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

FULL = 0.8
"""Share of the configurations that must have been tried at a shape for its best to count as the best of all."""
REACH = 2.0
"""Octaves from a fully measured shape that a choice may go beyond those that lie around it."""
NEAR = 0.25
"""Octaves below which one shape is as near as another."""
LENGTH, NOISE = 8.0, 0.01
"""Octaves over which slowdowns change, and what of their variance no shape explains; chosen on kernels of train."""
ALIKE = 4.0
"""Octaves beyond which one shape says little about what else is fast at another."""
TRUST = 1.0
"""How much an expected slowdown counts beside those at shapes nearby; chosen there too."""
FAILED = math.log(16.0)
"""Slowdown of a configuration that failed, as a logarithm."""


@dataclasses.dataclass(frozen=True, slots=True)
class Known:
    """A shape at which some configurations were measured."""

    numbers: Mapping[str, float]
    """The shape: sizes, strides and other whole numbers, by name."""
    times: Mapping[str, float]
    """Times by configuration, in one unit; infinite where it failed."""

    @property
    def slowdowns(self) -> dict[str, float]:
        """How much slower than the shape's best each configuration was, as logarithms."""
        best = min(self.times.values(), default=math.inf)
        if not math.isfinite(best):
            return {}
        return {config: min(math.log(time / best), FAILED) for config, time in self.times.items()}


def choose(known: Sequence[Known], numbers: Mapping[str, float], configs: Sequence[str], k: int) -> list[int] | None:
    """The places of the configurations to measure at a new shape, the most promising first; None to measure all.

    Each is the one that helps most beside those before it: expected to be fast, and the best at some shape nearby where
    the others are not.
    """
    # Once per shape: spaces have thousands of configurations.
    alike = [(one.numbers, one.slowdowns) for one in known if one.numbers.keys() == numbers.keys()]
    alike = [(shape, slower) for shape, slower in alike if slower]
    costs = np.array([[slower.get(config, math.nan) for config in configs] for _, slower in alike])
    full = (~np.isnan(costs)).mean(axis=1) >= FULL if alike else np.zeros(0, dtype=np.bool_)
    if not full.any() or k >= len(configs):
        return None
    places = _octaves([*(shape for shape, _ in alike), numbers])
    at, new = places[:-1], places[-1]
    away = np.linalg.norm(at - new, axis=1)
    around = (at[full].min(axis=0) <= new) & (new <= at[full].max(axis=0))
    if away[full].min() > REACH and not around.all():
        return None
    expected = _expected(costs, at, new)
    # What might be true of the new shape: what was true of one of those around it, as far as it is near.
    likely = 1.0 / (away[full] + NEAR) ** 3
    likely /= likely.sum()
    alike_share = np.exp(-0.5 * (away[full] / ALIKE) ** 2)[:, None]
    possible = expected + alike_share * np.nan_to_num(costs[full] - expected)
    best = np.full(len(likely), FAILED)
    chosen: list[int] = []
    for _ in range(k):
        loss = likely @ np.minimum(best[:, None], possible) + TRUST * expected
        loss[chosen] = np.inf
        chosen.append(int(np.argmin(loss)))
        best = np.minimum(best, possible[:, chosen[-1]])
    return chosen


def _expected(costs: Floats, at: Floats, new: Floats) -> Floats:
    """Slowdowns to expect at a new shape, by kriging over the shapes at which each configuration was tried."""
    nearness = np.exp(-0.5 * (np.linalg.norm(at[:, None] - at[None], axis=2) / LENGTH) ** 2)
    toward = np.exp(-0.5 * (np.linalg.norm(at - new, axis=1) / LENGTH) ** 2)
    tried = ~np.isnan(costs)
    expected = np.full(costs.shape[1], FAILED)
    # Most configurations were tried at the same shapes.
    patterns, which = np.unique(tried, axis=1, return_inverse=True)
    for number, shapes in enumerate(patterns.T):
        if not shapes.any():
            continue
        count, same = int(shapes.sum()), which.reshape(-1) == number
        system = np.ones((count + 1, count + 1))
        system[:-1, :-1] = nearness[np.ix_(shapes, shapes)] + NOISE * np.eye(count)
        system[-1, -1] = 0.0
        weights = np.linalg.solve(system, np.append(toward[shapes], 1.0))[:-1]
        expected[same] = weights @ costs[np.ix_(shapes, same)]
    return expected


def _octaves(shapes: Sequence[Mapping[str, float]]) -> Floats:
    """Shapes as points, in octaves; numbers that always go together, such as a width and a stride, count once."""
    raw = np.log2(1.0 + np.abs(np.array([[one[name] for name in sorted(one)] for one in shapes], dtype=np.float64)))
    columns = {tuple(np.round(column - column[0], 6)): column for column in raw.T}
    varying = [column for change, column in columns.items() if any(change)]
    return np.stack(varying, axis=1) if varying else np.zeros((len(shapes), 1))
