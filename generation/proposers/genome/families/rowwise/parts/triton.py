"""What the row-wise Triton families share: cache hints, and the layout of the rendered code."""

from __future__ import annotations

LOADS = {
    "plain": "", "ca": ', cache_modifier=".ca"', "cg": ', cache_modifier=".cg"',
    "first": ', eviction_policy="evict_first"', "last": ', eviction_policy="evict_last"',
}  # fmt: skip
STORES = {
    "plain": "", "cs": ', cache_modifier=".cs"', "cg": ', cache_modifier=".cg"',
    "first": ', eviction_policy="evict_first"',
}  # fmt: skip


def tidy(code: str) -> str:
    """Macros leave blank lines; functions get two before them and nothing else any."""
    lines = [line for line in code.split("\n") if line.strip()]
    spaced = [f"\n\n{line}" if line.startswith(("@", "def run")) and i else line for i, line in enumerate(lines)]
    return "\n".join(spaced) + "\n"
