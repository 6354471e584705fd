"""Prove a corpus's splits: no twin of a held-out kernel in train, no test problem elsewhere."""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from kbench.loaders.corpus.corpus import Corpus
from kbench.loaders.source.similarity import Grams
from kbench.loaders.source.strip import strip_comments
from kbench.loaders.source.structure import structure_id
from kbench.loaders.splits import (
    FAR,
    HELD_OUT,
    LineageSplits,
    cluster_id,
    derive_splits,
    distinct_kernels,
    splits_of,
    splits_of_kernels,
)
from kbench.loaders.storage.pool import spread

SIMILAR = 0.8
"""Similarity from which a kernel can be answered by looking its neighbour up; near-duplicates have one structure."""
LEGEND = (
    f"mean_similarity: of the kernels to their nearest training kernel (Jaccard, token 5-grams); at most {FAR} in test",
    "nearest_problem: the same mean of the problem that comes nearest; not limited",
    f"similar_share: of the kernels, those at least {SIMILAR} similar to a training kernel; not limited",
)
"""What the columns of `distances` mean, and how far they may go."""


def distances(corpus: Corpus, stripped: Mapping[str, str]) -> tuple[list[Mapping[str, Any]], list[SplitViolation]]:
    """How near the held-out splits come to training, and what is wrong with them.

    Args:
        corpus: the corpus.
        stripped: every kernel's source without comments, by kernel id.

    Returns:
        Of each split the columns that `LEGEND` names, and its faults.
    """
    if not stripped:
        return [], []
    rows = distinct_kernels(corpus, ["kernel_id", "problem_id", "cluster_id"])
    ids, problems, clusters = zip(*rows, strict=True)
    grams = Grams([stripped[kernel] for kernel in ids])
    rule = derive_splits(corpus, grams)
    used = splits_of(corpus) or rule.splits
    splits = np.array(splits_of_kernels(problems, clusters, used))
    names = np.array(problems)
    asked, place = np.unique(grams.row[splits != "train"], return_inverse=True)
    _, near = grams.nearest(asked, np.unique(grams.row[splits == "train"]))
    nearness = np.ones(len(splits), dtype=np.float32)
    nearness[splits != "train"] = near[place]
    surveyed: list[Mapping[str, Any]] = []
    for split in HELD_OUT[1:]:
        inside = splits == split
        if inside.any():
            means = [float(nearness[inside & (names == name)].mean()) for name in np.unique(names[inside])]
            surveyed.append(
                {
                    "split": split,
                    "problems": len(means),
                    "kernels": int(inside.sum()),
                    "mean_similarity": round(float(nearness[inside].mean()), 4),
                    "nearest_problem": round(max(means), 4),
                    "similar_share": round(float((nearness[inside] >= SIMILAR).mean()), 4),
                }
            )
    return surveyed, list(_faults(surveyed, rule, used))


def _faults(
    surveyed: Sequence[Mapping[str, Any]], rule: LineageSplits, used: Mapping[str, str]
) -> Iterator[SplitViolation]:
    """What is wrong with splits: test too near, a held-out lineage that also lies elsewhere, splits of another rule."""
    for one in surveyed:
        if one["split"] == "test" and one["mean_similarity"] > FAR:
            message = f"split test is {one['mean_similarity']} similar to train on average; it must be at most {FAR}"
            yield SplitViolation("lineage", "test", message)
    for lineage in sorted(set(rule.groups.values())):
        sides = {used[problem] for problem in rule.groups if rule.groups[problem] == lineage}
        if len(sides) > 1 and sides & {"test", "validation"}:
            message = f"lineage of {lineage!r} lies in several splits: {', '.join(sorted(sides))}"
            yield SplitViolation("lineage", lineage, message)
    for problem, split in rule.splits.items():
        if used.get(problem) != split:
            recorded = f"problem {problem!r} is recorded in {used.get(problem)!r}"
            yield SplitViolation("lineage", problem, f"{recorded}; the rule gives {split!r}: record the splits again")


COLUMNS = ["kernel_id", "problem_id", "cluster_id", "split"]
POOL_FROM = 2000
"""Below this many sources a pool of processes costs more than it saves."""


@dataclasses.dataclass(frozen=True, slots=True)
class SplitViolation:
    """One way in which the splits leak."""

    rule: str
    """twin, stale_cluster, seen_problem, kernel, split or lineage."""
    subject: str
    """The cluster, problem or kernel."""
    message: str


class Shape(NamedTuple):
    """What is compared of a kernel."""

    structure_id: str
    stripped: str
    """The source without comments and docstrings."""


def shapes(corpus: Corpus, advance: Callable[[int], object] = lambda _: None) -> dict[str, Shape]:
    """Every kernel's shape by kernel id."""
    if "kernels" not in corpus.configs:
        return {}
    table = corpus.table("kernels", columns=["kernel_id", "source"])
    sources = dict(zip(*(column.to_pylist() for column in table.columns), strict=True))
    if len(sources) < POOL_FROM:
        computed: Iterable[Shape] = map(_shape, sources.values())
    else:
        computed = spread(_shape, sources.values(), chunk=64)
    named = {}
    for kernel, shape in zip(sources, computed, strict=True):
        named[kernel] = shape
        advance(1)
    return named


def check_splits(corpus: Corpus, known: Mapping[str, Shape]) -> list[SplitViolation]:
    """Every violation in a corpus; empty when the splits hold. Pairs and questions are held against their kernels by
    `validate`.

    Structures are those of the kernels' shapes, which come from the sources, so stored ids are checked, not trusted.
    """
    if "kernels" not in corpus.configs:
        return []
    table = corpus.table("kernels", columns=COLUMNS)
    columns = [table.column(name).to_pylist() for name in COLUMNS]
    ids, problems, stored, splits = columns
    clusters = [cluster_id(known[kernel].structure_id) for kernel in ids]
    violations = [
        SplitViolation("stale_cluster", kernel, f"cluster_id is {old!r}; its source is of cluster {new!r}")
        for kernel, old, new in zip(ids, stored, clusters, strict=True)
        if old != new
    ]
    violations += _mixed("twin", "near-duplicate cluster", zip(clusters, splits, ids, strict=True), set(HELD_OUT))
    violations += _mixed("kernel", "kernel", zip(ids, splits, problems, strict=True), set(HELD_OUT))
    # A problem may lie in train and in test_seen, which is what seen means; test and validation problems are unseen.
    sides = [split if split in ("test", "test_near", "validation") else "train" for split in splits]
    return [*violations, *_mixed("seen_problem", "problem", zip(problems, sides, ids, strict=True), set(HELD_OUT))]


def _shape(source: str) -> Shape:
    return Shape(structure_id(source), strip_comments(source))


def _mixed(rule: str, noun: str, rows: Iterable[tuple[str, str, str]], known: set[str]) -> Iterator[SplitViolation]:
    places: dict[str, dict[str, str]] = defaultdict(dict)
    for subject, split, example in rows:
        if split not in known:
            yield SplitViolation("split", example, f"split is {split!r}; it must be one of {', '.join(HELD_OUT)}")
        places[subject].setdefault(split, example)
    for subject, found in places.items():
        if len(found) > 1:
            where = ", ".join(f"{split} ({example})" for split, example in sorted(found.items()))
            yield SplitViolation(rule, subject, f"{noun} {subject!r} lies in several splits: {where}")
