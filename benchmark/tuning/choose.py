"""Choice: the configurations worth measuring at a new shape, from what the same kernel took at others.

How much slower than the best a configuration was changes slowly with the logarithms of a shape's numbers and of its
own, so its slowdown at a new shape follows from those at known shapes, near ones counting most, and from those of
configurations like it. Nothing is chosen where no shape that was measured in full is near, or around the new one.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Booleans = npt.NDArray[np.bool_]
Places = npt.NDArray[np.intp]

FULL = 0.8
"""Share of the configurations that must have been tried at a shape for its best to count as the best of all."""
REACH = 2.0
"""Octaves from a fully measured shape that a choice may go beyond those that lie around it."""
NEAR, POWER = 0.25, 2
"""Octaves below which one shape is as near as another, and how fast its weight falls with distance."""
LENGTH, NOISE = 8.0, 0.01
"""Octaves over which slowdowns change, and what of their variance nothing explains; chosen on kernels of train, as are
all numbers here."""
OWN, SPREAD = 0.05, 1.0
"""Share of a configuration's slowdown that others do not have, however like it; and how far others are like it, where
each of its numbers runs from 0 to 1."""
MEAN, LEVEL = 10.0, 0.003
"""Variances, in units of those of slowdowns: of what holds at all shapes, and of the unknown best of a shape where few
configurations were tried."""
ALIKE = 4.0
"""Octaves beyond which one shape says little about what else is fast at another."""
TRUST = 0.5
"""How much an expected slowdown counts beside those at shapes nearby."""
FEWEST, SURE = 2, 0.03
"""Configurations that are measured however sure one is good, and the slowdown that is expected of one that surely is:
some configuration has none, so more is expected of all only where nobody knows which."""
FAILED = math.log(16.0)
"""Slowdown of a configuration that failed, as a logarithm."""
CANDIDATES, SHAPES = 64, 12
"""Configurations and shapes, the fastest and the nearest, that a choice looks at: more would take too long."""


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

    Args:
        known: shapes that were measured.
        numbers: the new shape.
        configs: names of configurations, as in the times; where they are JSON objects, those of like values are alike.
        k: how many.
    """
    view = View.of(known, numbers, configs)
    return None if view is None or not view.near or k >= len(configs) else view.chosen(k)


def worth_measuring(
    known: Sequence[Known], numbers: Mapping[str, float], configs: Sequence[str], k: int
) -> list[int] | None:
    """What autotuning should measure: as `choose`, but fewer where one is surely good.

    Beyond all shapes that were measured it is one more, however sure.
    """
    view = View.of(known, numbers, configs)
    if view is None or not view.near or k >= len(configs):
        return None
    return view.chosen(k, SURE) if view.between else view.chosen(k + 1)


