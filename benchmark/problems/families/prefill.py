"""Attention over prompts as servers run it: packed sequences, windows with sinks, chunks, float8 and latent heads."""

from __future__ import annotations

import functools

from kbench.benchmark.problems.adversarial.cases import InputCase, large, one_hot, outliers, zero_rows
from kbench.benchmark.problems.definition import ProblemDefinition, Size, Tolerance
from kbench.benchmark.problems.families.attention import BF16_ATTENTION
from kbench.benchmark.problems.families.shared import (
    MIXED_STARTS,
    bf16,
    lengths_up_to,
    packed_pairs,
    packed_starts,
    sequence_of,
    used_tokens,
    wide,
)
from kbench.benchmark.problems.inputs import (
    Params,
    Sized,
    Specs,
    normal,
    parameters,
    permutation,
    tensors,
    uniform,
    with_numbers,
)
from kbench.benchmark.problems.lazy_torch import F, Generator, Tensor, torch

PAGE = 64
"""Tokens of a page of the cache that a chunk continues."""
FP8_ATTENTION = Tolerance(
    2e-2, 4e-2,
    "probabilities rounded to float8 (relative step 2^-4, averaged over the keys), operands and output to bfloat16",
    mismatch_share=1e-5,
)  # fmt: skip
ROUNDED_ATTENTION = Tolerance(
    6e-3, 2e-2, "bfloat16 inputs and output (relative step 2^-8) and probabilities rounded to bfloat16",
    mismatch_share=1e-6,
)  # fmt: skip
PROMPT_CASES = (large("q", factor=16.0), outliers("v", factor=16.0), zero_rows("k"), one_hot("q"))
PACKED = (
    "Sequences are packed one after another, laid out [token, head, dim]; sequence s has tokens starts[s] to "
    "starts[s + 1] (int32). A query sees keys of its own sequence up to itself"
)


def visible(starts: Tensor, tokens: int, window: int | None = None) -> Tensor:
    """Which keys the queries of packed causal sequences see."""
    sequence, place = sequence_of(starts, tokens), torch.arange(tokens, device=starts.device)
    distance = place[:, None] - place[None, :]
    return (sequence[:, None] == sequence[None, :]) & (distance >= 0) & (distance < (window or tokens))


