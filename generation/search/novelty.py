"""Novelty: whether a proposal repeats a measured kernel, so that no GPU time is spent on learning nothing."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable

from kbench.generation.search.state import Node
from kbench.loaders.source.strip import strip_comments

SIMILAR = 0.95
"""Similarity from which a kernel repeats another."""
GRAM = 5
TOKEN = re.compile(r"[A-Za-z_]\w*|\d[\w.]*|\S")


def near_duplicate(source: str, measured: Iterable[Node]) -> str | None:
    """Which measured kernel a text repeats, in words; None when it repeats none.

    The text of a failed kernel is repeated only when it is equal but for comments: a small change may be its repair.
    """
    stripped, own = strip_comments(source), grams(source)
    for node in measured:
        if strip_comments(node.source) == stripped:
            return f"{node.kernel_id} is the same but for comments"
        if node.reward is None:
            continue
        alike = similarity(own, grams(node.source))
        if alike >= SIMILAR:
            return f"{node.kernel_id} has similarity {alike:.3f} with numbers masked"
    return None


@functools.lru_cache(maxsize=256)
def grams(source: str) -> frozenset[tuple[str, ...]]:
    """The runs of five tokens in a text without comments, every number masked."""
    tokens = ["0" if piece[0].isdigit() else piece for piece in TOKEN.findall(strip_comments(source))]
    return frozenset(zip(*(tokens[start:] for start in range(GRAM)), strict=False))


def similarity(one: frozenset[tuple[str, ...]], other: frozenset[tuple[str, ...]]) -> float:
    """The Jaccard similarity of two sets; 0 where both are empty."""
    union = len(one | other)
    return len(one & other) / union if union else 0.0
