"""CUDA kernels of the matmul problems."""

from __future__ import annotations

from kbench.generation.proposers.genome.families import gemm_cuda, matrix_vector_cuda, scaling_cuda
from kbench.generation.proposers.genome.families.product import PRODUCTS

FAMILIES = (
    *gemm_cuda.families("matmul", tuple(p for p in PRODUCTS if p.startswith("matmul"))),
    matrix_vector_cuda.FAMILY,
    scaling_cuda.FAMILY,
)
