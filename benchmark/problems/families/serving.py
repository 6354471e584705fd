"""Steps of a server around its products: rotary embedding into a cache, rounding to float8, sampling, adapters."""

from __future__ import annotations

import functools

from kbench.benchmark.problems.adversarial.cases import InputCase, extremes, large, one_hot, outliers, zero_rows
from kbench.benchmark.problems.adversarial.changes import crowd_one, repeat_one
from kbench.benchmark.problems.definition import ProblemDefinition, Size, Tolerance
from kbench.benchmark.problems.families.quantized_matmul import group_offsets
from kbench.benchmark.problems.families.shared import bf16, fp8, wide
from kbench.benchmark.problems.inputs import (
    Params,
    Sized,
    TensorSpec,
    integers,
    normal,
    parameters,
    permutation,
    rooted,
    tensors,
    uniform,
    with_numbers,
)
from kbench.benchmark.problems.lazy_torch import F, Generator, Tensor, torch

GROUP = 128
"""Neighbours that share one scale."""
ROUNDED = Tolerance(
    1e-6, 5e-3,
    "values near ties between two float8 numbers may round either way, and scales follow a float32 norm; the bfloat16 "
    "sum is rounded once",
    mismatch_share=1e-2,
)  # fmt: skip
DRAWN = Tolerance(
    0.0, 0.0,
    "tokens must agree but where a float32 sum of probabilities, in any order, falls on the other side of the drawn "
    "number",
    mismatch_share=2e-2,
)  # fmt: skip


def rope_cache_write(
    qkv: Tensor, cos: Tensor, sin: Tensor, positions: Tensor, slots: Tensor, kv_heads: int
) -> tuple[Tensor, Tensor, Tensor]:
    heads = qkv.shape[1] - 2 * kv_heads
    turned, v = wide(qkv[:, : heads + kv_heads]), qkv[:, heads + kv_heads :]
    first, second = turned.chunk(2, dim=-1)
    c, s = cos[positions.long()][:, None], sin[positions.long()][:, None]
    turned = bf16(torch.cat((first * c - second * s, second * c + first * s), dim=-1))
    q, k = turned[:, :heads].contiguous(), turned[:, heads:]
    places = slots.long()
    return q, torch.empty_like(k).index_copy_(0, places, k), torch.empty_like(v).index_copy_(0, places, v)


