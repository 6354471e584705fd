"""Independent formulations of products with narrow operands, of expert layers and of linear gradients."""

from collections.abc import Callable
from typing import Any

import torch
from formulas import gelu, low_high, product, rounded, silu, spread, swiglu
from torch import Tensor


def act_order(x: Tensor, packed: Tensor, scale: Tensor, group: Tensor) -> Tensor:
    digits = torch.stack([packed.long() % 2**32 // 16**i % 16 - 8 for i in range(8)], 1).flatten(0, 1)
    return x @ (digits * scale[group.long()])


def codebook(x: Tensor, codes: Tensor, books: Tensor, scale: Tensor) -> Tensor:
    rows = [torch.cat([books[0, a] + books[1, b] for a, b in row]) for row in codes.long().tolist()]
    return product(x, torch.stack(rows)) * scale


def ternary(x: Tensor, packed: Tensor, x_scale: Tensor, weight_scale: Tensor) -> Tensor:
    digits = torch.stack([packed.long() // 4**i % 4 - 1 for i in range(4)], -1).flatten(1)
    return product(x, digits) * x_scale[:, None] * weight_scale


def by_column(x: Tensor, weight: Tensor, scale: Tensor) -> Tensor:
    return product(x, weight * scale[:, None])


def block_product(x: Tensor, weight: Tensor, x_scale: Tensor, weight_scale: Tensor) -> Tensor:
    return product(x * spread(x_scale, 128), weight * spread(spread(weight_scale, 128), 128, 0))


def quantised_product(x: Tensor, weight: Tensor, weight_scale: Tensor) -> Tensor:
    values, scales = rounded(x)
    return block_product(values, weight, scales, weight_scale)


def power(scale: Tensor) -> Tensor:
    """Factors of runs of 32 whose exponents are stored."""
    return 2.0 ** (spread(scale, 32) - 127)


def fp4(packed: Tensor) -> Tensor:
    """Sign, two bits of exponent and one of mantissa, taken apart."""
    code = low_high(packed).long()
    sign, exponent, mantissa = 1 - 2 * (code // 8), code // 2 % 4, code % 2
    return sign * torch.where(exponent == 0, mantissa / 2, (1 + mantissa / 2) * 2.0 ** (exponent - 1).double())


def nvfp4_weight(x: Tensor, packed: Tensor, scale: Tensor, overall: Tensor) -> Tensor:
    return product(x, fp4(packed) * spread(scale, 16)) * overall


def layer(x: Tensor, experts: Tensor, share: Tensor, up: Tensor, down: Tensor) -> Tensor:
    out = torch.zeros_like(x)
    for t in range(len(x)):
        for expert, weight in zip(experts[t].tolist(), share[t].tolist(), strict=True):
            out[t] += weight * (down[expert] @ swiglu(up[expert] @ x[t]))
    return out


def layer_fp8(x: Tensor, experts: Tensor, share: Tensor, *packed: Tensor) -> Tensor:
    pairs = zip(packed[::2], packed[1::2], strict=True)
    return layer(x, experts, share, *(w * spread(spread(s, 128), 128, 1) for w, s in pairs))


def layer_int4(x: Tensor, experts: Tensor, share: Tensor, *packed: Tensor) -> Tensor:
    pairs = zip(packed[::2], packed[1::2], strict=True)
    return layer(x, experts, share, *((low_high(w) - 8) * spread(s, 128) for w, s in pairs))


def owner(offsets: Tensor, rows: int) -> list[int]:
    return [sum(int(end) <= row for end in offsets) for row in range(rows)]


def grouped_fp8(x: Tensor, weight: Tensor, offsets: Tensor, x_scale: Tensor, weight_scale: Tensor) -> Tensor:
    whole = weight * weight_scale[..., None]
    return torch.stack([whole[g] @ x[r] * x_scale[r] for r, g in enumerate(owner(offsets, len(x)))])


def grouped_wgrad(x: Tensor, dy: Tensor, offsets: Tensor) -> Tensor:
    out = torch.zeros(len(offsets), dy.shape[1], x.shape[1], dtype=torch.float64)
    for r, g in enumerate(owner(offsets, len(x))):
        out[g] += torch.outer(dy[r], x[r])
    return out


def combine(rows: Tensor, places: Tensor, share: Tensor, shared: Tensor) -> Tensor:
    return shared + sum(share[:, at, None] * rows[places[:, at].long()] for at in range(places.shape[1]))


def gather_quantise(x: Tensor, tokens: Tensor) -> tuple[Tensor, ...]:
    return tuple(part[tokens.long()] for part in rounded(x))


def dgrad(dy: Tensor, weight: Tensor) -> Tensor:
    return product(dy, weight.t())


def swiglu_backward(dy: Tensor, weight: Tensor, gate: Tensor, up: Tensor) -> tuple[Tensor, ...]:
    leaves = [x.clone().requires_grad_() for x in (gate, up)]
    return torch.autograd.grad((silu(leaves[0]) * leaves[1] * dgrad(dy, weight)).sum(), leaves)


def gelu_backward(dy: Tensor, weight: Tensor, before: Tensor) -> Tensor:
    leaf = before.clone().requires_grad_()
    return torch.autograd.grad((gelu(leaf) * dgrad(dy, weight)).sum(), leaf)[0]


def cross_entropy(x: Tensor, weight: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    sums = product(x, weight).exp().sum(1).log()
    return sums - (x * weight[targets]).sum(1), sums


def cross_entropy_backward(x: Tensor, weight: Tensor, targets: Tensor, lse: Tensor, dloss: Tensor) -> Tensor:
    leaf = x.clone().requires_grad_()
    losses = (leaf @ weight.t() - lse[:, None]).exp().sum(1) - (leaf * weight[targets]).sum(1)
    return torch.autograd.grad(losses @ dloss, leaf)[0]


CHECKS: dict[str, Callable[..., Any]] = {
    "int4_zero_point_linear": lambda x, packed, scale, zero: product(
        x, (low_high(packed) - spread(zero, 128)) * spread(scale, 128)
    ),
    "int4_act_order_linear": act_order,
    "table4_linear": lambda x, packed, table, size: product(x, table[low_high(packed).long()] * spread(size, 64)),
    "codebook_linear": codebook,
    "fp8_weight_linear": by_column,
    "ternary_linear": ternary,
    "int8_weight_swiglu": lambda x, gate, up, *scales: (
        silu(by_column(x, gate, scales[0])) * by_column(x, up, scales[1])
    ),
    "fp8_block_decode": block_product,
    "fp8_linear_blockwise": block_product,
    "fp8_quantise_linear": quantised_product,
    "mxfp8_linear": lambda x, weight, x_scale, scale: product(x * power(x_scale), weight * power(scale)),
    "mxfp4_linear_bias": lambda x, packed, scale, bias: product(x, fp4(packed) * power(scale)) + bias,
    "nvfp4_weight_linear": nvfp4_weight,
    "nvfp4_linear": lambda x, packed, x_scale, *rest: nvfp4_weight(fp4(x) * spread(x_scale, 16), packed, *rest),
    "moe_layer": layer,
    "moe_layer_fp8": layer_fp8,
    "moe_layer_int4": layer_int4,
    "grouped_fp8_linear": grouped_fp8,
    "grouped_wgrad": grouped_wgrad,
    "moe_combine": combine,
    "moe_gather_quantise": gather_quantise,
    "linear_dgrad": dgrad,
    "linear_wgrad_accumulate": lambda dy, x, grad: grad + torch.einsum("tm,tn->mn", dy, x),
    "swiglu_down_backward": swiglu_backward,
    "gelu_linear_backward": gelu_backward,
    "linear_cross_entropy": cross_entropy,
    "linear_cross_entropy_backward": cross_entropy_backward,
}
"""Independent formulation by problem id: takes the problem's inputs, floats in float64, and gives its outputs."""
