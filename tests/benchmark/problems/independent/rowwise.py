"""Independent formulations of activations, norms, reductions, scans, losses and fused steps: numpy and loops."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

Array = np.ndarray[Any, Any]


def wide(value: Tensor) -> Array:
    """A tensor as a numpy array, floats in float64."""
    return (value.double() if value.is_floating_point() else value).numpy()


def elementwise(function: Callable[[float], float]) -> Callable[[Tensor], Tensor]:
    """A scalar function of `math`, element by element."""

    def apply(x: Tensor) -> Tensor:
        flat = [function(value) for value in x.double().flatten().tolist()]
        return torch.tensor(flat, dtype=torch.float64).reshape(x.shape)

    return apply


def logistic(v: float) -> float:
    """Half of one plus the hyperbolic tangent of half the argument."""
    return 0.5 * (1 + math.tanh(v / 2))


def gelu_tanh(v: float) -> float:
    """The same as v times the logistic function of twice the inner polynomial."""
    return v * logistic(2 * math.sqrt(2 / math.pi) * (v + 0.044715 * v**3))


def softmax(x: Tensor) -> Array:
    """Without subtracting the maximum: float64 has the range."""
    powers = np.exp(wide(x))
    return np.asarray(powers / powers.sum(1, keepdims=True))


def normalised(x: Array, axes: tuple[int, ...]) -> Array:
    """Centred and divided by the deviation, from the two moments."""
    mean = x.mean(axes, keepdims=True)
    return np.asarray((x - mean) / np.sqrt((x * x).mean(axes, keepdims=True) - mean**2 + 1e-5))


def affine(x: Array, weight: Tensor, bias: Tensor) -> Tensor:
    """Scale and shift by channel."""
    return torch.from_numpy(x * wide(weight)[None, :, None, None] + wide(bias)[None, :, None, None])


def group_norm(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """One group of one image at a time."""
    source, out = wide(x), np.empty(x.shape)
    width = x.shape[1] // 8
    for image in range(x.shape[0]):
        for start in range(0, x.shape[1], width):
            out[image, start : start + width] = normalised(source[image, start : start + width], (0, 1, 2))
    return affine(out, weight, bias)


def running(x: Array, start: float, step: Callable[[float, float], float]) -> Tensor:
    """A scan along rows as a plain loop."""
    out = np.empty_like(x)
    for row in range(x.shape[0]):
        total = start
        for column in range(x.shape[1]):
            total = step(total, x[row, column])
            out[row, column] = total
    return torch.from_numpy(out)


def add(a: float, b: float) -> float:
    """Sum of two numbers."""
    return a + b


def extreme(x: Tensor, better: Callable[[float, float], bool]) -> Tensor:
    """Index of the first best element along the middle dimension, by a loop."""
    source = wide(x)
    best = np.zeros((x.shape[0], x.shape[2]), dtype=np.int64)
    for b in range(x.shape[0]):
        for w in range(x.shape[2]):
            column = source[b, :, w].tolist()
            for i, value in enumerate(column):
                if better(value, column[best[b, w]]):
                    best[b, w] = i
    return torch.from_numpy(best)


def prefix_sum(x: Tensor) -> Tensor:
    """Python integers."""
    total, out = 0, []
    for value in x.tolist():
        total += value
        out.append(total)
    return torch.tensor(out, dtype=torch.int32)


def cross_entropy(logits: Tensor, targets: Tensor) -> Tensor:
    """Minus the logarithm of the softmax at the target, row by row."""
    chosen = softmax(logits)[np.arange(logits.shape[0]), wide(targets)]
    return torch.tensor(-np.log(chosen).mean())


def huber(predictions: Tensor, targets: Tensor) -> Tensor:
    """Both branches by hand."""
    gap = np.abs(wide(predictions) - wide(targets)).ravel().tolist()
    return torch.tensor(math.fsum(0.5 * d * d if d < 1 else d - 0.5 for d in gap) / len(gap), dtype=torch.float64)


def kl_div(predictions: Tensor, targets: Tensor) -> Tensor:
    """Difference of two entropies."""
    p, t = wide(predictions), wide(targets)
    return torch.tensor(((t * np.log(t)).sum() - (t * np.log(p)).sum()) / p.shape[0])


def triplet(anchor: Tensor, positive: Tensor, negative: Tensor) -> Tensor:
    """Row by row with `math.dist`."""
    rows = []
    for a, p, n in zip(*(wide(v).tolist() for v in (anchor, positive, negative)), strict=True):
        shifted = [v + 1e-6 for v in a]
        rows.append(max(0.0, math.dist(shifted, p) - math.dist(shifted, n) + 1.0))
    return torch.tensor(sum(rows) / len(rows), dtype=torch.float64)


def rmsnorm_residual(x: Tensor, residual: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    """By the row's Euclidean length."""
    hidden = wide(x) + wide(residual)
    length = np.sqrt(np.linalg.norm(hidden, axis=1, keepdims=True) ** 2 / x.shape[1] + 1e-6)
    return torch.from_numpy(hidden / length * wide(weight)), torch.from_numpy(hidden)


