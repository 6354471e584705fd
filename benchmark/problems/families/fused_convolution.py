"""Convolutions followed by elementwise steps, pooling or a reduction that a kernel can fold into the same pass."""

from __future__ import annotations

import functools

from kbench.benchmark.problems.adversarial.cases import InputCase, large, one_hot, outliers, shifted, small, zero_rows
from kbench.benchmark.problems.adversarial.changes import resemble
from kbench.benchmark.problems.definition import ProblemDefinition, Size, Tolerance
from kbench.benchmark.problems.families.convolution import CONVOLUTION_CASES, CUBE, SQUARE, fp32_sum, unit_sums
from kbench.benchmark.problems.inputs import Specs, TensorSpec, normal, tensors
from kbench.benchmark.problems.lazy_torch import F, Tensor, torch

FLAT = InputCase(
    "flat",
    "Images of one colour find rounded operands, whose errors are alike at every pixel and do not average out.",
    {"x": lambda generator, x: torch.randn((*x.shape[:2], 1, 1), generator=generator, device=x.device).expand(x.shape)},
)
ALIKE = InputCase(
    "alike",
    "Channels that differ by little find a minimum that is looked for in rounded numbers.",
    {"weight": resemble(0.002), "conv_bias": resemble(0.0)},
)
NEGATIVE_BIAS = InputCase(
    "negative", "Values below zero find maxima that start from zero.", {"bias": lambda generator, x: x - 20.0}, unit=0
)


def _images(dtype: str = "float32") -> Specs:
    return tensors(
        f"x: {dtype}[n,c_in,height,width]", f"weight: {dtype}[c_out,c_in,3,3]", f"conv_bias: {dtype}[c_out]",
        weight=unit_sums, conv_bias=normal(0.5),
    )  # fmt: skip


def _conv2d_relu_bias_add(x: Tensor, weight: Tensor, conv_bias: Tensor, bias: Tensor) -> Tensor:
    return torch.relu(F.conv2d(x, weight, conv_bias)) + bias


def _conv2d_mish_mish(x: Tensor, weight: Tensor, conv_bias: Tensor) -> Tensor:
    return F.mish(F.mish(F.conv2d(x, weight, conv_bias)))


def _conv2d_relu_hardswish(x: Tensor, weight: Tensor, conv_bias: Tensor) -> Tensor:
    y = torch.relu(F.conv2d(x, weight, conv_bias))
    return y * torch.clamp((y + 3) / 6, 0, 1)


def _conv2d_avg_pool_sigmoid_sum(x: Tensor, weight: Tensor, conv_bias: Tensor) -> Tensor:
    pooled = F.avg_pool2d(F.conv2d(x, weight, conv_bias), 2)
    return torch.sigmoid(pooled).sum(dim=(1, 2, 3))


def _conv2d_tanh_scaling_bias_max_pool(x: Tensor, weight: Tensor, conv_bias: Tensor, bias: Tensor) -> Tensor:
    y = torch.tanh(F.conv2d(x, weight, conv_bias)) * 2.0 + bias
    return F.max_pool2d(y, 4)


def _conv2d_scaling_min(x: Tensor, weight: Tensor, conv_bias: Tensor) -> Tensor:
    return torch.amin(F.conv2d(x, weight, conv_bias) * 2.0, dim=1, keepdim=True)


def _conv3d_scaling_tanh_multiply_sigmoid(
    x: Tensor, weight: Tensor, conv_bias: Tensor, scale: Tensor, bias: Tensor
) -> Tensor:
    return torch.sigmoid(torch.tanh(F.conv3d(x, weight, conv_bias) * scale) * bias)


# Operations are the convolution's; what follows adds a few per output and is left out, as torch's counter does.
problem = functools.partial(
    ProblemDefinition,
    family="fused_convolution",
    flops=SQUARE.flops,
    tiny=Size("tiny", {"n": 2, "c_in": 3, "c_out": 5, "height": 9, "width": 11}),
)

