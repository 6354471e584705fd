"""What the row-wise CUDA families share: cache hints, block reductions, exported instances.

`templates/packs.cu` loads and stores several elements at once through the hints; `templates/reductions.cu` has
`warp_reduce` and `block_reduce`, whose result every thread gets, for blocks of a power of two of at least 32 threads.
"""

from __future__ import annotations

LOADS = ("plain", "ldg", "ldcs", "ldcg")
"""Ways to read through the caches."""
STORES = ("plain", "stcs", "stcg", "stwt")
"""Ways to write through the caches."""
REDUCE_STYLES = ("shuffle", "tree", "serial")
"""Reductions of a block: shuffles twice, a tree in shared memory, or one thread over the warps' parts."""


def instances(vector: int, *functions: str) -> str:
    """The instances a module exports, for packs of `vector` elements and of one, as the inside of a tuple."""
    names = [f'"{name}<{width}>"' for name in functions for width in dict.fromkeys((vector, 1))]
    return ", ".join(names) + ("," if len(names) == 1 else "")


def without_blank_lines_inside(code: str) -> str:
    """Macros leave blank lines before indented code; those go."""
    lines = code.split("\n")
    return "\n".join(
        line
        for i, line in enumerate(lines)
        if line.strip() or i + 1 == len(lines) or not lines[i + 1].startswith((" ", "#pragma"))
    )
