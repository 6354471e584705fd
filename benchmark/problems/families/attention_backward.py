"""Backward passes of attention from what the forward pass saved: queries, keys, values, outputs and row sums.

The row sums `lse` are logarithms of the sums of exponentials. They and the outputs `o` are inputs of their own: a
gradient follows from them as they are, so a kernel need not, and must not, compute them again.
"""

from __future__ import annotations

import functools

from kbench.benchmark.problems.adversarial.cases import large, one_hot, outliers, zero_rows
from kbench.benchmark.problems.definition import ProblemDefinition, Size, Tolerance
from kbench.benchmark.problems.families.shared import MIXED_STARTS, bf16, packed_pairs, packed_starts, sequence_of, wide
from kbench.benchmark.problems.inputs import Fill, Params, Sized, TensorSpec, parameters, tensors, with_numbers
from kbench.benchmark.problems.lazy_torch import Generator, Tensor, torch

BF16_GRADIENT = Tolerance(
    3e-2, 3e-2,
    "gradients of unit scale, summed in fp32 from probabilities and gradients rounded to bfloat16 (2^-8 relative); a "
    "few of millions of sums over a group's heads meet the worst of it",
    mismatch_share=1e-5,
)  # fmt: skip
GRADIENT_CASES = (
    large("do", factor=16.0, atol_scale=16.0),
    outliers("v", factor=8.0, atol_scale=16.0),
    zero_rows("do"),
    one_hot("do"),
)
SAVED = (
    "Inputs are what the forward pass saved in bfloat16 (q, k, v, o), lse in float32 and the gradient do of o. With "
    "P = exp(q kᵀ / sqrt(dim) - lse) where a key is seen, else 0, and D = P * (do vᵀ - sum(do * o)): dv = Pᵀ do, "
    "dq = D k / sqrt(dim), dk = Dᵀ q / sqrt(dim)."
)


