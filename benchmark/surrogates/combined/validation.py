"""Validation queries with their answers: what a map is learned from."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Sequence

import numpy as np

from kbench.benchmark.metrics.arrays import Booleans, Ints
from kbench.benchmark.tasks.labels import Strings, strings
from kbench.benchmark.tasks.questions import Questions
from kbench.benchmark.tasks.render import reference_query_id
from kbench.schemas import Pair, PairKind, Query


@dataclasses.dataclass(frozen=True, slots=True)
class Validation:
    """Queries, the bins of their pairs, and which kernels are valid."""

    queries: Sequence[Query]
    query: Ints
    """Position of each pair's query."""
    bin: Ints
    problem: Strings
    level: Booleans
    """Whether the pair is against the PyTorch reference."""
    kernel: Ints
    """Position of the query that asks about each measured kernel; none where only pairs are known."""
    valid: Booleans
    kernel_problem: Strings

    @classmethod
    def of(cls, questions: Questions) -> Validation:
        """The questions of the validation split."""
        pairs, pools = questions.pairs, questions.pools.take(questions.pools.asked_valid)
        level = pairs.kind == PairKind.REFERENCE.value
        return cls(
            questions.queries, pairs.query, pairs.bin, pairs.problem, level, pools.query, pools.valid, pools.problem
        )

    @classmethod
    def of_pairs(cls, train: Sequence[tuple[Query, Pair]], limit: int | None) -> Validation:
        """The validation pairs among training pairs, under the ids that the questions of the split have.

        Those of one GPU, as the questions are: the one with the most pairs.
        """
        count = Counter(pair.gpu for _, pair in train if pair.split == "validation")
        gpu = min(count, key=lambda name: (-count[name], name), default=None)
        chosen = {
            _query_id(query, pair): (query, pair)
            for query, pair in train
            if pair.split == "validation" and pair.bin is not None and pair.gpu == gpu
        }
        rows = [(dataclasses.replace(chosen[each][0], query_id=each), chosen[each][1]) for each in sorted(chosen)]
        rows = rows[:limit]
        return cls(
            queries=[query for query, _ in rows],
            query=np.arange(len(rows)),
            bin=np.array([pair.bin for _, pair in rows], dtype=np.int64),
            problem=strings([pair.problem_id for _, pair in rows]),
            level=np.array([pair.kind is PairKind.REFERENCE for _, pair in rows], dtype=np.bool_),
            kernel=np.zeros(0, dtype=np.int64),
            valid=np.zeros(0, dtype=np.bool_),
            kernel_problem=strings([]),
        )


def _query_id(query: Query, pair: Pair) -> str:
    reference = pair.kind is PairKind.REFERENCE and pair.anchor_id is None
    return reference_query_id(pair.candidate_id, pair.gpu) if reference else query.query_id
