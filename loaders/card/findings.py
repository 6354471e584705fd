"""Findings: all that the card says about a corpus beyond its counts, its cost included, computed once."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any

import polars
import pyarrow as pa
import pyarrow.compute as pc
import yaml

from kbench.loaders.card.plots import render_plots
from kbench.loaders.corpus.corpus import Corpus
from kbench.loaders.summary.coverage import Coverage, coverage_of, gathered, timed
from kbench.loaders.summary.trust import Repeats, Trust, repeats_of, trust_of
from kbench.schemas import DataError, Status

PEAKS = 10
"""How many of the largest speedups are shown and explained."""
UNEXPLAINED = "No explanation has been written yet: treat this figure with suspicion."


@cache
def weaknesses() -> Mapping[str, str]:
    """What the PyTorch reference of a problem does badly, by problem."""
    return _texts("weaknesses.yaml")


@cache
def errata() -> Mapping[str, str]:
    """What is wrong with kernels that a release calls correct, by kernel id."""
    return _texts("errata.yaml")


def _texts(name: str) -> dict[str, str]:
    texts: dict[str, str] = yaml.safe_load(Path(__file__).with_name(name).read_text(encoding="utf-8"))
    return texts


@dataclasses.dataclass(frozen=True, slots=True)
class Peak:
    """The fastest kernel of a problem, against the PyTorch reference."""

    problem_id: str
    kernel_id: str
    backend: str
    runtime_us: float
    speedup: float
    speedup_best: float | None
    """Over the best reference; None where none but eager PyTorch was timed."""

    @property
    def reason(self) -> str:
        """What the reference does badly."""
        return weaknesses().get(self.problem_id, UNEXPLAINED)


@dataclasses.dataclass(frozen=True, slots=True)
class Erratum:
    """A kernel that is recorded as correct and is not."""

    kernel_id: str
    problem_id: str
    wrong: str


@dataclasses.dataclass(frozen=True, slots=True)
class Findings:
    """What a corpus shows."""

    gpu: str | None
    """Of several GPUs the one that peaks, coverage and plots of kernels are about; None where there is one."""
    peaks: tuple[Peak, ...]
    """The problems with the largest speedups, largest first."""
    coverage: Coverage
    trust: Trust
    errata: tuple[Erratum, ...]
    repeats: Repeats | None
    costs: Costs | None
    remarks: Remarks
    plots: Mapping[str, str]
    """SVG by file name."""
    parquet_bytes: int


def findings_of(corpus: Corpus) -> Findings:
    """Compute the findings of a corpus."""
    gpu = corpus.main_gpu()
    kernels = timed(corpus, gpu)
    everywhere = timed(corpus) if gpu else kernels
    return Findings(
        gpu=gpu,
        peaks=peaks_of(kernels),
        coverage=coverage_of(corpus, kernels),
        trust=trust_of(corpus),
        errata=errata_of(corpus),
        repeats=repeats_of(corpus),
        costs=costs_of(corpus, everywhere["kernel_id"].n_unique()),
        remarks=remarks_of(corpus),
        plots=render_plots(corpus, kernels),
        parquet_bytes=sum(entry.bytes for name in corpus.configs for entry in corpus.files(name)),
    )


def peaks_of(kernels: polars.DataFrame) -> tuple[Peak, ...]:
    """The problems with the largest speedups, each by its fastest kernel."""
    fastest = polars.col("runtime_us") == polars.col("runtime_us").min().over("problem_id")
    best = kernels.filter(fastest).unique("problem_id", keep="first", maintain_order=True)
    names = [field.name for field in dataclasses.fields(Peak)]
    ordered = best.sort(polars.col("speedup"), polars.col("problem_id").cast(polars.String), descending=[True, False])
    return tuple(Peak(**row) for row in ordered.select(names).head(PEAKS).to_dicts())


def errata_of(corpus: Corpus) -> tuple[Erratum, ...]:
    """The errata that a corpus has, in the order of their problems."""
    rows = corpus.table(
        "kernels", columns=["kernel_id", "problem_id"], kernel_id=list(errata()), status=Status.OK.value
    )
    errata_here = {Erratum(row["kernel_id"], row["problem_id"], errata()[row["kernel_id"]]) for row in rows.to_pylist()}
    return tuple(sorted(errata_here, key=lambda one: (one.problem_id, one.kernel_id)))


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
        times = pa.table(batch).select(["env_id", "started_at"]).drop_null().group_by("env_id")
        for row in times.aggregate([("started_at", "min"), ("started_at", "max")]).to_pylist():
            first, last = spans.get(row["env_id"], (row["started_at_min"], row["started_at_max"]))
            spans[row["env_id"]] = (min(first, row["started_at_min"]), max(last, row["started_at_max"]))
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


def _moment(text: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        raise DataError(f"started_at is {text!r}; it must be ISO 8601 in UTC, such as 2026-01-01T00:00:00Z")
    return moment


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
