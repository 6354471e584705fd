"""Strategies: in which order should a kernel's configurations be measured at a new shape?

A strategy sees the configurations, the shapes, the times at other shapes where they are shown, and the times that it
measured at the new shape so far. It names the next configuration; None abstains, and all others are measured.
"""

from __future__ import annotations

import dataclasses
import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from kbench.benchmark.metrics.arrays import Booleans, Floats, Ints
from kbench.benchmark.tuning.choose import Known, choose
from kbench.schemas import DataError

Strategy = Callable[["TunedKernel", int, Mapping[int, float], np.random.Generator], int | None]
"""(kernel, shape, times measured at the shape so far, generator) -> the next configuration, or None to abstain."""


@dataclasses.dataclass(frozen=True, slots=True)
class TunedKernel:
    """One kernel family on one GPU: times of every configuration at every shape."""

    family: str
    gpu: str
    split: str
    """Nothing is fitted to kernels of `test`, nor to others of the same template."""
    shapes: tuple[Mapping[str, int], ...]
    """Parameters of each shape, in the order of the table's columns."""
    configs: tuple[Mapping[str, int], ...]
    """Genes of each configuration, in the order of the table's rows."""
    times_us: Floats
    """[configurations, shapes]; infinite where a configuration failed, so that it is never the best."""

    shown: Booleans
    """Shapes whose times a strategy may see in questions about the others."""

    @property
    def working(self) -> tuple[int, ...]:
        """Shapes at which some configuration works."""
        return tuple(np.flatnonzero(self.times_us.min(axis=0) < np.inf).tolist())

    @property
    def asked(self) -> tuple[int, ...]:
        """Shapes that questions are about where a few others are shown."""
        return tuple(shape for shape in self.working if not self.shown[shape])

    def showing(self, shown: Booleans) -> TunedKernel:
        """What a strategy sees where these shapes are shown."""
        return dataclasses.replace(self, shown=shown, times_us=np.where(shown, self.times_us, np.nan))


def kernels_of(rows: Iterable[Mapping[str, Any]]) -> list[TunedKernel]:
    """The kernels of rows of `TuningTime`, with shapes and configurations in a fixed order."""
    groups: dict[tuple[str, str, str], dict[tuple[str, str], Mapping[str, Any]]] = defaultdict(dict)
    for row in rows:
        cells, place = groups[row["kernel"], row["gpu"], row["split"]], (row["config_json"], row["shape_json"])
        if place in cells:
            raise DataError(f"kernel {row['kernel']!r} on {row['gpu']!r} has {place} twice; keep one row of each")
        cells[place] = row
    return [_kernel(*key, cells) for key, cells in sorted(groups.items())]


def _kernel(family: str, gpu: str, split: str, cells: Mapping[tuple[str, str], Mapping[str, Any]]) -> TunedKernel:
    configs = sorted({config for config, _ in cells})
    shapes = sorted({shape for _, shape in cells}, key=lambda text: sorted(json.loads(text).items()))
    missing = next(((c, s) for c in configs for s in shapes if (c, s) not in cells), None)
    if missing is not None:
        raise DataError(f"kernel {family!r} on {gpu!r} has no row for {missing}; failures are rows too")
    rows = [[cells[config, shape] for shape in shapes] for config in configs]
    return TunedKernel(
        family,
        gpu,
        split,
        tuple(map(json.loads, shapes)),
        tuple(map(json.loads, configs)),
        np.array([[row["runtime_us"] if row["status"] == "ok" else np.inf for row in line] for line in rows]),
        np.array([bool(row["shown"]) for row in rows[0]]),
    )


def random_order(kernel: TunedKernel, shape: int, measured: Mapping[int, float], rng: np.random.Generator) -> int:
    """Any configuration that was not measured yet."""
    return int(rng.choice(_left(kernel, measured)))


def nearest_shape(kernel: TunedKernel, shape: int, measured: Mapping[int, float], rng: np.random.Generator) -> int:
    """The best of the nearest shown shape, then its second best, and so on."""
    places = as_logarithms(kernel.shapes)
    distance = np.where(kernel.shown, np.linalg.norm(places - places[shape], axis=1), np.inf)
    return _first(kernel.times_us[:, int(np.argmin(distance))], kernel, measured)


def mean_rank(kernel: TunedKernel, shape: int, measured: Mapping[int, float], rng: np.random.Generator) -> int:
    """The configuration of the best mean rank over the shown shapes."""
    ranks = kernel.times_us[:, kernel.shown].argsort(axis=0).argsort(axis=0)
    return _first(ranks.mean(axis=1), kernel, measured)


