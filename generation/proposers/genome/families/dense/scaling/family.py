"""A diagonal matrix times a matrix, and a matrix times a scalar."""

from __future__ import annotations

from kbench.generation.proposers.genome.families.dense.scaling import cuda, triton

FAMILIES = (*triton.FAMILIES, *cuda.FAMILIES)
