"""Scope: what was scored, in numbers, so that the page claims no more than that."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from kbench.benchmark.metrics.registry import METRICS
from kbench.benchmark.tracks import OVERALL
from kbench.leaderboard.board import part_name
from kbench.leaderboard.scoring.score import slice_masks
from kbench.leaderboard.season_record import FILE, read_season, season_scores
from kbench.schemas import bins

if TYPE_CHECKING:
    from kbench.benchmark.questions.questions import PairLabels, PoolLabels, Questions
    from kbench.loaders.corpus.corpus import Corpus

HEADLINES = {(metric.track.name, metric.name) for metric in METRICS if metric.headline} | {(OVERALL, OVERALL)}
LEAST_PROBLEMS = 5
"""Fewest problems of a slice that the page ranks entries on."""


def dataset_facts(questions: Questions, corpus: Corpus | None, parts: Sequence[Questions] = ()) -> Mapping[str, Any]:
    """What the page says about the dataset and about what entries were asked.

    Args:
        questions: what was asked.
        corpus: the whole dataset; None where the labels are private.
        parts: of these questions that some entries answer alone.
    """
    per_bin = np.bincount(questions.pairs.bin, minlength=bins.COUNT + 1)
    gpus = sorted({query.gpu for query in questions.queries})
    return {
        "fingerprint": questions.dataset,
        "private": corpus is None,
        "counts": {} if corpus is None else _counts(corpus),
        "scope": {
            "split": questions.split,
            "queries": len(questions.queries),
            "problems": len({*questions.pairs.problem.tolist(), *questions.pools.problem.tolist()}),
            "kernels": len({*questions.pairs.candidate.tolist(), *questions.pools.candidate.tolist()}),
            "pairs": len(questions.pairs),
            "pools": len(set(questions.pools.pool.tolist())),
            "gpus": gpus,
        },
        "least_problems": LEAST_PROBLEMS,
        "slices": _slices(questions) | {part_name(part): _sizes(part.pairs, part.pools) for part in parts},
        "bins": [{"bin": n, "label": bins.label(n), "queries": int(per_bin[n])} for n in bins.NUMBERS],
        "facets": {
            "family": sorted({*questions.pairs.family.tolist(), *questions.pools.family.tolist()}),
            "backend": sorted({*questions.pairs.backend.tolist(), *questions.pools.backend.tolist()}),
            "gpu": gpus,
        },
    }


def season_facts(folder: Path) -> list[dict[str, Any]]:
    """Every season of a folder, newest first: what it asks, who entered, and what they scored once it closed."""
    seasons = []
    for path in sorted(folder.glob(f"*/{FILE}")):
        season = read_season(path.parent)
        scored = season_scores(path.parent) if season.closing else {}
        seasons.append({
            "name": season.name, "opened_at": season.opened_at, "gpu": season.gpu, "kernels": season.kernels,
            "queries": season.queries, "entries": [entry.entry_id for entry in season.entries],
            "closed_at": season.closing and season.closing.closed_at,
            "results": {entry: {one.track: one.value for one in found
                                if (one.track, one.metric) in HEADLINES and one.slice == "all"}
                        for entry, found in scored.items()},
        })  # fmt: skip
    return sorted(seasons, key=lambda one: one["opened_at"], reverse=True)


def _counts(corpus: Corpus) -> dict[str, Any]:
    import pyarrow.compute as pc

    kernels = corpus.table("kernels", columns=["kernel_id", "problem_id", "backend", "gpu", "status"])
    counts: dict[str, Any] = {
        "kernels": len(set(kernels.column("kernel_id").to_pylist())),
        "problems": len(set(kernels.column("problem_id").to_pylist())),
    }
    # A kernel has a row for each GPU: of backends and verdicts the main GPU's rows are counted.
    main = kernels.filter(pc.equal(kernels["gpu"], corpus.main_gpu())) if corpus.main_gpu() else kernels
    for facet, rows in (("backend", main), ("gpu", kernels), ("status", main)):
        values, sizes = np.unique([str(v) for v in rows.column(facet).to_pylist()], return_counts=True)
        counts[facet] = {str(value): int(size) for value, size in zip(values, sizes, strict=True)}
    return counts


def _slices(questions: Questions) -> dict[str, dict[str, list[int]]]:
    """Rows and problems of every slice, for the tracks that ask about pairs and for those that ask about pools."""
    everything = np.ones(len(questions.pairs), dtype=np.bool_), np.ones(len(questions.pools), dtype=np.bool_)
    core = (
        [("core", questions.pairs.core, questions.pools.core)]
        if not questions.subset and (questions.pairs.core.any() or questions.pools.core.any())
        else []
    )
    return {
        key: _sizes(questions.pairs.take(pairs), questions.pools.take(pools))
        for key, pairs, pools in (("all", *everything), *core, *slice_masks(questions))
    }


def _sizes(pairs: PairLabels, pools: PoolLabels) -> dict[str, list[int]]:
    return {name: [len(one), len(set(one.problem.tolist()))] for name, one in (("pairs", pairs), ("pools", pools))}
