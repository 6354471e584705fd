"""Scope: what was scored, in numbers, so that the page claims no more than that."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from kbench.leaderboard.scoring.score import slice_masks
from kbench.schemas import bins

if TYPE_CHECKING:
    from kbench.benchmark.tasks.labels import PairLabels, PoolLabels
    from kbench.benchmark.tasks.questions import Questions
    from kbench.loaders.corpus.corpus import Corpus

LEAST_PROBLEMS = 5
"""Fewest problems of a slice that the page ranks entries on."""


def dataset_facts(questions: Questions, corpus: Corpus | None) -> Mapping[str, Any]:
    """What the page says about the dataset and about what entries were asked.

    Args:
        questions: what was asked.
        corpus: the whole dataset; None where the labels are private.
    """
    per_bin = np.bincount(questions.pairs.bin, minlength=bins.COUNT + 1)
    gpus = sorted({query.gpu for query in questions.queries})
    return {
        "fingerprint": questions.dataset,
        "private": corpus is None,
        "counts": {} if corpus is None else _counts(corpus),
        "scope": {
            "benchmark": questions.benchmark,
            "split": questions.split,
            "queries": len(questions.queries),
            "problems": len({*questions.pairs.problem.tolist(), *questions.pools.problem.tolist()}),
            "kernels": len({*questions.pairs.candidate.tolist(), *questions.pools.candidate.tolist()}),
            "pairs": len(questions.pairs),
            "pools": len(set(questions.pools.pool.tolist())),
            "gpus": gpus,
        },
        "least_problems": LEAST_PROBLEMS,
        "slices": _slices(questions),
        "bins": [{"bin": n, "label": bins.label(n), "queries": int(per_bin[n])} for n in bins.NUMBERS],
        "facets": {
            "family": sorted({*questions.pairs.family.tolist(), *questions.pools.family.tolist()}),
            "backend": sorted({*questions.pairs.backend.tolist(), *questions.pools.backend.tolist()}),
            "gpu": gpus,
        },
    }


def _counts(corpus: Corpus) -> dict[str, Any]:
    kernels = corpus.table("kernels", columns=["problem_id", "backend", "gpu", "status"])
    found: dict[str, Any] = {
        "kernels": kernels.num_rows,
        "problems": len(set(kernels.column("problem_id").to_pylist())),
    }
    for facet in ("backend", "gpu", "status"):
        values, sizes = np.unique([str(v) for v in kernels.column(facet).to_pylist()], return_counts=True)
        found[facet] = {str(value): int(size) for value, size in zip(values, sizes, strict=True)}
    return found


def _slices(questions: Questions) -> dict[str, dict[str, list[int]]]:
    """Rows and problems of every slice, for the tracks that ask about pairs and for those that ask about pools."""
    everything = np.ones(len(questions.pairs), dtype=np.bool_), np.ones(len(questions.pools), dtype=np.bool_)
    return {
        key: {"pairs": _size(questions.pairs.take(pairs)), "pools": _size(questions.pools.take(pools))}
        for key, pairs, pools in (("all", *everything), *slice_masks(questions))
    }


def _size(labels: PairLabels | PoolLabels) -> list[int]:
    return [len(labels), len(set(labels.problem.tolist()))]
