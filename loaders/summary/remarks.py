"""What a reader must know about parts of the data, counted: times that are too short, references, counters."""

from __future__ import annotations

import dataclasses

import polars

from kbench.loaders.corpus.corpus import Corpus
from kbench.loaders.summary.timed import gathered
from kbench.schemas import Status

PLANNED_UNTIL = "2026-11-17"
"""Before this day calls that were timed by plan could take less than the kernel does elsewhere."""
EARLY = f"trust == 'plan' and started_at < '{PLANNED_UNTIL}' and status == 'ok'"
"""Which measurements are concerned, as a filter of config `measurements`."""
LARGE_SHARED_BYTES = 48 * 1024
CALL = ("kernel_id", "gpu", "workload")


@dataclasses.dataclass(frozen=True, slots=True)
class EarlyPlans:
    """Measurements of `EARLY`, and those of them that may be too short."""

    measurements: int
    """All of them."""
    filled: int
    """Of calls that fill memory."""
    large: int
    """Of Triton kernels with much shared memory."""
    unplanned: int
    """Without a row in `plans`, so that nothing says whether they fill memory."""
    where: str = EARLY
    """The filter."""


@dataclasses.dataclass(frozen=True, slots=True)
class Counted:
    """What config `counters` is about."""

    kernels: int
    problems: int
    failed_rows: int
    """Rows whose measurement did not end with status ok."""


@dataclasses.dataclass(frozen=True, slots=True)
class Remarks:
    """What is true of some rows alone; None where a corpus has none of them."""

    early: EarlyPlans | None
    counted: Counted | None
    referenced: frozenset[str]
    """Problems with rows in `references`."""
    reference_gpus: tuple[str, ...]


def remarks_of(corpus: Corpus) -> Remarks:
    """Count them; reads few columns, a batch at a time."""
    names = corpus.table("references", columns=["problem_id", "gpu"])
    problems, gpus = (set(names.column(name).to_pylist()) for name in ("problem_id", "gpu"))
    return Remarks(_early(corpus), _counted(corpus), frozenset(problems), tuple(sorted(gpus)))


def _early(corpus: Corpus) -> EarlyPlans | None:
    columns = ("kernel_id", "workload", "shared_bytes")
    early = gathered(corpus.select("measurements", columns=columns, where=EARLY), *columns)
    if early.is_empty():
        return None
    # Kernels are planned on the whole GPU; whether a call fills memory is the same on a partition of it.
    plans = gathered(
        corpus.select("plans", columns=("kernel_id", "workload", "fills")), "kernel_id", "workload", "fills"
    )
    plans = plans.group_by("kernel_id", "workload").agg(polars.col("fills").max())
    triton = gathered(corpus.select("kernels", columns=["kernel_id"], backend="triton"), "kernel_id").unique()
    planned = early.join(plans, on=["kernel_id", "workload"], how="left")
    large = early.filter(polars.col("shared_bytes") > LARGE_SHARED_BYTES).join(triton, on="kernel_id", how="semi")
    return EarlyPlans(
        measurements=len(early),
        filled=int((planned["fills"] > 0).sum()),
        large=len(large),
        unplanned=planned["fills"].null_count(),
    )


def _counted(corpus: Corpus) -> Counted | None:
    rows = gathered(corpus.select("counters", columns=(*CALL, "problem_id")), *CALL, "problem_id")
    if rows.is_empty():
        return None
    measured = corpus.select("measurements", columns=CALL, where=f"status != '{Status.OK.value}'")
    failed = rows.join(gathered(measured, *CALL), on=CALL, how="semi")
    return Counted(rows["kernel_id"].n_unique(), rows["problem_id"].n_unique(), len(failed))
