"""Depthwise-separable convolutions."""

from __future__ import annotations

from kbench.generation.proposers.genome.families.spatial.separable import cuda, triton

FAMILIES = (*triton.FAMILIES, *cuda.FAMILIES)
