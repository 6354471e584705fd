"""Backward passes of row-wise layers in bfloat16: RMS norm, SwiGLU, and rotary embedding of normalised heads."""

from __future__ import annotations

import functools

from kbench.benchmark.problems.adversarial.cases import large, one_hot, outliers, zero_rows
from kbench.benchmark.problems.definition import ProblemDefinition, Size, Tolerance
from kbench.benchmark.problems.families.shared import bf16, wide
from kbench.benchmark.problems.inputs import normal, parameters, tensors, uniform
from kbench.benchmark.problems.lazy_torch import Tensor, torch

ROW_GRADIENT = Tolerance(
    1e-2, 1e-2, "bfloat16 inputs are exact in float32, where all is computed; one rounding to bfloat16 is 2^-9 relative"
)


def rmsnorm_backward(x: Tensor, weight: Tensor, rstd: Tensor, dy: Tensor, dresidual: Tensor) -> tuple[Tensor, Tensor]:
    unit = wide(x) * rstd[:, None]
    scaled = wide(dy) * wide(weight)
    dx = rstd[:, None] * (scaled - unit * (scaled * unit).mean(-1, keepdim=True))
    return bf16(dx + wide(dresidual)), (wide(dy) * unit).sum(0)


def swiglu_backward(both: Tensor, dy: Tensor) -> Tensor:
    gate, up = wide(both).chunk(2, dim=-1)
    s, dy = torch.sigmoid(gate), wide(dy)
    return bf16(torch.cat((dy * up * s * (1 + gate * (1 - s)), dy * gate * s), dim=-1))


def qk_norm_rope_backward(x: Tensor, weight: Tensor, cos: Tensor, sin: Tensor, dy: Tensor) -> tuple[Tensor, Tensor]:
    first, second = wide(dy).chunk(2, dim=-1)
    cos, sin = cos[:, None, :], sin[:, None, :]
    turned = torch.cat((first * cos + second * sin, second * cos - first * sin), dim=-1)
    rstd = torch.rsqrt(wide(x).square().mean(-1, keepdim=True) + 1e-6)
    unit, scaled = wide(x) * rstd, turned * wide(weight)
    dx = rstd * (scaled - unit * (scaled * unit).mean(-1, keepdim=True))
    return bf16(dx), (turned * unit).sum((0, 1))


_norm_inputs = tensors(
    "x: bfloat16[tokens,hidden]", "weight: bfloat16[hidden]", "rstd[tokens]", "dy dresidual: bfloat16[tokens,hidden]",
    x=normal(1.5), weight=uniform(0.5, 1.5), rstd=uniform(0.5, 0.8),
)  # fmt: skip
_rope_inputs = tensors(
    "x: bfloat16[tokens,heads,dim]", "weight: bfloat16[dim]", "cos sin[tokens,dim/2]", "dy: bfloat16[tokens,heads,dim]",
    x=normal(1.5), weight=uniform(0.5, 1.5), cos=uniform(-1.0, 1.0), sin=uniform(-1.0, 1.0),
)  # fmt: skip


_rows = parameters("tokens hidden")
_heads = parameters("tokens heads dim")
problem = functools.partial(
    ProblemDefinition, family="norm_backward", tolerance=ROW_GRADIENT, tiny=Size("tiny", _rows(24, 48)),
)  # fmt: skip

PROBLEMS: tuple[ProblemDefinition, ...] = (
    problem(
        id="rmsnorm_backward", title="RMS norm with its residual, backward", reference=rmsnorm_backward,
        description="With u = x * rstd (bfloat16 rows x, saved float32 rstd per row) and w = dy * weight: dx = rstd * "
            "(w - u * mean of w * u) + dresidual in bfloat16, and the float32 gradient of the weight, the sum of dy * "
            "u over rows. rstd is used as given.",
        inputs=_norm_inputs, outputs=tensors("dx: bfloat16[tokens,hidden]", "dweight[hidden]"),
        flops=lambda p: 10 * p["tokens"] * p["hidden"],
        sizes=(
            Size("llama3_8b", _rows(8192, 4096), "Llama-3-8B, 8192 tokens"),
            Size("llama3_70b", _rows(4096, 8192), "Llama-3-70B, 4096 tokens"),
            Size("qwen3_06b", _rows(32768, 1024), "Qwen3-0.6B, 32768 tokens"),
        ),
        cases=(
            large("dy", factor=32.0, atol_scale=8.0), outliers("x", factor=32.0, atol_scale=32.0),
            zero_rows("dy"), one_hot("x"),
        ),
    ),
    problem(
        id="swiglu_backward", title="SwiGLU of one tensor, backward", reference=swiglu_backward,
        description="Rows of both hold a gate (left half) and an input (right half); the output of the forward pass "
            "was silu(gate) * input. Given dy, return the gradient of both, in bfloat16: dy * input * s * (1 + gate * "
            "(1 - s)) with s = sigmoid(gate), beside dy * silu(gate).",
        inputs=tensors("both: bfloat16[tokens,2*hidden]", "dy: bfloat16[tokens,hidden]"),
        outputs=tensors("dboth: bfloat16[tokens,2*hidden]"),
        flops=lambda p: 10 * p["tokens"] * p["hidden"],
        sizes=(
            Size("llama3_8b", _rows(4096, 14336), "Llama-3-8B MLP, 4096 tokens"),
            Size("qwen3_4b", _rows(8192, 9728), "Qwen3-4B MLP, 8192 tokens"),
            Size("qwen3_30b", _rows(32768, 768), "Qwen3-30B-A3B experts, 32768 rows"),
        ),
        cases=(
            large("both", factor=32.0, atol_scale=32.0), outliers("both", factor=32.0),
            large("dy", factor=512.0, atol_scale=64.0, case="large_gradients"),
        ),
    ),
    problem(
        id="qk_norm_rope_backward", title="RMS norm and rotary embedding of heads, backward",
        reference=qk_norm_rope_backward,
        description="The forward pass RMS-normalised each head vector x (eps 1e-6), scaled it by weight and rotated "
            "its halves by tables cos and sin (tokens, dim/2): first*cos - second*sin, then second*cos + first*sin. "
            "Given the gradient dy of the result, return those of x (bfloat16) and of weight (float32, summed over "
            "tokens and heads).",
        inputs=_rope_inputs, outputs=tensors("dx: bfloat16[tokens,heads,dim]", "dweight[dim]"),
        flops=lambda p: 16 * p["tokens"] * p["heads"] * p["dim"],
        sizes=(
            Size("qwen3_8b", _heads(8192, 32, 128), "Qwen3-8B queries, 8192 tokens"),
            Size("qwen3_32b", _heads(4096, 64, 128), "Qwen3-32B queries, 4096 tokens"),
            Size("gemma3_4b", _heads(8192, 8, 256), "Gemma-3-4B queries, 8192 tokens"),
        ),
        tiny=Size("tiny", _heads(9, 3, 32)),
        cases=(
            large("dy", factor=32.0, atol_scale=32.0), outliers("x", factor=32.0, atol_scale=4.0),
            one_hot("dy"),
        ),
    ),
)  # fmt: skip
