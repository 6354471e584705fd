"""Running sums and products along rows, and one long prefix sum."""

from __future__ import annotations

from kbench.generation.proposers.genome.families.rowwise.scan import cuda, triton

FAMILIES = (*triton.FAMILIES, *cuda.FAMILIES)
