"""Second formulations of the layers of named models: einsums, loops and textbook formulas in float64."""

import math
from collections.abc import Callable
from typing import Any

import torch
from formulas import product, shifted, silu, wide
from torch import Tensor


def linear_gelu_fp16(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    y = product(x, weight) + wide(bias)
    return 0.5 * y * (1 + torch.erf(y / math.sqrt(2)))


def qkv_projection_bf16(x: Tensor, *parameters: Tensor) -> tuple[Tensor, ...]:
    together = product(x, torch.cat(parameters[:3])) + wide(torch.cat(parameters[3:]))
    return together.split([bias.numel() for bias in parameters[3:]], dim=1)


def lm_head_softcap_bf16(x: Tensor, weight: Tensor) -> Tensor:
    doubled = (product(x, weight) / 15).exp()
    return 30 * (doubled - 1) / (doubled + 1)


def fp8_linear_rowwise(x: Tensor, weight: Tensor, x_scale: Tensor, weight_scale: Tensor) -> Tensor:
    return product(wide(x) * wide(x_scale)[:, None], wide(weight) * wide(weight_scale)[:, None])


def fp8_linear_blockwise(x: Tensor, weight: Tensor, x_scale: Tensor, weight_scale: Tensor) -> Tensor:
    out = torch.zeros(x.shape[0], weight.shape[0], dtype=torch.float64)
    for column in range(weight.shape[0]):
        for start in range(0, x.shape[1], 128):
            part = wide(x[:, start : start + 128]) @ wide(weight[column, start : start + 128])
            out[:, column] += part * wide(x_scale[:, start // 128]) * float(weight_scale[column // 128, start // 128])
    return out


def int8_linear_relu(x: Tensor, weight: Tensor, x_scale: Tensor, weight_scale: Tensor, bias: Tensor) -> Tensor:
    exact = (x.long()[:, None, :] * weight.long()[None, :, :]).sum(-1)
    return (wide(exact) * wide(x_scale)[:, None] * wide(weight_scale) + wide(bias)).clamp_min(0)


def by_expert(x: Tensor, weight: Tensor, offsets: Tensor) -> Tensor:
    expert = torch.searchsorted(offsets.long(), torch.arange(x.shape[0]), right=True)
    return torch.einsum("rk,rkn->rn", wide(x), wide(weight)[expert])


def moe_swiglu_up(x: Tensor, weight: Tensor, offsets: Tensor) -> Tensor:
    both = by_expert(x, weight, offsets)
    width = both.shape[1] // 2
    return silu(both[:, :width]) * both[:, width:]


def moe_weighted_down(x: Tensor, weight: Tensor, offsets: Tensor, row_weight: Tensor) -> Tensor:
    return by_expert(wide(x) * wide(row_weight)[:, None], weight, offsets)


def conv3x3_fp16(x: Tensor, weight: Tensor) -> Tensor:
    by_pixel = x.permute(0, 2, 3, 1)
    parts = [
        torch.einsum("nyxc,oc->noyx", shifted(by_pixel, i - 1, j - 1, 1), wide(weight[:, :, i, j]))
        for i in range(3)
        for j in range(3)
    ]
    return torch.stack(parts).sum(0)


def conv1x1_residual_relu_fp16(x: Tensor, weight: Tensor, bias: Tensor, residual: Tensor) -> Tensor:
    mixed = torch.einsum("ncyx,oc->noyx", wide(x), wide(weight[:, :, 0, 0]))
    return (mixed + wide(bias)[:, None, None] + wide(residual)).clamp_min(0)


def layer_norm(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    centred = wide(x) - wide(x).mean(-1, keepdim=True)
    return centred / (centred.square().mean(-1, keepdim=True) + 1e-5).sqrt() * wide(weight) + wide(bias)


def layer_norm_residual(x: Tensor, residual: Tensor, weight: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
    hidden = wide(x) + wide(residual)
    return layer_norm(hidden, weight, bias), hidden


def qk_norm_rope(x: Tensor, weight: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    length = (wide(x).square().mean(-1, keepdim=True) + 1e-6).sqrt()
    half = x.shape[-1] // 2
    turned = wide(x) / length * wide(weight)
    angle = torch.complex(wide(cos), wide(sin))[:, None]
    both = torch.complex(turned[..., :half], turned[..., half:]) * angle
    return torch.cat((both.real, both.imag), dim=-1)


def token_log_probs(logits: Tensor, targets: Tensor) -> Tensor:
    return torch.stack([row[at] - torch.logsumexp(row, 0) for row, at in zip(wide(logits), targets, strict=True)])


CHECKS: dict[str, Callable[..., Any]] = {
    **{check.__name__: check for check in (
        linear_gelu_fp16, qkv_projection_bf16,
        lm_head_softcap_bf16,
        fp8_linear_rowwise, fp8_linear_blockwise, int8_linear_relu,
        moe_swiglu_up, moe_weighted_down,
        conv3x3_fp16, conv1x1_residual_relu_fp16,
        layer_norm, layer_norm_residual, qk_norm_rope, token_log_probs,
    )},
    "linear_residual_bf16": lambda x, weight, residual: wide(residual) + product(x, weight),
    "linear_decode_bf16": lambda x, weight: torch.stack([(wide(weight) * wide(row)).sum(1) for row in x]),
    "swiglu_up_bf16": lambda x, gate_weight, up_weight: silu(product(x, gate_weight)) * product(x, up_weight),
    "int8_weight_linear": lambda x, weight, scale: product(x, wide(weight) * wide(scale)[:, None]),
}  # fmt: skip
"""Independent formulation by problem id: takes the problem's inputs, gives its outputs (floats in float64)."""
