"""Novelty: whether a proposal repeats a measured kernel, so that no GPU time is spent on learning nothing."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import NamedTuple

from kbench.generation.search.state import Node
from kbench.loaders.source.strip import strip_comments
from kbench.loaders.source.tokens import GRAM, TOKEN

SIMILAR = 0.95
"""Similarity from which a kernel repeats another."""


class Text(NamedTuple):
    """What of a kernel's text is compared."""

    stripped: str
    """The text without comments."""
    grams: frozenset[tuple[str, ...]]
    """Its runs of five tokens, every number masked."""


def near_duplicate(source: str, measured: Iterable[Node]) -> str | None:
    """Which measured kernel a text repeats, in words; None when it repeats none.

    The text of a failed kernel is repeated only when it is equal but for comments: a small change may be its repair.
    """
    own = read_text(source)
    for node in measured:
        other = read_text(node.source)
        if other.stripped == own.stripped:
            return f"{node.kernel_id} is the same but for comments"
        alike = similarity(own, other) if node.reward is not None else 0.0
        if alike >= SIMILAR:
            return f"{node.kernel_id} has similarity {alike:.3f} with numbers masked"
    return None


@functools.lru_cache(maxsize=256)
def read_text(source: str) -> Text:
    """A kernel's text made comparable; the kernels of a problem are compared over and over."""
    stripped = strip_comments(source)
    tokens = ["0" if piece[0].isdigit() else piece for piece in TOKEN.findall(stripped)]
    return Text(stripped, frozenset(zip(*(tokens[start:] for start in range(GRAM)), strict=False)))


def similarity(one: Text, other: Text) -> float:
    """The Jaccard similarity of two texts' runs of tokens; 0 where both have none."""
    union = len(one.grams | other.grams)
    return len(one.grams & other.grams) / union if union else 0.0
