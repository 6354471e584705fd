"""Whole mixture-of-experts layers in bfloat16, float8 and 4 bits, their gradients, and the steps around them."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable

from kbench.benchmark.problems.adversarial.cases import InputCase, extremes, large, one_hot, outliers
from kbench.benchmark.problems.adversarial.changes import crowd_one
from kbench.benchmark.problems.definition import ProblemDefinition, Size, Tolerance
from kbench.benchmark.problems.families.quantized_matmul import FP8_SUMS, group_offsets
from kbench.benchmark.problems.families.shared import bf16, fp8, wide
from kbench.benchmark.problems.families.weight_quantised import nibbles
from kbench.benchmark.problems.inputs import (
    Params,
    Sized,
    TensorSpec,
    around,
    integers,
    normal,
    parameters,
    permutation,
    rooted,
    tensors,
    uniform,
)
from kbench.benchmark.problems.lazy_torch import F, Generator, Tensor, torch

BLOCK = 128
"""Elements along k, and rows of a weight, that share one float32 scale."""
LAYER = Tolerance(
    4e-2, 4e-2,
    "bfloat16 rounds weights, the hidden layer and each expert's output by 2^-9 relative before up to eight are summed",
    mismatch_share=1e-5,
)  # fmt: skip
ROUTED = (
    "Token t goes to the experts experts[t] (int32, all different) with weights share[t] (float32). An expert maps a "
    "row x to (silu(x Gᵀ) * (x Uᵀ)) Dᵀ, where G and U are the upper and lower half of its matrix up and D is its "
    "matrix down; a token's result is the weighted sum over its experts, in bfloat16."
)


def few_favourites(generator: Generator, experts: Tensor) -> Tensor:
    """About a third of the tokens all go to the experts of the first token; the others stay."""
    picked = torch.rand((len(experts), 1), generator=generator, device=experts.device) < 0.3
    return torch.where(picked, experts[:1], experts)


LAYER_CASES = (
    large("x", factor=8.0, atol_scale=64.0),
    outliers("x", factor=8.0, atol_scale=16.0),
    InputCase(
        "favourites", "Experts with far more tokens than others find grids made for even loads.",
        {"experts": few_favourites},
    ),
    one_hot("share"),
)  # fmt: skip


def routed_layer(x: Tensor, experts: Tensor, share: Tensor, up: Tensor, down: Tensor) -> Tensor:
    """The layer with bfloat16 matrices (expert, output, input): rows sorted by expert, two grouped products."""
    chosen = experts.flatten().long()
    order = chosen.argsort(stable=True)
    counts = torch.zeros(len(up), dtype=torch.int32, device=x.device)
    ends = counts.scatter_add(0, chosen, torch.ones_like(chosen, dtype=torch.int32)).cumsum(0).to(torch.int32)
    rows = x[order // experts.shape[1]]
    gate, raised = F.grouped_mm(rows, up.transpose(1, 2), offs=ends).chunk(2, dim=-1)
    answers = F.grouped_mm(F.silu(gate) * raised, down.transpose(1, 2), offs=ends)
    places = torch.empty_like(order).scatter_(0, order, torch.arange(len(order), device=x.device))
    return bf16((wide(answers)[places].view(*experts.shape, -1) * share.unsqueeze(-1)).sum(1))


def exact_layer(
    x: Tensor, experts: Tensor, share: Tensor, up: Callable[[int], Tensor], down: Callable[[int], Tensor], count: int
) -> Tensor:
    """The layer in float64, one expert at a time; `up` and `down` give an expert's matrices."""
    y = torch.zeros(len(x), down(0).shape[0], dtype=torch.float64, device=x.device)
    for number in range(count):
        gate, raised = (x.double() @ up(number).T).chunk(2, dim=-1)
        part = (share.double() * (experts == number)).sum(1, keepdim=True)
        y += part * ((F.silu(gate) * raised) @ down(number).T)
    return y


def moe_layer(x: Tensor, experts: Tensor, share: Tensor, up: Tensor, down: Tensor) -> Tensor:
    return routed_layer(x, experts, share, up, down)


def blocks(weight: Tensor, scale: Tensor, kind: torch.dtype) -> Tensor:
    """Matrices times one scale for each 128 × 128 elements."""
    spread = scale.to(kind).repeat_interleave(BLOCK, dim=-2).repeat_interleave(BLOCK, dim=-1)
    return weight.to(kind) * spread


