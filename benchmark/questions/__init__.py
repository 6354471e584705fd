"""Questions: what is asked on a split of a corpus, track by track, with the answers kept apart."""

from kbench.benchmark.questions.build import build_questions, training_kernels, training_pairs
from kbench.benchmark.questions.questions import PairLabels, PoolLabels, Questions

__all__ = ["PairLabels", "PoolLabels", "Questions", "build_questions", "training_kernels", "training_pairs"]
