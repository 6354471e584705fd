"""Findings: all that the card says about a corpus beyond its counts, its cost included, computed once."""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import polars
import pyarrow as pa
import pyarrow.compute as pc
import yaml

from kbench.loaders.card.plots import render_plots
from kbench.loaders.corpus.corpus import Corpus
from kbench.loaders.summary.coverage import coverage_of, gathered, timed
from kbench.loaders.summary.trust import repeats_of, trust_of
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


def findings_of(corpus: Corpus) -> SimpleNamespace:
    """What a corpus shows. Of several GPUs, `gpu` is the one that peaks, coverage and plots of kernels are about."""
    gpu = corpus.main_gpu()
    kernels = timed(corpus, gpu)
    everywhere = timed(corpus) if gpu else kernels
    return SimpleNamespace(
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


def peaks_of(kernels: polars.DataFrame) -> list[SimpleNamespace]:
    """The problems with the largest speedups, largest first, each by its fastest kernel, and why it is so fast.

    `speedup_best` is over the best reference; None where none but eager PyTorch was timed.
    """
    fastest = polars.col("runtime_us") == polars.col("runtime_us").min().over("problem_id")
    best = kernels.filter(fastest).unique("problem_id", keep="first", maintain_order=True)
    ordered = best.sort(polars.col("speedup"), polars.col("problem_id").cast(polars.String), descending=[True, False])
    rows = ordered.head(PEAKS).to_dicts()
    return [SimpleNamespace(**row, reason=weaknesses().get(row["problem_id"], UNEXPLAINED)) for row in rows]


def errata_of(corpus: Corpus) -> list[SimpleNamespace]:
    """The kernels of a corpus that are recorded as correct and are not, in the order of their problems."""
    columns = ["problem_id", "kernel_id"]
    rows = corpus.table("kernels", columns=columns, kernel_id=list(errata()), status=Status.OK.value)
    found = sorted({(row["problem_id"], row["kernel_id"]) for row in rows.to_pylist()})
    return [SimpleNamespace(problem_id=problem, kernel_id=kernel, wrong=errata()[kernel]) for problem, kernel in found]


PUBLISHED_GPU_HOURS = 600
PUBLISHED_KERNELS = 12_388
"""What the published release of search-generated kernels states of itself."""


def costs_of(corpus: Corpus, ok_kernels: int) -> dict[str, Any] | None:
    """What the measurements of a corpus cost, as the ledger states it; None when it has none that say so.

    Compiling runs on CPU cores beside the GPU. A machine is held from the first to the last start of a measurement: GPU
    work, waiting and idling.

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
    gpu_seconds = verify + time
    return {
        "kernels": len(kernels),
        "ok_kernels": ok_kernels,
        "measurements": corpus.rows("measurements"),
        "build_cpu_seconds": build,
        "verify_gpu_seconds": verify,
        "time_gpu_seconds": time,
        "held_seconds": math.fsum((_moment(last) - _moment(first)).total_seconds() for first, last in spans.values()),
        "gpu_seconds": gpu_seconds,
        "gpu_hours": gpu_seconds / 3600,
        "gpu_seconds_per_kernel": gpu_seconds / len(kernels),
        "kernels_per_gpu_hour": 3600 * len(kernels) / gpu_seconds,
        "published_release": {
            "gpu_hours": PUBLISHED_GPU_HOURS,
            "kernels": PUBLISHED_KERNELS,
            "gpu_seconds_per_kernel": 3600 * PUBLISHED_GPU_HOURS / PUBLISHED_KERNELS,
            "kernels_per_gpu_hour": PUBLISHED_KERNELS / PUBLISHED_GPU_HOURS,
        },
    }


def _moment(text: str) -> datetime:
    moment = None
    with suppress(ValueError):
        moment = datetime.fromisoformat(text)
    if moment is None or moment.tzinfo is None:
        raise DataError(f"started_at is {text!r}; it must be ISO 8601 in UTC, such as 2026-01-01T00:00:00Z")
    return moment


PLANNED_UNTIL = "2026-11-17"
"""Before this day calls that were timed by plan could take less than the kernel does elsewhere."""
EARLY = f"trust == 'plan' and started_at < '{PLANNED_UNTIL}' and status == 'ok'"
"""Which measurements are concerned, as a filter of config `measurements`."""
LARGE_SHARED_BYTES = 48 * 1024
CALL = ("kernel_id", "gpu", "workload")


def remarks_of(corpus: Corpus) -> SimpleNamespace:
    """What is true of some rows alone, None where a corpus has none of them; reads few columns, a batch at a time."""
    names = corpus.table("references", columns=["problem_id", "gpu"])
    problems, gpus = (set(names.column(name).to_pylist()) for name in ("problem_id", "gpu"))
    return SimpleNamespace(
        early=_early(corpus), counted=_counted(corpus), referenced=problems, reference_gpus=sorted(gpus)
    )


def _early(corpus: Corpus) -> SimpleNamespace | None:
    """Measurements that `EARLY` finds, and how many of them may be too short, for which reason."""
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
    return SimpleNamespace(
        measurements=len(early),
        filled=int((planned["fills"] > 0).sum()),
        large=len(large),
        unplanned=planned["fills"].null_count(),
        where=EARLY,
    )


WARM = "dram_read_bytes < 65536 and l2_bytes > 1048576"
"""Counters of a call whose inputs lay in L2 already: almost nothing came from DRAM of what was asked for."""


def _counted(corpus: Corpus) -> SimpleNamespace | None:
    """What config `counters` is about; its failed rows are those whose measurement did not end with status ok."""
    rows = gathered(corpus.select("counters", columns=(*CALL, "problem_id")), *CALL, "problem_id")
    if rows.is_empty():
        return None
    measured = corpus.select("measurements", columns=CALL, where=f"status != '{Status.OK.value}'")
    failed = rows.join(gathered(measured, *CALL), on=CALL, how="semi")
    return SimpleNamespace(
        kernels=rows["kernel_id"].n_unique(), problems=rows["problem_id"].n_unique(), failed_rows=len(failed),
        warm_rows=corpus.select("counters", where=WARM).count(), warm=WARM,
    )  # fmt: skip