def moe_layer_fp8(
    x: Tensor, experts: Tensor, share: Tensor, up: Tensor, up_scale: Tensor, down: Tensor, down_scale: Tensor
) -> Tensor:
    raising = blocks(up, up_scale, torch.float32).to(x.dtype)
    return routed_layer(x, experts, share, raising, blocks(down, down_scale, torch.float32).to(x.dtype))


def _fp8_oracle(
    x: Tensor, experts: Tensor, share: Tensor, up: Tensor, up_scale: Tensor, down: Tensor, down_scale: Tensor
) -> Tensor:
    return exact_layer(
        x, experts, share,
        lambda e: blocks(up[e], up_scale[e], torch.float64), lambda e: blocks(down[e], down_scale[e], torch.float64),
        len(up),
    )  # fmt: skip


def int4_matrices(packed: Tensor, scale: Tensor) -> Tensor:
    """(nibble - 8) times one scale for each 128 neighbours."""
    numbers = nibbles(packed).to(scale.dtype) - 8
    return (numbers.view(*scale.shape, BLOCK) * scale.unsqueeze(-1)).flatten(-2)


def moe_layer_int4(
    x: Tensor, experts: Tensor, share: Tensor, up: Tensor, up_scale: Tensor, down: Tensor, down_scale: Tensor
) -> Tensor:
    return routed_layer(x, experts, share, int4_matrices(up, up_scale), int4_matrices(down, down_scale))


def _int4_oracle(
    x: Tensor, experts: Tensor, share: Tensor, up: Tensor, up_scale: Tensor, down: Tensor, down_scale: Tensor
) -> Tensor:
    return exact_layer(
        x, experts, share,
        lambda e: int4_matrices(up[e], up_scale[e].double()), lambda e: int4_matrices(down[e], down_scale[e].double()),
        len(up),
    )  # fmt: skip


def grouped_fp8_linear(x: Tensor, weight: Tensor, offsets: Tensor, x_scale: Tensor, weight_scale: Tensor) -> Tensor:
    expert = torch.searchsorted(offsets.long(), torch.arange(len(x), device=x.device), right=True)
    y = F.grouped_mm(x.to(torch.bfloat16), weight.to(torch.bfloat16).transpose(1, 2), offs=offsets)
    return (y.float() * x_scale[:, None] * weight_scale[expert]).to(torch.bfloat16)


def _grouped_oracle(x: Tensor, weight: Tensor, offsets: Tensor, x_scale: Tensor, weight_scale: Tensor) -> Tensor:
    parts = [
        (x[a:b].double() @ weight[e].double().T) * x_scale[a:b].double()[:, None] * weight_scale[e].double()
        for e, (a, b) in enumerate(itertools.pairwise([0, *offsets.tolist()]))
    ]
    return torch.cat(parts)


def grouped_wgrad(x: Tensor, dy: Tensor, offsets: Tensor) -> Tensor:
    return F.grouped_mm(dy.t(), x, offs=offsets)


def _wgrad_oracle(x: Tensor, dy: Tensor, offsets: Tensor) -> Tensor:
    ends = itertools.pairwise([0, *offsets.tolist()])
    return torch.stack([dy[a:b].double().T @ x[a:b].double() for a, b in ends])


def moe_combine(rows: Tensor, places: Tensor, share: Tensor, shared: Tensor) -> Tensor:
    gathered = wide(rows)[places.long()] * share.unsqueeze(-1)
    return bf16(gathered.sum(1) + wide(shared))


def moe_gather_quantise(x: Tensor, tokens: Tensor) -> tuple[Tensor, Tensor]:
    groups = wide(x)[tokens.long()].view(len(tokens), -1, 128)
    scales = groups.abs().amax(-1).clamp(min=1e-10) / 448.0
    return fp8(groups / scales.unsqueeze(-1)).view(len(tokens), -1), scales


def routes(experts: int) -> Callable[[Generator, TensorSpec, str], Tensor]:
    """Different experts for each token."""

    def fill(generator: Generator, spec: TensorSpec, device: str) -> Tensor:
        drawn = torch.rand((spec.shape[0], experts), generator=generator, device=device)
        return drawn.argsort(dim=1)[:, : spec.shape[1]].to(torch.int32)

    return fill


