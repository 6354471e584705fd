"""Normalisations (softmax, batch, instance, group and RMS norm, Frobenius, L2), reductions, gradients."""

from __future__ import annotations

import functools
from collections.abc import Callable

from kbench.benchmark.problems.adversarial.cases import (
    InputCase,
    alternating,
    constant_rows,
    large,
    one_hot,
    outliers,
    shifted,
    small,
    sorted_rows,
    ties,
    zero_rows,
)
from kbench.benchmark.problems.definition import ProblemDefinition, Size, Tolerance
from kbench.benchmark.problems.families.shared import bf16, wide
from kbench.benchmark.problems.inputs import Params, Specs, normal, parameters, tensors, uniform
from kbench.benchmark.problems.lazy_torch import F, Tensor, torch

SOFTMAX_CASES = (
    # exp2(x * log2(e)) of an exponent near 200 rounds by 1e-5.
    shifted("x", by=100.0, rtol_scale=10.0, atol_scale=10.0),
    outliers("x", factor=50.0, atol_scale=10.0, rtol_scale=10.0),
    constant_rows("x"),
    ties("x"),
)
KB_IMAGE = Size("kb_v0", {"batch": 16, "channels": 64, "height": 256, "width": 256})
TINY_IMAGE = Size("tiny", {"batch": 3, "channels": 16, "height": 5, "width": 7})
FP32_STATISTICS = Tolerance(
    2e-5, 2e-5, "float32 statistics of up to a million elements, tree-summed: about 1e-6 relative, times ten"
)


def statistics_cases(*dims: int) -> tuple[InputCase, ...]:
    """Cases of a norm whose mean and variance run over these dimensions."""
    return (
        # Means of up to thirty deviations are specified: there a float32 variance as E[x²] − E[x]² is good to 2e-4.
        shifted("x", by=30.0, dims=dims, atol_scale=50.0),
        # Without variance, what rounding leaves of x − mean is divided by the root of eps.
        constant_rows("x", dims=dims, atol_scale=50.0),
        small("x", factor=1e-3, atol_scale=1.0),
        large("x", factor=1e6, atol_scale=1.0),
        outliers("x", factor=100.0, atol_scale=10.0),
    )


_matrix = tensors("x[rows,cols]", x=normal(2.0))
_matrix_out = tensors("y[rows,cols]")


# Neither centred nor of unit deviation: otherwise returning the input would pass for normalising it.
_image = tensors("x[batch,channels,height,width]", x=normal(1.5, 0.5))
_image_affine = tensors(_image, "weight bias[channels]", weight=uniform(0.5, 1.5), bias=normal(0.5))
_image_out = tensors("y[batch,channels,height,width]")


def _image_numel(p: Params) -> int:
    return int(p["batch"] * p["channels"] * p["height"] * p["width"])


def softmax(x: Tensor) -> Tensor:
    return torch.softmax(x, dim=1)


def log_softmax(x: Tensor) -> Tensor:
    return torch.log_softmax(x, dim=1)