def interpolated(
    kernel: TunedKernel, shape: int, measured: Mapping[int, float], rng: np.random.Generator
) -> int | None:
    """What `kbench.prune` measures: what is expected to be fast from all shown shapes, or was the best near by."""
    names = [json.dumps(config) for config in kernel.configs]
    known = [
        Known(kernel.shapes[at], dict(zip(names, kernel.times_us[:, at].tolist(), strict=True)))
        for at in np.flatnonzero(kernel.shown)
    ]
    places = choose(known, kernel.shapes[shape], names, len(measured) + 1)
    return None if places is None else next(place for place in places if place not in measured)


def local_search(kernel: TunedKernel, shape: int, measured: Mapping[int, float], rng: np.random.Generator) -> int:
    """Greedy local search with restarts, as auto-tuners have it: a neighbour of the best, in as few genes as can be."""
    left = _left(kernel, measured)
    if not measured or not np.isfinite(min(measured.values())) or rng.random() < RESTART:
        return int(rng.choice(left))
    best = kernel.configs[min(measured, key=measured.__getitem__)]
    apart = np.array([sum(kernel.configs[at][gene] != best[gene] for gene in best) for at in left])
    return int(rng.choice(left[apart == apart.min()]))


def gaussian_process(kernel: TunedKernel, shape: int, measured: Mapping[int, float], rng: np.random.Generator) -> int:
    """The largest expected improvement under a Gaussian process over genes; it sees the new shape's times alone."""
    left = _left(kernel, measured)
    timed = [(config, np.log(time)) for config, time in measured.items() if np.isfinite(time)]
    if len(timed) < 2:
        return int(rng.choice(left))
    places = as_logarithms(kernel.configs)
    at, values = places[[config for config, _ in timed]], np.array([value for _, value in timed])
    spread = float(values.std()) or 1.0
    mean, deviation = _posterior(at, (values - values.mean()) / spread, places[left])
    gap = (values.min() - values.mean()) / spread - mean
    from scipy.special import ndtr

    density = np.exp(-0.5 * (gap / deviation) ** 2) / np.sqrt(2 * np.pi)
    return int(left[np.argmax(gap * ndtr(gap / deviation) + deviation * density)])


def by_forecast(times: Mapping[tuple[str, str], Floats]) -> Strategy:
    """The configuration that is forecast to be the fastest at the shape; those without a forecast come last.

    Args:
        times: a forecast for each configuration and shape, by kernel and GPU; NaN where there is none.
    """

    def strategy(kernel: TunedKernel, shape: int, measured: Mapping[int, float], rng: np.random.Generator) -> int:
        costs = times[kernel.family, kernel.gpu][:, shape]
        return _first(np.where(np.isnan(costs), np.inf, costs), kernel, measured)

    return strategy


STRATEGIES: Mapping[str, Strategy] = {
    "random": random_order,
    "nearest_shape": nearest_shape,
    "mean_rank": mean_rank,
    "interpolated": interpolated,
    "local_search": local_search,
    "gaussian_process": gaussian_process,
}
NEW_KERNEL = ("random", "local_search", "gaussian_process")
"""Strategies that need no times of other shapes."""
RESTART = 0.1
"""Share of the steps of local search that begin anew."""
LENGTH, NOISE = 0.4, 0.01
"""Of the Gaussian process: genes run from 0 to 1, and logarithms of times have a variance of 1."""


def as_logarithms(settings: Sequence[Mapping[str, int]]) -> Floats:
    """Genes or shape parameters as points: logarithms, each from 0 to 1 over its range."""
    raw = np.log2(1.0 + np.array([[entry[name] for name in settings[0]] for entry in settings], dtype=np.float64))
    width = np.ptp(raw, axis=0)
    return (raw - raw.min(axis=0)) / np.where(width > 0, width, 1.0)


def _left(kernel: TunedKernel, measured: Mapping[int, float]) -> Ints:
    return np.setdiff1d(np.arange(len(kernel.configs)), list(measured))


def _first(cost: Floats, kernel: TunedKernel, measured: Mapping[int, float]) -> int:
    left = _left(kernel, measured)
    return int(left[np.argmin(cost[left])])


def _posterior(known: Floats, values: Floats, asked: Floats) -> tuple[Floats, Floats]:
    """Mean and deviation at the asked points under a squared-exponential kernel of unit variance."""

    def covariance(one: Floats, other: Floats) -> Floats:
        square: Floats = ((one[:, None] - other[None]) ** 2).sum(axis=2)
        return np.asarray(np.exp(-0.5 * square / LENGTH**2))

    factor = np.linalg.cholesky(covariance(known, known) + NOISE * np.eye(len(known)))
    cross = np.linalg.solve(factor, covariance(known, asked))
    mean: Floats = cross.T @ np.linalg.solve(factor, values)
    deviation: Floats = np.sqrt(np.maximum(1.0 - (cross**2).sum(axis=0), 1e-9))
    return mean, deviation