def repeated_tokens(tokens: int) -> Callable[[Generator, TensorSpec, str], Tensor]:
    """Every token equally often, in random order."""

    def fill(generator: Generator, spec: TensorSpec, device: str) -> Tensor:
        return (torch.rand(spec.numel, generator=generator, device=device).argsort() % tokens).to(torch.int32)

    return fill


_routing = tensors(
    "x: bfloat16[tokens,hidden]", "experts: int32[tokens,chosen]", "share[tokens,chosen]",
    experts=Sized(lambda p: routes(p["experts"])), share=uniform(0.2, 1.0),
)  # fmt: skip


def _layer_bytes(p: Params, bits: int) -> int:
    """The matrices of experts that some token goes to, and tokens in and out."""
    draws = p["tokens"] * p["chosen"]
    used = max(p["chosen"], 0.9 * p["experts"] * (1 - (1 - 1 / p["experts"]) ** draws))
    return int(used * 3 * p["hidden"] * p["n"] * bits / 8 + 4 * p["tokens"] * p["hidden"])


_layer = parameters("tokens experts chosen hidden n")
_rows = parameters("rows experts n k")
problem = functools.partial(
    ProblemDefinition, family="expert_layers", outputs=tensors("y: bfloat16[tokens,hidden]"),
    flops=lambda p: 6 * p["tokens"] * p["chosen"] * p["hidden"] * p["n"], tolerance=LAYER,
    compute_unit="bf16", cases=LAYER_CASES, tiny=Size("tiny", _layer(12, 5, 2, 128, 128)),
)  # fmt: skip

