"""Norms of contiguous rows: softmax, log-softmax, L2, RMS with residual, instance and group norm."""

from __future__ import annotations

from kbench.generation.proposers.genome.families.rowwise.norms import cuda, triton

FAMILIES = (*triton.FAMILIES, *cuda.FAMILIES)
