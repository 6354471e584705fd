"""Products with packed four-bit weights."""

from __future__ import annotations

from kbench.generation.proposers.genome.families.dense.int4 import cuda, triton

FAMILIES = (*triton.FAMILIES, *cuda.FAMILIES)