PROBLEMS: tuple[ProblemDefinition, ...] = (
    problem(
        id="moe_layer", title="A whole layer of experts", reference=moe_layer,
        oracle=lambda x, experts, share, up, down: exact_layer(
            x, experts, share, lambda e: up[e].double(), lambda e: down[e].double(), len(up)
        ),
        description=f"{ROUTED} All matrices are bfloat16.",
        inputs=tensors(
            _routing, "up: bfloat16[experts,2*n,hidden]", "down: bfloat16[experts,hidden,n]", up=rooted("hidden"),
            down=rooted("n", 1.5),
        ),
        min_bytes=lambda p: _layer_bytes(p, 16),
        sizes=(
            Size("qwen3_30b_b64", _layer(64, 128, 8, 2048, 768), "Qwen3-30B-A3B experts, 64 tokens"),
            Size("mixtral_8x7b_b16", _layer(16, 8, 2, 4096, 14336), "Mixtral-8x7B experts, 16 tokens"),
            Size("deepseek_v2_lite_1k", _layer(1024, 64, 6, 2048, 1408), "DeepSeek-V2-Lite experts, 1024 tokens"),
        ),
    ),
    problem(
        id="moe_layer_fp8", title="A whole layer of experts with float8 weights", reference=moe_layer_fp8,
        oracle=_fp8_oracle,
        description=f"{ROUTED} Matrices are float8_e4m3fn with one float32 scale (up_scale, down_scale) for each 128 × "
            "128 elements; they may be rounded to bfloat16 after scaling.",
        inputs=tensors(
            _routing, "up: float8_e4m3fn[experts,2*n,hidden]", f"up_scale[experts,2*n/{BLOCK},hidden/{BLOCK}]",
            "down: float8_e4m3fn[experts,hidden,n]", f"down_scale[experts,hidden/{BLOCK},n/{BLOCK}]",
            up_scale=around(lambda p: p["hidden"] ** -0.5, 0.7, 1.3),
            down_scale=around(lambda p: 1.5 * p["n"] ** -0.5, 0.7, 1.3),
        ),
        min_bytes=lambda p: _layer_bytes(p, 8),
        sizes=(
            Size("qwen3_30b_b32", _layer(32, 128, 8, 2048, 768), "Qwen3-30B-A3B-FP8 experts, 32 tokens"),
            Size("deepseek_v3_ep16", _layer(128, 16, 2, 7168, 2048), "DeepSeek-V3 experts on one of 16 GPUs"),
            Size("qwen3_30b_1k", _layer(1024, 128, 8, 2048, 768), "Qwen3-30B-A3B-FP8 experts, 1024 tokens"),
        ),
    ),
    problem(
        id="moe_layer_int4", title="A whole layer of experts with 4-bit weights", reference=moe_layer_int4,
        oracle=_int4_oracle,
        description=f"{ROUTED} Matrices hold 4-bit weights, two a byte with the lower four bits first: (nibble - 8) "
            "times a bfloat16 scale (up_scale, down_scale) for each 128 neighbours; they may be rounded to bfloat16.",
        inputs=tensors(
            _routing, "up: uint8[experts,2*n,hidden/2]", f"up_scale: bfloat16[experts,2*n,hidden/{BLOCK}]",
            "down: uint8[experts,hidden,n/2]", f"down_scale: bfloat16[experts,hidden,n/{BLOCK}]", up=integers(0, 256),
            up_scale=around(lambda p: (21.5 * p["hidden"]) ** -0.5, 0.7, 1.3), down=integers(0, 256),
            down_scale=around(lambda p: 1.5 * (21.5 * p["n"]) ** -0.5, 0.7, 1.3),
        ),
        min_bytes=lambda p: _layer_bytes(p, 4),
        sizes=(
            Size("mixtral_8x7b_b8", _layer(8, 8, 2, 4096, 14336), "Mixtral-8x7B-AWQ experts, 8 tokens"),
            Size("qwen3_30b_b128", _layer(128, 128, 8, 2048, 768), "Qwen3-30B-A3B-GPTQ experts, 128 tokens"),
            Size("qwen3_30b_b16", _layer(16, 128, 8, 2048, 768), "Qwen3-30B-A3B-GPTQ experts, 16 tokens"),
        ),
        cases=(*LAYER_CASES[:3], extremes("up", "down", values=(0, 15, 240, 255), atol_scale=8.0)),
    ),
    problem(
        id="grouped_fp8_linear", title="Grouped product of experts in float8", reference=grouped_fp8_linear,
        oracle=_grouped_oracle,
        description="Rows of x are sorted by expert; offsets[g] (int32) is the end of expert g's rows and offsets[g-1] "
            "their start (0 for the first). An expert's rows are multiplied by its matrix weight[g] (n by k), both "
            "float8_e4m3fn, then by a float32 scale per row and one per expert and column; bfloat16 out, fp32 sums.",
        inputs=tensors(
            "x: float8_e4m3fn[rows,k]", "weight: float8_e4m3fn[experts,n,k]", "offsets: int32[experts]",
            "x_scale[rows]", "weight_scale[experts,n]",
            offsets=Sized(lambda p: lambda g, s, d: group_offsets(g, s, d, p["rows"])), x_scale=uniform(0.5, 1.5),
            weight_scale=around(lambda p: p["k"] ** -0.5),
        ),
        outputs=tensors("y: bfloat16[rows,n]"),
        flops=lambda p: 2 * p["rows"] * p["n"] * p["k"], tolerance=FP8_SUMS, compute_unit="fp8",
        sizes=(
            Size("qwen3_30b", _rows(16384, 128, 1536, 2048), "Qwen3-30B-A3B experts, 2048 tokens to 8 experts each"),
            Size("deepseek_v3_ep16", _rows(8192, 16, 4096, 7168), "DeepSeek-V3 experts on one of 16 GPUs, 8192 rows"),
            Size("mixtral_8x7b", _rows(1024, 8, 28672, 4096), "Mixtral-8x7B experts, 512 tokens to 2 experts each"),
        ),
        tiny=Size("tiny", _rows(88, 5, 48, 64)),
        cases=(
            large("x", factor=16.0, atol_scale=16.0), outliers("x", factor=16.0, atol_scale=6.0),
            one_hot("x"),
            InputCase("crowded", "An expert with most rows finds grids made for even loads.", {"offsets": crowd_one}),
        ),
    ),
    problem(
        id="grouped_wgrad", title="Weight gradients of all experts", reference=grouped_wgrad, oracle=_wgrad_oracle,
        description="Rows of x and dy are sorted by expert; offsets[g] (int32) is the end of expert g's rows and "
            "offsets[g-1] their start (0 for the first). Output g is dyᵀ x (n by k) over expert g's rows; bfloat16 "
            "with fp32 sums.",
        inputs=tensors(
            "x: bfloat16[rows,k]", "dy: bfloat16[rows,n]", "offsets: int32[experts]",
            dy=Sized(lambda p: normal((p["rows"] / p["experts"]) ** -0.5)),
            offsets=Sized(lambda p: lambda g, s, d: group_offsets(g, s, d, p["rows"])),
        ),
        outputs=tensors("dw: bfloat16[experts,n,k]"),
        flops=lambda p: 2 * p["rows"] * p["n"] * p["k"],
        tolerance=Tolerance(2e-2, 2e-2, "one rounding to bfloat16 is 2e-3 relative; fp32 accumulation adds far less"),
        sizes=(
            Size("qwen3_30b", _rows(32768, 128, 1536, 2048), "Qwen3-30B-A3B experts, 4096 tokens to 8 experts each"),
            Size("olmoe_1b_7b", _rows(32768, 64, 2048, 2048), "OLMoE-1B-7B experts, 4096 tokens to 8 experts each"),
            Size("mixtral_8x7b", _rows(8192, 8, 14336, 4096), "Mixtral-8x7B experts, 4096 tokens to 2 experts each"),
        ),
        tiny=Size("tiny", _rows(96, 4, 48, 64)),
        cases=(
            large("dy", factor=16.0, atol_scale=16.0), outliers("x", factor=16.0, atol_scale=8.0),
            InputCase(
                "crowded", "An expert with most of the rows finds sums made for even loads.", {"offsets": crowd_one},
                atol_scale=8.0,
            ),
        ),
    ),
    problem(
        id="moe_combine", title="Weighted sum of experts' rows", reference=moe_combine,
        description="Token t's result is shared[t] plus the sum over j of share[t, j] (float32) times "
            "rows[places[t, j]], with int32 places in no order; bfloat16 in and out, summed in fp32.",
        inputs=tensors(
            "rows: bfloat16[tokens*chosen,hidden]", "places: int32[tokens,chosen]", "share[tokens,chosen]",
            "shared: bfloat16[tokens,hidden]", places=permutation, share=uniform(0.1, 1.0),
        ),
        flops=lambda p: 2 * p["tokens"] * p["chosen"] * p["hidden"],
        tolerance=Tolerance(1e-2, 1e-2, "one rounding to bfloat16 of a sum of up to nine rows"),
        compute_unit="fp32",
        sizes=(
            Size("deepseek_v3", _layer(4096, 256, 8, 7168, 2048), "DeepSeek-V3, 4096 tokens to 8 experts each"),
            Size("qwen3_30b", _layer(8192, 128, 8, 2048, 768), "Qwen3-30B-A3B, 8192 tokens to 8 experts each"),
            Size("mixtral_8x7b", _layer(8192, 8, 2, 4096, 14336), "Mixtral-8x7B, 8192 tokens to 2 experts each"),
        ),
        cases=(
            large("rows", factor=32.0, atol_scale=32.0), outliers("rows", factor=32.0), one_hot("share"),
        ),
    ),
    problem(
        id="moe_gather_quantise", title="Rows of experts gathered and rounded to float8", reference=moe_gather_quantise,
        description="Row i is x[tokens[i]] (bfloat16, int32 tokens in no order). Every 128 neighbours of a row are "
            "divided by their scale, the largest magnitude (at least 1e-10) over 448, and rounded to float8_e4m3fn, "
            "the first output; the float32 scales are the second.",
        inputs=tensors(
            "x: bfloat16[tokens,hidden]", "tokens: int32[tokens*chosen]",
            tokens=Sized(lambda p: repeated_tokens(p["tokens"])),
        ),
        outputs=tensors("quantised: float8_e4m3fn[tokens*chosen,hidden]", f"scales[tokens*chosen,hidden/{BLOCK}]"),
        flops=lambda p: 2 * p["tokens"] * p["chosen"] * p["hidden"],
        tolerance=Tolerance(
            1e-6, 1e-3,
            "bfloat16 inputs often land on ties between two float8 values, where multiplying by the reciprocal scale "
            "may round the other way",
            mismatch_share=5e-3,
        ),
        compute_unit="fp32",
        sizes=(
            Size("deepseek_v3", _layer(2048, 256, 8, 7168, 2048), "DeepSeek-V3, 2048 tokens to 8 experts each"),
            Size("qwen3_30b", _layer(8192, 128, 8, 2048, 768), "Qwen3-30B-A3B, 8192 tokens to 8 experts each"),
            Size("kimi_k2", _layer(1024, 384, 8, 7168, 2048), "Kimi-K2, 1024 tokens to 8 experts each"),
        ),
        # Powers of two, so that quotients round as those of the drawn values do.
        cases=(
            large("x", factor=2.0**15, atol_scale=1.0), outliers("x", factor=64.0, atol_scale=1.0),
            one_hot("x"),
        ),
    ),
)  # fmt: skip
