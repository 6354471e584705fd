"""Attention: prefill, decoding one token against dense, grouped and paged caches, and attention of named models."""

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
    with_numbers,
)
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
        inputs=tensors(
            "q: bfloat16[batch,heads,dim]", f"k_pages v_pages: bfloat16[batch*max_length/{PAGE},{PAGE},heads,dim]",
            f"page_table: int32[batch,max_length/{PAGE}]", "context_lengths: int32[batch]", q=normal(2.0),
            page_table=permutation, context_lengths=Sized(lambda p: integers(p["min_length"], p["max_length"] + 1)),
        ),
        flops=lambda p: 4 * p["batch"] * p["heads"] * p["max_length"] * p["dim"],
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
        inputs=tensors(
            f"pages: int8[batch*length/{PAGE},{PAGE},heads,dim]", f"scales[batch*length/{PAGE},{PAGE},heads]",
            f"page_table: int32[batch,length/{PAGE}]", pages=integers(-127, 128), scales=uniform(0.005, 0.02),
            page_table=permutation,
        ),
        outputs=tensors("tokens: bfloat16[batch,length,heads,dim]"),
        flops=lambda p: p["batch"] * p["length"] * p["heads"] * p["dim"],
        sizes=(Size("b16_s4096", {"batch": 16, "length": 4096, "heads": 8, "dim": 128}),),
        tiny=Size("tiny", {"batch": 2, "length": 48, "heads": 2, "dim": 64}),
        tolerance=Tolerance(1e-6, 5e-3, "one product rounded to bfloat16: half a step is 2^-9 of the value"),
        cases=(EXTREME_BYTES, wide("scales", decades=6.0, atol_scale=1e-6), zero_rows("scales")),
    ),
)  # fmt: skip


LATENT, ROTARY = 512, 64
"""Widths of a token's shared value and of the rotary part of its key beside it, in DeepSeek's latent attention."""
SHORT_SEQUENCES = InputCase(
    "short", "Sequences of a few tokens find splits that assume a full cache.", {"lengths": short_lengths}
)


def causal_attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)


def causal_gqa_attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)


def sliding_window_attention(q: Tensor, k: Tensor, v: Tensor, window: int) -> Tensor:
    group = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(group, dim=1), v.repeat_interleave(group, dim=1)
    place = torch.arange(q.shape[2], device=q.device)
    distance = place[:, None] - place[None, :]
    return F.scaled_dot_product_attention(q, k, v, attn_mask=(distance >= 0) & (distance < window))


def gqa_ragged_decode(q: Tensor, k: Tensor, v: Tensor, lengths: Tensor) -> Tensor:
    used = torch.arange(k.shape[1], device=q.device) < lengths[:, None]
    k, v, mask = k.transpose(1, 2), v.transpose(1, 2), used[:, None, None, :]
    o = F.scaled_dot_product_attention(q.unsqueeze(2), k, v, attn_mask=mask, enable_gqa=True)
    return o.reshape(q.shape)


def mla_decode(q: Tensor, cache: Tensor) -> Tensor:
    keys = cache.unsqueeze(1)
    values = keys[..., : q.shape[2] - 64]
    return F.scaled_dot_product_attention(q.unsqueeze(1), keys, values, scale=192**-0.5).squeeze(1)


