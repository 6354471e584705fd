"""Independent formulations of dense algebra and of the layers of named models: sums, loops and textbook formulas."""

import math
from collections.abc import Callable
from typing import Any

import torch
from formulas import by_expert, conv_nhwc, gelu, low_high, product, silu, spread, swiglu, turned
from torch import Tensor


def product_of_columns(a: Tensor, b: Tensor) -> Tensor:
    return torch.einsum("...mk,kn->...mn", a, b)


def by_rows(a: Tensor, b: Tensor) -> Tensor:
    """Each row of the output as a weighted sum of rows of B, skipping zero weights."""
    return torch.stack([sum((row[k] * b[k] for k in row.nonzero().flatten()), torch.zeros(b.shape[1])) for row in a])


def linear(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return product(x, weight) + bias


def scaled(x: Tensor, weight: Tensor, x_scale: Tensor, weight_scale: Tensor) -> Tensor:
    return product(x * x_scale[:, None], weight * weight_scale[:, None])


def mish(x: Tensor) -> Tensor:
    return x * x.exp().log1p().tanh()


def swish_sum_group_norm(x: Tensor, weight: Tensor, bias: Tensor, added: Tensor, gamma: Tensor, beta: Tensor) -> Tensor:
    groups = (silu(linear(x, weight, bias)) + added).unflatten(1, (-1, 32))
    centred = groups - groups.mean(2, keepdim=True)
    return (centred / (centred.square().mean(2, keepdim=True) + 1e-5).sqrt()).flatten(1) * gamma + beta


def logsumexp_leaky_gelu(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    v = linear(x, weight, bias).exp().sum(1, keepdim=True).log()
    return gelu(gelu(torch.where(v > 0, v, 1e-4 * v)))


def gelu_softmax(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    powers = gelu(linear(x, weight, bias)).exp()
    return powers / powers.sum(1, keepdim=True)


def qkv_projection(x: Tensor, *parameters: Tensor) -> tuple[Tensor, ...]:
    together = linear(x, torch.cat(parameters[:3]), torch.cat(parameters[3:]))
    return together.split([bias.numel() for bias in parameters[3:]], dim=1)


def conv1x1_residual_relu(x: Tensor, weight: Tensor, bias: Tensor, residual: Tensor) -> Tensor:
    mixed = torch.einsum("ncyx,oc->noyx", x, weight[:, :, 0, 0])
    return (mixed + bias[:, None, None] + residual).clamp_min(0)


def layer_norm(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    centred = x - x.mean(-1, keepdim=True)
    return centred / (centred.square().mean(-1, keepdim=True) + 1e-5).sqrt() * weight + bias


def layer_norm_residual(x: Tensor, residual: Tensor, weight: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
    return layer_norm(x + residual, weight, bias), x + residual


def qk_norm_rope(x: Tensor, weight: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    unit = x / (x.square().mean(-1, keepdim=True) + 1e-6).sqrt() * weight
    return turned(unit, cos[:, None], sin[:, None])


def token_log_probs(logits: Tensor, targets: Tensor) -> Tensor:
    return torch.stack([row[at] - math.log(row.exp().sum()) for row, at in zip(logits, targets, strict=True)])


CHECKS: dict[str, Callable[..., Any]] = {
    **dict.fromkeys(("square", "vector", "large_k", "tall_skinny", "tensor3d"), product_of_columns),
    **dict.fromkeys(("standard", "small_k", "irregular", "upper_triangular", "lower_triangular"), by_rows),
    **dict.fromkeys(("symmetric", "transposed_both"), lambda a, b: torch.einsum("km,nk->mn", a, b)),
    "scalar": lambda a, s: a + a * (s - 1.0),
    "batched": lambda a, b: torch.stack([product_of_columns(*both) for both in zip(a, b, strict=True)]),
    "diagonal": lambda d, b: product_of_columns(torch.diag(d), b),
}
CHECKS = {f"matmul_{name}": check for name, check in CHECKS.items()} | {
    "linear_subtract_multiply_relu": lambda *given: (1.5 * linear(*given) - 3.0).clamp_min(0),
    "linear_multiply_leaky_relu": lambda *given: linear(*given).mul(2).clamp_min(0) + 0.2 * linear(*given).clamp_max(0),
    "linear_swish_sum_group_norm": swish_sum_group_norm,
    "linear_sigmoid_sum": lambda *given: (1 / (1 + (-linear(*given)).exp())).sum(1, keepdim=True),
    "linear_logsumexp_leaky_gelu": logsumexp_leaky_gelu,
    "linear_gelu_softmax": gelu_softmax,
    "linear_mish_mish": lambda *given: mish(mish(linear(*given))),
    "linear_add_relu": lambda *given: linear(*given).clamp_min(0),
    "linear_divide_gelu": lambda *given: gelu(0.1 * linear(*given)),
    "linear_gelu_fp16": lambda *given: gelu(linear(*given)),
    "grouped_gemm": by_expert,
    **dict.fromkeys(("int8_gemm", "fp8_gemm", "fp8_linear_rowwise"), scaled),
    "int4_weight_gemm": lambda x, packed, scale: product(x, (low_high(packed) - 8) * spread(scale, 128)),
    "qkv_projection_bf16": qkv_projection,
    "lm_head_softcap_bf16": lambda x, weight: 30 - 60 / ((product(x, weight) / 15).exp() + 1),
    "int8_linear_relu": lambda x, w, x_scale, scale, b: (product(x, w) * x_scale[:, None] * scale + b).clamp_min(0),
    "moe_swiglu_up": lambda x, weight, offsets: swiglu(by_expert(x, weight, offsets)),
    "moe_weighted_down": lambda x, weight, offsets, share: by_expert(x * share[:, None], weight, offsets),
    "conv3x3_fp16": lambda x, w: conv_nhwc(x.permute(0, 2, 3, 1), w.permute(0, 2, 3, 1)).permute(0, 3, 1, 2),
    "conv1x1_residual_relu_fp16": conv1x1_residual_relu,
    "layer_norm": layer_norm,
    "layer_norm_residual": layer_norm_residual,
    "qk_norm_rope": qk_norm_rope,
    "token_log_probs": token_log_probs,
    "linear_residual_bf16": linear,
    "linear_decode_bf16": lambda x, weight: torch.stack([(weight * row).sum(1) for row in x]),
    "swiglu_up_bf16": lambda x, gate_weight, up_weight: silu(product(x, gate_weight)) * product(x, up_weight),
    "int8_weight_linear": lambda x, weight, scale: product(x, weight * scale[:, None]),
}
"""Independent formulation by problem id: takes the problem's inputs, floats in float64, and gives its outputs."""
