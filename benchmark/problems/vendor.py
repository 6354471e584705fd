"""Vendor calls: which library call does a whole problem, and how it is reached through PyTorch.

A problem is absent where no library has it in one call: a product with steps around it that PyTorch runs one by one is
eager PyTorch, not a vendor's kernel. Every call takes the problem's inputs and gives its outputs.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

from kbench.benchmark.problems.definition import ProblemDefinition
from kbench.benchmark.problems.lazy_torch import torch

Call = Callable[..., Any]

CUBLAS = frozenset({
    "matmul_square", "matmul_standard", "matmul_batched", "matmul_vector", "matmul_large_k", "matmul_small_k",
    "matmul_irregular", "matmul_tall_skinny", "matmul_tensor3d", "matmul_symmetric", "matmul_transposed_both",
    "linear_decode_bf16", "linear_dgrad",
})  # fmt: skip
"""Problems whose reference is one call of cuBLAS."""
CUDNN = frozenset({
    "conv1d", "conv1d_dilated_strided", "conv2d_square", "conv2d_asymmetric", "conv3d", "depthwise_conv2d",
    "pointwise_conv2d", "transposed_conv1d", "transposed_conv2d", "transposed_conv3d_grouped", "conv3x3_fp16",
    "conv3x3_nhwc", "conv3x3_wgrad_nhwc", "conv3x3_stride2_dgrad_nhwc", "depthwise7x7_nhwc",
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


def _flash_backward(
    q: Any, k: Any, v: Any, o: Any, lse: Any, do: Any, last: Any = None, *, causal: bool = True, packed: bool = False
) -> Any:
    """FlashAttention's backward pass, which takes what the problem gives: saved tensors and row sums."""
    window = -1 if packed or last is None else last - 1
    starts, longest = (last, q.shape[0]) if packed else (None, q.shape[2])
    if not packed:
        q, k, v, o, do = (x.transpose(1, 2) for x in (q, k, v, o, do))
    state = torch.zeros(2, dtype=torch.uint64, device=q.device)
    gradients = torch.ops.aten._flash_attention_backward(
        do, q, k, v, o, lse, starts, starts, longest, longest, 0.0, causal, state, state[:0],
        window_size_left=window, window_size_right=0 if causal else -1,
    )  # fmt: skip
    return tuple(gradients) if packed else tuple(x.transpose(1, 2).contiguous() for x in gradients)


def _flash_packed(q: Any, k: Any, v: Any, starts: Any) -> Any:
    tokens = q.shape[0]
    return torch.ops.aten._flash_attention_forward(q, k, v, starts, starts, tokens, tokens, 0.0, True, False)[0]


def _scaled_grouped_mm(x: Any, weight: Any, offsets: Any, x_scale: Any, weight_scale: Any) -> Any:
    return torch._scaled_grouped_mm(
        x, weight.transpose(1, 2), x_scale, weight_scale, offs=offsets, out_dtype=torch.bfloat16
    )


LIBRARIES: Mapping[str, Mapping[str, Call]] = {
    "attention_backward": {"FlashAttention": functools.partial(_flash_backward, causal=False)},
    "attention_backward_causal": {"FlashAttention": _flash_backward},
    "attention_backward_gqa": {"FlashAttention": _flash_backward},
    "attention_backward_window": {"FlashAttention": _flash_backward},
    "attention_backward_varlen": {"FlashAttention": functools.partial(_flash_backward, packed=True)},
    "attention_varlen_prefill": {"FlashAttention": _flash_packed},
    "grouped_fp8_linear": {"CUTLASS": _scaled_grouped_mm},
    "grouped_wgrad": {"CUTLASS": lambda x, dy, offsets: torch._grouped_mm(dy.t(), x, offs=offsets)},
    # cuBLASLt reads the scales of x with rows next to each other.
    "fp8_block_decode": {
        "cuBLASLt": lambda x, weight, x_scale, weight_scale: torch._scaled_mm(
            x, weight.t(), x_scale.t().contiguous().t(), weight_scale.t(), out_dtype=torch.bfloat16
        )
    },
}
"""Calls of other libraries that PyTorch carries, by problem."""


def vendor_calls(problem: ProblemDefinition) -> Mapping[str, Call]:
    """Calls that do the whole problem, by library; empty when there is none."""
    if problem.id in LIBRARIES:
        return LIBRARIES[problem.id]
    if problem.id in CUBLAS:
        return {"cuBLAS": problem.reference}
    if problem.id in EPILOGUES:
        return {"cuBLASLt": EPILOGUES[problem.id]}
    if problem.id in CUDNN:
        return {"cuDNN": functools.partial(_autotuned, problem.reference)}
    if problem.id in ATTENTION:
        backends = {"FlashAttention": "FLASH_ATTENTION", "cuDNN": "CUDNN_ATTENTION"}
        return {one: functools.partial(_attending, problem.reference, name) for one, name in backends.items()}
    return {"cuFFT": problem.reference} if problem.id == "fft_butterfly" else {}


def _autotuned(reference: Call, *inputs: Any) -> Any:
    with torch.backends.cudnn.flags(enabled=True, benchmark=True, deterministic=False, allow_tf32=False):
        return reference(*inputs)


def _attending(reference: Call, backend: str, *inputs: Any) -> Any:
    from torch.nn.attention import SDPBackend, sdpa_kernel

    with sdpa_kernel(getattr(SDPBackend, backend)):
        return reference(*inputs)
