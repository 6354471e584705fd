"""How far each split by lineage lies from training: similarity of every kernel to its nearest training kernel."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import numpy as np

from kbench.loaders.corpus.corpus import Corpus
from kbench.loaders.source.similarity import Grams
from kbench.loaders.splits.lineage import FAR, distinct_kernels, kernel_splits, known_splits, lineage_splits
from kbench.loaders.splits.problems import HELD_OUT

NEAR_DUPLICATE = 0.8
"""Similarity from which a kernel can be answered by looking its neighbour up."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class SplitDistance:
    """One split's nearness to training."""

    split: str
    problems: int
    kernels: int
    nearest_train: float
    """Mean similarity (Jaccard, token 5-grams) of its kernels to their nearest training kernel."""
    nearest_problem: float
    """The same for the problem that comes nearest."""
    near_duplicates: float
    """Share of its kernels with a training kernel that is at least 0.8 similar."""


@dataclasses.dataclass(frozen=True, slots=True)
class Survey:
    """Every held-out split's nearness, and what is wrong."""

    splits: list[SplitDistance]
    violations: list[tuple[str, str]]
    """Split or problem, and what is wrong with it."""


def distances(corpus: Corpus, stripped: Mapping[str, str]) -> Survey:
    """Measure a corpus.

    Args:
        corpus: the corpus.
        stripped: every kernel's source without comments, by kernel id.
    """
    if not stripped:
        return Survey([], [])
    rows = distinct_kernels(corpus, ["kernel_id", "problem_id", "cluster_id"])
    ids, problems, clusters = zip(*rows, strict=True)
    grams = Grams([stripped[kernel] for kernel in ids])
    rule = lineage_splits(corpus, grams)
    used = known_splits(corpus) or rule.splits
    splits = np.array(kernel_splits(problems, clusters, used))
    names = np.array(problems)
    asked, place = np.unique(grams.row[splits != "train"], return_inverse=True)
    _, near = grams.nearest(asked, np.unique(grams.row[splits == "train"]))
    nearness = np.ones(len(splits), dtype=np.float32)
    nearness[splits != "train"] = near[place]
    found = []
    for split in HELD_OUT[1:]:
        inside = splits == split
        if inside.any():
            means = [float(nearness[inside & (names == name)].mean()) for name in np.unique(names[inside])]
            found.append(
                SplitDistance(
                    split=split,
                    problems=len(means),
                    kernels=int(inside.sum()),
                    nearest_train=round(float(nearness[inside].mean()), 4),
                    nearest_problem=round(max(means), 4),
                    near_duplicates=round(float((nearness[inside] >= NEAR_DUPLICATE).mean()), 4),
                )
            )
    return Survey(found, [*_too_near(found), *_torn(rule.groups, used), *_stale(rule.splits, used)])


def _too_near(found: list[SplitDistance]) -> list[tuple[str, str]]:
    return [
        (one.split, f"split test is {one.nearest_train} similar to train on average; it must be at most {FAR}")
        for one in found
        if one.split == "test" and one.nearest_train > FAR
    ]


def _torn(groups: Mapping[str, str], splits: Mapping[str, str]) -> list[tuple[str, str]]:
    """Lineages of test or validation that also lie elsewhere."""
    found = []
    for lineage in sorted(set(groups.values())):
        sides = {splits[problem] for problem in groups if groups[problem] == lineage}
        if len(sides) > 1 and sides & {"test", "validation"}:
            found.append((lineage, f"lineage of {lineage!r} lies in several splits: {', '.join(sorted(sides))}"))
    return found


def _stale(rule: Mapping[str, str], used: Mapping[str, str]) -> list[tuple[str, str]]:
    fix = "record the splits again"
    return [
        (problem, f"problem {problem!r} is recorded in {used.get(problem)!r}; the rule gives {split!r}: {fix}")
        for problem, split in rule.items()
        if used.get(problem) != split
    ]
