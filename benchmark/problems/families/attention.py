"""Attention: prefill, and decoding one token against dense, grouped and paged caches."""

from __future__ import annotations

import functools

from kbench.benchmark.problems.adversarial.cases import (
    InputCase,
    constant_rows,
    extremes,
    one_hot,
    outliers,
    wide,
    zero_rows,
)
from kbench.benchmark.problems.adversarial.changes import scale
from kbench.benchmark.problems.definition import ProblemDefinition, Size, Tolerance
from kbench.benchmark.problems.inputs import Params, Sized, integers, normal, permutation, tensors, uniform
from kbench.benchmark.problems.lazy_torch import F, Generator, Tensor, torch

PAGE = 16
"""Tokens of a cache page."""
BF16_ATTENTION = Tolerance(
    4e-3, 2e-2, "bfloat16 inputs and output (relative step 2^-8) and probabilities possibly rounded to bfloat16"
)


SHARP_QUERIES = InputCase(
    "large", "Scores beyond the range of exp find a softmax without the maximum.", {"q": scale(32.0)}, unit=0
)
ATTENTION_CASES = (
    SHARP_QUERIES,
    zero_rows("k"),
    one_hot("q"),
    constant_rows("v", atol_scale=4.0),
    outliers("v", factor=100.0, atol_scale=100.0),
)
EXTREME_BYTES = extremes("pages", values=(-128, 127))


def short_lengths(generator: Generator, lengths: Tensor) -> Tensor:
    """Lengths from one token to a little more than a page, and others as drawn."""
    drawn = torch.randint(1, PAGE + 3, lengths.shape, generator=generator, device=lengths.device)
    return torch.where(torch.rand(lengths.shape, generator=generator, device=lengths.device) < 0.7, drawn, lengths)


SHORT_CONTEXTS = InputCase(
    "short",
    "Sequences of a few tokens find splits and pages that assume a full one.",
    {"context_lengths": short_lengths},
)


def lone_key(generator: Generator, keys: Tensor) -> Tensor:
    """Keys of zeros but for one per batch and head, at a random place and of a random size."""
    shape = (*keys.shape[:2], 1, 1)
    at = torch.randint(keys.shape[2], shape, generator=generator, device=keys.device)
    size = 0.4 + 0.6 * torch.rand(shape, generator=generator, device=keys.device)
    places = torch.arange(keys.shape[2], device=keys.device).view(1, 1, -1, 1)
    return torch.where(places == at, keys.float().abs() * size, 0.0).to(keys.dtype)


LONE_KEY = InputCase(
    "lone_key",
    "One key far above thousands of equal ones finds values that are left out because their share is small.",
    {"q": lambda generator, x: x.abs(), "k": lone_key, "v": lambda generator, x: x + 1.0},
)


def sink_pages(generator: Generator, pages: Tensor) -> Tensor:
    """Keys of half the size, but for the first token of some pages, which lies along all queries."""
    keys = 0.5 * pages.float()
    keys[::64, 0] = 1.0 + 0.05 * pages[::64, 0].float()
    return keys.to(pages.dtype)


SINKS = InputCase(
    "sinks",
    "A few tokens that most of the attention goes to find values that are left out because their share is small.",
    {
        "q": lambda generator, x: (0.9 + 0.1 * x.float()).to(x.dtype),
        "k_pages": sink_pages,
        "v_pages": lambda generator, x: (2.0 + x.float()).to(x.dtype),
    },
)


