"""Comment-stripped sources, remembered: queries and comparisons ask for the same kernels again and again."""

from __future__ import annotations

import functools

from kbench.loaders.source.strip import strip_comments


@functools.lru_cache(maxsize=65536)
def stripped(source: str) -> str:
    """The source without comments and docstrings."""
    return strip_comments(source)
