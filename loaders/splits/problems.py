"""What splits are made of: near-duplicate clusters, the problems they connect, and which clusters are held out.

Two kernels are near-duplicates when their sources are equal after comments and docstrings are gone and chosen names and
literals are masked (exact after masking; see kbench.loaders.source.structure). Everything is decided by hashes of ids:
no random generator, no order.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping

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


def problem_groups(links: Iterable[tuple[str, str]]) -> dict[str, str]:
    """For each problem the smallest id of its group: problems connected by shared clusters.

    Args:
        links: (problem, cluster) of every kernel.
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