def batch_norm(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return F.batch_norm(x, None, None, weight, bias, training=True, eps=1e-5)


def instance_norm(x: Tensor) -> Tensor:
    return F.instance_norm(x, eps=1e-5)


def group_norm(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return F.group_norm(x, 8, weight, bias, eps=1e-5)


def rms_norm(x: Tensor) -> Tensor:
    return x / torch.sqrt(torch.mean(x * x, dim=1, keepdim=True) + 1e-5)


def frobenius_norm(x: Tensor) -> Tensor:
    length: Tensor = torch.linalg.vector_norm(x)
    return x / length


def l2_norm(x: Tensor) -> Tensor:
    length: Tensor = torch.linalg.vector_norm(x, dim=1, keepdim=True)
    return x / length


problem = functools.partial(ProblemDefinition, family="norm", outputs=_image_out, sizes=(KB_IMAGE,), tiny=TINY_IMAGE)

NORMS: tuple[ProblemDefinition, ...] = (
    problem(
        id="softmax", title="Softmax over rows", reference=softmax,
        description="Softmax of each row of a float32 matrix.",
        inputs=_matrix, outputs=_matrix_out, flops=lambda p: 5 * p["rows"] * p["cols"],
        sizes=(Size("large", {"rows": 4096, "cols": 8192}), Size("kb_v0", {"rows": 16, "cols": 16384})),
        tiny=Size("tiny", {"rows": 7, "cols": 45}),
        tolerance=Tolerance(1e-8, 2e-5, "float32 exponentials of exponents down to -20, summed over up to 16384"),
        aliases=("kernelbench/v0/L1/23",), cases=SOFTMAX_CASES,
    ),
    problem(
        id="log_softmax", title="Log-softmax over rows", reference=log_softmax,
        description="Natural logarithm of the softmax of each row of a float32 matrix.",
        inputs=_matrix, outputs=_matrix_out, flops=lambda p: 5 * p["rows"] * p["cols"],
        sizes=(Size("vocabulary", {"rows": 2048, "cols": 32000}), Size("kb_v0", {"rows": 16, "cols": 16384})),
        tiny=Size("tiny", {"rows": 7, "cols": 45}),
        tolerance=Tolerance(1e-5, 1e-5, "float32 logarithm of a sum of up to 32000 exponentials; results of size 10"),
        aliases=("kernelbench/v0/L1/24",), cases=SOFTMAX_CASES,
    ),
    problem(
        id="batch_norm", title="Batch norm, training mode", reference=batch_norm,
        description="Normalise each channel of a float32 image batch (N, C, H, W) by its mean and biased variance over "
            "N, H and W (eps 1e-5), then scale by weight and add bias.",
        inputs=_image_affine, flops=lambda p: 6 * _image_numel(p),
        tolerance=FP32_STATISTICS, aliases=("kernelbench/v0/L1/33",), cases=statistics_cases(0, 2, 3),
    ),
    problem(
        id="instance_norm", title="Instance norm", reference=instance_norm,
        description="Normalise every image plane of a float32 batch (N, C, H, W) by its own mean and biased variance "
            "over H and W (eps 1e-5).",
        inputs=_image, flops=lambda p: 5 * _image_numel(p),
        tolerance=FP32_STATISTICS, aliases=("kernelbench/v0/L1/34",), cases=statistics_cases(2, 3),
    ),
    problem(
        id="group_norm", title="Group norm, 8 groups", reference=group_norm,
        description="Split the channels of a float32 image batch (N, C, H, W) into 8 groups, normalise each group of "
            "each image by its mean and biased variance (eps 1e-5), then scale and shift each channel by weight and "
            "bias.",
        inputs=_image_affine, flops=lambda p: 6 * _image_numel(p),
        tolerance=FP32_STATISTICS, aliases=("kernelbench/v0/L1/35",), cases=statistics_cases(1, 2, 3),
    ),
    problem(
        id="rms_norm", title="RMS norm over channels", reference=rms_norm,
        description="Divide a float32 image batch (N, C, H, W) by the root of the mean square over the channels at "
            "each pixel plus 1e-5.",
        inputs=_image, flops=lambda p: 3 * _image_numel(p),
        tolerance=Tolerance(1e-6, 1e-5, "float32 mean of 64 squares: a few units in the last place"),
        aliases=("kernelbench/v0/L1/36",),
        cases=(
            large("x", factor=1e6, atol_scale=1.0), small("x", factor=1e-3, atol_scale=1.0),
            outliers("x", dim=1, factor=100.0, atol_scale=1.0), zero_rows("x", dims=(1,)),
        ),
    ),
    problem(
        id="frobenius_norm", title="Frobenius normalisation", reference=frobenius_norm,
        description="Divide a float32 tensor by the root of the sum of squares of all its elements.",
        inputs=_image, flops=lambda p: 3 * _image_numel(p),
        tolerance=Tolerance(1e-9, 2e-5, "float32 sum of 67 million squares in a tree: about 1e-6 relative, times ten"),
        aliases=("kernelbench/v0/L1/37",),
        cases=(
            large("x", factor=1e6, atol_scale=1.0), small("x", factor=1e-5, atol_scale=1.0),
            outliers("x", atol_scale=1.0), zero_rows("x"),
        ),
    ),
    problem(
        id="l2_norm", title="L2 normalisation of rows", reference=l2_norm,
        description="Divide each row of a float32 matrix by its Euclidean length.",
        inputs=_matrix, outputs=_matrix_out, flops=lambda p: 3 * p["rows"] * p["cols"],
        sizes=(Size("large", {"rows": 8192, "cols": 4096}), Size("kb_v0", {"rows": 16, "cols": 16384})),
        tiny=Size("tiny", {"rows": 7, "cols": 45}),
        tolerance=Tolerance(1e-7, 1e-5, "float32 sum of up to 16384 squares: about 1e-6 relative, times ten"),
        aliases=("kernelbench/v0/L1/39",),
        cases=(
            large("x", factor=1e6, atol_scale=1.0), small("x", factor=1e-5, atol_scale=1.0),
            outliers("x", atol_scale=1.0), one_hot("x"),
        ),
    ),
)  # fmt: skip


EXACT = Tolerance(0.0, 0.0, "exact: the answer is a selection, nothing is rounded")

SUM_CASES = (
    large("x", factor=1e6),
    alternating("x", dim=1),
    one_hot("x", dim=1),
    outliers("x", dim=1, atol_scale=100.0),
    constant_rows("x", dims=(1,)),
)
FAR_BELOW = InputCase(
    "far_below",
    "Values far below zero find maxima that start from zero or -1e30.",
    {"x": lambda generator, x: x.abs() * -1e35},
    unit=0,
)
FAR_ABOVE = InputCase(
    "far_above",
    "Values far above zero find minima that start from zero or 1e30.",
    {"x": lambda generator, x: x.abs() * 1e35},
    unit=0,
)
SELECTION_CASES = (FAR_BELOW, FAR_ABOVE, ties("x"), constant_rows("x", dims=(1,)), sorted_rows("x", dim=1))
INDEX_CASES = (*SELECTION_CASES, zero_rows("x", dims=(1,)))
"""Zeros of both signs are equal, so the first of them is the answer."""


_kept = tensors("y[batch,1,width]")
_reduced = tensors("y[batch,width]")
_indices = tensors("y: int64[batch,width]")


def sum_reduce(x: Tensor) -> Tensor:
    return torch.sum(x, dim=1, keepdim=True)


def mean_reduce(x: Tensor) -> Tensor:
    return torch.mean(x, dim=1)


def max_reduce(x: Tensor) -> Tensor:
    return torch.amax(x, dim=1)


def argmax(x: Tensor) -> Tensor:
    return torch.argmax(x, dim=1)


def argmin(x: Tensor) -> Tensor:
    return torch.argmin(x, dim=1)


def reduction(
    reference: Callable[[Tensor], Tensor], title: str, text: str, outputs: Specs, tolerance: Tolerance,
    cases: tuple[InputCase, ...], *, large: tuple[int, int, int], alias: int,
) -> ProblemDefinition:  # fmt: skip
    """One of KernelBench's: it takes every element once, at a large size and at KernelBench's."""
    sized = parameters("batch length width")
    return ProblemDefinition(
        id=reference.__name__, family="reduction", title=title, reference=reference, description=text,
        inputs=tensors("x[batch,length,width]", x=normal(1.5)), outputs=outputs,
        flops=lambda p: p["batch"] * p["length"] * p["width"],
        sizes=(Size("large", sized(*large)), Size("kb_v0", sized(16, 256, 256))), tiny=Size("tiny", sized(3, 37, 21)),
        tolerance=tolerance, aliases=(f"kernelbench/v0/L1/{alias}",), cases=cases,
    )  # fmt: skip


REDUCTIONS: tuple[ProblemDefinition, ...] = (
    reduction(
        sum_reduce, "Sum over a dimension",
        "Sum a float32 tensor (batch, length, width) over its middle dimension, which stays with size one.",
        _kept, Tolerance(5e-4, 1e-5, "float32 sum of 1024 terms in any order; sums are of size 50"), SUM_CASES,
        large=(64, 1024, 1024), alias=47,
    ),
    reduction(
        mean_reduce, "Mean over a dimension",
        "Mean of a float32 tensor (batch, length, width) over its middle dimension.", _reduced,
        Tolerance(1e-6, 1e-5, "float32 mean of up to 4096 terms in any order; means are of size 0.02"), SUM_CASES,
        large=(16, 4096, 1024), alias=48,
    ),
    reduction(
        max_reduce, "Maximum over a dimension",
        "Largest value of a float32 tensor (batch, length, width) over its middle dimension.",
        _reduced, EXACT, SELECTION_CASES, large=(128, 512, 1280), alias=49,
    ),
    reduction(
        argmax, "Index of the maximum over a dimension",
        "Index (int64) of the largest value of a float32 tensor (batch, length, width) along its middle dimension; the "
        "first one where several are equal.",
        _indices, EXACT, INDEX_CASES, large=(32, 2048, 1024), alias=51,
    ),
    reduction(
        argmin, "Index of the minimum over a dimension",
        "Index (int64) of the smallest value of a float32 tensor (batch, length, width) along its middle dimension; "
        "the first one where several are equal.",
        _indices, EXACT, INDEX_CASES, large=(64, 1000, 1111), alias=52,
    ),
)  # fmt: skip


PROBLEMS: tuple[ProblemDefinition, ...] = (*NORMS, *REDUCTIONS)


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


_rows = parameters("tokens hidden")
_heads = parameters("tokens heads dim")
gradient = functools.partial(
    ProblemDefinition, family="norm_backward", tolerance=ROW_GRADIENT, tiny=Size("tiny", _rows(24, 48)),
)  # fmt: skip

GRADIENTS: tuple[ProblemDefinition, ...] = (
    gradient(
        id="rmsnorm_backward", title="RMS norm with its residual, backward", reference=rmsnorm_backward,
        description="With u = x * rstd (bfloat16 rows x, saved float32 rstd per row) and w = dy * weight: dx = rstd * "
            "(w - u * mean of w * u) + dresidual in bfloat16, and the float32 gradient of the weight, the sum of dy * "
            "u over rows. rstd is used as given.",
        inputs=tensors(
            "x: bfloat16[tokens,hidden]", "weight: bfloat16[hidden]", "rstd[tokens]",
            "dy dresidual: bfloat16[tokens,hidden]", x=normal(1.5), weight=uniform(0.5, 1.5), rstd=uniform(0.5, 0.8),
        ),
        outputs=tensors("dx: bfloat16[tokens,hidden]", "dweight[hidden]"),
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
    gradient(
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
    gradient(
        id="qk_norm_rope_backward", title="RMS norm and rotary embedding of heads, backward",
        reference=qk_norm_rope_backward,
        description="The forward pass RMS-normalised each head vector x (eps 1e-6), scaled it by weight and rotated "
            "its halves by tables cos and sin (tokens, dim/2): first*cos - second*sin, then second*cos + first*sin. "
            "Given the gradient dy of the result, return those of x (bfloat16) and of weight (float32, summed over "
            "tokens and heads).",
        inputs=tensors(
            "x: bfloat16[tokens,heads,dim]", "weight: bfloat16[dim]", "cos sin[tokens,dim/2]",
            "dy: bfloat16[tokens,heads,dim]", x=normal(1.5), weight=uniform(0.5, 1.5), cos=uniform(-1.0, 1.0),
            sin=uniform(-1.0, 1.0),
        ),
        outputs=tensors("dx: bfloat16[tokens,heads,dim]", "dweight[dim]"),
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