@dataclasses.dataclass(frozen=True, slots=True)
class View:
    """A new shape, seen from the known ones."""

    at: Floats
    """[shapes, numbers] in octaves, nearest first."""
    new: Floats
    costs: Floats
    """[shapes, configurations] slowdowns; NaN where one was not tried."""
    full: Booleans
    """Shapes that count as measured in full."""
    order: Places
    """Configurations, those first that were fast at some shape measured in full."""
    configs: Sequence[str]

    @staticmethod
    def of(known: Sequence[Known], numbers: Mapping[str, float], configs: Sequence[str]) -> View | None:
        """What is known of shapes with the same numbers; None where none was measured in full."""
        # Once per shape: spaces have thousands of configurations.
        alike = [(one.numbers, one.slowdowns) for one in known if one.numbers.keys() == numbers.keys()]
        alike = [(shape, slower) for shape, slower in alike if slower]
        costs = np.array([[slower.get(config, math.nan) for config in configs] for _, slower in alike])
        full = (~np.isnan(costs)).mean(axis=1) >= FULL if alike else np.zeros(0, dtype=np.bool_)
        if not full.any():
            return None
        places = _octaves([*(shape for shape, _ in alike), numbers])
        at, new = places[:-1], places[-1]
        by_distance = np.argsort(np.linalg.norm(at - new, axis=1), kind="stable")
        at, costs, full = at[by_distance], costs[by_distance], full[by_distance]
        order = np.argsort(np.nanmin(np.where(np.isnan(costs[full]), FAILED, costs[full]), axis=0), kind="stable")
        return View(at, new, costs, full, order, configs)

    @property
    def near(self) -> bool:
        """Whether shapes measured in full lie near the new one, or around it."""
        at = self.at[self.full]
        return bool(np.linalg.norm(at - self.new, axis=1).min() <= REACH or _around(at, self.new))

    @property
    def between(self) -> bool:
        """Whether known shapes lie around the new one."""
        return _around(self.at, self.new)

    def chosen(self, k: int, sure: float = -math.inf) -> list[int]:
        """The `k` most promising configurations, or fewer where one of them is expected to be no slower than `sure`."""
        some = self.order[: max(CANDIDATES, k)]
        expected = self._expected(some)
        costs, away = self.costs[self.full][:, some], np.linalg.norm(self.at[self.full] - self.new, axis=1)
        # What might be true of the new shape: what was true of one of those around it, as far as it is near.
        likely = 1.0 / (away + NEAR) ** POWER
        likely /= likely.sum()
        alike = np.exp(-0.5 * (away / ALIKE) ** 2)[:, None]
        possible = expected + alike * np.nan_to_num(costs - expected)
        best = np.full(len(likely), FAILED)
        chosen: list[int] = []
        for _ in range(k):
            loss = likely @ np.minimum(best[:, None], possible) + TRUST * expected
            loss[chosen] = np.inf
            chosen.append(int(np.argmin(loss)))
            best = np.minimum(best, possible[:, chosen[-1]])
            if len(chosen) >= FEWEST and expected[chosen].min() < sure:
                break
        return [int(place) for place in some[chosen]]

    def _expected(self, some: Places) -> Floats:
        """Slowdowns to expect of some configurations at the new shape: a Gaussian process over both."""
        at, costs, partial = self.at[:SHAPES], self.costs[:SHAPES, some], ~self.full[:SHAPES]
        shape, config = np.nonzero(~np.isnan(costs))
        genes = _genes([self.configs[place] for place in some])
        like = (1.0 - OWN) * np.exp(-0.5 * _squares(genes, genes) / SPREAD**2) + OWN * np.eye(len(some))
        near, toward = _nearness(at, at) + MEAN, _nearness(at, self.new[None])[:, 0] + MEAN
        same = (shape[:, None] == shape) & partial[shape]
        system = like[np.ix_(config, config)] * near[np.ix_(shape, shape)] + LEVEL * same + NOISE * np.eye(len(shape))
        # Compilers may hold every core, and threads that wait for one another then take a second.
        with _threads().limit(limits=1, user_api="blas"):
            weights = np.linalg.solve(system, costs[shape, config])
        return np.asarray((like[:, config] * toward[shape]) @ weights)


@functools.cache
def _threads() -> Any:
    """Threads of the libraries that are loaded; looking for them takes milliseconds."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


def _around(at: Floats, new: Floats) -> bool:
    return bool(((at.min(axis=0) <= new) & (new <= at.max(axis=0))).all())


def _squares(one: Floats, other: Floats) -> Floats:
    return np.asarray(((one[:, None] - other[None]) ** 2).sum(axis=2))


def _nearness(one: Floats, other: Floats) -> Floats:
    """How alike slowdowns are at two shapes: Matérn's covariance of order 5/2."""
    far = np.sqrt(5.0 * _squares(one, other)) / LENGTH
    return np.asarray((1.0 + far + far**2 / 3.0) * np.exp(-far))


def _genes(configs: Sequence[str]) -> Floats:
    """Configurations as points: the logarithms of their numbers, from 0 to 1; places of values that are none."""
    settings = [json.loads(text) if text.startswith("{") else {} for text in configs]
    columns = []
    for name in sorted({name for one in settings for name in one}):
        values = [one.get(name) for one in settings]
        if not all(isinstance(value, int | float) for value in values):
            kinds = sorted({repr(value) for value in values})
            values = [kinds.index(repr(value)) for value in values]
        column = np.log2(1.0 + np.abs(np.array(values, dtype=np.float64)))
        if np.ptp(column) > 0:
            columns.append((column - column.min()) / np.ptp(column))
    # Without a number none is like another.
    return np.stack(columns, axis=1) if columns else 9.0 * np.eye(len(configs))


def _octaves(shapes: Sequence[Mapping[str, float]]) -> Floats:
    """Shapes as points, in octaves; numbers that always go together, such as a width and a stride, count once."""
    raw = np.log2(1.0 + np.abs(np.array([[one[name] for name in sorted(one)] for one in shapes], dtype=np.float64)))
    columns = {tuple(np.round(column - column[0], 6)): column for column in raw.T}
    varying = [column for change, column in columns.items() if any(change)]
    return np.stack(varying, axis=1) if varying else np.zeros((len(shapes), 1))
