"""Triton kernels of the matmul problems."""

from __future__ import annotations

from kbench.generation.proposers.genome.families import gemm_triton, matrix_vector_triton, scaling_triton
from kbench.generation.proposers.genome.families.product import PRODUCTS

FAMILIES = (
    gemm_triton.family("matmul_triton_tiled", tuple(p for p in PRODUCTS if p.startswith("matmul"))),
    matrix_vector_triton.FAMILY,
    scaling_triton.FAMILY,
)
