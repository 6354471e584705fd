"""Second formulations of the GPU MODE, attention, routing, indexing, sorting, scan and scientific problems.

Plain loops and textbook formulas in float64, so that they share no step with the references.
"""

import itertools
import math
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from formulas import rounded
from torch import Tensor


def normalise(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    centred = x - x.mean(-1, keepdim=True)
    return centred / (centred.square().mean(-1, keepdim=True) + 1e-5).sqrt() * weight + bias


def trimul(x: Tensor, mask: Tensor, *parameters: Tensor) -> Tensor:
    weight, bias, left, right, left_gate, right_gate, out_gate, out_weight, out_bias, out = parameters
    x = normalise(x, weight, bias)

    def project(value: Tensor, matrix: Tensor) -> Tensor:
        return torch.einsum("bijc,hc->bijh", value, matrix)

    lefts = project(x, left) / (1 + (-project(x, left_gate)).exp()) * mask[..., None]
    rights = project(x, right) / (1 + (-project(x, right_gate)).exp()) * mask[..., None]
    product = torch.einsum("bikh,bjkh->bijh", lefts, rights)
    gate = 1 / (1 + (-project(x, out_gate)).exp())
    return torch.einsum("bijh,ch->bijc", normalise(product, out_weight, out_bias) * gate, out)


def cross_entropy_fwd_bwd(logits: Tensor, targets: Tensor, loss_grad: Tensor) -> tuple[Tensor, Tensor]:
    leaf = logits.clone().requires_grad_()
    losses = leaf.exp().sum(1).log() - leaf[torch.arange(len(leaf)), targets]
    return losses.detach(), torch.autograd.grad(losses, leaf, loss_grad)[0]


def fp8_quant_float32(x: Tensor, group: int) -> tuple[Tensor, Tensor]:
    runs = x.unflatten(1, (-1, group))
    scales = torch.tensor([[max(map(abs, [*run, 1e-10])) / 448 for run in row] for row in runs.tolist()]).double()
    return (runs / scales[..., None]).flatten(1), scales


def gdn_chunk_fwd_h(k: Tensor, w: Tensor, u: Tensor, g: Tensor) -> tuple[Tensor, Tensor]:
    state = torch.zeros(len(k), *k.shape[2:], u.shape[-1], dtype=torch.float64)
    states, fresh = [], []
    for start in range(0, k.shape[1], 64):
        last = g[:, start + 63]
        following = state * last.exp()[..., None, None]
        for t in range(start, start + 64):
            fresh.append(u[:, t] - torch.einsum("bhkv,bhk->bhv", state, w[:, t]))
            following = following + torch.einsum("bhk,bhv,bh->bhkv", k[:, t], fresh[-1], (last - g[:, t]).exp())
        states.append(state)
        state = following
    return torch.stack(states, 1), torch.stack(fresh, 1)


def gdn_chunk_fwd_o(q: Tensor, k: Tensor, v: Tensor, h: Tensor, g: Tensor) -> Tensor:
    rows = []
    for t in range(q.shape[1]):
        part = slice(t - t % 64, t + 1)
        weights = torch.einsum("bshk,bhk->bsh", k[:, part], q[:, t]) * (g[:, t, None] - g[:, part]).exp()
        before = torch.einsum("bhkv,bhk,bh->bhv", h[:, t // 64], q[:, t], g[:, t].exp())
        rows.append(before + torch.einsum("bsh,bshv->bhv", weights, v[:, part]))
    return torch.stack(rows, 1) / math.sqrt(q.shape[-1])


def gdn_recompute_w_u(k: Tensor, v: Tensor, beta: Tensor, a: Tensor, g: Tensor) -> tuple[Tensor, Tensor]:
    w, u = torch.zeros_like(k), torch.zeros_like(v)
    for t in range(k.shape[1]):
        part = slice(t - t % 64, t - t % 64 + 64)
        factor = a[:, t].transpose(1, 2) * beta[:, part]
        u[:, t] = torch.einsum("bsh,bshv->bhv", factor, v[:, part])
        w[:, t] = torch.einsum("bsh,bshk->bhk", factor * g[:, part].exp(), k[:, part])
    return w, u


def moe_topk_routing(logits: Tensor, k: int) -> tuple[Tensor, Tensor]:
    weights, experts = [], []
    for row in logits.tolist():
        order = sorted(range(len(row)), key=lambda e: -row[e])[:k]
        parts = [math.exp(row[e] - row[order[0]]) for e in order]
        weights.append([part / sum(parts) for part in parts])
        experts.append(order)
    return torch.tensor(weights, dtype=torch.float64), torch.tensor(experts, dtype=torch.int32)


def moe_permute(x: Tensor, experts: Tensor, num_experts: int) -> tuple[Tensor, Tensor, Tensor]:
    bins: list[list[int]] = [[] for _ in range(num_experts)]
    for token, choices in enumerate(experts.tolist()):
        for expert in choices:
            bins[expert].append(token)
    tokens = [token for part in bins for token in part]
    counts = torch.tensor([len(part) for part in bins], dtype=torch.int32)
    return torch.stack([x[token] for token in tokens]), torch.tensor(tokens, dtype=torch.int32), counts


def scatter_add(source: Tensor, index: Tensor, rows: int) -> Tensor:
    out = torch.zeros(rows, source.shape[1], dtype=torch.float64)
    for item, row in enumerate(index.tolist()):
        out[row] += source[item]
    return out


def histogram(x: Tensor, bins: int) -> Tensor:
    counts = Counter(x.tolist())
    return torch.tensor([counts[value] for value in range(bins)], dtype=torch.int32)


def permute_4d(x: Tensor) -> Tensor:
    return torch.stack([x[:, t] for t in range(x.shape[1])], -1)


def top_k(x: Tensor, k: int) -> tuple[Tensor, Tensor]:
    places = [sorted(range(len(row)), key=lambda i, row=row: -row[i])[:k] for row in x.tolist()]
    values = [[float(x[r, i]) for i in row] for r, row in enumerate(places)]
    return torch.tensor(values, dtype=torch.float64), torch.tensor(places, dtype=torch.int32)


def sampling_softmax(logits: Tensor, noise: Tensor, temperature: float) -> tuple[Tensor, Tensor]:
    tokens, log_probs = [], []
    for row, drawn in zip(logits.tolist(), noise.tolist(), strict=True):
        scaled = [value / temperature for value in row]
        # The largest p / noise is the largest log p - log noise: the Gumbel form of the same draw.
        token = max(range(len(row)), key=lambda i, s=scaled, d=drawn: s[i] - math.log(d[i]))
        tokens.append(token)
        log_probs.append(scaled[token] - math.log(sum(math.exp(value) for value in scaled)))
    return torch.tensor(tokens, dtype=torch.int32), torch.tensor(log_probs, dtype=torch.float64)


def selective_scan(u: Tensor, delta: Tensor, a: Tensor, b: Tensor, c: Tensor, skip: Tensor) -> Tensor:
    state = torch.zeros(u.shape[0], u.shape[1], a.shape[1], dtype=torch.float64)
    out = torch.empty_like(u)
    for t in range(u.shape[2]):
        step = delta[:, :, t, None]
        state = (step * a).exp() * state + step * u[:, :, t, None] * b[:, None, :, t]
        out[:, :, t] = torch.einsum("bdn,bn->bd", state, c[:, :, t]) + skip * u[:, :, t]
    return out


def spmv_csr(starts: Tensor, columns: Tensor, values: Tensor, x: Tensor) -> Tensor:
    ends = itertools.pairwise(starts.tolist())
    return torch.stack([values[a:b] @ x[columns[a:b].long()] for a, b in ends])


def batched_solve(a: Tensor, b: Tensor) -> Tensor:
    return torch.from_numpy(np.linalg.solve(a.numpy(), b.numpy()[..., None])[..., 0])


def fft_butterfly(real: Tensor, imag: Tensor) -> tuple[Tensor, Tensor]:
    places = torch.arange(real.shape[1]).double()
    turn = torch.polar(torch.ones(()).double(), torch.outer(places, places) * (-2 * math.pi / len(places)))
    spectrum = torch.complex(real, imag) @ turn / math.sqrt(len(places))
    return spectrum.real, spectrum.imag


def kmeans_assign(points: Tensor, centroids: Tensor) -> tuple[Tensor, Tensor]:
    distances = (points[:, None] - centroids).square().sum(-1)
    return distances.argmin(1).to(torch.int32), distances.amin(1)


def tridiagonal_solve(lower: Tensor, diagonal: Tensor, upper: Tensor, rhs: Tensor) -> Tensor:
    matrix = torch.diag_embed(diagonal) + torch.diag_embed(lower[:, 1:], -1) + torch.diag_embed(upper[:, :-1], 1)
    return batched_solve(matrix, rhs)


def nbody_forces(positions: Tensor, masses: Tensor, softening: float) -> Tensor:
    out = torch.zeros_like(positions)
    for i, j in itertools.permutations(range(len(positions)), 2):
        gap = positions[j] - positions[i]
        out[i] += masses[j] * gap / float(gap @ gap + softening) ** 1.5
    return out


CHECKS: dict[str, Callable[..., Any]] = {
    **{check.__name__: check for check in (
        trimul, cross_entropy_fwd_bwd, gdn_chunk_fwd_h, gdn_chunk_fwd_o, gdn_recompute_w_u,
        fp8_quant_float32,
        moe_topk_routing, moe_permute,
        scatter_add, histogram, permute_4d,
        top_k, sampling_softmax, selective_scan,
        spmv_csr, batched_solve, fft_butterfly, kmeans_assign, tridiagonal_solve, nbody_forces,
    )},
    "fp8_quant": rounded,
    "embedding_gather": lambda ids, table: torch.stack([table[i] for i in ids.tolist()]),
    "transpose": lambda x: torch.from_numpy(np.ascontiguousarray(x.numpy().T)),
    "sort": lambda x: torch.tensor([sorted(row) for row in x.tolist()], dtype=torch.float64),
}  # fmt: skip
"""Independent formulation by problem id: takes the problem's inputs, gives its outputs (floats in float64)."""