def attention_gradients(
    q: Tensor, k: Tensor, v: Tensor, o: Tensor, lse: Tensor, do: Tensor, seen: Tensor | None
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of (batch, head, token, dim) tensors; `seen` says which keys a query sees, all unless given."""
    scale, group = q.shape[-1] ** -0.5, q.shape[1] // k.shape[1]
    keys, values = (x.repeat_interleave(group, dim=1) for x in (k, v))
    scores = wide(q) @ wide(keys).transpose(-1, -2) * scale - lse.unsqueeze(-1)
    if seen is not None:
        scores = scores.masked_fill(~seen, float("-inf"))
    p = scores.exp()
    delta = (wide(do) * wide(o)).sum(-1, keepdim=True)
    ds = bf16(p * (wide(do) @ wide(values).transpose(-1, -2) - delta) * scale)
    dq, dk, dv = ds @ keys, ds.transpose(-1, -2) @ q, bf16(p).transpose(-1, -2) @ do
    if group > 1:
        dk, dv = (bf16(wide(x).view(k.shape[0], k.shape[1], group, *k.shape[2:]).sum(2)) for x in (dk, dv))
    return dq, dk, dv


def by_head(
    q: Tensor, k: Tensor, v: Tensor, o: Tensor, lse: Tensor, do: Tensor, seen: Tensor | None = None
) -> tuple[Tensor, ...]:
    """The same in float64, one key-value head at a time: all scores at once would not fit."""
    q, k, v, o, lse, do = (x.double() for x in (q, k, v, o, lse, do))
    group = q.shape[1] // k.shape[1]
    heads = [slice(h * group, (h + 1) * group) for h in range(k.shape[1])]
    parts = [
        attention_gradients(q[:, h], k[:, i : i + 1], v[:, i : i + 1], o[:, h], lse[:, h], do[:, h], seen)
        for i, h in enumerate(heads)
    ]
    return tuple(torch.cat(gradient, dim=1) for gradient in zip(*parts, strict=True))


def causal(length: int, device: torch.device, window: int | None = None) -> Tensor:
    """Which keys each query of a sequence sees: those up to itself, the last `window` of them."""
    place = torch.arange(length, device=device)
    distance = place[:, None] - place[None, :]
    return (distance >= 0) & (distance < (window or length))


def attention_backward(q: Tensor, k: Tensor, v: Tensor, o: Tensor, lse: Tensor, do: Tensor) -> tuple[Tensor, ...]:
    return attention_gradients(q, k, v, o, lse, do, None)


def attention_backward_causal(
    q: Tensor, k: Tensor, v: Tensor, o: Tensor, lse: Tensor, do: Tensor
) -> tuple[Tensor, ...]:
    return attention_gradients(q, k, v, o, lse, do, causal(q.shape[2], q.device))


def attention_backward_gqa(q: Tensor, k: Tensor, v: Tensor, o: Tensor, lse: Tensor, do: Tensor) -> tuple[Tensor, ...]:
    return attention_gradients(q, k, v, o, lse, do, causal(q.shape[2], q.device))


def attention_backward_window(
    q: Tensor, k: Tensor, v: Tensor, o: Tensor, lse: Tensor, do: Tensor, window: int
) -> tuple[Tensor, ...]:
    return attention_gradients(q, k, v, o, lse, do, causal(q.shape[2], q.device, window))


def attention_backward_varlen(
    q: Tensor, k: Tensor, v: Tensor, o: Tensor, lse: Tensor, do: Tensor, starts: Tensor
) -> tuple[Tensor, ...]:
    sequence = sequence_of(starts, q.shape[0])
    seen = causal(q.shape[0], q.device) & (sequence[:, None] == sequence[None, :])
    q, k, v, o, do = (x.transpose(0, 1).unsqueeze(0) for x in (q, k, v, o, do))
    gradients = attention_gradients(q, k, v, o, lse.unsqueeze(0), do, seen)
    return tuple(gradient.squeeze(0).transpose(0, 1).contiguous() for gradient in gradients)


def _varlen_oracle(
    q: Tensor, k: Tensor, v: Tensor, o: Tensor, lse: Tensor, do: Tensor, starts: Tensor
) -> tuple[Tensor, ...]:
    sequence = sequence_of(starts, q.shape[0])
    seen = causal(q.shape[0], q.device) & (sequence[:, None] == sequence[None, :])
    q, k, v, o, do = (x.transpose(0, 1).unsqueeze(0) for x in (q, k, v, o, do))
    gradients = by_head(q, k, v, o, lse.unsqueeze(0), do, seen)
    return tuple(gradient.squeeze(0).transpose(0, 1).contiguous() for gradient in gradients)


def _causal_oracle(
    q: Tensor, k: Tensor, v: Tensor, o: Tensor, lse: Tensor, do: Tensor, window: int | None = None
) -> tuple[Tensor, ...]:
    return by_head(q, k, v, o, lse, do, causal(q.shape[2], q.device, window))


def row_sums(seen: int | None = None) -> Fill:
    """Logarithms of row sums as scores of unit variance have them: of as many keys as a query's place, or `seen`."""

    def fill(generator: Generator, spec: TensorSpec, device: str) -> Tensor:
        place = torch.arange(1, spec.shape[-1] + 1, device=device)
        keys = torch.full_like(place, seen) if seen else place
        noise = torch.randn(spec.shape, generator=generator, device=device)
        return keys.log() + 0.5 + 0.2 * noise

    return fill


_saved = tensors(
    "q: bfloat16[batch,heads,length,dim]", "k v: bfloat16[batch,kv_heads,length,dim]",
    "o: bfloat16[batch,heads,length,dim]", "lse[batch,heads,length]", "do: bfloat16[batch,heads,length,dim]",
    lse=Sized(lambda p: row_sums(p["length"] if p.get("full") else None)),
)  # fmt: skip


def _pairs(p: Params) -> int:
    length, window = p["length"], p.get("window", p["length"])
    if p.get("full"):
        return int(length * length)
    full = max(length - window, 0)
    return int(full * window + (length - full) * (length - full + 1) // 2)


_sized = parameters("batch heads kv_heads length dim")
_packed = parameters("tokens count heads kv_heads dim")
problem = functools.partial(
    ProblemDefinition, family="attention_backward", inputs=_saved, tolerance=BF16_GRADIENT,
    flops=lambda p: 10 * p["batch"] * p["heads"] * p["dim"] * _pairs(p),
    outputs=tensors("dq: bfloat16[batch,heads,length,dim]", "dk dv: bfloat16[batch,kv_heads,length,dim]"),
    oracle=_causal_oracle, compute_unit="bf16", cases=GRADIENT_CASES, tiny=Size("tiny", _sized(1, 4, 2, 40, 32)),
)  # fmt: skip

PROBLEMS: tuple[ProblemDefinition, ...] = (
    problem(
        id="attention_backward", title="Attention without a mask, backward", reference=attention_backward,
        oracle=by_head,
        description=f"Backward pass of multi-head attention of encoders, where every query sees every key. {SAVED}",
        sizes=(
            Size("bert_large", _sized(32, 16, 16, 512, 64, full=1), "BERT-large training, 32 sequences of 512 tokens"),
            Size("vit_h14", _sized(32, 16, 16, 257, 80, full=1), "ViT-H/14 training, 32 images of 257 tokens"),
            Size("dit_xl", _sized(4, 16, 16, 4096, 72, full=1), "DiT-XL/2 training at 1024 pixels, 4 images"),
        ),
        tiny=Size("tiny", _sized(2, 2, 2, 36, 32, full=1)),
    ),
    problem(
        id="attention_backward_causal", title="Causal attention, backward", reference=attention_backward_causal,
        description=f"Backward pass of causal multi-head attention: query i sees keys 0 to i. {SAVED}",
        sizes=(
            Size("llama2_7b", _sized(1, 32, 32, 4096, 128), "Llama-2-7B training, one sequence of 4096 tokens"),
            Size("gpt2_xl", _sized(8, 25, 25, 1024, 64), "GPT-2 XL training, 8 sequences of 1024 tokens"),
            Size("pythia_2_8b", _sized(2, 32, 32, 2048, 80), "Pythia-2.8B training, 2 sequences of 2048 tokens"),
        ),
        tiny=Size("tiny", _sized(1, 2, 2, 40, 32)),
    ),
    problem(
        id="attention_backward_gqa", title="Causal grouped-query attention, backward", reference=attention_backward_gqa,
        description="Backward pass of causal grouped-query attention: neighbouring query heads share a key-value "
            f"head, whose gradients are sums over them, and query i sees keys 0 to i. {SAVED}",
        sizes=(
            Size("llama3_8b", _sized(1, 32, 8, 4096, 128), "Llama-3-8B training, one sequence of 4096 tokens"),
            Size("qwen25_7b", _sized(2, 28, 4, 2048, 128), "Qwen2.5-7B training, 2 sequences of 2048 tokens"),
            Size("gemma2_2b", _sized(4, 8, 4, 2048, 256), "Gemma-2-2B training, 4 sequences of 2048 tokens"),
        ),
    ),
    problem(
        id="attention_backward_window", title="Sliding-window attention, backward",
        reference=attention_backward_window,
        description="Backward pass of grouped-query attention where query i sees keys i - window + 1 to i (those that "
            f"exist). {SAVED}",
        inputs=with_numbers(_saved, window="window"),
        sizes=(
            Size("gemma3_4b", _sized(1, 8, 4, 8192, 256, window=1024), "Gemma-3-4B local layer, 8192 tokens"),
            Size("gpt_oss_20b", _sized(1, 64, 8, 4096, 64, window=128), "gpt-oss-20b local layer, 4096 tokens"),
            Size("gemma3_1b", _sized(4, 4, 1, 4096, 256, window=512), "Gemma-3-1B local layer, 4 × 4096 tokens"),
        ),
        tiny=Size("tiny", _sized(1, 4, 2, 40, 32, window=12)),
    ),
    problem(
        id="attention_backward_varlen", title="Causal attention over packed sequences, backward",
        reference=attention_backward_varlen, oracle=_varlen_oracle,
        description="Backward pass of causal grouped-query attention over sequences packed one after another, laid "
            "out [token, head, dim] (lse: [head, token]). Sequence s has tokens starts[s] to starts[s + 1] (int32); "
            f"a query sees keys of its own sequence up to itself. {SAVED}",
        inputs=tensors(
            "q: bfloat16[tokens,heads,dim]", "k v: bfloat16[tokens,kv_heads,dim]", "o: bfloat16[tokens,heads,dim]",
            "lse[heads,tokens]", "do: bfloat16[tokens,heads,dim]", "starts: int32[count+1]",
            lse=Sized(lambda p: row_sums(p["tokens"] // p["count"] // 2)),
            starts=Sized(lambda p: packed_starts(p["tokens"])),
        ),
        flops=lambda p: 10 * p["heads"] * p["dim"] * packed_pairs(p["tokens"], p["count"]),
        outputs=tensors("dq: bfloat16[tokens,heads,dim]", "dk dv: bfloat16[tokens,kv_heads,dim]"),
        sizes=(
            Size("llama3_8b", _packed(4096, 6, 32, 8, 128), "Llama-3-8B fine-tuning, 6 sequences in 4096 tokens"),
            Size("qwen3_4b", _packed(4096, 12, 32, 8, 128), "Qwen3-4B fine-tuning, 12 sequences in 4096 tokens"),
            Size("smollm2", _packed(4096, 3, 32, 32, 64), "SmolLM2-1.7B training, 3 documents in 4096 tokens"),
        ),
        tiny=Size("tiny", _packed(56, 5, 4, 2, 32)),
        cases=(*GRADIENT_CASES[:3], MIXED_STARTS),
    ),
)  # fmt: skip
