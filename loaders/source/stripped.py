"""Comment-stripped sources, remembered: queries and comparisons ask for the same kernels again and again."""

from __future__ import annotations

import functools
import re

from kbench.loaders.source.strip import strip_comments

MAY_HOLD_COMMENTS = re.compile(
    r"""[#\r\ufeff]|\"{3}|'{3}|CudaModule|RawKernel|asm|load_inline|Program|(?:^|[;:])\s*[rRbBuUfF]{0,2}["']""",
    re.MULTILINE,
)
"""Without any of these a source is Python with neither comment, docstring nor C++; it is then not parsed, which is
what takes the time. Every Python comment has a #, and a docstring is a string that begins a statement."""


@functools.lru_cache(maxsize=65536)
def stripped(source: str) -> str:
    """The source without comments and docstrings."""
    if MAY_HOLD_COMMENTS.search(source) is None:
        return source
    return strip_comments(source)
