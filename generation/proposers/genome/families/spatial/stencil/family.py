"""Stencils over grids."""

from __future__ import annotations

from kbench.generation.proposers.genome.families.spatial.stencil import cuda, triton

FAMILIES = (*triton.FAMILIES, *cuda.FAMILIES)
