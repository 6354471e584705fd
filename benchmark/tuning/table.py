"""A tuning table: verified times of one kernel's configurations at many shapes, as arrays per kernel and GPU."""

from __future__ import annotations

import dataclasses
import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from kbench.benchmark.metrics.arrays import Booleans, Floats
from kbench.schemas import DataError


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
    def asked(self) -> tuple[int, ...]:
        """Shapes that questions are about; at each of them some configuration works."""
        return tuple(np.flatnonzero(~self.shown & (self.times_us.min(axis=0) < np.inf)).tolist())

    def hiding(self, others: bool) -> TunedKernel:
        """What a strategy sees: times of the shapes that are shown; none where those of other shapes are hidden too."""
        shown = self.shown & (not others)
        return dataclasses.replace(self, shown=shown, times_us=np.where(shown, self.times_us, np.nan))


def kernels_of(rows: Iterable[Mapping[str, Any]]) -> list[TunedKernel]:
    """The kernels of rows of `TuningTime`, with shapes and configurations in a fixed order.

    Raises:
        DataError: a configuration has two times at one shape, or none.
    """
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