def attention_prefill(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(q, k, v)


def attention_decode(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(q.unsqueeze(2), k, v).squeeze(2)


def gqa_decode(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    o = F.scaled_dot_product_attention(q.unsqueeze(2), k.transpose(1, 2), v.transpose(1, 2), enable_gqa=True)
    return o.reshape(q.shape)


def paged_attention_decode(
    q: Tensor, k_pages: Tensor, v_pages: Tensor, page_table: Tensor, context_lengths: Tensor
) -> Tensor:
    batch, heads, dim = q.shape
    k = k_pages[page_table.long()].view(batch, -1, heads, dim).transpose(1, 2)
    v = v_pages[page_table.long()].view(batch, -1, heads, dim).transpose(1, 2)
    used = torch.arange(k.shape[2], device=q.device) < context_lengths.unsqueeze(1)
    o = F.scaled_dot_product_attention(q.unsqueeze(2), k, v, attn_mask=used.view(batch, 1, 1, -1))
    return o.reshape(q.shape)


_paged_inputs = tensors(
    "q: bfloat16[batch,heads,dim]", f"k_pages v_pages: bfloat16[batch*max_length/{PAGE},{PAGE},heads,dim]",
    f"page_table: int32[batch,max_length/{PAGE}]", "context_lengths: int32[batch]", q=normal(2.0),
    page_table=permutation, context_lengths=Sized(lambda p: integers(p["min_length"], p["max_length"] + 1)),
)  # fmt: skip


def _paged_bytes(p: Params) -> int:
    tokens = p["batch"] * p["min_length"] + 2 * p["batch"]
    return int(tokens * p["heads"] * p["dim"] * 2 * 2)


def paged_kv_dequant(pages: Tensor, scales: Tensor, page_table: Tensor) -> Tensor:
    batch, table_width = page_table.shape
    tokens = pages[page_table.long()].to(scales.dtype) * scales[page_table.long()].unsqueeze(-1)
    return tokens.view(batch, table_width * pages.shape[1], *pages.shape[2:]).to(torch.bfloat16)


def _dequant_oracle(pages: Tensor, scales: Tensor, page_table: Tensor) -> Tensor:
    batch, table_width = page_table.shape
    tokens = pages[page_table.long()].to(torch.float64) * scales[page_table.long()].unsqueeze(-1).to(torch.float64)
    return tokens.view(batch, table_width * pages.shape[1], *pages.shape[2:])


_dequant_inputs = tensors(
    f"pages: int8[batch*length/{PAGE},{PAGE},heads,dim]", f"scales[batch*length/{PAGE},{PAGE},heads]",
    f"page_table: int32[batch,length/{PAGE}]", pages=integers(-127, 128), scales=uniform(0.005, 0.02),
    page_table=permutation,
)  # fmt: skip


problem = functools.partial(
    ProblemDefinition,
    family="attention",
    outputs=tensors("o: bfloat16[batch,heads,dim]"),
    tolerance=BF16_ATTENTION,
    cases=ATTENTION_CASES,
)  # fmt: skip

PROBLEMS: tuple[ProblemDefinition, ...] = (
    problem(
        id="attention_prefill", title="Attention over a whole prompt", reference=attention_prefill,
        description="Multi-head attention without a mask, as in encoders and prefix language models: softmax(q kᵀ / "
            "sqrt(dim)) v per batch and head, bfloat16 in and out.",
        inputs=tensors("q k v: bfloat16[batch,heads,length,dim]", q=normal(2.0)),
        outputs=tensors("o: bfloat16[batch,heads,length,dim]"),
        flops=lambda p: 4 * p["batch"] * p["heads"] * p["length"] ** 2 * p["dim"],
        sizes=(
            Size("s2048_d64", {"batch": 2, "heads": 16, "length": 2048, "dim": 64}),
            Size("s1024_d128", {"batch": 4, "heads": 16, "length": 1024, "dim": 128}),
        ),
        tiny=Size("tiny", {"batch": 1, "heads": 2, "length": 64, "dim": 64}),
        compute_unit="bf16",
    ),
    problem(
        id="attention_decode", title="Attention of one new token", reference=attention_decode,
        description="Decoding step of multi-head attention: one query per batch and head against a full cache, "
            "softmax(q kᵀ / sqrt(dim)) v, bfloat16 in and out. The cache is laid out [batch, head, token, dim].",
        inputs=tensors("q: bfloat16[batch,heads,dim]", "k v: bfloat16[batch,heads,length,dim]", q=normal(2.0)),
        flops=lambda p: 4 * p["batch"] * p["heads"] * p["length"] * p["dim"],
        sizes=(
            Size("b16_s2048", {"batch": 16, "heads": 16, "length": 2048, "dim": 128}),
            Size("b4_s8192", {"batch": 4, "heads": 16, "length": 8192, "dim": 128}),
        ),
        tiny=Size("tiny", {"batch": 2, "heads": 2, "length": 160, "dim": 64}),
        compute_unit="bf16", cases=(*ATTENTION_CASES, LONE_KEY),
    ),
    problem(
        id="gqa_decode", title="Grouped-query attention of one new token", reference=gqa_decode,
        description="Decoding step of grouped-query attention: neighbouring query heads share a key-value head. The "
            "cache is laid out [batch, token, key-value head, dim]; bfloat16 in and out.",
        inputs=tensors("q: bfloat16[batch,heads,dim]", "k v: bfloat16[batch,length,kv_heads,dim]", q=normal(2.0)),
        flops=lambda p: 4 * p["batch"] * p["heads"] * p["length"] * p["dim"],
        sizes=(
            Size("b32_s2048", {"batch": 32, "heads": 32, "kv_heads": 8, "length": 2048, "dim": 128}),
            Size("b8_s8192", {"batch": 8, "heads": 32, "kv_heads": 8, "length": 8192, "dim": 128}),
        ),
        tiny=Size("tiny", {"batch": 2, "heads": 4, "kv_heads": 2, "length": 160, "dim": 64}),
        compute_unit="bf16",
    ),
    problem(
        id="paged_attention_decode", title="Attention of one new token over a paged cache",
        reference=paged_attention_decode,
        description="Decoding step of multi-head attention over a cache of pages of 16 tokens. Sequence b's token t "
            "lies in page page_table[b, t // 16] at place t % 16, for t below context_lengths[b]; later places are not "
            "part of it. Pages are laid out [page, place, head, dim]; bfloat16 in and out.",
        inputs=_paged_inputs, flops=lambda p: 4 * p["batch"] * p["heads"] * p["max_length"] * p["dim"],
        min_bytes=_paged_bytes,
        sizes=(Size("b16_s2048", {"batch": 16, "heads": 16, "min_length": 1024, "max_length": 2048, "dim": 128}),),
        tiny=Size("tiny", {"batch": 2, "heads": 2, "min_length": 70, "max_length": 160, "dim": 64}),
        compute_unit="bf16",
        cases=(
            SHARP_QUERIES, SHORT_CONTEXTS, one_hot("q"), outliers("v_pages", factor=100.0, atol_scale=100.0), SINKS,
        ),
    ),
    problem(
        id="paged_kv_dequant", title="Collect and dequantise a paged cache", reference=paged_kv_dequant,
        oracle=_dequant_oracle,
        description="Read an int8 key-value cache of pages of 16 tokens through a page table, multiply each token and "
            "head by its float32 scale, and write the sequences contiguously in bfloat16: out[b, t] = "
            "pages[page_table[b, t // 16], t % 16] * scales of the same place.",
        inputs=_dequant_inputs, outputs=tensors("tokens: bfloat16[batch,length,heads,dim]"),
        flops=lambda p: p["batch"] * p["length"] * p["heads"] * p["dim"],
        sizes=(Size("b16_s4096", {"batch": 16, "length": 4096, "heads": 8, "dim": 128}),),
        tiny=Size("tiny", {"batch": 2, "length": 48, "heads": 2, "dim": 64}),
        tolerance=Tolerance(1e-6, 5e-3, "one product rounded to bfloat16: half a step is 2^-9 of the value"),
        cases=(EXTREME_BYTES, wide("scales", decades=6.0, atol_scale=1e-6), zero_rows("scales")),
    ),
)  # fmt: skip
