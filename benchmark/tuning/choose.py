"""Choice: the configurations worth measuring at a new shape, from what the same kernel took at others.

How much slower than the best a configuration was changes slowly with the logarithms of a shape's numbers, so its
slowdown at a new shape is a mean of those at known shapes, near ones counting most. Nothing is chosen where no shape
that was measured in full is near, or around the new one.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

FULL = 0.8
"""Share of the configurations that must have been tried at a shape for its best to count as the best of all."""
REACH = 2.0
"""Octaves from a fully measured shape that a choice may go beyond those that lie around it."""
NEAR = 0.25
"""Octaves below which one shape is as near as another."""
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
    """The places of the configurations to measure at a new shape, the most promising first; None to measure all."""
    costs = slowdowns(known, numbers, configs)
    if costs is None or k >= len(configs):
        return None
    return [int(place) for place in np.argsort(costs, kind="stable")[:k]]


def slowdowns(
    known: Sequence[Known], numbers: Mapping[str, float], configs: Sequence[str]
) -> npt.NDArray[np.float64] | None:
    """The slowdown that is expected of each configuration at a new shape; None where too little is known."""
    # Once per shape: spaces have thousands of configurations.
    alike = [(one.numbers, one.slowdowns) for one in known if one.numbers.keys() == numbers.keys()]
    alike = [(shape, slower) for shape, slower in alike if slower]
    costs = np.array([[slower.get(config, math.nan) for config in configs] for _, slower in alike])
    tried = ~np.isnan(costs)
    full = tried.mean(axis=1) >= FULL if alike else np.zeros(0, dtype=np.bool_)
    if not full.any():
        return None
    places = _octaves([*(shape for shape, _ in alike), numbers])
    away = np.linalg.norm(places[:-1] - places[-1], axis=1)
    around = (places[:-1][full].min(axis=0) <= places[-1]) & (places[-1] <= places[:-1][full].max(axis=0))
    if away[full].min() > REACH and not around.all():
        return None
    weights = np.where(tried, 1.0 / (away + NEAR)[:, None] ** 2, 0.0)
    total = weights.sum(axis=0)
    mean = (np.where(tried, costs, 0.0) * weights).sum(axis=0) / np.where(total > 0.0, total, 1.0)
    return np.where(total > 0.0, mean, FAILED)


def _octaves(shapes: Sequence[Mapping[str, float]]) -> npt.NDArray[np.float64]:
    """Shapes as points, in octaves; numbers that always go together, such as a width and a stride, count once."""
    raw = np.log2(1.0 + np.abs(np.array([[one[name] for name in sorted(one)] for one in shapes], dtype=np.float64)))
    columns = {tuple(np.round(column - column[0], 6)): column for column in raw.T}
    varying = [column for change, column in columns.items() if any(change)]
    return np.stack(varying, axis=1) if varying else np.zeros((len(shapes), 1))
