"""Cheap numeric features of kernel text: hashed counts of tokens and of name-with-number pairs."""

from __future__ import annotations

import functools
import re
import zlib
from collections import Counter
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Matrix = npt.NDArray[np.float64]

WIDTH = 512
TOKEN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*|\d+(?:\.\d+)?")
COMMENT = re.compile(r"#(?!\s*(?:include|define|pragma|if|else|endif|undef)\b)[^\n]*|//[^\n]*|/\*.*?\*/", re.DOTALL)
"""Comments of Python and C++, found quickly: a `#` inside a string costs a feature, a full parse costs the search."""


@functools.lru_cache(maxsize=20_000)
def _counts(source: str) -> Counter[int]:
    counts: Counter[int] = Counter()
    name = ""
    for token in TOKEN.findall(COMMENT.sub(" ", source)):
        # A number means little without the name before it: BLOCK 128 and num_warps 128 are different facts.
        word = f"{name}={token}" if token[0].isdigit() else token
        name = name if token[0].isdigit() else token
        counts[zlib.crc32(word.encode()) % WIDTH] += 1
    return counts


def features(sources: Sequence[str]) -> Matrix:
    """One row of log counts for each source; comments do not count."""
    matrix = np.zeros((len(sources), WIDTH))
    for row, source in enumerate(sources):
        counts = _counts(source)
        matrix[row, list(counts)] = list(counts.values())
    logs: Matrix = np.log1p(matrix)
    return logs
