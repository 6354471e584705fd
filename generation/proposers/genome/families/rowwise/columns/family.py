"""Reductions of the middle dimension of a (batch, length, width) tensor, and RMS norm over channels."""

from __future__ import annotations

from kbench.generation.proposers.genome.families.rowwise.columns import cuda, triton

FAMILIES = (*triton.FAMILIES, *cuda.FAMILIES)
