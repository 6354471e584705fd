"""CUDA blocks as lines."""

from __future__ import annotations

from collections.abc import Sequence

from kbench.generation.proposers.genome.families.spatial.parts.lines import indent

HEADER = ["import torch", "", "from kbench.harness.cuda import CudaModule", ""]


def block(head: str, body: Sequence[str]) -> list[str]:
    """A braced block."""
    return [head + " {", *indent(body), "}"]


def nested(heads: Sequence[str], body: Sequence[str]) -> list[str]:
    """Braced blocks inside one another."""
    lines = list(body)
    for head in reversed(heads):
        pragma, _, head_text = head.rpartition("\n")
        lines = [*([pragma] if pragma else []), *block(head_text, lines)]
    return lines
