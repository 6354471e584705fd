"""Second formulations of products with narrow operands, of expert layers and of linear gradients, in float64."""

import math
from collections.abc import Callable
from typing import Any

import torch
from formulas import low_high, product, rounded, silu
from torch import Tensor


def spread(scale: Tensor, width: int, dim: int = -1) -> Tensor:
    return scale.double().repeat_interleave(width, dim)


def zero_point(x: Tensor, packed: Tensor, scale: Tensor, zero: Tensor) -> Tensor:
    return product(x, (low_high(packed) - spread(zero, 128)) * spread(scale, 128))


def act_order(x: Tensor, packed: Tensor, scale: Tensor, group: Tensor) -> Tensor:
    weight = torch.empty(x.shape[1], packed.shape[1], dtype=torch.float64)
    unsigned = packed.long() % 2**32
    for k in range(x.shape[1]):
        weight[k] = (unsigned[k // 8] // 16 ** (k % 8) % 16 - 8) * scale[int(group[k])].double()
    return x.double() @ weight


def table4(x: Tensor, packed: Tensor, table: Tensor, size: Tensor) -> Tensor:
    return product(x, table.double()[low_high(packed).long()] * spread(size, 64))


def codebook(x: Tensor, codes: Tensor, books: Tensor, scale: Tensor) -> Tensor:
    rows = [torch.cat([books[0, a].double() + books[1, b].double() for a, b in row]) for row in codes.long().tolist()]
    return product(x, torch.stack(rows)) * scale.double()


def fp8_weight(x: Tensor, weight: Tensor, scale: Tensor) -> Tensor:
    return product(x, weight.double() * scale.double()[:, None])


def ternary(x: Tensor, packed: Tensor, x_scale: Tensor, weight_scale: Tensor) -> Tensor:
    digits = torch.stack([packed.long() // 4**i % 4 - 1 for i in range(4)], -1).flatten(1)
    exact = (x.long()[:, None] * digits[None]).sum(-1)
    return exact.double() * x_scale.double()[:, None] * float(weight_scale)


def int8_swiglu(x: Tensor, gate: Tensor, up: Tensor, gate_scale: Tensor, up_scale: Tensor) -> Tensor:
    return silu(fp8_weight(x, gate, gate_scale)) * fp8_weight(x, up, up_scale)


def block_product(x: Tensor, weight: Tensor, x_scale: Tensor, weight_scale: Tensor) -> Tensor:
    return product(x.double() * spread(x_scale, 128), weight.double() * spread(spread(weight_scale, 128), 128, 0))


def quantised_product(x: Tensor, weight: Tensor, weight_scale: Tensor) -> Tensor:
    values, scales = rounded(x)
    return block_product(values, weight, scales, weight_scale)


def mxfp8(x: Tensor, weight: Tensor, x_scale: Tensor, weight_scale: Tensor) -> Tensor:
    left, right = (2.0 ** (spread(s, 32) - 127) for s in (x_scale, weight_scale))
    return product(x.double() * left, weight.double() * right)


def fp4(packed: Tensor) -> Tensor:
    """Sign, two bits of exponent and one of mantissa, taken apart."""
    code = low_high(packed).long()
    sign, exponent, mantissa = 1 - 2 * (code // 8), code // 2 % 4, code % 2
    size = torch.where(exponent == 0, mantissa / 2, (1 + mantissa / 2) * 2.0 ** (exponent - 1).double())
    return sign * size


def mxfp4(x: Tensor, packed: Tensor, scale: Tensor, bias: Tensor) -> Tensor:
    return product(x, fp4(packed) * 2.0 ** (spread(scale, 32) - 127)) + bias.double()


def nvfp4_weight(x: Tensor, packed: Tensor, scale: Tensor, overall: Tensor) -> Tensor:
    return product(x, fp4(packed) * spread(scale, 16)) * float(overall)


def nvfp4(x: Tensor, packed: Tensor, x_scale: Tensor, scale: Tensor, overall: Tensor) -> Tensor:
    return nvfp4_weight(fp4(x) * spread(x_scale, 16), packed, scale, overall)


def layer(x: Tensor, experts: Tensor, share: Tensor, up: Tensor, down: Tensor) -> Tensor:
    out = torch.zeros(x.shape, dtype=torch.float64)
    for t in range(len(x)):
        for expert, weight in zip(experts[t].tolist(), share[t].tolist(), strict=True):
            both = up[expert].double() @ x[t].double()
            half = len(both) // 2
            out[t] += weight * (down[expert].double() @ (silu(both[:half]) * both[half:]))
    return out


def layer_fp8(x: Tensor, experts: Tensor, share: Tensor, *packed: Tensor) -> Tensor:
    weights = (w.double() * spread(spread(s, 128), 128, 1) for w, s in zip(packed[::2], packed[1::2], strict=True))
    return layer(x, experts, share, *weights)


def layer_int4(x: Tensor, experts: Tensor, share: Tensor, *packed: Tensor) -> Tensor:
    weights = ((low_high(w) - 8) * spread(s, 128) for w, s in zip(packed[::2], packed[1::2], strict=True))
    return layer(x, experts, share, *weights)


def owner(offsets: Tensor, rows: int) -> list[int]:
    return [sum(int(end) <= row for end in offsets) for row in range(rows)]


def grouped_fp8(x: Tensor, weight: Tensor, offsets: Tensor, x_scale: Tensor, weight_scale: Tensor) -> Tensor:
    whole = weight.double() * weight_scale.double()[..., None]
    rows = [whole[g] @ x[r].double() * float(x_scale[r]) for r, g in enumerate(owner(offsets, len(x)))]
    return torch.stack(rows)


def grouped_wgrad(x: Tensor, dy: Tensor, offsets: Tensor) -> Tensor:
    out = torch.zeros(len(offsets), dy.shape[1], x.shape[1], dtype=torch.float64)
    for r, g in enumerate(owner(offsets, len(x))):
        out[g] += torch.outer(dy[r].double(), x[r].double())
    return out


def combine(rows: Tensor, places: Tensor, share: Tensor, shared: Tensor) -> Tensor:
    return shared.double() + sum(
        share[:, at, None].double() * rows[places[:, at].long()].double() for at in range(places.shape[1])
    )


def gather_quantise(x: Tensor, tokens: Tensor) -> tuple[Tensor, Tensor]:
    values, scales = rounded(x)
    return values[tokens.long()], scales[tokens.long()]


def dgrad(dy: Tensor, weight: Tensor) -> Tensor:
    return product(dy, weight.t())


def wgrad(dy: Tensor, x: Tensor, grad: Tensor) -> Tensor:
    return grad.double() + sum(torch.outer(a, b) for a, b in zip(dy.double(), x.double(), strict=True))


def swiglu_backward(dy: Tensor, weight: Tensor, gate: Tensor, up: Tensor) -> tuple[Tensor, ...]:
    leaves = [x.double().requires_grad_() for x in (gate, up)]
    loss = (silu(leaves[0]) * leaves[1] * dgrad(dy, weight)).sum()
    return torch.autograd.grad(loss, leaves)


def gelu_backward(dy: Tensor, weight: Tensor, before: Tensor) -> Tensor:
    leaf = before.double().requires_grad_()
    loss = (torch.nn.functional.gelu(leaf) * dgrad(dy, weight)).sum()
    (dz,) = torch.autograd.grad(loss, leaf)
    return dz


def cross_entropy(x: Tensor, weight: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    sums = torch.tensor([math.log(sum(math.exp(v) for v in row)) for row in product(x, weight).tolist()]).double()
    chosen = (x.double() * weight.double()[targets]).sum(1)
    return sums - chosen, sums


def cross_entropy_backward(x: Tensor, weight: Tensor, targets: Tensor, lse: Tensor, dloss: Tensor) -> Tensor:
    leaf = x.double().requires_grad_()
    terms = leaf @ weight.double().t()
    loss = ((terms - lse.double()[:, None]).exp().sum(1) - (leaf * weight.double()[targets]).sum(1)) @ dloss.double()
    (dx,) = torch.autograd.grad(loss, leaf)
    return dx


CHECKS: dict[str, Callable[..., Any]] = {
    "int4_zero_point_linear": zero_point, "int4_act_order_linear": act_order, "table4_linear": table4,
    "codebook_linear": codebook, "fp8_weight_linear": fp8_weight, "ternary_linear": ternary,
    "int8_weight_swiglu": int8_swiglu,
    "fp8_block_decode": block_product, "fp8_quantise_linear": quantised_product, "mxfp8_linear": mxfp8,
    "mxfp4_linear_bias": mxfp4, "nvfp4_weight_linear": nvfp4_weight, "nvfp4_linear": nvfp4,
    "moe_layer": layer, "moe_layer_fp8": layer_fp8, "moe_layer_int4": layer_int4, "grouped_fp8_linear": grouped_fp8,
    "grouped_wgrad": grouped_wgrad, "moe_combine": combine, "moe_gather_quantise": gather_quantise,
    "linear_dgrad": dgrad, "linear_wgrad_accumulate": wgrad, "swiglu_down_backward": swiglu_backward,
    "gelu_linear_backward": gelu_backward, "linear_cross_entropy": cross_entropy,
    "linear_cross_entropy_backward": cross_entropy_backward,
}  # fmt: skip
"""Independent formulation by problem id: takes the problem's inputs, gives its outputs (floats in float64)."""
