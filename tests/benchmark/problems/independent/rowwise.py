"""Independent formulations of activations, norms, reductions, scans, losses and fused steps: closed forms and loops."""

import itertools
import math
from collections.abc import Callable
from typing import Any

import torch
from formulas import swiglu, turned
from torch import Tensor


def elementwise(function: Callable[[float], float]) -> Callable[[Tensor], Tensor]:
    """A scalar function of `math`, element by element."""
    return lambda x: torch.tensor([function(v) for v in x.flatten().tolist()], dtype=torch.float64).view(x.shape)


def logistic(v: float) -> float:
    """Half of one plus the hyperbolic tangent of half the argument."""
    return 0.5 * (1 + math.tanh(v / 2))


def gelu_tanh(v: float) -> float:
    """The same as v times the logistic function of twice the inner polynomial."""
    return v * logistic(2 * math.sqrt(2 / math.pi) * (v + 0.044715 * v**3))


def softmax(x: Tensor) -> Tensor:
    """Without subtracting the maximum: float64 has the range."""
    return x.exp() / x.exp().sum(1, keepdim=True)


def normalised(x: Tensor, dims: tuple[int, ...]) -> Tensor:
    """Centred and divided by the deviation, from the two moments."""
    mean = x.mean(dims, keepdim=True)
    return (x - mean) / ((x * x).mean(dims, keepdim=True) - mean**2 + 1e-5).sqrt()


def affine(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return x * weight[:, None, None] + bias[:, None, None]


def group_norm(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """One group of one image at a time."""
    parts = [[normalised(part, (0, 1, 2)) for part in image.split(x.shape[1] // 8)] for image in x]
    return affine(torch.stack([torch.cat(image) for image in parts]), weight, bias)


def running(x: Tensor, step: Callable[[float, float], float] = lambda a, b: a + b) -> Tensor:
    """A scan along rows as a plain loop."""
    return torch.tensor([list(itertools.accumulate(row, step)) for row in x.tolist()], dtype=x.dtype)


def first_best(x: Tensor, best: Callable[[list[float]], float]) -> Tensor:
    """Index of the first best element along the middle dimension."""
    columns = x.transpose(1, 2).tolist()
    return torch.tensor([[column.index(best(column)) for column in image] for image in columns])


def cross_entropy(logits: Tensor, targets: Tensor) -> Tensor:
    """Minus the logarithm of the softmax at the target, row by row."""
    return -softmax(logits)[torch.arange(len(logits)), targets].log().mean()


def huber(predictions: Tensor, targets: Tensor) -> Tensor:
    """Both branches by hand."""
    gap = (predictions - targets).abs()
    return torch.where(gap < 1, 0.5 * gap * gap, gap - 0.5).mean()


def triplet(*texts: Tensor) -> Tensor:
    """Row by row with `math.dist`."""
    rows = []
    for a, p, n in zip(*(v.tolist() for v in texts), strict=True):
        moved = [v + 1e-6 for v in a]
        rows.append(max(0.0, math.dist(moved, p) - math.dist(moved, n) + 1.0))
    return torch.tensor(sum(rows) / len(rows), dtype=torch.float64)


def rmsnorm_residual(x: Tensor, residual: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    """By the row's Euclidean length."""
    hidden = x + residual
    return hidden / (hidden.norm(dim=1, keepdim=True) ** 2 / x.shape[1] + 1e-6).sqrt() * weight, hidden


def layernorm_backward(grad: Tensor, x: Tensor, weight: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Row by row through the full Jacobian of normalisation."""
    unit, cols = normalised(x, (1,)), x.shape[1]
    deviation = (x.var(1, correction=0) + 1e-5).sqrt()
    rows = []
    for u, g, size in zip(unit, grad, deviation, strict=True):
        jacobian = torch.eye(cols) - 1 / cols - torch.outer(u, u) / cols
        rows.append(jacobian @ (g * weight) / size)
    return torch.stack(rows), (grad * unit).sum(0), grad.sum(0)


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
    "softmax": softmax,
    "log_softmax": lambda x: softmax(x).log(),
    "batch_norm": lambda x, weight, bias: affine(normalised(x, (0, 2, 3)), weight, bias),
    "instance_norm": lambda x: normalised(x, (2, 3)),
    "group_norm": group_norm,
    "rms_norm": lambda x: x / ((x**2).sum(1, keepdim=True) / x.shape[1] + 1e-5).sqrt(),
    "frobenius_norm": lambda x: x / math.sqrt(math.fsum((x**2).flatten().tolist())),
    "l2_norm": lambda x: x / torch.einsum("ij,ij->i", x, x).sqrt()[:, None],
    "sum_reduce": lambda x: torch.einsum("blw->bw", x)[:, None],
    "mean_reduce": lambda x: torch.einsum("blw->bw", x) / x.shape[1],
    "max_reduce": lambda x: x.sort(1).values[:, -1],
    "argmax": lambda x: first_best(x, max),
    "argmin": lambda x: first_best(x, min),
    "cumsum": running,
    "cumprod": lambda x: running(x, lambda a, b: a * b),
    "cumsum_reverse": lambda x: running(x.flip(1)).flip(1),
    "masked_cumsum": lambda x, mask: running(torch.where(mask, x, 0.0)),
    "prefix_sum": lambda x: running(x[None])[0],
    "cross_entropy_loss": cross_entropy,
    "huber_loss": huber,
    "kl_div_loss": lambda p, t: ((t * t.log()).sum() - (t * p.log()).sum()) / p.shape[0],
    "triplet_margin_loss": triplet,
    "rmsnorm_residual": rmsnorm_residual,
    "rope": lambda x, cos, sin: turned(x, cos[None, :, None], sin[None, :, None]),
    "swiglu": swiglu,
    "geglu": lambda gate, up: elementwise(gelu_tanh)(gate) * up,
    "layernorm_backward": layernorm_backward,
}