def masked_attention(
    q: Tensor, k: Tensor, v: Tensor, seen: Tensor, cap: float = 0.0, sinks: Tensor | None = None
) -> Tensor:
    """Attention of (token, head, dim) tensors in float64, one head at a time: all scores at once would not fit."""
    heads, group = [], q.shape[1] // k.shape[1]
    for h in range(q.shape[1]):
        scores = q[:, h].double() @ k[:, h // group].double().T * q.shape[2] ** -0.5
        scores = cap * torch.tanh(scores / cap) if cap else scores
        scores = scores.masked_fill(~seen, float("-inf"))
        if sinks is not None:
            scores = torch.cat((scores, sinks[h].double().expand(len(scores), 1)), dim=1)
        heads.append(torch.softmax(scores, dim=1)[:, : k.shape[0]] @ v[:, h // group].double())
    return torch.stack(heads, dim=1)


def attention_varlen_prefill(q: Tensor, k: Tensor, v: Tensor, starts: Tensor) -> Tensor:
    group = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(group, dim=1), v.repeat_interleave(group, dim=1)
    q, k, v = (x.transpose(0, 1).unsqueeze(0) for x in (q, k, v))
    o = F.scaled_dot_product_attention(q, k, v, attn_mask=visible(starts, q.shape[2]))
    return o.squeeze(0).transpose(0, 1).contiguous()


def _varlen_oracle(q: Tensor, k: Tensor, v: Tensor, starts: Tensor) -> Tensor:
    return masked_attention(q, k, v, visible(starts, q.shape[0]))


def attention_window_sinks(q: Tensor, k: Tensor, v: Tensor, starts: Tensor, sinks: Tensor, window: int) -> Tensor:
    tokens, heads, dim = q.shape
    group = heads // k.shape[1]
    keys, values = (x.repeat_interleave(group, dim=1).transpose(0, 1) for x in (k, v))
    scores = wide(q).transpose(0, 1) @ wide(keys).transpose(1, 2) * dim**-0.5
    scores = scores.masked_fill(~visible(starts, tokens, window), float("-inf"))
    scores = torch.cat((scores, wide(sinks)[:, None, None].expand(-1, tokens, 1)), dim=-1)
    p = bf16(torch.softmax(scores, dim=-1)[..., :-1])
    return (p @ values).transpose(0, 1).contiguous()


def _sinks_oracle(q: Tensor, k: Tensor, v: Tensor, starts: Tensor, sinks: Tensor, window: int) -> Tensor:
    return masked_attention(q, k, v, visible(starts, q.shape[0], window), sinks=sinks)


def attention_softcap_prefill(q: Tensor, k: Tensor, v: Tensor, starts: Tensor, cap: float) -> Tensor:
    tokens, heads, dim = q.shape
    group = heads // k.shape[1]
    keys, values = (x.repeat_interleave(group, dim=1).transpose(0, 1) for x in (k, v))
    scores = wide(q).transpose(0, 1) @ wide(keys).transpose(1, 2) * dim**-0.5
    scores = (cap * torch.tanh(scores / cap)).masked_fill(~visible(starts, tokens), float("-inf"))
    return (bf16(torch.softmax(scores, dim=-1)) @ values).transpose(0, 1).contiguous()


def _softcap_oracle(q: Tensor, k: Tensor, v: Tensor, starts: Tensor, cap: float) -> Tensor:
    return masked_attention(q, k, v, visible(starts, q.shape[0]), cap=cap)


def mla_prefill(q: Tensor, k: Tensor, v: Tensor, starts: Tensor) -> Tensor:
    q, k, v = (x.transpose(0, 1).unsqueeze(0) for x in (q, k, v))
    o = F.scaled_dot_product_attention(q, k, v, attn_mask=visible(starts, q.shape[2]))
    return o.squeeze(0).transpose(0, 1).contiguous()


def attention_fp8_prefill(
    q: Tensor, k: Tensor, v: Tensor, starts: Tensor, q_scale: Tensor, k_scale: Tensor, v_scale: Tensor
) -> Tensor:
    group = q.shape[1] // k.shape[1]
    q = bf16(wide(q) * q_scale[:, None])
    k, v = (bf16(wide(x) * s[:, None]).repeat_interleave(group, dim=1) for x, s in ((k, k_scale), (v, v_scale)))
    q, k, v = (x.transpose(0, 1).unsqueeze(0) for x in (q, k, v))
    o = F.scaled_dot_product_attention(q, k, v, attn_mask=visible(starts, q.shape[2]))
    return o.squeeze(0).transpose(0, 1).contiguous()


def _fp8_oracle(
    q: Tensor, k: Tensor, v: Tensor, starts: Tensor, q_scale: Tensor, k_scale: Tensor, v_scale: Tensor
) -> Tensor:
    q, k, v = (x.double() * s.double()[:, None] for x, s in ((q, q_scale), (k, k_scale), (v, v_scale)))
    return masked_attention(q, k, v, visible(starts, q.shape[0]))


def _chunk_sees(lengths: Tensor, chunk: int, places: int) -> Tensor:
    """(batch, chunk, places): query i of a chunk is token lengths - chunk + i of its sequence."""
    last = lengths[:, None].long() - chunk + torch.arange(chunk, device=lengths.device)
    return torch.arange(places, device=lengths.device) <= last[:, :, None]


def attention_chunked_prefill(q: Tensor, k_pages: Tensor, v_pages: Tensor, table: Tensor, lengths: Tensor) -> Tensor:
    chunk, group = q.shape[1], q.shape[2] // k_pages.shape[2]
    k, v = (x[table.long()].flatten(1, 2).repeat_interleave(group, dim=2) for x in (k_pages, v_pages))
    mask = _chunk_sees(lengths, chunk, k.shape[1]).unsqueeze(1)
    o = F.scaled_dot_product_attention(q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2), attn_mask=mask)
    return o.transpose(1, 2).contiguous()


def _chunk_oracle(q: Tensor, k_pages: Tensor, v_pages: Tensor, table: Tensor, lengths: Tensor) -> Tensor:
    k, v = (x[table.long()].flatten(1, 2) for x in (k_pages, v_pages))
    seen = _chunk_sees(lengths, q.shape[1], k.shape[1])
    return torch.stack([masked_attention(q[b], k[b], v[b], seen[b]) for b in range(len(q))])


def few_short_chunks(generator: Generator, lengths: Tensor) -> Tensor:
    """A quarter of the sequences, at least one, has its chunk and hardly anything before it."""
    order = torch.rand(lengths.shape, generator=generator, device=lengths.device).argsort()
    shortest = lengths.min() // 2
    drawn = shortest + torch.randint(0, 5, lengths.shape, generator=generator, device=lengths.device)
    return torch.where(order < max(lengths.numel() // 4, 1), drawn, lengths)


def _packed(dtype: str = "bfloat16", value: str = "dim") -> Specs:
    return tensors(
        f"q: {dtype}[tokens,heads,dim]", f"k: {dtype}[tokens,kv_heads,dim]", f"v: {dtype}[tokens,kv_heads,{value}]",
        "starts: int32[count+1]", q=normal(2.0), starts=Sized(lambda p: packed_starts(p["tokens"])),
    )  # fmt: skip


def _chunk_tokens(p: Params) -> int:
    return used_tokens(p["batch"], p["longest"])


def _chunk_bytes(p: Params) -> int:
    cache = 2 * _chunk_tokens(p) * p["kv_heads"]
    return int(2 * p["dim"] * (cache + 2 * p["batch"] * p["chunk"] * p["heads"]) * 0.95)


def _flops(p: Params) -> int:
    pairs = packed_pairs(p["tokens"], p["count"], p.get("window"))
    return int(2 * p["heads"] * (p["dim"] + p.get("value", p["dim"])) * pairs)


_sized = parameters("tokens count heads kv_heads dim")
_chunked = parameters("batch chunk longest heads kv_heads dim")
problem = functools.partial(
    ProblemDefinition, family="attention", inputs=_packed(), outputs=tensors("o: bfloat16[tokens,heads,dim]"),
    flops=_flops, tolerance=BF16_ATTENTION, compute_unit="bf16", cases=(*PROMPT_CASES, MIXED_STARTS),
    tiny=Size("tiny", _sized(60, 5, 4, 2, 32)),
)  # fmt: skip

PROBLEMS: tuple[ProblemDefinition, ...] = (
    problem(
        id="attention_varlen_prefill", title="Causal attention over packed prompts", reference=attention_varlen_prefill,
        oracle=_varlen_oracle,
        description=f"Grouped-query attention in bfloat16 over prompts of uneven length. {PACKED}: softmax(q kᵀ / "
            "sqrt(dim)) v. Operations are counted for the pairs that are seen.",
        sizes=(
            Size("llama3_8b", _sized(8192, 16, 32, 8, 128), "Llama-3-8B prefill, 16 prompts in 8192 tokens"),
            Size("qwen3_32b", _sized(8192, 4, 64, 8, 128), "Qwen3-32B prefill, 4 prompts in 8192 tokens"),
            Size("llama32_1b", _sized(16384, 64, 32, 8, 64), "Llama-3.2-1B prefill, 64 prompts in 16384 tokens"),
        ),
    ),
    problem(
        id="attention_window_sinks", title="Sliding-window attention with sinks over packed prompts",
        reference=attention_window_sinks, oracle=_sinks_oracle,
        description=f"{PACKED}, the last `window` of them. Each head has a sink (bfloat16): a further score without a "
            "value, which takes part in the softmax's sum alone. bfloat16 in and out.",
        inputs=with_numbers(tensors(_packed(), "sinks: bfloat16[heads]"), window="window"),
        sizes=(
            Size("gpt_oss_20b", _sized(4096, 6, 64, 8, 64, window=128), "gpt-oss-20b local layer, 4096 tokens"),
            Size("gpt_oss_120b", _sized(4096, 2, 64, 8, 64, window=128), "gpt-oss-120b local layer, 2 prompts"),
            Size("gpt_oss_short", _sized(4096, 32, 64, 8, 64, window=128), "gpt-oss-20b local layer, 32 prompts"),
        ),
        tiny=Size("tiny", _sized(60, 5, 4, 2, 32, window=9)), tolerance=ROUNDED_ATTENTION,
    ),
    problem(
        id="attention_softcap_prefill", title="Causal attention with capped scores over packed prompts",
        reference=attention_softcap_prefill, oracle=_softcap_oracle,
        description=f"{PACKED}. Scores s = q kᵀ / sqrt(dim) are capped smoothly, cap * tanh(s / cap), before the "
            "softmax; bfloat16 in and out.",
        inputs=with_numbers(_packed(), cap=50.0),
        sizes=(
            Size("gemma2_2b", _sized(8192, 8, 8, 4, 256), "Gemma-2-2B global layer, 8 prompts in 8192 tokens"),
            Size("gemma2_9b", _sized(4096, 2, 16, 8, 256), "Gemma-2-9B global layer, 2 prompts in 4096 tokens"),
            Size("gemma2_27b", _sized(4096, 2, 32, 16, 128), "Gemma-2-27B global layer, 2 prompts in 4096 tokens"),
        ),
        tolerance=ROUNDED_ATTENTION, cases=(large("q", factor=64.0), *PROMPT_CASES[1:], MIXED_STARTS),
    ),
    problem(
        id="mla_prefill", title="Latent attention over packed prompts", reference=mla_prefill, oracle=_varlen_oracle,
        description=f"Causal multi-head attention of DeepSeek models with expanded heads: keys of 192 elements, values "
            f"of 128, scores scaled by 1 / sqrt(192). {PACKED}; bfloat16 in and out.",
        inputs=_packed(value="value"), outputs=tensors("o: bfloat16[tokens,heads,value]"),
        sizes=(
            Size("deepseek_v3_tp8", _sized(8192, 5, 16, 16, 192, value=128), "DeepSeek-V3 on one of 8 GPUs"),
            Size("deepseek_v2_lite", _sized(16384, 32, 16, 16, 192, value=128), "DeepSeek-V2-Lite, 32 prompts"),
            Size("deepseek_v3", _sized(4096, 2, 128, 128, 192, value=128), "DeepSeek-V3, 2 prompts in 4096 tokens"),
        ),
        tiny=Size("tiny", _sized(60, 5, 2, 2, 48, value=32)),
    ),
    problem(
        id="attention_fp8_prefill", title="Causal attention over packed prompts in float8",
        reference=attention_fp8_prefill, oracle=_fp8_oracle,
        description=f"{PACKED}. q, k and v are float8_e4m3fn and are multiplied by one float32 scale per head "
            "(q_scale, k_scale, v_scale); softmax(q kᵀ / sqrt(dim)) v in bfloat16. Probabilities may be rounded to "
            "float8.",
        inputs=tensors(
            _packed("float8_e4m3fn"), "q_scale[heads]", "k_scale v_scale[kv_heads]", q_scale=uniform(0.5, 1.5),
            k_scale=uniform(0.5, 1.5), v_scale=uniform(0.5, 1.5),
        ),
        tolerance=FP8_ATTENTION, compute_unit="fp8",
        cases=(large("q", factor=2.0, atol_scale=4.0), *PROMPT_CASES[1:], MIXED_STARTS),
        sizes=(
            Size("llama3_8b", _sized(8192, 8, 32, 8, 128), "Llama-3-8B prefill, 8 prompts in 8192 tokens"),
            Size("qwen3_30b", _sized(16384, 16, 32, 4, 128), "Qwen3-30B-A3B prefill, 16 prompts in 16384 tokens"),
            Size("llama3_70b_tp4", _sized(8192, 2, 16, 2, 128), "Llama-3-70B on one of 4 GPUs, 8192 tokens"),
        ),
    ),
    problem(
        id="attention_chunked_prefill", title="A chunk of a prompt against its paged cache",
        reference=attention_chunked_prefill, oracle=_chunk_oracle,
        description="Each sequence has a chunk of new queries whose keys are in its cache already: sequence b has "
            "lengths[b] (int32) tokens, its chunk is the last of them, and query i sees all up to itself. Token t lies "
            f"in page table[b, t // {PAGE}] at place t % {PAGE}; pages are laid out [page, place, key-value head, "
            "dim]; bfloat16 in and out.",
        inputs=tensors(
            "q: bfloat16[batch,chunk,heads,dim]",
            f"k_pages v_pages: bfloat16[batch*longest/{PAGE},{PAGE},kv_heads,dim]",
            f"table: int32[batch,longest/{PAGE}]", "lengths: int32[batch]", q=normal(2.0), table=permutation,
            lengths=Sized(lambda p: lengths_up_to(p["longest"])),
        ),
        outputs=tensors("o: bfloat16[batch,chunk,heads,dim]"),
        flops=lambda p: 4 * p["chunk"] * p["heads"] * p["dim"] * (_chunk_tokens(p) - p["batch"] * p["chunk"] // 2),
        min_bytes=_chunk_bytes,
        sizes=(
            Size("llama3_8b_32k", _chunked(1, 2048, 32768, 32, 8, 128), "Llama-3-8B, the last 2048 of 32,768 tokens"),
            Size("qwen3_8b_8k", _chunked(4, 512, 8192, 32, 8, 128), "Qwen3-8B, 4 chunks of 512 in up to 8192 tokens"),
            Size("llama3_70b_tp8", _chunked(16, 256, 8192, 8, 1, 128), "Llama-3-70B on one of 8 GPUs"),
        ),
        tiny=Size("tiny", _chunked(3, 24, 128, 4, 2, 32)),
        cases=(
            large("q", factor=16.0),
            outliers("v_pages", factor=16.0),
            InputCase(
                "mixed_lengths", "Sequences with little before their chunk find splits that assume a long cache.",
                {"lengths": few_short_chunks}, mixed=True,
            ),
            one_hot("q"),
        ),
    ),
)  # fmt: skip
