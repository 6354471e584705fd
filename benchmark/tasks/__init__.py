"""Tasks: what is asked on a split of a corpus, track by track, with the answers kept apart."""

from kbench.benchmark.tasks.build import build_questions, training_kernels, training_pairs
from kbench.benchmark.tasks.labels import PairLabels, PoolLabels
from kbench.benchmark.tasks.questions import Questions, TrackQueries

__all__ = [
    "PairLabels",
    "PoolLabels",
    "Questions",
    "TrackQueries",
    "build_questions",
    "training_kernels",
    "training_pairs",
]
