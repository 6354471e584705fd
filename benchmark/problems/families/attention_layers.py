"""Attention of named models: causal prompts, sliding windows, ragged and latent caches, cross attention."""

from __future__ import annotations

import functools

from kbench.benchmark.problems.adversarial.cases import InputCase, constant_rows, one_hot, outliers, zero_rows
from kbench.benchmark.problems.definition import ProblemDefinition, Size, Tolerance
from kbench.benchmark.problems.families.attention import ATTENTION_CASES, BF16_ATTENTION, SHARP_QUERIES, short_lengths
from kbench.benchmark.problems.inputs import Params, Sized, TensorSpec, normal, parameters, tensors, with_numbers
from kbench.benchmark.problems.lazy_torch import F, Generator, Tensor, torch

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


_ragged_inputs = tensors(
    "q: bfloat16[batch,heads,dim]", "k v: bfloat16[batch,length,kv_heads,dim]", "lengths: int32[batch]", q=normal(2.0),
    lengths=Sized(lambda p: lambda g, s, d: fixed_lengths(g, s, d, p["length"])),
)  # fmt: skip


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
problem = functools.partial(
    ProblemDefinition, family="attention", inputs=_grouped, outputs=tensors("o: bfloat16[batch,heads,length,dim]"),
    flops=_causal_flops, tolerance=BF16_ATTENTION, compute_unit="bf16", cases=ATTENTION_CASES,
    tiny=Size("tiny", _sized(1, 4, 2, 72, 64)),
)  # fmt: skip

PROBLEMS: tuple[ProblemDefinition, ...] = (
    problem(
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
    problem(
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
    problem(
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
    problem(
        id="gqa_ragged_decode", title="Grouped-query attention of one new token, caches of uneven length",
        reference=gqa_ragged_decode,
        description="Decoding step of grouped-query attention in bfloat16 over a cache laid out [batch, token, "
            "key-value head, dim], of which sequence b uses the first lengths[b] (int32) tokens. Neighbouring query "
            "heads share a key-value head.",
        inputs=_ragged_inputs, outputs=tensors("o: bfloat16[batch,heads,dim]"),
        flops=lambda p: 4 * _ragged_tokens(p) * p["heads"] * p["dim"], min_bytes=_ragged_bytes,
        sizes=(
            Size("llama3_8b_b32", _sized(32, 32, 8, 4096, 128), "Llama-3-8B decode, batch 32, up to 4096 tokens"),
            Size("qwen25_7b_b64", _sized(64, 28, 4, 2048, 128), "Qwen2.5-7B decode, batch 64, up to 2048 tokens"),
            Size("llama3_70b_tp8", _sized(64, 8, 1, 4096, 128), "Llama-3-70B decode on one of 8 GPUs, batch 64"),
        ),
        tiny=Size("tiny", _sized(3, 4, 2, 160, 64)),
        cases=(SHARP_QUERIES, SHORT_SEQUENCES, one_hot("q"), outliers("v", factor=100.0, atol_scale=100.0)),
    ),
    problem(
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
    problem(
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
