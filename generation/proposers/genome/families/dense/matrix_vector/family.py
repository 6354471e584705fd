"""A matrix times a vector."""

from __future__ import annotations

from kbench.generation.proposers.genome.families.dense.matrix_vector import cuda, triton

FAMILIES = (*triton.FAMILIES, *cuda.FAMILIES)
