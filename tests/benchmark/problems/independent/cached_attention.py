"""Second formulations of attention as servers and trainers run it: one query at a time, gradients by autograd."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor


def attend(
    q: Tensor, k: Tensor, v: Tensor, scale: float | None = None, cap: float = 0, sink: float | None = None
) -> Tensor:
    """One query of one head against its keys, in float64."""
    scores = k.double() @ q.double() * (scale or 1 / math.sqrt(q.numel()))
    scores = cap * (scores / cap).tanh() if cap else scores
    top = max(float(scores.max()), -math.inf if sink is None else sink)
    weights = (scores - top).exp()
    return weights @ v.double() / (weights.sum() + (0 if sink is None else math.exp(sink - top)))


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


def packed(q: Tensor, k: Tensor, v: Tensor, starts: Tensor, window: int = 1 << 30, **how: Any) -> Tensor:
    ends = starts.tolist()

    def seen(i: int) -> slice:
        first = max(start for start in ends[:-1] if start <= i)
        return slice(max(first, i - window + 1), i + 1)

    return by_token(q, k, v, seen, **how)


def fp8_prefill(q: Tensor, k: Tensor, v: Tensor, starts: Tensor, *scales: Tensor) -> Tensor:
    return packed(*(x.double() * s.double()[:, None] for x, s in zip((q, k, v), scales, strict=True)), starts)


def rows_of(pages: Tensor, table: Tensor, length: int) -> Tensor:
    """The first tokens of one sequence, read place by place."""
    return torch.stack([pages[int(table[t // 64]), t % 64] for t in range(length)])


def last_tokens(q: Tensor, k_pages: Tensor, v_pages: Tensor, table: Tensor, lengths: Tensor) -> Tensor:
    answers = []
    for b, length in enumerate(lengths.tolist()):
        k, v = rows_of(k_pages, table[b], length), rows_of(v_pages, table[b], length)
        first = length - q.shape[1]
        answers.append(by_token(q[b], k, v, lambda i, first=first: slice(0, first + i + 1)))  # type: ignore[misc]
    return torch.stack(answers)


def one_token(q: Tensor, *cache: Tensor) -> Tensor:
    return last_tokens(q[:, None], *cache)[:, 0]


def fp8_decode(
    q: Tensor, k: Tensor, v: Tensor, k_scale: Tensor, v_scale: Tensor, table: Tensor, lengths: Tensor
) -> Tensor:
    return one_token(q, k.double() * k_scale[:, None], v.double() * v_scale[:, None], table, lengths)


def int4_decode(
    q: Tensor, k: Tensor, v: Tensor, k_scale: Tensor, k_zero: Tensor, v_scale: Tensor, v_zero: Tensor, *where: Tensor
) -> Tensor:
    def numbers(packed_bytes: Tensor, scale: Tensor, zero: Tensor) -> Tensor:
        out = torch.empty(*packed_bytes.shape[:-1], 2 * packed_bytes.shape[-1], dtype=torch.float64)
        out[..., 0::2], out[..., 1::2] = packed_bytes % 16, packed_bytes // 16
        return (out - zero.double()[..., None]) * scale.double()[..., None]

    return one_token(q, numbers(k, k_scale, k_zero), numbers(v, v_scale, v_zero), *where)


def tree(
    q: Tensor, k: Tensor, v: Tensor, table: Tensor, lengths: Tensor, k_new: Tensor, v_new: Tensor, sees: Tensor
) -> Tensor:
    answers = []
    for b, length in enumerate(lengths.tolist()):
        keys = torch.cat((rows_of(k, table[b], length), k_new[b]))
        values = torch.cat((rows_of(v, table[b], length), v_new[b]))
        before = torch.ones(q.shape[1], length, dtype=torch.bool)
        mask = torch.cat((before, sees[b]), dim=1)
        answers.append(by_token(q[b], keys, values, lambda i, mask=mask: mask[i]))  # type: ignore[misc]
    return torch.stack(answers)


def prefix(
    q: Tensor, k_prefix: Tensor, v_prefix: Tensor, k: Tensor, v: Tensor, table: Tensor, lengths: Tensor
) -> Tensor:
    answers = []
    for b, length in enumerate(lengths.tolist()):
        keys = torch.cat((k_prefix, rows_of(k, table[b], length)))
        values = torch.cat((v_prefix, rows_of(v, table[b], length)))
        answers.append(by_token(q[b : b + 1], keys, values, lambda i: slice(None))[0])
    return torch.stack(answers)


def latent(q: Tensor, pages: Tensor, table: Tensor, lengths: Tensor) -> Tensor:
    rows = []
    for b, length in enumerate(lengths.tolist()):
        keys = rows_of(pages, table[b], length)
        rows += [attend(q[b, h], keys, keys[:, :-64], 1 / math.sqrt(192)) for h in range(q.shape[1])]
    return torch.stack(rows).view(*q.shape[:2], -1)


def chosen(q: Tensor, cache: Tensor, places: Tensor) -> Tensor:
    rows = []
    for b in range(q.shape[0]):
        keys = cache[places[b][places[b] >= 0].long()]
        rows += [attend(q[b, h], keys, keys[:, :-64], 1 / math.sqrt(192)) for h in range(q.shape[1])]
    return torch.stack(rows).view(*q.shape[:2], -1)


def gradients(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    o: Tensor,
    lse: Tensor,
    do: Tensor,
    sees: Callable[[int, int], bool] = lambda i, j: True,
) -> tuple[Tensor, ...]:
    """Gradients by autograd of Σ P (do·v − do·o), with P's own gradient taken through its logarithm."""
    leaves = [x.double().requires_grad_() for x in (q, k, v)]
    group, scale = q.shape[1] // k.shape[1], q.shape[3] ** -0.5
    mask = torch.tensor([[sees(i, j) for j in range(q.shape[2])] for i in range(q.shape[2])])
    keys, values = (leaf.repeat_interleave(group, 1) for leaf in leaves[1:])
    p = torch.where(
        mask, (torch.einsum("bhid,bhjd->bhij", leaves[0], keys) * scale - lse.double()[..., None]).exp(), 0.0
    )
    # P is a probability: through the sums `lse` its gradient loses do·o.
    benefit = torch.einsum("bhid,bhjd->bhij", do.double(), values)
    loss = (p * benefit).sum() - (p * (do.double() * o.double()).sum(-1, keepdim=True)).sum()
    return torch.autograd.grad(loss, leaves)


