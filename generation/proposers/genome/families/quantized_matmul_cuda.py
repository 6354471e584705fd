"""CUDA kernels of grouped and quantised products."""

from __future__ import annotations

from kbench.generation.proposers.genome.families import gemm_cuda, int4_cuda

FAMILIES = (*gemm_cuda.families("quantized", ("grouped_gemm", "int8_gemm", "fp8_gemm")), *int4_cuda.FAMILIES)
