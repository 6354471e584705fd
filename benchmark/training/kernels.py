"""`sft` and `reward`: problems with their best kernels, and with every kernel and its score."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from kbench.benchmark.rewards import kernel_score
from kbench.benchmark.training.material import Material
from kbench.benchmark.training.rows import Demonstration, ScoredKernel
from kbench.schemas import Status


def demonstrations(material: Material) -> Iterator[Demonstration]:
    """The best kernels of each problem, backend and GPU, best first, one of each near-duplicate cluster."""
    ranks: Counter[tuple[str, str, str]] = Counter()
    clusters: set[tuple[str, ...]] = set()
    best_first = sorted(
        material.correct(),
        key=lambda row: (row["problem_id"], row["backend"], row["gpu"], -row["speedup"], row["kernel_id"]),
    )
    for row in best_first:
        cell = (row["problem_id"], row["backend"], row["gpu"])
        if ranks[cell] == material.best or (*cell, row["cluster_id"]) in clusters:
            continue
        ranks[cell] += 1
        clusters.add((*cell, row["cluster_id"]))
        yield Demonstration(
            **material.task(row),
            completion=material.answer(row),
            kernel_id=row["kernel_id"],
            rank=ranks[cell],
            speedup=row["speedup"],
        )


def scored_kernels(material: Material) -> Iterator[ScoredKernel]:
    """Every measured kernel, failures included; a correct one whose origin states no speedup has no score."""
    for row in material.kernels.values():
        if row["status"] == Status.OK and row["speedup"] is None:
            continue
        yield ScoredKernel(
            **material.task(row),
            completion=material.answer(row),
            kernel_id=row["kernel_id"],
            score=kernel_score(row["status"], row["speedup"]),
            status=Status(row["status"]),
            speedup=row["speedup"],
            speedup_low=row["speedup_low"],
            speedup_high=row["speedup_high"],
        )
