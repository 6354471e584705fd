"""Convolutions, plain, transposed, grouped and depthwise."""

from __future__ import annotations

from kbench.generation.proposers.genome.families.spatial.convolution import cuda, halo_cuda, triton

FAMILIES = (*triton.FAMILIES, *cuda.FAMILIES, *halo_cuda.FAMILIES)
