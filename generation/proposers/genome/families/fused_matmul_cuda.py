"""CUDA kernels of the linear problems."""

from __future__ import annotations

from kbench.generation.proposers.genome.families import gemm_cuda
from kbench.generation.proposers.genome.families.product import PRODUCTS

FAMILIES = gemm_cuda.families("linear", tuple(p for p in PRODUCTS if p.startswith("linear")))
