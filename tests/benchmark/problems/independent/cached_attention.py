"""Second formulations of attention: one query at a time, gradients by autograd."""

from collections.abc import Callable, Iterable
from typing import Any

import torch
from formulas import attend, by_token, low_high
from torch import Tensor


def packed(q: Tensor, k: Tensor, v: Tensor, starts: Tensor, window: int = 1 << 30, **how: Any) -> Tensor:
    ends = starts.tolist()

    def seen(i: int) -> slice:
        first = max(start for start in ends[:-1] if start <= i)
        return slice(max(first, i - window + 1), i + 1)

    return by_token(q, k, v, seen, **how)


def fp8_prefill(q: Tensor, k: Tensor, v: Tensor, starts: Tensor, *scales: Tensor) -> Tensor:
    return packed(*(x * s[:, None] for x, s in zip((q, k, v), scales, strict=True)), starts)


def by_query(q: Tensor, k: Tensor, v: Tensor, window: int | None = None) -> Tensor:
    """Attention of (batch, head, token, dim) tensors."""

    def seen(i: int) -> slice:
        return slice(None) if window is None else slice(max(0, i - window + 1), i + 1)

    answers = [by_token(*(x.transpose(0, 1) for x in one), seen).transpose(0, 1) for one in zip(q, k, v, strict=True)]
    return torch.stack(answers)


def causal(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return by_query(q, k, v, q.shape[2])


def ragged_decode(q: Tensor, k: Tensor, v: Tensor, lengths: Tensor) -> Tensor:
    """One query of every sequence against its first tokens."""
    answers = [
        by_token(one[None], *cache, lambda i, n=n: slice(0, n))[0]
        for one, *cache, n in zip(q, k, v, lengths.tolist(), strict=True)
    ]
    return torch.stack(answers)


def decode(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return ragged_decode(q, k, v, torch.full((len(q),), k.shape[1]))


def rows_of(pages: Tensor, table: Tensor, length: int) -> Tensor:
    """The first tokens of one sequence, read place by place."""
    size = pages.shape[1]
    return torch.stack([pages[int(table[t // size]), t % size] for t in range(length)])


def last_tokens(q: Tensor, k_pages: Tensor, v_pages: Tensor, table: Tensor, lengths: Tensor) -> Tensor:
    answers = []
    for b, length in enumerate(lengths.tolist()):
        k, v = rows_of(k_pages, table[b], length), rows_of(v_pages, table[b], length)
        first = length - q.shape[1]
        answers.append(by_token(q[b], k, v, lambda i, first=first: slice(0, first + i + 1)))
    return torch.stack(answers)


def one_token(q: Tensor, *cache: Tensor) -> Tensor:
    return last_tokens(q[:, None], *cache)[:, 0]


def fp8_decode(q: Tensor, k: Tensor, v: Tensor, k_scale: Tensor, v_scale: Tensor, *where: Tensor) -> Tensor:
    return one_token(q, k * k_scale[:, None], v * v_scale[:, None], *where)


def int4_decode(
    q: Tensor, k: Tensor, v: Tensor, k_scale: Tensor, k_zero: Tensor, v_scale: Tensor, v_zero: Tensor, *where: Tensor
) -> Tensor:
    cache = ((k, k_scale, k_zero), (v, v_scale, v_zero))
    return one_token(q, *((low_high(x) - zero[..., None]) * scale[..., None] for x, scale, zero in cache), *where)


def dequantised(pages: Tensor, scales: Tensor, table: Tensor) -> Tensor:
    return torch.stack([rows_of(pages * scales[..., None], one, 16 * len(one)) for one in table])


def tree(
    q: Tensor, k: Tensor, v: Tensor, table: Tensor, lengths: Tensor, k_new: Tensor, v_new: Tensor, sees: Tensor
) -> Tensor:
    answers = []
    for b, length in enumerate(lengths.tolist()):
        keys = torch.cat((rows_of(k, table[b], length), k_new[b]))
        values = torch.cat((rows_of(v, table[b], length), v_new[b]))
        before = torch.ones(q.shape[1], length, dtype=torch.bool)
        mask = torch.cat((before, sees[b]), dim=1)
        answers.append(by_token(q[b], keys, values, lambda i, mask=mask: mask[i]))
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


def by_latent(q: Tensor, caches: Iterable[Tensor]) -> Tensor:
    """Every head of a query against keys of which all but the last 64 numbers are the values."""
    rows = [
        attend(head, keys, keys[:, :-64], 192**-0.5) for heads, keys in zip(q, caches, strict=True) for head in heads
    ]
    return torch.stack(rows).view(*q.shape[:2], -1)


def latent(q: Tensor, pages: Tensor, table: Tensor, lengths: Tensor) -> Tensor:
    return by_latent(q, [rows_of(pages, one, n) for one, n in zip(table, lengths.tolist(), strict=True)])


def chosen(q: Tensor, cache: Tensor, places: Tensor) -> Tensor:
    return by_latent(q, [cache[one[one >= 0].long()] for one in places])


def gradients(*saved: Tensor, sees: Callable[[int, int], bool] = lambda i, j: True) -> tuple[Tensor, ...]:
    """Gradients by autograd of Σ P (do·v − do·o), with P's own gradient taken through its logarithm."""
    o, lse, do = saved[3:]
    leaves = [x.clone().requires_grad_() for x in saved[:3]]
    group, scale, length = saved[0].shape[1] // saved[1].shape[1], saved[0].shape[3] ** -0.5, saved[0].shape[2]
    mask = torch.tensor([[sees(i, j) for j in range(length)] for i in range(length)])
    keys, values = (leaf.repeat_interleave(group, 1) for leaf in leaves[1:])
    p = torch.where(mask, (torch.einsum("bhid,bhjd->bhij", leaves[0], keys) * scale - lse[..., None]).exp(), 0.0)
    # P is a probability: through the sums `lse` its gradient loses do·o.
    benefit = torch.einsum("bhid,bhjd->bhij", do, values)
    return torch.autograd.grad((p * benefit).sum() - (p * (do * o).sum(-1, keepdim=True)).sum(), leaves)


def causal_gradients(*saved: Tensor) -> tuple[Tensor, ...]:
    return gradients(*saved, sees=lambda i, j: j <= i)


def packed_gradients(*saved: Tensor) -> tuple[Tensor, ...]:
    *tensors, starts = saved
    number = torch.bucketize(torch.arange(len(tensors[0])), starts.long(), right=True)
    batch = (x[None] if x.dim() == 2 else x.transpose(0, 1)[None] for x in tensors)
    found = gradients(*batch, sees=lambda i, j: j <= i and bool(number[i] == number[j]))
    return tuple(gradient[0].transpose(0, 1) for gradient in found)


CHECKS: dict[str, Callable[..., Any]] = {
    "attention_prefill": by_query, "cross_attention_fp16": by_query, "sliding_window_attention": by_query,
    "causal_attention": causal, "causal_gqa_attention": causal, "gqa_ragged_decode": ragged_decode,
    "gqa_decode": decode, "attention_decode": lambda q, k, v: decode(q, k.transpose(1, 2), v.transpose(1, 2)),
    "mla_decode": by_latent, "paged_attention_decode": one_token, "paged_kv_dequant": dequantised,
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
