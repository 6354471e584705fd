"""How alike two kernels are: Jaccard similarity of their token 5-grams, without comments and with numbers masked."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

TOKEN = re.compile(r"[A-Za-z_]\w*|\d[\w.]*|[^\s\w]")
"""Tokens that similarity is counted in."""
GRAM = 5
"""Tokens of a run; two kernels are as alike as the sets of their runs."""
MIXER = np.uint64(0x9E3779B97F4A7C15)
"""Odd, so that products modulo 2**64 keep runs of tokens apart."""
CHUNK = 256
"""Rows compared at once: a block of similarities stays within the processor's cache and little memory."""
COMMON = 500
"""Grams whose rows are compared as a dense matrix."""

Positions = npt.NDArray[np.int64]
Similarities = npt.NDArray[np.float32]


class Vocabulary(dict[str, int]):
    """A number for each token; all numbers of a source are one token."""

    def __missing__(self, token: str) -> int:
        number = self["0"] if token != "0" and token[0].isdigit() else len(self)
        self[token] = number
        return number


class Grams:
    """Sources as sets of 5-grams; those with equal tokens share a row."""

    def __init__(self, sources: Sequence[str]) -> None:
        """Read sources, comments and docstrings stripped."""
        from scipy.sparse import csr_matrix, diags_array

        vocabulary = Vocabulary()
        rows: dict[bytes, int] = {}
        sets: list[npt.NDArray[np.uint64]] = []
        self.row: Positions = np.zeros(len(sources), dtype=np.int64)
        """Row of each source."""
        row_of: dict[str, int] = {}
        for at, source in enumerate(sources):
            if source not in row_of:
                tokens = np.array([vocabulary[token] for token in TOKEN.findall(source)], dtype=np.uint64)
                row_of[source] = rows.setdefault(tokens.tobytes(), len(rows))
                if len(sets) < len(rows):
                    sets.append(np.unique(_grams(tokens)))
            self.row[at] = row_of[source]
        sizes = [len(one) for one in sets]
        grams, columns = np.unique(np.concatenate([np.zeros(0, np.uint64), *sets]), return_inverse=True)
        ends = np.cumsum([0, *sizes])
        held = csr_matrix((np.ones(len(columns), np.float32), columns, ends), shape=(len(sets), len(grams)))
        # Most rows meet in the few grams of every template; dense, these cost a fraction of what they do sparse.
        runs, weights = _together(held)
        order = np.argsort(-np.diff(runs.indptr), kind="stable")
        common, rare = order[:COMMON], order[COMMON:]
        self._common: Similarities = runs[common].T.toarray()
        self._common_weights = weights[common]
        self._rare: Any = runs[rare].T.tocsr()
        self._rare_weights: Any = diags_array(weights[rare])
        self._sizes = np.array(sizes, dtype=np.float32)

    def similarities(self, one: Positions, other: Positions) -> Iterator[tuple[slice, Similarities]]:
        """Similarity of every row of `one` to every row of `other`, a block of rows of `one` at a time."""
        others = (self._rare_weights @ self._rare[other].T).tocsr()
        common = (self._common[other] * self._common_weights).T
        for start in range(0, len(one), CHUNK):
            part = one[start : start + CHUNK]
            shared = (self._rare[part] @ others).toarray() + self._common[part] @ common
            union = self._sizes[part, None] + self._sizes[other][None, :] - shared
            yield slice(start, start + len(part)), shared / np.maximum(union, 1.0)

    def nearest(self, one: Positions, other: Positions) -> tuple[Positions, Similarities]:
        """For each row of `one` the position in `other` of the most similar row, and how similar it is."""
        at: Positions = np.zeros(len(one), dtype=np.int64)
        near: Similarities = np.zeros(len(one), dtype=np.float32)
        if len(other):
            for rows, block in self.similarities(one, other):
                at[rows] = block.argmax(axis=1)
                near[rows] = block.max(axis=1)
        return at, near


def _together(sets: Any) -> tuple[Any, Similarities]:
    """Grams that occur in the same rows, as one with a weight: [distinct grams, rows], and how many each stands for."""
    grams = sets.T.tocsr()
    numbers = np.random.default_rng(0).integers(0, 2**63, sets.shape[0], dtype=np.uint64)
    rows = np.add.reduceat(numbers[grams.indices], grams.indptr[:-1]) if grams.nnz else numbers[:0]
    _, first, count = np.unique(rows, return_index=True, return_counts=True)
    return grams[first], count.astype(np.float32)


def _grams(tokens: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Each run of five tokens as one number; a shorter source is one gram, so that it resembles its copies."""
    padded = np.concatenate([tokens, np.full(max(0, GRAM - len(tokens)), MIXER, dtype=np.uint64)])
    count = len(padded) - GRAM + 1
    numbers = np.zeros(count, dtype=np.uint64)
    for start in range(GRAM):
        numbers = numbers * MIXER + padded[start : start + count] + np.uint64(1)
    return numbers
