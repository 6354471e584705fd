"""Triton kernels of the linear layers with an epilogue."""

from __future__ import annotations

from kbench.generation.proposers.genome.families import gemm_triton
from kbench.generation.proposers.genome.families.product import PRODUCTS

FAMILIES = (gemm_triton.family("linear_triton_tiled", tuple(p for p in PRODUCTS if p.startswith("linear"))),)
