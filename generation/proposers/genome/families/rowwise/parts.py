"""What the row-wise families share: cache hints, reductions of a block, exported instances, and blank lines."""

from __future__ import annotations

TRITON_LOADS = {
    "plain": "", "ca": ', cache_modifier=".ca"', "cg": ', cache_modifier=".cg"',
    "first": ', eviction_policy="evict_first"', "last": ', eviction_policy="evict_last"',
}  # fmt: skip
TRITON_STORES = {
    "plain": "", "cs": ', cache_modifier=".cs"', "cg": ', cache_modifier=".cg"',
    "first": ', eviction_policy="evict_first"',
}  # fmt: skip


def tidy(code: str) -> str:
    """Macros leave blank lines; functions get two before them and nothing else any."""
    lines = [line for line in code.split("\n") if line.strip()]
    spaced = [f"\n\n{line}" if line.startswith(("@", "def run")) and i else line for i, line in enumerate(lines)]
    return "\n".join(spaced) + "\n"


CUDA_LOADS = ("plain", "ldg", "ldcs", "ldcg")
"""Ways to read through the caches."""
CUDA_STORES = ("plain", "stcs", "stcg", "stwt")
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
