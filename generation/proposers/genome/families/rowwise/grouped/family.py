"""Norms by statistics of many rows at once: batch, group, instance and Frobenius norm."""

from __future__ import annotations

from kbench.generation.proposers.genome.families.rowwise.grouped import cuda, triton

FAMILIES = (*triton.FAMILIES, *cuda.FAMILIES)