def causal_gradients(*saved: Tensor) -> tuple[Tensor, ...]:
    return gradients(*saved, sees=lambda i, j: j <= i)


def packed_gradients(*saved: Tensor) -> tuple[Tensor, ...]:
    *tensors, starts = saved
    number = torch.bucketize(torch.arange(len(tensors[0])), starts.long(), right=True)
    q, k, v, o, lse, do = (x[None] if x.dim() == 2 else x.transpose(0, 1)[None] for x in tensors)
    found = gradients(q, k, v, o, lse, do, sees=lambda i, j: j <= i and bool(number[i] == number[j]))
    return tuple(gradient[0].transpose(0, 1) for gradient in found)


CHECKS: dict[str, Callable[..., Any]] = {
    "attention_backward": gradients, "attention_backward_causal": causal_gradients,
    "attention_backward_gqa": causal_gradients,
    "attention_backward_varlen": packed_gradients,
    "attention_varlen_prefill": packed,
    "mla_prefill": packed, "attention_fp8_prefill": fp8_prefill,
    "paged_gqa_decode": one_token, "paged_fp8_decode": fp8_decode, "int4_cache_decode": int4_decode,
    "draft_verify_decode": last_tokens, "tree_decode": tree, "shared_prefix_decode": prefix,
    "mla_paged_decode": latent, "mla_sparse_decode": chosen,
    "attention_backward_window": lambda *saved: gradients(*saved[:-1], sees=lambda i, j: i - saved[-1] < j <= i),
    "attention_window_sinks": lambda q, k, v, starts, sinks, window: packed(q, k, v, starts, window, sinks=sinks),
    "attention_softcap_prefill": lambda q, k, v, starts, cap: packed(q, k, v, starts, cap=cap),
    "attention_chunked_prefill": lambda q, *cache: last_tokens(q, *cache),
}  # fmt: skip
"""Independent formulation by problem id: takes the problem's inputs, gives its outputs (floats in float64)."""
