"""Which GPU a search saw: kernels may have been measured on others since."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa


def gpus_searched(kernels: pa.Table) -> dict[str, str]:
    """By run, the GPU that has most of its kernels, which are those the search measured.

    Args:
        kernels: every row of a corpus, with `run_id` and `gpu`.
    """
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for run, gpu in zip(kernels.column("run_id").to_pylist(), kernels.column("gpu").to_pylist(), strict=True):
        counts[run][gpu or ""] += 1
    # Equal numbers: the whole GPU's name comes before those of its partitions.
    return {run: min(found, key=lambda gpu: (-found[gpu], gpu)) for run, found in counts.items()}
