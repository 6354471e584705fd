"""Pooling windows."""

from __future__ import annotations

from kbench.generation.proposers.genome.families.spatial.window import cuda, segment_cuda, triton

FAMILIES = (*triton.FAMILIES, *cuda.FAMILIES, *segment_cuda.FAMILIES)
