"""What independent formulations of problems share: products, attention and rounding in float64."""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor


def wide(x: Tensor) -> Tensor:
    return x.to(torch.float64)


def product(x: Tensor, weight: Tensor) -> Tensor:
    return torch.einsum("mk,nk->mn", wide(x), wide(weight))


def silu(x: Tensor) -> Tensor:
    return x / (1 + (-x).exp())


def low_high(packed: Tensor) -> Tensor:
    """Two numbers of four bits from every byte, the low one first."""
    return torch.stack((packed % 16, packed // 16), -1).flatten(-2).double()


def attend(
    q: Tensor, k: Tensor, v: Tensor, scale: float | None = None, cap: float = 0, sink: float | None = None
) -> Tensor:
    """One query of one head against its keys."""
    scores = wide(k) @ wide(q) * (scale or 1 / math.sqrt(q.numel()))
    scores = cap * (scores / cap).tanh() if cap else scores
    top = max(float(scores.max()), -math.inf if sink is None else sink)
    weights = (scores - top).exp()
    return weights @ wide(v) / (weights.sum() + (0 if sink is None else math.exp(sink - top)))


def by_token(q: Tensor, k: Tensor, v: Tensor, seen: Callable[[int], Any], **how: Any) -> Tensor:
    """Attention of (token, head, dim) tensors; `seen` gives the keys of a query."""
    group, sinks = q.shape[1] // k.shape[1], how.pop("sinks", None)
    rows = [
        attend(
            q[i, h], k[seen(i), h // group], v[seen(i), h // group],
            sink=None if sinks is None else float(sinks[h]), **how,
        )
        for i in range(q.shape[0])
        for h in range(q.shape[1])
    ]  # fmt: skip
    return torch.stack(rows).view(*q.shape[:2], -1)


def nearest_e4m3(value: float) -> float:
    magnitude = abs(value)
    exponent = max(math.frexp(magnitude)[1] - 1, -6) if magnitude else -6
    step = 2.0 ** (exponent - 3)
    return math.copysign(min(round(magnitude / step) * step, 448.0), value)


def eighth(run: Tensor) -> tuple[Tensor, float]:
    """A run in float8, and its scale."""
    scale = max(float(run.abs().max()), 1e-10) / 448
    return torch.tensor([nearest_e4m3(v / scale) for v in run.tolist()], dtype=torch.float64), scale


def rounded(x: Tensor, width: int = 128) -> tuple[Tensor, Tensor]:
    """Every run of this width in float8, and their scales."""
    runs = [eighth(run) for run in wide(x).reshape(-1, width)]
    scales = torch.tensor([scale for _, scale in runs], dtype=torch.float64)
    return torch.stack([codes for codes, _ in runs]).view(x.shape), scales.view(len(x), -1)


def shifted(x: Tensor, i: int, j: int, reach: int) -> Tensor:
    """Images (N, H, W, C) moved so that pixel (y + i, x + j) lies at (y, x), zero outside."""
    padded = torch.nn.functional.pad(wide(x), (0, 0, reach, reach, reach, reach))
    return padded[:, reach + i : reach + i + x.shape[1], reach + j : reach + j + x.shape[2]]
