"""Independent float64 formulations of the dense-algebra problems: sums, loops and closed forms, no matmul of torch."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor


def _array(value: Tensor) -> Any:
    return value.double().numpy()


def product(a: Tensor, b: Tensor) -> Tensor:
    return torch.from_numpy(np.einsum("...mk,kn->...mn", _array(a), _array(b)))


def by_rows(a: Tensor, b: Tensor) -> Tensor:
    """Each row of the output as a weighted sum of rows of B, skipping zero weights."""
    left, right = _array(a), _array(b)
    out = np.zeros((left.shape[0], right.shape[1]))
    for row in range(left.shape[0]):
        for k in np.flatnonzero(left[row]):
            out[row] += left[row, k] * right[k]
    return torch.from_numpy(out)


def transposed(a: Tensor, b: Tensor) -> Tensor:
    return torch.from_numpy(np.einsum("km,nk->mn", _array(a), _array(b)))


def preactivation(x: Tensor, weight: Tensor, bias: Tensor) -> Any:
    return np.einsum("mk,nk->mn", _array(x), _array(weight)) + _array(bias)


GELU = np.vectorize(lambda value: 0.5 * value * (1.0 + math.erf(value / math.sqrt(2.0))))


MISH = np.vectorize(lambda value: value * math.tanh(math.log1p(math.exp(value))))


def subtract_multiply_relu(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return torch.from_numpy(np.maximum(1.5 * preactivation(x, weight, bias) - 3.0, 0.0))


def multiply_leaky_relu(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    doubled = 2.0 * preactivation(x, weight, bias)
    return torch.from_numpy(np.where(doubled > 0, doubled, 0.1 * doubled))


def swish_sum_group_norm(x: Tensor, weight: Tensor, bias: Tensor, added: Tensor, gamma: Tensor, beta: Tensor) -> Tensor:
    z = preactivation(x, weight, bias)
    v = z / (1.0 + np.exp(-z)) + _array(added)
    groups = v.reshape(v.shape[0], -1, 32)
    centred = groups - groups.mean(axis=2, keepdims=True)
    normal = centred / np.sqrt((centred**2).mean(axis=2, keepdims=True) + 1e-5)
    return torch.from_numpy(normal.reshape(v.shape) * _array(gamma) + _array(beta))


def sigmoid_sum(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return torch.from_numpy((1.0 / (1.0 + np.exp(-preactivation(x, weight, bias)))).sum(axis=1, keepdims=True))


def logsumexp_leaky_gelu(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    v = np.log(np.exp(preactivation(x, weight, bias)).sum(axis=1, keepdims=True))
    return torch.from_numpy(GELU(GELU(np.where(v > 0, v, 1e-4 * v))))


def gelu_softmax(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    powers = np.exp(GELU(preactivation(x, weight, bias)))
    return torch.from_numpy(powers / powers.sum(axis=1, keepdims=True))


def grouped(x: Tensor, weight: Tensor, offsets: Tensor) -> Tensor:
    """Row by row, looking up each row's expert."""
    expert = np.searchsorted(offsets.numpy(), np.arange(x.shape[0]), side="right")
    return torch.stack([product(x[row : row + 1], weight[g])[0] for row, g in enumerate(expert)])


def scaled(x: Tensor, weight: Tensor, x_scale: Tensor, weight_scale: Tensor) -> Tensor:
    left, right = (scale.double()[:, None] * value.double() for value, scale in ((x, x_scale), (weight, weight_scale)))
    return product(left, right.t())


def int4_weights(x: Tensor, packed: Tensor, scale: Tensor) -> Tensor:
    """Unpack element by element."""
    weight = torch.empty(packed.shape[0], 2 * packed.shape[1], dtype=torch.float64)
    for k in range(weight.shape[1]):
        nibble = torch.div(packed[:, k // 2], 16 ** (k % 2), rounding_mode="floor").double() % 16
        weight[:, k] = (nibble - 8.0) * scale[:, k // 128].double()
    return product(x, weight.t())


CHECKS: dict[str, Callable[..., Tensor]] = {
    "matmul_square": product,
    "matmul_standard": by_rows,
    "matmul_vector": product,
    "matmul_scalar": lambda a, s: a.double() + a.double() * (s - 1.0),
    "matmul_large_k": product,
    "matmul_small_k": by_rows,
    "matmul_irregular": by_rows,
    "matmul_tall_skinny": product,
    "matmul_tensor3d": product,
    "matmul_symmetric": transposed,
    "matmul_upper_triangular": by_rows,
    "matmul_lower_triangular": by_rows,
    "matmul_transposed_both": transposed,
    "linear_subtract_multiply_relu": subtract_multiply_relu,
    "linear_multiply_leaky_relu": multiply_leaky_relu,
    "linear_swish_sum_group_norm": swish_sum_group_norm,
    "linear_sigmoid_sum": sigmoid_sum,
    "linear_logsumexp_leaky_gelu": logsumexp_leaky_gelu,
    "linear_gelu_softmax": gelu_softmax,
    "grouped_gemm": grouped,
    "int8_gemm": scaled,
    "fp8_gemm": scaled,
    "int4_weight_gemm": int4_weights,
    "matmul_batched": lambda a, b: torch.stack([product(one, other) for one, other in zip(a, b, strict=True)]),
    "matmul_diagonal": lambda d, b: product(torch.diag(d.double()), b),
    "linear_mish_mish": lambda x, weight, bias: torch.from_numpy(MISH(MISH(preactivation(x, weight, bias)))),
    "linear_add_relu": lambda x, weight, added: torch.from_numpy(np.maximum(preactivation(x, weight, added), 0.0)),
    "linear_divide_gelu": lambda x, weight, bias: torch.from_numpy(GELU(0.1 * preactivation(x, weight, bias))),
}  # fmt: skip
"""Answers by problem id, for the general tests of all problems."""
