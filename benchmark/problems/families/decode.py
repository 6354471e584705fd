"""Attention of new tokens over paged caches: grouped heads, latent heads, narrow types, drafts, trees and prefixes."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from kbench.benchmark.problems.adversarial.cases import InputCase, extremes, large, one_hot, outliers
from kbench.benchmark.problems.definition import ProblemDefinition, Size, Tolerance, upcast
from kbench.benchmark.problems.families.attention import BF16_ATTENTION, SHARP_QUERIES
from kbench.benchmark.problems.families.shared import MIXED_LENGTHS, bf16, lengths_up_to, used_tokens, wide
from kbench.benchmark.problems.inputs import (
    Params,
    Sized,
    TensorSpec,
    integers,
    normal,
    parameters,
    permutation,
    tensors,
    uniform,
)
from kbench.benchmark.problems.lazy_torch import F, Generator, Tensor, torch

PAGE = 64
"""Tokens of a page."""
LATENT, ROTARY = 512, 64
"""Widths of a token's value and of the rotary part of its key beside it, in DeepSeek's latent attention."""
NARROW_CACHE = Tolerance(
    1.5e-2, 3e-2,
    "keys and values may be rounded to bfloat16 after scaling (2^-9 relative), which moves scores; probabilities too",
)  # fmt: skip
PAGED = (
    f"Sequence b has lengths[b] (int32) tokens; token t lies in page table[b, t // {PAGE}] at place t % {PAGE}. Pages "
    "are laid out [page, place, key-value head, dim], and neighbouring query heads share a key-value head."
)
CACHE_CASES = (SHARP_QUERIES, outliers("v_pages", factor=16.0), one_hot("q"), MIXED_LENGTHS)


def grouped_attention(q: Tensor, k: Tensor, v: Tensor, seen: Tensor) -> Tensor:
    """Attention of q (batch, new, heads, dim) to k and v (batch, token, kv_heads, dim); seen (batch, new, token)."""
    group = q.shape[2] // k.shape[2]
    k, v = k.repeat_interleave(group, dim=2), v.repeat_interleave(group, dim=2)
    q, k, v = q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)
    o = F.scaled_dot_product_attention(q, k, v, attn_mask=seen.unsqueeze(1))
    return o.transpose(1, 2).contiguous()


def sequence_by_sequence(reference: Callable[..., Any], names: str) -> Callable[..., Any]:
    """A reference in float64, one sequence after another: all caches at once would not fit.

    Args:
        reference: takes a page table among other inputs.
        names: what its inputs are, in order: `table`, `pages` that it looks up there, what each `sequence` has of its
            own, and what is `shared`.
    """
    kinds = names.split()

    def part(kind: str, value: Tensor, b: int, row: Tensor) -> Any:
        if kind == "table":
            return torch.arange(len(row), device=row.device)[None]
        own: dict[str, Any] = {"pages": row, "sequence": slice(b, b + 1), "shared": slice(None)}
        return upcast(value[own[kind]])

    def oracle(*inputs: Tensor) -> Tensor:
        rows = enumerate(inputs[kinds.index("table")].long())
        return torch.cat([reference(*(part(k, x, *at) for k, x in zip(kinds, inputs, strict=True))) for at in rows])

    return oracle


def in_use(lengths: Tensor, places: int, new: int = 1) -> Tensor:
    """(batch, new, places): the tokens that each of the last `new` tokens sees."""
    last = lengths[:, None].long() - new + torch.arange(new, device=lengths.device)
    return torch.arange(places, device=lengths.device) <= last[:, :, None]


def paged_gqa_decode(q: Tensor, k_pages: Tensor, v_pages: Tensor, table: Tensor, lengths: Tensor) -> Tensor:
    k, v = k_pages[table.long()].flatten(1, 2), v_pages[table.long()].flatten(1, 2)
    return grouped_attention(q.unsqueeze(1), k, v, in_use(lengths, k.shape[1])).squeeze(1)


def draft_verify_decode(q: Tensor, k_pages: Tensor, v_pages: Tensor, table: Tensor, lengths: Tensor) -> Tensor:
    k, v = k_pages[table.long()].flatten(1, 2), v_pages[table.long()].flatten(1, 2)
    return grouped_attention(q, k, v, in_use(lengths, k.shape[1], q.shape[1]))


def tree_decode(
    q: Tensor,
    k_pages: Tensor,
    v_pages: Tensor,
    table: Tensor,
    lengths: Tensor,
    k_new: Tensor,
    v_new: Tensor,
    tree: Tensor,
) -> Tensor:
    k = torch.cat((k_pages[table.long()].flatten(1, 2), k_new), dim=1)
    v = torch.cat((v_pages[table.long()].flatten(1, 2), v_new), dim=1)
    before = in_use(lengths, k.shape[1] - q.shape[1]).expand(-1, q.shape[1], -1)
    return grouped_attention(q, k, v, torch.cat((before, tree.bool()), dim=2))


def shared_prefix_decode(
    q: Tensor, k_prefix: Tensor, v_prefix: Tensor, k_pages: Tensor, v_pages: Tensor, table: Tensor, lengths: Tensor
) -> Tensor:
    batch, prefix = q.shape[0], k_prefix.shape[0]
    k = torch.cat((k_prefix.expand(batch, -1, -1, -1), k_pages[table.long()].flatten(1, 2)), dim=1)
    v = torch.cat((v_prefix.expand(batch, -1, -1, -1), v_pages[table.long()].flatten(1, 2)), dim=1)
    return grouped_attention(q.unsqueeze(1), k, v, in_use(lengths + prefix, k.shape[1])).squeeze(1)


def paged_fp8_decode(
    q: Tensor, k_pages: Tensor, v_pages: Tensor, k_scale: Tensor, v_scale: Tensor, table: Tensor, lengths: Tensor
) -> Tensor:
    k, v = (bf16(wide(pages[table.long()].flatten(1, 2)) * scale[:, None])
            for pages, scale in ((k_pages, k_scale), (v_pages, v_scale)))  # fmt: skip
    return grouped_attention(q.unsqueeze(1), k, v, in_use(lengths, k.shape[1])).squeeze(1)


def unpacked(packed: Tensor, scale: Tensor, zero: Tensor) -> Tensor:
    """(nibble - zero) * scale per token and head; the low nibble comes first."""
    nibbles = torch.stack((packed & 15, packed >> 4), dim=-1).flatten(-2)
    return (nibbles.to(scale.dtype) - zero.unsqueeze(-1)) * scale.unsqueeze(-1)


def int4_cache_decode(
    q: Tensor, k_pages: Tensor, v_pages: Tensor, k_scale: Tensor, k_zero: Tensor, v_scale: Tensor, v_zero: Tensor,
    table: Tensor, lengths: Tensor,
) -> Tensor:  # fmt: skip
    rows = table.long()
    k = unpacked(k_pages[rows], wide(k_scale[rows]), wide(k_zero[rows])).flatten(1, 2).to(q.dtype)
    v = unpacked(v_pages[rows], wide(v_scale[rows]), wide(v_zero[rows])).flatten(1, 2).to(q.dtype)
    return grouped_attention(q.unsqueeze(1), k, v, in_use(lengths, k.shape[1])).squeeze(1)


def mla_paged_decode(q: Tensor, pages: Tensor, table: Tensor, lengths: Tensor) -> Tensor:
    keys = pages[table.long()].flatten(1, 2).unsqueeze(1)
    mask = in_use(lengths, keys.shape[2]).unsqueeze(1)
    values = keys[..., : q.shape[2] - 64]
    return F.scaled_dot_product_attention(q.unsqueeze(1), keys, values, attn_mask=mask, scale=192**-0.5).squeeze(1)


def mla_sparse_decode(q: Tensor, cache: Tensor, chosen: Tensor) -> Tensor:
    keys = cache[chosen.clamp(min=0).long()].unsqueeze(1)
    mask = (chosen >= 0)[:, None, None, :]
    values = keys[..., : q.shape[2] - 64]
    return F.scaled_dot_product_attention(q.unsqueeze(1), keys, values, attn_mask=mask, scale=192**-0.5).squeeze(1)


def chosen_tokens(generator: Generator, spec: TensorSpec, device: str, tokens: int) -> Tensor:
    """Different places of the cache for each query, in random order; an eighth of them is -1, for none."""
    count = spec.shape[1]
    step = tokens // count
    first = torch.arange(count, device=device) * step
    drawn = first + torch.randint(0, step, spec.shape, generator=generator, device=device)
    absent = torch.rand(spec.shape, generator=generator, device=device) < 0.125
    absent[:, 0] = False
    order = torch.rand(spec.shape, generator=generator, device=device).argsort(dim=1)
    return torch.where(absent, -1, drawn).gather(1, order).to(torch.int32)


def few_chosen(generator: Generator, chosen: Tensor) -> Tensor:
    """Queries that chose all but nothing, among ordinary ones."""
    rows = torch.rand(chosen.shape[0], generator=generator, device=chosen.device).argsort() < max(len(chosen) // 4, 1)
    kept = torch.rand(chosen.shape, generator=generator, device=chosen.device) < 0.02
    best = chosen == chosen.max(dim=1, keepdim=True).values
    return torch.where(rows[:, None] & ~kept & ~best, -1, chosen)


def draft_tree(generator: Generator, spec: TensorSpec, device: str) -> Tensor:
    """Which drafts each draft sees: itself and its ancestors, where every draft continues an earlier one or none."""
    batch, nodes, _ = spec.shape
    parent = (torch.rand(batch, nodes, generator=generator, device=device) * torch.arange(nodes, device=device)).long()
    seen = torch.eye(nodes, device=device, dtype=torch.bool).repeat(batch, 1, 1)
    for node in range(1, nodes):
        above = seen[torch.arange(batch, device=device), parent[:, node]]
        seen[:, node] |= above
    return seen


PAGES = f"batch*longest/{PAGE},{PAGE}"
"""Dimensions of a cache: how many pages, and the places of each."""
CACHE = f"k_pages v_pages: bfloat16[{PAGES},kv_heads,dim]"
_ragged = tensors(
    f"table: int32[batch,longest/{PAGE}]", "lengths: int32[batch]", table=permutation,
    lengths=Sized(lambda p: lengths_up_to(p["longest"])),
)  # fmt: skip
_query = tensors("q: bfloat16[batch,heads,dim]", q=normal(2.0))
_inputs = tensors(_query, CACHE, _ragged)
_draft_inputs = tensors("q: bfloat16[batch,new,heads,dim]", CACHE, _ragged, q=normal(2.0))
_latent_output = tensors(f"o: bfloat16[batch,heads,width-{ROTARY}]")


def _tokens(p: Params) -> int:
    return used_tokens(p["batch"], p["longest"])


def _flops(p: Params) -> int:
    return int(4 * p.get("new", 1) * p["heads"] * p["dim"] * (_tokens(p) + p["batch"] * p.get("prefix", 0)))


def _bytes(p: Params, token: float | None = None) -> int:
    """Each token of the cache once, of `token` bytes for every key-value head, and queries and outputs once."""
    token = 4 * p["dim"] if token is None else token
    return int(
        (_tokens(p) + p.get("prefix", 0)) * p["kv_heads"] * token
        + 4 * p["batch"] * p.get("new", 1) * p["heads"] * p["dim"]
    )


_sized = parameters("batch longest heads kv_heads dim")
_latent = parameters("batch longest heads width", width=LATENT + ROTARY)
_sparse = parameters("batch tokens count heads width", width=LATENT + ROTARY)
problem = functools.partial(
    ProblemDefinition, family="attention", inputs=_inputs, outputs=tensors("o: bfloat16[batch,heads,dim]"),
    flops=_flops, min_bytes=_bytes, tolerance=BF16_ATTENTION, compute_unit="bf16", cases=CACHE_CASES,
    tiny=Size("tiny", _sized(5, 128, 4, 2, 32)),
)  # fmt: skip
SEVERAL = tensors("o: bfloat16[batch,new,heads,dim]")

PROBLEMS: tuple[ProblemDefinition, ...] = (
    problem(
        id="paged_gqa_decode", title="Grouped-query attention of one new token over a paged cache",
        reference=paged_gqa_decode,
        oracle=sequence_by_sequence(paged_gqa_decode, "sequence pages pages table sequence"),
        description=f"Decoding step of grouped-query attention in bfloat16. {PAGED}",
        sizes=(
            Size("llama3_8b_b64", _sized(64, 4096, 32, 8, 128), "Llama-3-8B decode, 64 sequences of up to 4096 tokens"),
            Size("llama3_8b_32k", _sized(4, 32768, 32, 8, 128), "Llama-3-8B decode, 4 sequences of up to 32k tokens"),
            Size("qwen3_32b_tp4", _sized(128, 4096, 16, 2, 128), "Qwen3-32B on one of 4 GPUs, 128 sequences"),
        ),
    ),
    problem(
        id="paged_fp8_decode", title="Attention of one new token over a paged float8 cache",
        reference=paged_fp8_decode,
        oracle=sequence_by_sequence(paged_fp8_decode, "sequence pages pages shared shared table sequence"),
        description="Decoding step of grouped-query attention with bfloat16 queries over a float8_e4m3fn cache, whose "
            f"keys and values have one float32 scale per key-value head (k_scale, v_scale). {PAGED}",
        inputs=tensors(
            _query, f"k_pages v_pages: float8_e4m3fn[{PAGES},kv_heads,dim]", "k_scale v_scale[kv_heads]", _ragged,
            k_scale=uniform(0.5, 1.5), v_scale=uniform(0.5, 1.5),
        ),
        min_bytes=lambda p: _bytes(p, 2 * p["dim"]),
        sizes=(
            Size("llama3_8b_b64", _sized(64, 8192, 32, 8, 128), "Llama-3-8B decode, 64 sequences of up to 8192 tokens"),
            Size("llama3_70b_tp8", _sized(128, 8192, 8, 1, 128), "Llama-3-70B on one of 8 GPUs, 128 sequences"),
            Size("qwen25_7b_32k", _sized(8, 32768, 28, 4, 128), "Qwen2.5-7B decode, 8 sequences of up to 32k tokens"),
        ),
        tolerance=NARROW_CACHE,
        cases=(large("q", factor=2.0, atol_scale=4.0), *CACHE_CASES[1:]),
    ),
    problem(
        id="int4_cache_decode", title="Attention of one new token over a paged 4-bit cache",
        reference=int4_cache_decode,
        oracle=sequence_by_sequence(int4_cache_decode, f"sequence {'pages ' * 6}table sequence"),
        description="Decoding step of grouped-query attention with bfloat16 queries over a cache of 4-bit numbers, two "
            "a byte with the lower four bits first. A number is (nibble - zero) * scale, with a float16 scale and zero "
            f"for every token and key-value head. {PAGED}",
        inputs=tensors(
            _query, f"k_pages v_pages: uint8[{PAGES},kv_heads,dim/2]",
            f"k_scale k_zero v_scale v_zero: float16[{PAGES},kv_heads]", _ragged, k_pages=integers(0, 256),
            v_pages=integers(0, 256), k_scale=uniform(0.1, 0.3), k_zero=uniform(6.0, 9.0), v_scale=uniform(0.1, 0.3),
            v_zero=uniform(6.0, 9.0),
        ),
        min_bytes=lambda p: _bytes(p, p["dim"] + 8),
        sizes=(
            Size("llama3_8b_b64", _sized(64, 8192, 32, 8, 128), "Llama-3-8B decode, 64 sequences of up to 8192 tokens"),
            Size("qwen25_7b_32k", _sized(16, 32768, 28, 4, 128), "Qwen2.5-7B decode, 16 sequences of up to 32,768"),
            Size("mistral_7b_b128", _sized(128, 4096, 32, 8, 128), "Mistral-7B decode, 128 sequences of up to 4096"),
        ),
        tolerance=NARROW_CACHE,
        cases=(
            large("q", factor=2.0, atol_scale=4.0), one_hot("q"), MIXED_LENGTHS,
            extremes("k_pages", "v_pages", values=(0, 15, 240, 255), atol_scale=4.0),
        ),
    ),
    problem(
        id="draft_verify_decode", title="Attention of a few drafted tokens over a paged cache",
        reference=draft_verify_decode,
        oracle=sequence_by_sequence(draft_verify_decode, "sequence pages pages table sequence"),
        description="Verification step of speculative decoding in bfloat16: the last `new` tokens of each sequence are "
            f"queries, and each sees all tokens up to itself. {PAGED}",
        inputs=_draft_inputs, outputs=SEVERAL,
        sizes=(
            Size("llama3_8b_b32", _sized(32, 8192, 32, 8, 128, new=4), "Llama-3-8B, 4 drafted tokens, 32 sequences"),
            Size("llama3_70b_tp8", _sized(64, 8192, 8, 1, 128, new=8), "Llama-3-70B on one of 8 GPUs, 8 drafts"),
            Size("qwen3_8b_32k", _sized(2, 32768, 32, 8, 128, new=6), "Qwen3-8B, 6 drafted tokens at 32,768 tokens"),
        ),
        tiny=Size("tiny", _sized(5, 128, 4, 2, 32, new=3)),
        cases=CACHE_CASES[:3],
    ),
    problem(
        id="tree_decode", title="Attention of a tree of drafted tokens over a paged cache", reference=tree_decode,
        oracle=sequence_by_sequence(tree_decode, "sequence pages pages table sequence sequence sequence sequence"),
        description="Verification of a tree of `new` drafted tokens in bfloat16. Each draft sees the whole cache of "
            "its sequence and those drafts, with keys k_new and values v_new, for which tree[b, draft, other] is true. "
            f"{PAGED}",
        inputs=tensors(
            _draft_inputs, "k_new v_new: bfloat16[batch,new,kv_heads,dim]", "tree: bool[batch,new,new]",
            tree=draft_tree,
        ),
        outputs=SEVERAL,
        sizes=(
            Size("llama3_8b_b16", _sized(16, 8192, 32, 8, 128, new=32), "Llama-3-8B, trees of 32 drafts, 16 sequences"),
            Size("vicuna_7b_b8", _sized(8, 4096, 32, 32, 128, new=64), "Vicuna-7B with Medusa, trees of 64 drafts"),
            Size("llama3_70b_tp8", _sized(32, 8192, 8, 1, 128, new=60), "Llama-3-70B with EAGLE on one of 8 GPUs"),
        ),
        tiny=Size("tiny", _sized(3, 128, 4, 2, 32, new=7)),
    ),
    problem(
        id="shared_prefix_decode", title="Attention of one new token after a prefix that all sequences share",
        reference=shared_prefix_decode,
        oracle=sequence_by_sequence(shared_prefix_decode, "sequence shared shared pages pages table sequence"),
        description="Decoding step of grouped-query attention in bfloat16. All sequences begin with the same tokens, "
            "whose keys and values (k_prefix, v_prefix) are stored once; what follows is each sequence's own. "
            f"{PAGED} lengths do not count the prefix.",
        inputs=tensors(_query, "k_prefix v_prefix: bfloat16[prefix,kv_heads,dim]", CACHE, _ragged),
        sizes=(
            Size("llama3_8b_b64", _sized(64, 1024, 32, 8, 128, prefix=8192), "Llama-3-8B, 64 samples of one prompt"),
            Size("llama3_70b_tp8", _sized(128, 512, 8, 1, 128, prefix=32768), "Llama-3-70B on one of 8 GPUs"),
            Size("qwen3_8b_b32", _sized(32, 2048, 32, 8, 128, prefix=16384), "Qwen3-8B, 32 samples of one prompt"),
        ),
        tiny=Size("tiny", _sized(4, 128, 4, 2, 32, prefix=96)),
    ),
    problem(
        id="mla_paged_decode", title="Latent attention of one new token over a paged cache",
        reference=mla_paged_decode,
        oracle=sequence_by_sequence(mla_paged_decode, "sequence pages table sequence"),
        description="Decoding step of multi-head latent attention with absorbed projections, in bfloat16: all heads "
            "share one cached vector per token. Its whole width is the key and all but its last 64 elements are the "
            "value; scores are scaled by 1 / sqrt(192). Sequence b has lengths[b] (int32) tokens; token t lies in page "
            f"table[b, t // {PAGE}] at place t % {PAGE}.",
        inputs=tensors("q: bfloat16[batch,heads,width]", f"pages: bfloat16[{PAGES},width]", _ragged),
        outputs=_latent_output,
        flops=lambda p: 2 * p["heads"] * _tokens(p) * (2 * p["width"] - ROTARY),
        min_bytes=lambda p: 2 * _tokens(p) * p["width"] + 2 * p["batch"] * p["heads"] * (2 * p["width"] - ROTARY),
        sizes=(
            Size("deepseek_v3_b64", _latent(64, 8192, 128), "DeepSeek-V3 decode, 64 sequences of up to 8192 tokens"),
            Size("deepseek_v3_tp8", _latent(128, 4096, 16), "DeepSeek-V3 on one of 8 GPUs, 128 sequences"),
            Size("deepseek_v3_32k", _latent(4, 32768, 128), "DeepSeek-V3 decode, 4 sequences of up to 32k tokens"),
        ),
        tiny=Size("tiny", _latent(5, 128, 4, 64 + ROTARY)),
        cases=(
            large("q", factor=16.0), outliers("pages", factor=4.0, atol_scale=8.0), MIXED_LENGTHS,
            one_hot("q"),
        ),
    ),
    problem(
        id="mla_sparse_decode", title="Latent attention to chosen tokens", reference=mla_sparse_decode,
        description="Sparse latent attention in bfloat16: query b sees the tokens chosen[b] (int32) of one cache; -1 "
            "stands for none. All heads share one cached vector per token, whose whole width is the key and all but "
            "the last 64 elements of it the value; scores are scaled by 1 / sqrt(192).",
        inputs=tensors(
            "q: bfloat16[batch,heads,width]", "cache: bfloat16[tokens,width]", "chosen: int32[batch,count]",
            chosen=Sized(lambda p: lambda g, s, d: chosen_tokens(g, s, d, p["tokens"])),
        ),
        outputs=_latent_output,
        flops=lambda p: 2 * p["batch"] * p["heads"] * p["count"] * 7 // 8 * (2 * p["width"] - ROTARY),
        min_bytes=lambda p: int(1.5 * min(p["batch"] * p["count"], p["tokens"]) * p["width"]),
        sizes=(
            Size("deepseek_v32_b64", _sparse(64, 262144, 2048, 128), "DeepSeek-V3.2 decode, 64 queries"),
            Size("deepseek_v32_prefill", _sparse(512, 32768, 2048, 16), "DeepSeek-V3.2 on one of 8 GPUs, 512 queries"),
            Size("deepseek_v32_tp8", _sparse(128, 131072, 2048, 16), "DeepSeek-V3.2 on one of 8 GPUs, 128 queries"),
        ),
        tiny=Size("tiny", _sparse(6, 256, 64, 4, 64 + ROTARY)),
        cases=(
            large("q", factor=16.0), outliers("cache", factor=4.0, atol_scale=8.0), one_hot("q"),
            InputCase(
                "mixed_choice", "Queries with hardly a token find sums made for many.", {"chosen": few_chosen},
                mixed=True,
            ),
        ),
    ),
)  # fmt: skip
