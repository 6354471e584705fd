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

HELD_OUT = (
    "swiglu_up_tuned", "decode_int4_tuned", "decode_int8_swiglu_tuned", "experts_fp8_tuned", "grouped_wgrad_tuned",
    "paged_fp8_decode_tuned", "mla_paged_tuned", "grouped_backward_tuned", "rms_backward_tuned", "chunk_scan_tuned",
    "lora_decode_tuned", "adamw_tuned",
)  # fmt: skip
"""Kernel families whose configurations nothing is fitted to: the unseen kernels of the track."""
HIDDEN_SHAPES = 3
"""Every so manieth shape of a kernel, from the second on, is asked about; the others are shown."""


def split_of(family: str) -> str:
    """The split of a kernel family."""
    return "test" if family in HELD_OUT else "train"


@dataclasses.dataclass(frozen=True, slots=True)
class TunedKernel:
    """One kernel family on one GPU: times of every configuration at every shape."""

    family: str
    gpu: str
    shapes: tuple[Mapping[str, int], ...]
    """Parameters of each shape, in the order of the table's columns."""
    configs: tuple[Mapping[str, int], ...]
    """Genes of each configuration, in the order of the table's rows."""
    times_us: Floats
    """[configurations, shapes]; infinite where a configuration failed, so that it is never the best."""

    @property
    def asked(self) -> tuple[int, ...]:
        """Shapes that questions are about; at each of them some configuration works."""
        return tuple(np.flatnonzero(~self.shown & (self.times_us.min(axis=0) < np.inf)).tolist())

    def hiding(self, others: bool) -> TunedKernel:
        """What a strategy sees: times of the shapes that are shown; none where those of other shapes are hidden too."""
        visible = self.shown & (not others)
        return dataclasses.replace(self, times_us=np.where(visible, self.times_us, np.nan))

    @property
    def shown(self) -> Booleans:
        """Shapes whose times a strategy may see."""
        seen = np.ones(len(self.shapes), dtype=np.bool_)
        seen[1::HIDDEN_SHAPES] = False
        return seen


def kernels_of(rows: Iterable[Mapping[str, Any]]) -> list[TunedKernel]:
    """The kernels of rows of `TuningTime`, with shapes and configurations in a fixed order.

    Raises:
        DataError: a configuration has two times at one shape, or none.
    """
    groups: dict[tuple[str, str], dict[tuple[str, str], float]] = defaultdict(dict)
    for row in rows:
        times = groups[row["kernel"], row["gpu"]]
        place = (row["config_json"], row["shape_json"])
        if place in times:
            raise DataError(f"kernel {row['kernel']!r} on {row['gpu']!r} has {place} twice; keep one row of each")
        times[place] = float(row["runtime_us"]) if row["status"] == "ok" else float("inf")
    return [_kernel(family, gpu, times) for (family, gpu), times in sorted(groups.items())]


def _kernel(family: str, gpu: str, times: Mapping[tuple[str, str], float]) -> TunedKernel:
    configs = sorted({config for config, _ in times})
    shapes = sorted({shape for _, shape in times}, key=lambda text: sorted(json.loads(text).items()))
    missing = next(((c, s) for c in configs for s in shapes if (c, s) not in times), None)
    if missing is not None:
        raise DataError(f"kernel {family!r} on {gpu!r} has no row for {missing}; failures are rows too")
    return TunedKernel(
        family,
        gpu,
        tuple(map(json.loads, shapes)),
        tuple(map(json.loads, configs)),
        np.array([[times[config, shape] for shape in shapes] for config in configs]),
    )
