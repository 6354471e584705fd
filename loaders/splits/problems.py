"""Splits: by problem within family, and never through a near-duplicate cluster.

Two kernels are near-duplicates when their sources are equal after comments and docstrings are gone and chosen names and
literals are masked (exact after masking; see kbench.loaders.source.structure). Problems that share a near-duplicate
stay together, so that nothing in test or validation has a twin in train. Of the problems that remain for training, some
whole clusters are held out as test_seen. Everything is decided by hashes of ids: no random generator, no order.
"""

from __future__ import annotations

import dataclasses
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping

from kbench.schemas import Kernel
from kbench.schemas.ids import content_hash

TEST_SHARE = 0.2
"""Share of problems held out for test."""
VALIDATION_SHARE = 0.1
"""Share of problems held out for validation."""
SEEN_SHARE = 0.1
"""Share of kernels of the remaining problems held out as test_seen, by whole clusters."""
HELD_OUT = ("train", "validation", "test_seen", "test_near", "test")
"""Splits from least to most held out."""


def cluster_id(structure_id: str) -> str:
    """The near-duplicate cluster of a structure."""
    return content_hash("cluster", structure_id)


def assign_splits(kernels: Iterable[Kernel]) -> list[Kernel]:
    """The kernels with their cluster and split set, in the order given.

    Equal kernels get equal splits, whatever their order; adding a kernel of a known problem with a known structure
    moves nothing.
    """
    rows = [dataclasses.replace(kernel, cluster_id=cluster_id(kernel.structure_id)) for kernel in kernels]
    groups = problem_groups((row.problem_id, row.cluster_id) for row in rows)
    families = {row.problem_id: row.family for row in rows}
    by_problem = split_problems(groups, families)
    training = [row for row in rows if by_problem[row.problem_id] == "train"]
    seen = held_out_clusters(((row.problem_id, row.cluster_id) for row in training), groups)
    return [
        dataclasses.replace(row, split="test_seen" if row.cluster_id in seen else by_problem[row.problem_id])
        for row in rows
    ]


def pair_split(anchor: str | None, candidate: str) -> str:
    """A pair's split: the more held out of its kernels'.

    Args:
        anchor: the anchor's split; None when the anchor is the PyTorch reference.
        candidate: the candidate's split.
    """
    return max(anchor or candidate, candidate, key=HELD_OUT.index)


def problem_groups(links: Iterable[tuple[str, str]]) -> dict[str, str]:
    """For each problem the name of its group: problems connected by shared clusters.

    Args:
        links: (problem, cluster) of every kernel.

    Returns:
        the group's smallest problem id, by problem.
    """
    leader: dict[str, str] = {}

    def find(problem: str) -> str:
        while leader[problem] != problem:
            leader[problem] = leader[leader[problem]]
            problem = leader[problem]
        return problem

    first_of: dict[str, str] = {}
    for problem, cluster in sorted(set(links)):
        leader.setdefault(problem, problem)
        ends = sorted((find(problem), find(first_of.setdefault(cluster, problem))))
        leader[ends[1]] = ends[0]
    return {problem: find(problem) for problem in leader}


def split_problems(groups: Mapping[str, str], families: Mapping[str, str]) -> dict[str, str]:
    """Each problem's split: train, validation or test.

    Family by family, groups in hash order go to test, then to validation, as long as they fit what is due; what a
    family is too small to give carries over to the next, so that the shares hold over the whole.
    """
    members: dict[str, list[str]] = defaultdict(list)
    for problem, group in groups.items():
        members[group].append(problem)
    by_family: dict[str, list[str]] = defaultdict(list)
    for group in members:
        by_family[families[group]].append(group)
    chosen: dict[str, str] = {}
    due = {"test": 0.0, "validation": 0.0}
    for family in sorted(by_family, key=lambda name: content_hash("family", name)):
        total = sum(len(members[group]) for group in by_family[family])
        due["test"] += TEST_SHARE * total
        due["validation"] += VALIDATION_SHARE * total
        for group in sorted(by_family[family], key=lambda name: content_hash("problem", name)):
            size = len(members[group])
            # Half a problem of slack, so that a family of three gives one rather than none for ever.
            split = next((name for name, left in due.items() if size <= left + 0.5), "train")
            if split != "train":
                due[split] -= size
            chosen[group] = split
    return {problem: chosen[group] for problem, group in groups.items()}


def held_out_clusters(kernels: Iterable[tuple[str, str]], groups: Mapping[str, str]) -> set[str]:
    """Clusters of training problems that become test_seen: in hash order, as many as fit the share of each group.

    Args:
        kernels: (problem, cluster) of every kernel.
        groups: the group of each problem.
    """
    sizes: dict[str, Counter[str]] = defaultdict(Counter)
    for problem, cluster in kernels:
        sizes[groups[problem]][cluster] += 1
    held: set[str] = set()
    for clusters in sizes.values():
        left = SEEN_SHARE * clusters.total()
        for cluster in sorted(clusters, key=lambda name: content_hash("seen", name)):
            if clusters[cluster] <= left:
                held.add(cluster)
                left -= clusters[cluster]
    return held