def rmsnorm_quantise(x: Tensor, residual: Tensor, weight: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    hidden = bf16(wide(x) + wide(residual))
    y = wide(hidden) * torch.rsqrt(wide(hidden).square().mean(-1, keepdim=True) + 1e-6) * wide(weight)
    scale = y.abs().amax(-1).clamp(min=1e-10) / 448.0
    return fp8(y / scale[:, None]), scale, hidden


def _rmsnorm_oracle(x: Tensor, residual: Tensor, weight: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    # The sum is rounded to bfloat16 by the specification, and only then normalised.
    hidden = (x.double() + residual.double()).to(torch.bfloat16).double()
    return rmsnorm_quantise(hidden, torch.zeros_like(hidden), weight.double())


def swiglu_quantise(both: Tensor) -> tuple[Tensor, Tensor]:
    gate, up = wide(both).chunk(2, dim=-1)
    y = (F.silu(gate) * up).view(both.shape[0], -1, 128)
    scales = y.abs().amax(-1).clamp(min=1e-10) / 448.0
    return fp8(y / scales.unsqueeze(-1)).view(both.shape[0], -1), scales


def pick(weights: Tensor, drawn: Tensor) -> Tensor:
    """The first place where the running sum of weights exceeds the drawn share of their total."""
    running = weights.cumsum(-1)
    above = running > drawn[:, None] * running[:, -1:]
    return above.to(torch.int8).argmax(-1).to(torch.int32)


def top_p_sampling(logits: Tensor, top_p: Tensor, drawn: Tensor) -> Tensor:
    p = torch.softmax(logits, dim=-1)
    ordered, order = p.sort(dim=-1, descending=True)
    kept = ordered.cumsum(-1) - ordered < top_p[:, None]
    keep = torch.zeros_like(kept).scatter(1, order, kept)
    return pick(p * keep, drawn)


def speculative_sampling(
    draft: Tensor, target: Tensor, tokens: Tensor, accepts: Tensor, drawn: Tensor
) -> tuple[Tensor, Tensor]:
    chosen = tokens.long().unsqueeze(-1)
    likely = target[:, :-1].gather(2, chosen).squeeze(2) > accepts * draft.gather(2, chosen).squeeze(2)
    accepted = likely.to(torch.int32).cumprod(1).sum(1)
    row = torch.arange(len(draft), device=draft.device)
    last = (accepted == draft.shape[1])[:, None]
    taken = torch.where(last, 0.0, draft[row, accepted.clamp(max=draft.shape[1] - 1)])
    rest = (target[row, accepted] - taken).clamp(min=0.0)
    return accepted.to(torch.int32), pick(rest, drawn)


def lora_decode(x: Tensor, base: Tensor, a: Tensor, b: Tensor, adapter: Tensor) -> Tensor:
    chosen = adapter.long()
    low = torch.bmm(a[chosen], x.unsqueeze(-1))
    return bf16(wide(base) + wide(torch.bmm(b[chosen], low)).squeeze(-1))


def lora_prefill(x: Tensor, base: Tensor, a: Tensor, b: Tensor, offsets: Tensor) -> Tensor:
    low = F.grouped_mm(x, a.transpose(1, 2), offs=offsets)
    return base + F.grouped_mm(low, b.transpose(1, 2), offs=offsets)


def _adapters_oracle(x: Tensor, base: Tensor, a: Tensor, b: Tensor, which: Tensor) -> Tensor:
    low = torch.einsum("tk,trk->tr", x.double(), a.double()[which])
    return base.double() + torch.einsum("tr,tnr->tn", low, b.double()[which])


def _prefill_oracle(x: Tensor, base: Tensor, a: Tensor, b: Tensor, offsets: Tensor) -> Tensor:
    answers, start = [], 0
    for number, end in enumerate(offsets.tolist()):
        rows = slice(start, end)
        answers.append(base[rows].double() + x[rows].double() @ a[number].double().T @ b[number].double().T)
        start = end
    return torch.cat(answers)


def probabilities(generator: Generator, spec: TensorSpec, device: str) -> Tensor:
    """Rows that sum to one, as sharp as a model's."""
    return torch.softmax(3.0 * torch.randn(spec.shape, generator=generator, device=device), dim=-1)


_rope_inputs = with_numbers(
    tensors(
        "qkv: bfloat16[tokens,2*kv_heads+heads,dim]", "cos sin[longest,dim/2]", "positions slots: int32[tokens]",
        cos=uniform(-1.0, 1.0), sin=uniform(-1.0, 1.0), positions=Sized(lambda p: integers(0, p["longest"])),
        slots=permutation,
    ),
    kv_heads="kv_heads",
)  # fmt: skip


def _rope_bytes(p: Params) -> int:
    """Values in and out once, and the indices; tables are small or read in part."""
    return int(p["tokens"] * (4 * (p["heads"] + 2 * p["kv_heads"]) * p["dim"] + 8))


_adapters = tensors(
    "x: bfloat16[tokens,k]", "base: bfloat16[tokens,n]", "a: bfloat16[adapters,rank,k]", "b: bfloat16[adapters,n,rank]",
    a=rooted("k"), b=rooted("rank"),
)  # fmt: skip


def _lora_flops(p: Params) -> int:
    return int(2 * p["tokens"] * p["rank"] * (p["k"] + p["n"]))


def _lora_bytes(p: Params) -> int:
    """Tokens in and out, and the matrices of half of the adapters: fewer are hardly ever drawn."""
    matrices = p["adapters"] // 2 * p["rank"] * (p["k"] + p["n"])
    return int(2 * (p["tokens"] * (p["k"] + 2 * p["n"]) + matrices))


_heads = parameters("tokens heads kv_heads dim longest")
_rows = parameters("tokens hidden")
_lora = parameters("tokens adapters rank n k")
problem = functools.partial(ProblemDefinition, family="serving")

PROBLEMS: tuple[ProblemDefinition, ...] = (
    problem(
        id="rope_cache_write", title="Rotary embedding of queries and keys, written to a cache",
        reference=rope_cache_write,
        description="qkv (bfloat16: token, head, dim) holds queries, then kv_heads keys, then kv_heads values. Rotate "
            "the halves of queries and keys by row positions[t] of the float32 tables cos and sin: first*cos - "
            "second*sin, then second*cos + first*sin. Return the queries by token, and keys and values in a cache "
            "whose row slots[t] holds token t; every row is written once. Indices are int32 in no order.",
        inputs=_rope_inputs,
        outputs=tensors("q: bfloat16[tokens,heads,dim]", "k_cache v_cache: bfloat16[tokens,kv_heads,dim]"),
        flops=lambda p: 3 * p["tokens"] * (p["heads"] + p["kv_heads"]) * p["dim"], min_bytes=_rope_bytes,
        tolerance=Tolerance(1e-2, 1e-2, "float32 products, rounded to bfloat16 once (2^-9 relative)"),
        sizes=(
            Size("llama3_8b", _heads(8192, 32, 8, 128, 8192), "Llama-3-8B, 8192 tokens"),
            Size("llama3_70b", _heads(4096, 64, 8, 128, 32768), "Llama-3-70B, 4096 tokens at up to 32,768"),
            Size("gemma3_4b", _heads(8192, 8, 4, 256, 32768), "Gemma-3-4B, 8192 tokens at up to 32,768"),
        ),
        tiny=Size("tiny", _heads(12, 4, 2, 16, 40)),
        cases=(
            large("qkv", factor=64.0, atol_scale=64.0), outliers("qkv", factor=64.0),
            InputCase("repeated", "Many tokens at one position find tables read by token.", {"positions": repeat_one}),
        ),
    ),
    problem(
        id="rmsnorm_quantise", title="Residual add, RMS norm and rounding to float8", reference=rmsnorm_quantise,
        oracle=_rmsnorm_oracle,
        description="hidden = x + residual, rounded to bfloat16. Normalise each row of hidden by its root mean square "
            "(eps 1e-6), scale by weight, and round to float8_e4m3fn after dividing by the row's scale, its largest "
            "magnitude (at least 1e-10) over 448. Returns the float8 rows, the float32 scales and hidden.",
        inputs=tensors("x residual: bfloat16[tokens,hidden]", "weight: bfloat16[hidden]", weight=uniform(0.5, 1.5)),
        outputs=tensors(
            "quantised: float8_e4m3fn[tokens,hidden]", "scales[tokens]", "hidden: bfloat16[tokens,hidden]",
        ),
        flops=lambda p: 8 * p["tokens"] * p["hidden"], tolerance=ROUNDED,
        sizes=(
            Size("llama3_8b", _rows(8192, 4096), "Llama-3-8B, 8192 tokens"),
            Size("llama3_70b", _rows(2048, 8192), "Llama-3-70B, 2048 tokens"),
            Size("deepseek_v3", _rows(4096, 7168), "DeepSeek-V3, 4096 tokens"),
        ),
        tiny=Size("tiny", _rows(9, 96)),
        cases=(
            large("x", factor=2.0**10), outliers("residual", factor=64.0, atol_scale=1.0), one_hot("x"),
            zero_rows("weight", dims=()),
        ),
    ),
    problem(
        id="swiglu_quantise", title="SwiGLU and rounding to block-scaled float8", reference=swiglu_quantise,
        description="Rows of both (bfloat16) hold a gate (left half) and an input (right half). Every 128 neighbours "
            "of silu(gate) * input are divided by their scale, the largest magnitude (at least 1e-10) over 448, and "
            "rounded to float8_e4m3fn, the first output; the float32 scales are the second. Nothing is rounded before.",
        inputs=tensors("both: bfloat16[tokens,2*hidden]"),
        outputs=tensors("quantised: float8_e4m3fn[tokens,hidden]", f"scales[tokens,hidden/{GROUP}]"),
        flops=lambda p: 6 * p["tokens"] * p["hidden"], tolerance=ROUNDED,
        sizes=(
            Size("deepseek_v3", _rows(2048, 18432), "DeepSeek-V3 dense MLP, 2048 tokens"),
            Size("qwen3_30b", _rows(32768, 768), "Qwen3-30B-A3B experts, 32768 rows"),
            Size("llama3_8b", _rows(2048, 14336), "Llama-3-8B MLP, 2048 tokens"),
        ),
        tiny=Size("tiny", _rows(7, 256)),
        cases=(
            large("both", factor=32.0), outliers("both", factor=32.0, atol_scale=1.0),
            extremes("both", values=(-60.0, 60.0)),
        ),
    ),
    problem(
        id="top_p_sampling", title="Top-p sampling", reference=top_p_sampling,
        description="Per row of float32 logits: keep the most likely tokens up to and including the one with which "
            "their probabilities reach top_p; then return (int32) the first token, in order of the vocabulary, at "
            "which the running sum of the kept probabilities exceeds drawn times their total. top_p, drawn: float32.",
        inputs=tensors(
            "logits[batch,vocab]", "top_p drawn[batch]", logits=normal(3.0), top_p=uniform(0.5, 0.95), drawn=uniform(),
        ),
        outputs=tensors("tokens: int32[batch]"), flops=lambda p: 5 * p["batch"] * p["vocab"], tolerance=DRAWN,
        sizes=(
            Size("llama3_b128", {"batch": 128, "vocab": 128256}, "Llama-3 vocabulary, 128 sequences"),
            Size("qwen3_b256", {"batch": 256, "vocab": 151936}, "Qwen3 vocabulary, 256 sequences"),
            Size("gemma3_b64", {"batch": 64, "vocab": 262144}, "Gemma-3 vocabulary, 64 sequences"),
        ),
        tiny=Size("tiny", {"batch": 12, "vocab": 300}),
        cases=(
            large("logits", factor=4.0), outliers("logits", factor=3.0, atol_scale=1.0),
            extremes("top_p", values=(0.01, 0.9999)),
        ),
    ),
    problem(
        id="speculative_sampling", title="Acceptance of drafted tokens", reference=speculative_sampling,
        description="For each sequence accept drafted tokens in order while target[i, token] > accepts[i] * draft[i, "
            "token]. The next token is drawn from max(target - draft, 0) at the first place that is not accepted, or "
            "from the last row of target when all are: the first token, in order of the vocabulary, at which the "
            "running sum exceeds drawn times the total. Returns the number accepted and that token (int32). "
            "Probabilities are float32 and used as given.",
        inputs=tensors(
            "draft[batch,drafts,vocab]", "target[batch,drafts+1,vocab]", "tokens: int32[batch,drafts]",
            "accepts[batch,drafts]", "drawn[batch]", draft=probabilities, target=probabilities,
            tokens=Sized(lambda p: integers(0, p["vocab"])), accepts=uniform(), drawn=uniform(),
        ),
        outputs=tensors("accepted: int32[batch]", "token: int32[batch]"),
        flops=lambda p: 3 * p["batch"] * p["vocab"], min_bytes=lambda p: 6 * p["batch"] * p["vocab"], tolerance=DRAWN,
        sizes=(
            Size("llama3_b128", {"batch": 128, "drafts": 4, "vocab": 128256}, "Llama-3, 4 drafts, 128 sequences"),
            Size("qwen3_b64", {"batch": 64, "drafts": 6, "vocab": 151936}, "Qwen3, 6 drafts, 64 sequences"),
            Size("gemma3_b64", {"batch": 64, "drafts": 3, "vocab": 262144}, "Gemma-3, 3 drafts, 64 sequences"),
        ),
        tiny=Size("tiny", {"batch": 12, "drafts": 3, "vocab": 300}),
        cases=(
            extremes("accepts", values=(0.0, 1e6)),
            outliers("draft", factor=8.0, atol_scale=1.0),
            extremes("drawn", values=(0.0, 0.999), case="drawn_ends"),
        ),
    ),
    problem(
        id="lora_decode", title="Adapters of a decode batch", reference=lora_decode,
        oracle=lambda x, base, a, b, adapter: _adapters_oracle(x, base, a, b, adapter.long()),
        description="y = base + b[adapter] (a[adapter] x) for every token, each with an adapter of its own (int32); "
            "bfloat16 with fp32 sums. The short vector between may be rounded to bfloat16.",
        inputs=tensors(_adapters, "adapter: int32[tokens]", adapter=Sized(lambda p: integers(0, p["adapters"]))),
        outputs=tensors("y: bfloat16[tokens,n]"), flops=_lora_flops, min_bytes=_lora_bytes,
        tolerance=Tolerance(2e-2, 2e-2, "bfloat16 rounds the vector between and the sum by 2^-9 relative"),
        compute_unit="bf16",
        sizes=(
            Size("llama3_70b_r64", _lora(64, 64, 64, 8192, 8192), "Llama-3-70B projection, 64 adapters of rank 64"),
            Size("llama3_8b_r16", _lora(128, 128, 16, 28672, 4096), "Llama-3-8B gate and up, 128 adapters of rank 16"),
            Size("qwen3_32b_r128", _lora(32, 32, 128, 5120, 5120), "Qwen3-32B projection, 32 adapters of rank 128"),
        ),
        tiny=Size("tiny", _lora(9, 4, 16, 40, 64)),
        cases=(
            large("x", factor=16.0, atol_scale=16.0), outliers("x", factor=16.0, atol_scale=8.0),
            InputCase("crowded", "Many tokens of one adapter find work split by adapter.", {"adapter": repeat_one}),
        ),
    ),
    problem(
        id="lora_prefill", title="Adapters of packed prompts", reference=lora_prefill, oracle=_prefill_oracle,
        description="Tokens are sorted by adapter; offsets[g] (int32) is the end of adapter g's tokens and "
            "offsets[g-1] their start (0 for the first). y = base + (x a[g]ᵀ) b[g]ᵀ; bfloat16 with fp32 sums. Each "
            "product may be rounded to bfloat16.",
        inputs=tensors(
            _adapters, "offsets: int32[adapters]",
            offsets=Sized(lambda p: lambda g, s, d: group_offsets(g, s, d, p["tokens"])),
        ),
        outputs=tensors("y: bfloat16[tokens,n]"), flops=_lora_flops,
        tolerance=Tolerance(2e-2, 2e-2, "bfloat16 rounds both products and the sum by 2^-9 relative"),
        compute_unit="bf16",
        sizes=(
            Size("llama3_8b_r64", _lora(8192, 8, 64, 4096, 4096), "Llama-3-8B projection, 8 adapters of rank 64"),
            Size("qwen3_8b_r16", _lora(8192, 16, 16, 24576, 4096), "Qwen3-8B gate and up, 16 adapters of rank 16"),
            Size("llama3_70b_r128", _lora(4096, 4, 128, 8192, 8192), "Llama-3-70B projection, 4 adapters of rank 128"),
        ),
        tiny=Size("tiny", _lora(72, 4, 16, 40, 64)),
        cases=(
            large("x", factor=16.0, atol_scale=16.0), outliers("x", factor=16.0, atol_scale=8.0),
            InputCase("crowded", "An adapter with most tokens finds grids for even loads.", {"offsets": crowd_one}),
        ),
    ),
)  # fmt: skip
