"""Tiled products: matmul, linear layers with their epilogues, grouped and quantised products."""

from __future__ import annotations

from kbench.generation.proposers.genome.families.dense.tiled import cuda, triton
from kbench.generation.proposers.genome.families.dense.tiled.product import PRODUCTS

MATMUL = tuple(p for p in PRODUCTS if p.startswith("matmul"))
LINEAR = tuple(p for p in PRODUCTS if p.startswith("linear"))
QUANTIZED = ("grouped_gemm", "int8_gemm", "fp8_gemm")

FAMILIES = (
    triton.family("matmul_triton_tiled", MATMUL),
    triton.family("linear_triton_tiled", LINEAR),
    triton.family("quantized_triton_tiled", QUANTIZED),
    *cuda.families("matmul", MATMUL),
    *cuda.families("linear", LINEAR),
    *cuda.families("quantized", QUANTIZED),
)
