"""Losses: a sum over everything, or one value per row, joined into one number."""

from __future__ import annotations

from kbench.generation.proposers.genome.families.rowwise.loss import cuda, triton

FAMILIES = (*triton.FAMILIES, *cuda.FAMILIES)
