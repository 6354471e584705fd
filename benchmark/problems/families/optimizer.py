"""Steps of optimizers over all tensors of a model at once."""

from __future__ import annotations

import functools

from kbench.benchmark.problems.adversarial.cases import InputCase, extremes, large, outliers, shifted, zero_rows
from kbench.benchmark.problems.adversarial.changes import crowd_one
from kbench.benchmark.problems.definition import ProblemDefinition, Size, Tolerance
from kbench.benchmark.problems.families.quantized_matmul import group_offsets
from kbench.benchmark.problems.families.shared import bf16, wide
from kbench.benchmark.problems.inputs import Sized, integers, normal, tensors, uniform
from kbench.benchmark.problems.lazy_torch import Tensor, torch

BLOCK = 256
"""Neighbours that share the scale of their 8-bit state."""


def adamw_step(
    weight: Tensor, grad: Tensor, m: Tensor, v: Tensor, ends: Tensor, rate: Tensor, decay: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    tensor = torch.searchsorted(ends.long(), torch.arange(len(weight), device=weight.device), right=True)
    grad = wide(grad)
    m = 0.9 * m + 0.1 * grad
    v = 0.95 * v + 0.05 * grad * grad
    step = (m / (1 - 0.9**100)) / ((v / (1 - 0.95**100)).sqrt() + 1e-8)
    return weight - rate[tensor] * (step + decay[tensor] * weight), m, v


def adam_int8_step(
    weight: Tensor, grad: Tensor, m: Tensor, m_scale: Tensor, v: Tensor, v_scale: Tensor
) -> tuple[Tensor, ...]:
    grad, kind = wide(grad).view(-1, BLOCK), weight.dtype
    first = 0.9 * m.view(-1, BLOCK).to(kind) * (m_scale / 127)[:, None] + 0.1 * grad
    root = v.view(-1, BLOCK).to(kind) * (v_scale / 255)[:, None]
    second = 0.999 * root * root + 0.001 * grad * grad
    root = second.sqrt()
    weight = weight - 1e-3 * (first / (root + 1e-6)).view(-1)
    m_scale, v_scale = first.abs().amax(1), root.amax(1)
    new_m = (first / m_scale.clamp(min=1e-20)[:, None] * 127).round().to(torch.int8)
    new_v = (root / v_scale.clamp(min=1e-20)[:, None] * 255).round().to(torch.uint8)
    return weight, new_m.view(-1), m_scale, new_v.view(-1), v_scale


def newton_schulz(grad: Tensor) -> Tensor:
    x = bf16(wide(grad) / wide(grad).square().sum((1, 2), keepdim=True).sqrt().clamp(min=1e-7))
    for _ in range(5):
        gram = x @ x.transpose(1, 2)
        x = 3.4445 * x + (-4.775 * gram + 2.0315 * gram @ gram) @ x
    return bf16(wide(x) * grad.shape[2] ** 0.5)


problem = functools.partial(ProblemDefinition, family="optimizer")

PROBLEMS: tuple[ProblemDefinition, ...] = (
    problem(
        id="adamw_step", title="AdamW step over many tensors", reference=adamw_step,
        description="All tensors of a model lie one after another: tensor i ends at ends[i] (int32) and starts where "
            "the one before ends, at no round number. In float32, with bfloat16 gradients: m = 0.9 m + 0.1 grad, v = "
            "0.95 v + 0.05 grad², then weight - rate[i] (m' / (sqrt(v') + 1e-8) + decay[i] weight), where m' and v' "
            "are m and v divided by 1 - 0.9**100 and 1 - 0.95**100. Returns weight, m and v.",
        inputs=tensors(
            "weight[n]", "grad: bfloat16[n]", "m v[n]", "ends: int32[count]", "rate decay[count]", grad=normal(0.1),
            m=normal(0.1), v=uniform(0.002, 0.02), ends=Sized(lambda p: lambda g, s, d: group_offsets(g, s, d, p["n"])),
            rate=uniform(0.01, 0.1), decay=uniform(0.01, 0.2),
        ),
        outputs=tensors("new_weight[n]", "new_m[n]", "new_v[n]"), flops=lambda p: 14 * p["n"],
        tolerance=Tolerance(1e-6, 1e-5, "a dozen float32 operations per element"),
        sizes=(
            Size("gpt2_medium_half", {"n": 67_000_000, "count": 146}, "GPT-2 medium on one of 5 GPUs, 146 tensors"),
            Size("llama32_1b_layer", {"n": 60_821_504, "count": 9}, "Llama-3.2-1B, the tensors of one layer"),
            Size("vit_b16", {"n": 86_567_656, "count": 152}, "ViT-B/16, 152 tensors"),
        ),
        tiny=Size("tiny", {"n": 500, "count": 7}),
        cases=(
            outliers("grad", factor=1000.0, atol_scale=10.0),
            extremes("v", values=(0.0, 1e-8)),
            InputCase("crowded", "One tensor with most elements finds work shared out by tensor.", {"ends": crowd_one}),
        ),
    ),
    problem(
        id="adam_int8_step", title="Adam step with 8-bit states", reference=adam_int8_step,
        description="Adam in float32 on states kept in 8 bits with a scale for each 256 neighbours: the first moment "
            "is m (int8) / 127 * m_scale, and the root of the second is v (uint8) / 255 * v_scale. With bfloat16 "
            "gradients: first = 0.9 first + 0.1 grad, second = 0.999 root² + 0.001 grad², weight - 1e-3 first / "
            "(sqrt(second) + 1e-6). New scales are the largest magnitudes of first and of sqrt(second) (at least 1e-20 "
            "in divisions), and the new codes are rounded to the nearest. Returns weight, m, m_scale, v and v_scale.",
        inputs=tensors(
            "weight[n]", "grad: bfloat16[n]", "m: int8[n]", f"m_scale[n/{BLOCK}]", "v: uint8[n]", f"v_scale[n/{BLOCK}]",
            weight=normal(0.02), grad=normal(0.1), m=integers(-127, 128), m_scale=uniform(0.1, 0.3),
            v=integers(40, 256), v_scale=uniform(0.1, 0.3),
        ),
        outputs=tensors(
            "new_weight[n]", "new_m: int8[n]", f"new_m_scale[n/{BLOCK}]", "new_v: uint8[n]", f"new_v_scale[n/{BLOCK}]",
        ),
        flops=lambda p: 20 * p["n"],
        tolerance=Tolerance(
            1e-6, 1e-5, "a dozen float32 operations per element; codes near ties may round either way",
            mismatch_share=2e-3,
        ),
        sizes=(
            Size("llama32_1b_layer", {"n": 60_821_504}, "Llama-3.2-1B, one layer"),
            Size("llama3_8b_mlp", {"n": 176_160_768}, "Llama-3-8B, the MLP of one layer"),
            Size("qwen3_06b_embedding", {"n": 155_582_464}, "Qwen3-0.6B, the embedding"),
        ),
        tiny=Size("tiny", {"n": 8 * BLOCK}),
        cases=(
            outliers("grad", factor=1000.0, atol_scale=1.0),
            large("m_scale", factor=64.0, atol_scale=10.0),
            zero_rows("m_scale", dims=()),
        ),
    ),
    problem(
        id="newton_schulz", title="Orthogonalisation of gradients by Newton–Schulz", reference=newton_schulz,
        description="Each matrix of a stack is divided by its Frobenius norm (at least 1e-7), then five times replaced "
            "by 3.4445 X + (-4.775 A + 2.0315 A²) X with A = X Xᵀ; the result is multiplied by the square root of the "
            "number of its columns. bfloat16 with fp32 sums; every product may be rounded to bfloat16.",
        inputs=tensors("grad: bfloat16[count,rows,columns]"), outputs=tensors("x: bfloat16[count,rows,columns]"),
        flops=lambda p: 5 * p["count"] * (4 * p["rows"] ** 2 * p["columns"] + 2 * p["rows"] ** 3),
        tolerance=Tolerance(8e-2, 5e-2, "fifteen products rounded to bfloat16; entries near one", mismatch_share=1e-3),
        compute_unit="bf16",
        sizes=(
            Size("gpt2_small_mlp", {"count": 8, "rows": 768, "columns": 3072}, "GPT-2 small MLP matrices by Muon"),
            Size("llama32_1b_out", {"count": 2, "rows": 2048, "columns": 2048}, "Llama-3.2-1B projections by Muon"),
            Size("qwen3_06b_mlp", {"count": 3, "rows": 1024, "columns": 3072}, "Qwen3-0.6B MLP matrices by Muon"),
        ),
        tiny=Size("tiny", {"count": 3, "rows": 24, "columns": 64}),
        cases=(
            large("grad", factor=8.0, atol_scale=1.0), outliers("grad", factor=8.0, atol_scale=4.0),
            shifted("grad", by=2.0, atol_scale=4.0),
        ),
    ),
)  # fmt: skip
