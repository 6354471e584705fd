"""Triton functions and loops as lines."""

from __future__ import annotations

from collections.abc import Sequence

from kbench.generation.proposers.genome.families.spatial.parts.lines import indent

HEADER = ["import torch", "import triton", "import triton.language as tl", "", ""]


def jit(signature: str, body: Sequence[str], unspecialized: Sequence[str] = ()) -> list[str]:
    """A Triton function and two blank lines; `unspecialized` arguments never cause a second compilation."""
    names = ", ".join(f'"{name}"' for name in unspecialized)
    mark = f"@triton.jit(do_not_specialize=[{names}])" if names else "@triton.jit"
    return [mark, f"def {signature}:", *indent(body), "", ""]


def nested(loops: Sequence[str], body: Sequence[str]) -> list[str]:
    """Loops inside one another around a body."""
    lines = list(body)
    for loop in reversed(loops):
        lines = [loop, *indent(lines)]
    return lines
