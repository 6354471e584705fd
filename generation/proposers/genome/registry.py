"""The explicit list of genome families."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Mapping
from types import MappingProxyType

from kbench.generation.proposers.genome.family import Family
from kbench.schemas import Backend

FAMILY_MODULES: tuple[str, ...] = (
    "matmul_triton", "fused_matmul_triton", "quantized_matmul_triton",
    "matmul_cuda", "fused_matmul_cuda", "quantized_matmul_cuda",
    "elementwise_triton", "elementwise_cuda", "rowwise_triton", "grouped_triton", "columns_triton",
    "scan_triton", "loss_triton", "layernorm_backward_triton", "rowwise_cuda", "grouped_cuda", "columns_cuda",
    "scan_cuda", "prefix_sum_cuda", "loss_cuda", "layernorm_backward_cuda",
    "convolution_triton", "convolution_cuda", "separable_triton", "separable_cuda", "window_triton", "window_cuda",
    "stencil_triton", "stencil_cuda", "convolution_halo_cuda", "window_segment_cuda",
    "gather_triton", "gather_cuda", "scatter_triton", "scatter_cuda", "histogram_triton", "histogram_cuda",
    "transpose_triton", "transpose_cuda", "sort_triton", "sort_cuda", "top_k_triton", "top_k_cuda",
    "routing_triton", "routing_cuda", "sampling_triton", "sampling_cuda", "expert_order_triton", "expert_order_cuda",
    "prefill_triton", "prefill_cuda", "decode_triton", "decode_cuda", "dequant_triton", "dequant_cuda",
    "cross_entropy_triton", "cross_entropy_cuda", "fp8_quant_triton", "fp8_quant_cuda",
    "delta_chunks_triton", "delta_states_triton", "delta_cuda",
    "spmv_triton", "small_solve_triton", "fft_triton", "cluster_triton", "tridiagonal_triton", "gravity_triton",
    "state_scan_triton", "state_scan_cuda", "spmv_cuda", "small_solve_cuda", "fft_cuda", "cluster_cuda",
    "tridiagonal_cuda", "gravity_cuda", "triangle_triton", "triangle_cuda",
)  # fmt: skip
"""Modules of kbench.generation.proposers.genome.families, each with a tuple FAMILIES."""


@functools.cache
def families() -> Mapping[str, Family]:
    """Every family by name."""
    found: dict[str, Family] = {}
    for name in FAMILY_MODULES:
        module = importlib.import_module(f"kbench.generation.proposers.genome.families.{name}")
        for family in module.FAMILIES:
            if family.name in found:
                raise ValueError(f"genome family {family.name!r} is declared twice, again in {name}.py")
            found[family.name] = family
    return MappingProxyType(found)


def families_for(problem_id: str, backend: Backend) -> tuple[Family, ...]:
    """The families that can solve a problem in a backend."""
    return tuple(f for f in families().values() if f.backend is backend and problem_id in f.problems)