PROBLEMS: tuple[ProblemDefinition, ...] = (
    problem(
        id="conv2d_relu_bias_add", title="2D convolution, ReLU, bias", reference=_conv2d_relu_bias_add,
        description="3×3 convolution with bias, then ReLU, then a second bias per channel.",
        inputs=tensors(_images(), "bias[c_out,1,1]"), outputs=SQUARE.outputs,
        sizes=(Size("large", {"n": 32, "c_in": 16, "c_out": 64, "height": 64, "width": 64}),),
        tolerance=fp32_sum("144"), cases=CONVOLUTION_CASES,
    ),
    problem(
        id="conv2d_mish_mish", title="2D convolution, Mish twice", reference=_conv2d_mish_mish,
        description="3×3 convolution with bias, then Mish applied twice, where Mish(v) = v · tanh(log(1 + exp(v))).",
        inputs=_images(), outputs=SQUARE.outputs,
        sizes=(Size("large", {"n": 16, "c_in": 16, "c_out": 32, "height": 128, "width": 128}),),
        tolerance=fp32_sum("144"), cases=CONVOLUTION_CASES,
    ),
    problem(
        id="conv2d_relu_hardswish", title="2D convolution, ReLU, hard swish (bfloat16)",
        reference=_conv2d_relu_hardswish,
        description="3×3 convolution with bias in bfloat16, then ReLU, then v · clamp((v + 3) / 6, 0, 1).",
        inputs=_images("bfloat16"),
        outputs=tensors("y: bfloat16[n,c_out,height-2,width-2]"),
        sizes=(Size("large", {"n": 64, "c_in": 8, "c_out": 64, "height": 128, "width": 128}),),
        tolerance=Tolerance(
            2e-2, 2e-2,
            "bfloat16 keeps 8 bits; the reference rounds after the convolution and after each of four steps",
        ),
        compute_unit="bf16",
        cases=(large("x", factor=1e3), small("x", factor=1e-3, atol_scale=1.0), one_hot("x"), outliers("x")),
    ),
    problem(
        id="conv2d_avg_pool_sigmoid_sum", title="2D convolution, average pooling, sigmoid, sum per image",
        reference=_conv2d_avg_pool_sigmoid_sum,
        description="3×3 convolution with bias, mean of 2×2, sigmoid, then one sum per image over channels and pixels.",
        inputs=_images(), outputs=tensors("y[n]"),
        sizes=(Size("large", {"n": 64, "c_in": 8, "c_out": 32, "height": 98, "width": 98}),),
        tiny=Size("tiny", {"n": 6, "c_in": 3, "c_out": 5, "height": 9, "width": 12}),
        tolerance=Tolerance(
            1e-5, 1e-5, "fp32 sums of up to 74 thousand sigmoids of like sign; images differ by about 1e-3 of the sum",
        ),
        cases=(
            large("x", factor=100.0, atol_scale=10.0), one_hot("x"), outliers("x", factor=100.0, atol_scale=10.0),
            zero_rows("x"), FLAT,
        ),
    ),
    problem(
        id="conv2d_tanh_scaling_bias_max_pool", title="2D convolution, tanh, scaling, bias, max pooling",
        reference=_conv2d_tanh_scaling_bias_max_pool,
        description="3×3 convolution with bias, 2 · tanh, a second bias per channel, then the largest of each 4×4 "
            "window.",
        inputs=tensors(_images(), "bias[c_out,1,1]"),
        outputs=lambda p: (TensorSpec("y", (p["n"], p["c_out"], *(extent // 4 for extent in SQUARE.extents(p)))),),
        sizes=(Size("large", {"n": 32, "c_in": 8, "c_out": 32, "height": 130, "width": 130}),),
        tiny=Size("tiny", {"n": 2, "c_in": 3, "c_out": 5, "height": 15, "width": 18}),
        tolerance=fp32_sum("72"),
        cases=(
            large("x", factor=100.0, atol_scale=10.0), one_hot("x"), outliers("x", factor=100.0, atol_scale=10.0),
            NEGATIVE_BIAS,
        ),
    ),
    problem(
        id="conv2d_scaling_min", title="2D convolution, scaling, minimum over channels", reference=_conv2d_scaling_min,
        description="3×3 convolution with bias, doubled, then at every pixel the smallest value over output channels.",
        inputs=_images(), outputs=tensors("y[n,1,height-2,width-2]"),
        sizes=(Size("large", {"n": 32, "c_in": 16, "c_out": 64, "height": 64, "width": 64}),),
        tolerance=fp32_sum("144"),
        cases=(
            large("x", factor=1e5), one_hot("x"), outliers("x", atol_scale=100.0),
            shifted("conv_bias", by=100.0, atol_scale=10.0), ALIKE,
        ),
    ),
    problem(
        id="conv3d_scaling_tanh_multiply_sigmoid", title="3D convolution, scaling, tanh, multiply, sigmoid",
        reference=_conv3d_scaling_tanh_multiply_sigmoid,
        description="3×3×3 convolution with bias, times a factor per channel, tanh, times a second factor per channel, "
            "sigmoid.",
        inputs=tensors(CUBE.inputs, "conv_bias[c_out]", "scale bias[c_out,1,1,1]", conv_bias=normal(0.5)),
        outputs=CUBE.outputs, flops=CUBE.flops,
        sizes=(Size("large", {"n": 128, "c_in": 3, "c_out": 16, "depth": 16, "height": 32, "width": 32}),),
        tiny=Size("tiny", {"n": 2, "c_in": 3, "c_out": 4, "depth": 5, "height": 6, "width": 7}),
        tolerance=Tolerance(1e-5, 1e-5, "fp32 sums of 81 products, squashed twice; fp16 operands err by about 1e-4"),
        aliases=("kernelbench/v0/L2/48",),
        cases=(
            large("x", factor=100.0, atol_scale=100.0), one_hot("x"), outliers("x", factor=100.0, atol_scale=100.0),
            shifted("bias", by=100.0),
        ),
    ),
)  # fmt: skip
