"""Convolutions, plain, transposed, grouped and depthwise."""

from __future__ import annotations

from kbench.generation.proposers.genome.families.spatial.convolution import cuda, triton

FAMILIES = (*triton.FAMILIES, *cuda.FAMILIES)
