"""What a corpus cost to measure: GPU seconds by stage, beside what the published release cost."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from kbench.loaders.corpus.corpus import Corpus
from kbench.schemas import DataError

PUBLISHED_GPU_HOURS = 600
PUBLISHED_KERNELS = 12_388
"""What the published release of search-generated kernels states of itself."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Costs:
    """Seconds spent on the measurements of a corpus."""

    kernels: int
    """Distinct ones, on however many GPUs they were measured."""
    ok_kernels: int
    """Those of them that are correct and timed on one GPU at least."""
    measurements: int
    build_cpu_seconds: float
    """Compiling, on CPU cores beside the GPU."""
    verify_gpu_seconds: float
    time_gpu_seconds: float
    held_seconds: float
    """From the first to the last start of a measurement, summed over environments: GPU work, waiting and idling."""

    @property
    def gpu_seconds(self) -> float:
        """Verifying and timing."""
        return self.verify_gpu_seconds + self.time_gpu_seconds

    def per_kernel(self, seconds: float) -> float | None:
        """Seconds for each kernel."""
        return seconds / self.kernels if self.kernels else None

    @property
    def kernels_per_gpu_hour(self) -> float | None:
        """Kernels verified and timed in an hour of GPU work."""
        return 3600 * self.kernels / self.gpu_seconds if self.gpu_seconds else None

    def to_json(self) -> dict[str, Any]:
        """Plain values, the published release beside them."""
        return dataclasses.asdict(self) | {
            "gpu_seconds": self.gpu_seconds,
            "gpu_hours": self.gpu_seconds / 3600,
            "gpu_seconds_per_kernel": self.per_kernel(self.gpu_seconds),
            "kernels_per_gpu_hour": self.kernels_per_gpu_hour,
            "published_release": {
                "gpu_hours": PUBLISHED_GPU_HOURS,
                "kernels": PUBLISHED_KERNELS,
                "gpu_seconds_per_kernel": 3600 * PUBLISHED_GPU_HOURS / PUBLISHED_KERNELS,
                "kernels_per_gpu_hour": PUBLISHED_KERNELS / PUBLISHED_GPU_HOURS,
            },
        }


def render_ledger(costs: Costs) -> str:
    """The ledger's file."""
    return json.dumps(costs.to_json(), indent=1) + "\n"


def costs_of(corpus: Corpus, ok_kernels: int) -> Costs | None:
    """What the measurements of a corpus cost; None when it has none that say so.

    Args:
        corpus: the corpus.
        ok_kernels: how many of its distinct kernels are correct and timed, on one GPU at least.
    """
    stages: dict[str, list[float]] = {"build_s": [], "verify_s": [], "time_s": []}
    kernels: set[str] = set()
    spans: dict[str, tuple[str, str]] = {}
    for batch in corpus.select("measurements", columns=["kernel_id", "env_id", "started_at", *stages]).batches():
        for name, sums in stages.items():
            sums.append(pc.sum(batch.column(name)).as_py() or 0.0)
        kernels.update(batch.column("kernel_id").to_pylist())
        for env, first, last in _spans(batch):
            known = spans.get(env, (first, last))
            spans[env] = (min(first, known[0]), max(last, known[1]))
    build, verify, time = (math.fsum(sums) for sums in stages.values())
    if not verify + time:
        return None
    return Costs(
        kernels=len(kernels),
        ok_kernels=ok_kernels,
        measurements=corpus.rows("measurements"),
        build_cpu_seconds=build,
        verify_gpu_seconds=verify,
        time_gpu_seconds=time,
        held_seconds=math.fsum((_moment(last) - _moment(first)).total_seconds() for first, last in spans.values()),
    )


def _spans(batch: pa.RecordBatch) -> Iterator[tuple[str, str, str]]:
    table = pa.table(batch).select(["env_id", "started_at"]).drop_null()
    for row in table.group_by("env_id").aggregate([("started_at", "min"), ("started_at", "max")]).to_pylist():
        yield row["env_id"], row["started_at_min"], row["started_at_max"]


def _moment(text: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        raise DataError(f"started_at is {text!r}; it must be ISO 8601 in UTC, such as 2026-01-01T00:00:00Z")
    return moment