def rope(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Multiplication of complex numbers."""
    half = x.shape[-1] // 2
    pairs = wide(x)[..., :half] + 1j * wide(x)[..., half:]
    turned = pairs * (wide(cos) + 1j * wide(sin))[None, :, None, :]
    return torch.from_numpy(np.concatenate((turned.real, turned.imag), axis=-1))


def swiglu(gate_up: Tensor) -> Tensor:
    """Element by element."""
    half = gate_up.shape[1] // 2
    silu = elementwise(lambda v: v * logistic(v))
    return silu(gate_up[:, :half]) * gate_up[:, half:].double()


def layernorm_backward(grad: Tensor, x: Tensor, weight: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Row by row through the full Jacobian of normalisation."""
    g, source, w = wide(grad), wide(x), wide(weight)
    rows, cols = source.shape
    unit = normalised(source, (1,))
    deviation = np.sqrt(source.var(1) + 1e-5)
    grad_x = np.empty_like(source)
    for row in range(rows):
        jacobian = (np.eye(cols) - 1 / cols - np.outer(unit[row], unit[row]) / cols) / deviation[row]
        grad_x[row] = jacobian @ (g[row] * w)
    return torch.from_numpy(grad_x), torch.from_numpy((g * unit).sum(0)), torch.from_numpy(g.sum(0))


CHECKS: dict[str, Callable[..., Any]] = {
    "relu": elementwise(lambda v: max(v, 0.0)),
    "sigmoid": elementwise(logistic),
    "tanh": elementwise(math.tanh),
    "swish": elementwise(lambda v: v * logistic(v)),
    "gelu": elementwise(lambda v: 0.5 * v * math.erfc(-v / math.sqrt(2))),
    "gelu_tanh": elementwise(gelu_tanh),
    "softplus": elementwise(lambda v: max(v, 0.0) + math.log1p(math.exp(-abs(v)))),
    "softsign": elementwise(lambda v: math.copysign(1 - 1 / (1 + abs(v)), v)),
    "elu": elementwise(lambda v: v if v > 0 else math.expm1(v)),
    "softmax": lambda x: torch.from_numpy(softmax(x)),
    "log_softmax": lambda x: torch.from_numpy(np.log(softmax(x))),
    "batch_norm": lambda x, weight, bias: affine(normalised(wide(x), (0, 2, 3)), weight, bias),
    "instance_norm": lambda x: torch.from_numpy(normalised(wide(x), (2, 3))),
    "group_norm": group_norm,
    "rms_norm": lambda x: torch.from_numpy(wide(x) / np.sqrt((wide(x) ** 2).sum(1, keepdims=True) / x.shape[1] + 1e-5)),
    "frobenius_norm": lambda x: torch.from_numpy(wide(x) / math.sqrt(math.fsum((wide(x) ** 2).ravel().tolist()))),
    "l2_norm": lambda x: torch.from_numpy(wide(x) / np.sqrt(np.einsum("ij,ij->i", wide(x), wide(x)))[:, None]),
    "sum_reduce": lambda x: torch.from_numpy(np.einsum("blw->bw", wide(x))[:, None, :].copy()),
    "mean_reduce": lambda x: torch.from_numpy(np.einsum("blw->bw", wide(x)) / x.shape[1]),
    "max_reduce": lambda x: torch.from_numpy(np.sort(wide(x), axis=1)[:, -1, :]),
    "argmax": lambda x: extreme(x, lambda a, b: a > b),
    "argmin": lambda x: extreme(x, lambda a, b: a < b),
    "cumsum": lambda x: running(wide(x), 0.0, add),
    "cumprod": lambda x: running(wide(x), 1.0, lambda a, b: a * b),
    "cumsum_reverse": lambda x: running(wide(x)[:, ::-1], 0.0, add).flip(1),
    "masked_cumsum": lambda x, mask: running(np.where(wide(mask), wide(x), 0.0), 0.0, add),
    "prefix_sum": prefix_sum,
    "cross_entropy_loss": cross_entropy,
    "huber_loss": huber,
    "kl_div_loss": kl_div,
    "triplet_margin_loss": triplet,
    "rmsnorm_residual": rmsnorm_residual,
    "rope": rope,
    "swiglu": swiglu,
    "geglu": lambda gate, up: elementwise(gelu_tanh)(gate) * up.double(),
    "layernorm_backward": layernorm_backward,
}
