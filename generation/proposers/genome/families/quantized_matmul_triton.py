"""Triton kernels of grouped and quantised products."""

from __future__ import annotations

from kbench.generation.proposers.genome.families import gemm_triton, int4_triton

FAMILIES = (
    gemm_triton.family("quantized_triton_tiled", ("grouped_gemm", "int8_gemm", "fp8_gemm")),
    int4_triton.FAMILY,
)