def cross_attention_fp16(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(q, k, v)


def fixed_lengths(generator: Generator, spec: TensorSpec, device: str, longest: int) -> Tensor:
    """Lengths from half of the longest to the longest, always the same ones, in random order.

    Lengths drawn freely would give every seed another amount of work.
    """
    lengths = torch.linspace(longest / 2, longest, spec.shape[0], device=device).round()
    return lengths[torch.randperm(spec.shape[0], generator=generator, device=device)].to(torch.int32)


def _ragged_tokens(p: Params) -> int:
    """Tokens in all caches: at least three quarters of the longest on average."""
    return int(p["batch"] * p["length"] * 3 // 4)


def _ragged_bytes(p: Params) -> int:
    vectors = 2 * _ragged_tokens(p) * p["kv_heads"] + 2 * p["batch"] * p["heads"]
    return int(2 * p["dim"] * vectors + 4 * p["batch"])


def _causal_flops(p: Params) -> int:
    """Of the pairs of a query and a key that it sees."""
    length, window = p["length"], p.get("window", p["length"])
    full = max(length - window, 0)
    pairs = full * window + (length - full) * (length - full + 1) // 2
    return int(4 * p["batch"] * p["heads"] * p["dim"] * pairs)


_sized = parameters("batch heads kv_heads length dim")
_latent = parameters("batch heads length width", width=LATENT + ROTARY)
_cross = parameters("batch heads queries keys dim", dim=64)


_grouped = tensors("q: bfloat16[batch,heads,length,dim]", "k v: bfloat16[batch,kv_heads,length,dim]", q=normal(2.0))
model_layer = functools.partial(
    ProblemDefinition, family="attention", inputs=_grouped, outputs=tensors("o: bfloat16[batch,heads,length,dim]"),
    flops=_causal_flops, tolerance=BF16_ATTENTION, compute_unit="bf16", cases=ATTENTION_CASES,
    tiny=Size("tiny", _sized(1, 4, 2, 72, 64)),
)  # fmt: skip

MODEL_LAYERS: tuple[ProblemDefinition, ...] = (
    model_layer(
        id="causal_attention", title="Causal attention over a prompt", reference=causal_attention,
        description="Multi-head attention in bfloat16 where query i sees keys 0 to i: softmax(q kᵀ / sqrt(dim)) v. "
            "Operations are counted for the pairs that are seen.",
        sizes=(
            Size("llama2_7b", _sized(1, 32, 32, 2048, 128), "Llama-2-7B attention, one prompt of 2048 tokens"),
            Size("gpt2_xl", _sized(8, 25, 25, 1024, 64), "GPT-2 XL attention, 8 sequences of 1024 tokens"),
            Size("pythia_2_8b", _sized(2, 32, 32, 2048, 80), "Pythia-2.8B attention, 2 sequences of 2048 tokens"),
        ),
        tiny=Size("tiny", _sized(1, 2, 2, 72, 64)),
    ),
    model_layer(
        id="causal_gqa_attention", title="Causal grouped-query attention over a prompt",
        reference=causal_gqa_attention,
        description="Causal attention in bfloat16 where neighbouring query heads share a key-value head, and query i "
            "sees keys 0 to i. Operations are counted for the pairs that are seen.",
        sizes=(
            Size("llama3_8b", _sized(1, 32, 8, 2048, 128), "Llama-3-8B attention, one prompt of 2048 tokens"),
            Size("qwen25_7b", _sized(2, 28, 4, 2048, 128), "Qwen2.5-7B attention, 2 prompts of 2048 tokens"),
            Size("gemma2_2b", _sized(4, 8, 4, 2048, 256), "Gemma-2-2B global attention, 4 prompts of 2048 tokens"),
        ),
    ),
    model_layer(
        id="sliding_window_attention", title="Sliding-window attention over a prompt",
        reference=sliding_window_attention,
        description="Grouped-query attention in bfloat16 where query i sees keys i - window + 1 to i (those that "
            "exist). Operations are counted for the pairs that are seen.",
        inputs=with_numbers(_grouped, window="window"),
        sizes=(
            Size("gemma3_1b", {**_sized(2, 4, 1, 4096, 256), "window": 512}, "Gemma-3-1B local attention, 2 prompts"),
            Size("gemma3_4b", {**_sized(1, 8, 4, 4096, 256), "window": 1024}, "Gemma-3-4B local attention, one prompt"),
        ),
        tiny=Size("tiny", {**_sized(1, 4, 2, 72, 64), "window": 24}),
    ),
    model_layer(
        id="gqa_ragged_decode", title="Grouped-query attention of one new token, caches of uneven length",
        reference=gqa_ragged_decode,
        description="Decoding step of grouped-query attention in bfloat16 over a cache laid out [batch, token, "
            "key-value head, dim], of which sequence b uses the first lengths[b] (int32) tokens. Neighbouring query "
            "heads share a key-value head.",
        inputs=tensors(
            "q: bfloat16[batch,heads,dim]", "k v: bfloat16[batch,length,kv_heads,dim]", "lengths: int32[batch]",
            q=normal(2.0), lengths=Sized(lambda p: lambda g, s, d: fixed_lengths(g, s, d, p["length"])),
        ),
        outputs=tensors("o: bfloat16[batch,heads,dim]"),
        flops=lambda p: 4 * _ragged_tokens(p) * p["heads"] * p["dim"], min_bytes=_ragged_bytes,
        sizes=(
            Size("llama3_8b_b32", _sized(32, 32, 8, 4096, 128), "Llama-3-8B decode, batch 32, up to 4096 tokens"),
            Size("qwen25_7b_b64", _sized(64, 28, 4, 2048, 128), "Qwen2.5-7B decode, batch 64, up to 2048 tokens"),
            Size("llama3_70b_tp8", _sized(64, 8, 1, 4096, 128), "Llama-3-70B decode on one of 8 GPUs, batch 64"),
        ),
        tiny=Size("tiny", _sized(3, 4, 2, 160, 64)),
        cases=(SHARP_QUERIES, SHORT_SEQUENCES, one_hot("q"), outliers("v", factor=100.0, atol_scale=100.0)),
    ),
    model_layer(
        id="mla_decode", title="Latent attention of one new token", reference=mla_decode,
        description="Decoding step of multi-head latent attention with absorbed projections, in bfloat16: all heads "
            "share one cached vector per token. Its whole width is the key and all but its last 64 elements are the "
            "value; scores are scaled by 1 / sqrt(192).",
        inputs=tensors("q: bfloat16[batch,heads,width]", "cache: bfloat16[batch,length,width]"),
        outputs=tensors(f"o: bfloat16[batch,heads,width-{ROTARY}]"),
        flops=lambda p: 2 * p["batch"] * p["heads"] * p["length"] * (2 * p["width"] - ROTARY),
        sizes=(
            Size("deepseek_v3_b16", _latent(16, 128, 4096), "DeepSeek-V3 decode, batch 16, 4096 tokens"),
            Size("deepseek_v2_lite_b64", _latent(64, 16, 2048), "DeepSeek-V2-Lite decode, batch 64, 2048 tokens"),
        ),
        tiny=Size("tiny", _latent(2, 4, 80, 128 + ROTARY)),
        cases=(
            SHARP_QUERIES, one_hot("q"), zero_rows("cache"), constant_rows("cache", atol_scale=4.0),
        ),
    ),
    model_layer(
        id="cross_attention_fp16", title="Attention to another sequence in float16", reference=cross_attention_fp16,
        description="Multi-head attention without a mask in float16, where queries and keys may differ in number and "
            "neither is a round one: softmax(q kᵀ / sqrt(dim)) v.",
        inputs=tensors("q: float16[batch,heads,queries,dim]", "k v: float16[batch,heads,keys,dim]", q=normal(2.0)),
        outputs=tensors("o: float16[batch,heads,queries,dim]"),
        flops=lambda p: 4 * p["batch"] * p["heads"] * p["queries"] * p["keys"] * p["dim"],
        sizes=(
            Size(
                "sdxl", _cross(4, 10, 4096, 77),
                "Stable Diffusion XL cross attention at 64 × 64, 4 images, 77 text tokens"
            ),
            Size(
                "whisper_large", _cross(8, 20, 448, 1500),
                "Whisper-large-v3 decoder cross attention, 8 windows of 1500 frames"
            ),
            Size("clip_l14", _cross(64, 16, 257, 257), "CLIP ViT-L/14 image attention, 64 images of 257 tokens"),
        ),
        tiny=Size("tiny", _cross(1, 2, 52, 37)),
        tolerance=Tolerance(1e-3, 5e-3, "float16 inputs and output (relative step 2^-11), rounded probabilities"),
        compute_unit="fp16",
    ),
)  # fmt: skip
