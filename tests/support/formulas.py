"""What independent formulations of problems share: products, attention and rounding of float64 tensors."""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor


def product(x: Tensor, weight: Tensor) -> Tensor:
    return torch.einsum("mk,nk->mn", x.double(), weight.double())


def by_expert(x: Tensor, weight: Tensor, offsets: Tensor) -> Tensor:
    """Every row times the matrix of its group."""
    expert = torch.searchsorted(offsets.long(), torch.arange(x.shape[0]), right=True)
    return torch.einsum("rk,rkn->rn", x, weight[expert])


def silu(x: Tensor) -> Tensor:
    return x / (1 + (-x).exp())


def swiglu(both: Tensor) -> Tensor:
    gate, up = both.chunk(2, -1)
    return silu(gate) * up


def gelu(x: Tensor) -> Tensor:
    return 0.5 * x * (1 + torch.erf(x / math.sqrt(2)))


def spread(scale: Tensor, width: int, dim: int = -1) -> Tensor:
    return scale.double().repeat_interleave(width, dim)


def low_high(packed: Tensor) -> Tensor:
    """Two numbers of four bits from every byte, the low one first."""
    return torch.stack((packed % 16, packed // 16), -1).flatten(-2).double()


def attend(
    q: Tensor, k: Tensor, v: Tensor, scale: float | None = None, cap: float = 0, sink: float | None = None
) -> Tensor:
    """One query of one head against its keys."""
    scores = k @ q * (scale or 1 / math.sqrt(q.numel()))
    scores = cap * (scores / cap).tanh() if cap else scores
    top = max(float(scores.max()), -math.inf if sink is None else sink)
    weights = (scores - top).exp()
    return weights @ v / (weights.sum() + (0 if sink is None else math.exp(sink - top)))


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


def turned(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotary positions as a product of complex numbers."""
    half = x.shape[-1] // 2
    both = torch.complex(x[..., :half], x[..., half:]) * torch.complex(cos, sin)
    return torch.cat((both.real, both.imag), -1)


def nearest_e4m3(value: float) -> float:
    magnitude = abs(value)
    exponent = max(math.frexp(magnitude)[1] - 1, -6) if magnitude else -6
    step = 2.0 ** (exponent - 3)
    return math.copysign(min(round(magnitude / step) * step, 448.0), value)


def rounded(x: Tensor, width: int = 128) -> tuple[Tensor, Tensor]:
    """Every run of this width in float8, and the scales."""
    codes, scales = [], []
    for run in x.reshape(-1, width):
        scales.append(max(float(run.abs().max()), 1e-10) / 448)
        codes += [nearest_e4m3(v / scales[-1]) for v in run.tolist()]
    whole = [torch.tensor(values, dtype=torch.float64) for values in (codes, scales)]
    return whole[0].view(x.shape), whole[1].view(len(x), -1)


def shifted(x: Tensor, i: int, j: int, reach: int) -> Tensor:
    """Images (N, H, W, C) moved so that pixel (y + i, x + j) lies at (y, x), zero outside."""
    padded = torch.nn.functional.pad(x, (0, 0, reach, reach, reach, reach))
    return padded[:, reach + i : reach + i + x.shape[1], reach + j : reach + j + x.shape[2]]


def conv_nhwc(x: Tensor, weight: Tensor) -> Tensor:
    taps = [(shifted(x, i - 1, j - 1, 1), weight[:, i, j]) for i in range(3) for j in range(3)]
    return torch.stack([torch.einsum("nyxc,oc->nyxo", *tap) for tap in taps]).sum(0)
