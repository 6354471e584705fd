"""Splits: which kernels are held out. By problem, and by lineage, as the benchmark asks."""

from kbench.loaders.splits.problems import (
    HELD_OUT,
    cluster_id,
    held_out_clusters,
    pair_split,
    problem_groups,
)

__all__ = [
    "HELD_OUT",
    "cluster_id",
    "held_out_clusters",
    "pair_split",
    "problem_groups",
]
