"""Vendor calls: which library call does a whole problem, and how it is reached through PyTorch.

A problem is absent where no library has it in one call: a product with steps around it that PyTorch runs one by one is
eager PyTorch, not a vendor's kernel. Every call takes the problem's inputs and gives its outputs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from kbench.benchmark.problems.definition import ProblemDefinition
from kbench.benchmark.problems.lazy_torch import torch

Call = Callable[..., Any]

CUBLAS = frozenset({
    "matmul_square", "matmul_standard", "matmul_batched", "matmul_vector", "matmul_large_k", "matmul_small_k",
    "matmul_irregular", "matmul_tall_skinny", "matmul_tensor3d", "matmul_symmetric", "matmul_transposed_both",
    "linear_decode_bf16",
})  # fmt: skip
"""Problems whose reference is one call of cuBLAS."""
CUDNN = frozenset({
    "conv1d", "conv1d_dilated_strided", "conv2d_square", "conv2d_asymmetric", "conv3d", "depthwise_conv2d",
    "pointwise_conv2d", "transposed_conv1d", "transposed_conv2d", "transposed_conv3d_grouped", "conv3x3_fp16",
})  # fmt: skip
"""Problems whose reference is one call of cuDNN, which may choose its algorithm by trying them."""
ATTENTION = frozenset({
    "attention_prefill", "attention_decode", "gqa_decode", "causal_attention", "causal_gqa_attention",
    "cross_attention_fp16",
})  # fmt: skip
"""Problems whose reference is one call of scaled_dot_product_attention without a mask."""


def _scaled_mm(x: Any, weight: Any, x_scale: Any, weight_scale: Any) -> Any:
    return torch._scaled_mm(x, weight.t(), x_scale[:, None], weight_scale[None, :], out_dtype=torch.bfloat16)


EPILOGUES: Mapping[str, Call] = {
    "linear_gelu_fp16": lambda x, weight, bias: torch._addmm_activation(bias, x, weight.t(), use_gelu=True),
    "linear_add_relu": lambda x, weight, added: torch._addmm_activation(added, x, weight.t()),
    "linear_residual_bf16": lambda x, weight, residual: torch.addmm(residual, x, weight.t()),
    "fp8_gemm": _scaled_mm,
    "fp8_linear_rowwise": _scaled_mm,
}
"""Products with what cuBLASLt does after them in the same call."""


def vendor_calls(problem: ProblemDefinition) -> Mapping[str, Call]:
    """Calls that do the whole problem, by library; empty when there is none."""
    if problem.id in CUBLAS:
        return {"cuBLAS": problem.reference}
    if problem.id in EPILOGUES:
        return {"cuBLASLt": EPILOGUES[problem.id]}
    if problem.id in CUDNN:
        return {"cuDNN": _autotuned(problem.reference)}
    if problem.id in ATTENTION:
        backends = {"FlashAttention": "FLASH_ATTENTION", "cuDNN": "CUDNN_ATTENTION"}
        return {library: _attending(problem.reference, name) for library, name in backends.items()}
    return {"cuFFT": problem.reference} if problem.id == "fft_butterfly" else {}


def _autotuned(reference: Call) -> Call:
    def call(*inputs: Any) -> Any:
        with torch.backends.cudnn.flags(enabled=True, benchmark=True, deterministic=False, allow_tf32=False):
            return reference(*inputs)

    return call


def _attending(reference: Call, backend: str) -> Call:
    def call(*inputs: Any) -> Any:
        from torch.nn.attention import SDPBackend, sdpa_kernel

        with sdpa_kernel(getattr(SDPBackend, backend)):
            return reference(*inputs)

    return call
