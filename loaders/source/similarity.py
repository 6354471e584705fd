"""How alike two kernels are: Jaccard similarity of their token 5-grams, without comments and with numbers masked."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from kbench.loaders.source.tokens import GRAM, TOKEN

MIXER = np.uint64(0x9E3779B97F4A7C15)
"""Odd, so that products modulo 2**64 keep runs of tokens apart."""
CHUNK = 256
"""Rows compared at once: a block of similarities stays within the processor's cache and little memory."""

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
        from scipy.sparse import csr_matrix

        vocabulary = Vocabulary()
        rows: dict[bytes, int] = {}
        sets: list[npt.NDArray[np.uint64]] = []
        self.row: Positions = np.zeros(len(sources), dtype=np.int64)
        """Row of each source."""
        for at, source in enumerate(sources):
            tokens = np.array([vocabulary[token] for token in TOKEN.findall(source)], dtype=np.uint64)
            self.row[at] = rows.setdefault(tokens.tobytes(), len(rows))
            if len(sets) < len(rows):
                sets.append(np.unique(_grams(tokens)))
        sizes = [len(one) for one in sets]
        grams, columns = np.unique(np.concatenate([np.zeros(0, np.uint64), *sets]), return_inverse=True)
        ends = np.cumsum([0, *sizes])
        filled = np.ones(len(columns), np.float32)
        self._sets: Any = csr_matrix((filled, columns, ends), shape=(len(sets), len(grams)))
        self._sizes = np.array(sizes, dtype=np.float32)

    def similarities(self, one: Positions, other: Positions) -> Iterator[tuple[slice, Similarities]]:
        """Similarity of every row of `one` to every row of `other`, a block of rows of `one` at a time."""
        others = self._sets[other].T.tocsr()
        for start in range(0, len(one), CHUNK):
            part = one[start : start + CHUNK]
            shared = (self._sets[part] @ others).toarray()
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


def _grams(tokens: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Each run of five tokens as one number; a shorter source is one gram, so that it resembles its copies."""
    padded = np.concatenate([tokens, np.full(max(0, GRAM - len(tokens)), MIXER, dtype=np.uint64)])
    count = len(padded) - GRAM + 1
    found = np.zeros(count, dtype=np.uint64)
    for start in range(GRAM):
        found = found * MIXER + padded[start : start + count] + np.uint64(1)
    return found
