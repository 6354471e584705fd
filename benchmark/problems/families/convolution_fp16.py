"""Convolutions of named image models in float16, batch-first and channels before pixels."""

from __future__ import annotations

import functools

from kbench.benchmark.problems.adversarial.cases import large, one_hot, outliers, small, zero_rows
from kbench.benchmark.problems.definition import ProblemDefinition, Size, Tolerance
from kbench.benchmark.problems.families.convolution import unit_sums
from kbench.benchmark.problems.families.shared import multiply_adds
from kbench.benchmark.problems.inputs import normal, parameters, tensors
from kbench.benchmark.problems.lazy_torch import F, Tensor, torch

FP16_SUMS = Tolerance(
    4e-3, 4e-3, "float16 rounds by 5e-4 relative, after each step of an unfused chain; fp32 sums add far less"
)


def conv3x3_fp16(x: Tensor, weight: Tensor) -> Tensor:
    return F.conv2d(x, weight, padding=1)


def conv1x1_residual_relu_fp16(x: Tensor, weight: Tensor, bias: Tensor, residual: Tensor) -> Tensor:
    return torch.relu(F.conv2d(x, weight, bias) + residual)


_sized = parameters("n c_in c_out side")
problem = functools.partial(
    ProblemDefinition, family="convolution", outputs=tensors("y: float16[n,c_out,side,side]"), tolerance=FP16_SUMS,
    compute_unit="fp16",
)  # fmt: skip

PROBLEMS: tuple[ProblemDefinition, ...] = (
    problem(
        id="conv3x3_fp16", title="3×3 convolution with padding in float16", reference=conv3x3_fp16,
        description="3×3 convolution of a float16 image batch (N, C, H, W) with one pixel of zero padding, so that "
            "the image keeps its size; summed in fp32.",
        inputs=tensors("x: float16[n,c_in,side,side]", "weight: float16[c_out,c_in,3,3]", weight=unit_sums),
        flops=lambda p: multiply_adds(p["n"], (p["side"], p["side"]), p["c_in"], p["c_out"], 9),
        sizes=(
            Size("resnet50_conv2", _sized(64, 64, 64, 56), "ResNet-50 conv2_x 3×3, 64 images"),
            Size("resnet50_conv4", _sized(64, 256, 256, 14), "ResNet-50 conv4_x 3×3, 64 images"),
            Size("sd15_unet", _sized(4, 320, 320, 64), "Stable Diffusion 1.5 UNet 3×3 at 64 × 64, 4 images"),
        ),
        tiny=Size("tiny", _sized(2, 5, 6, 9)),
        cases=(large("x", factor=1e3), small("x", factor=1e-2), one_hot("x"), outliers("x", atol_scale=100.0)),
    ),
    problem(
        id="conv1x1_residual_relu_fp16", title="1×1 convolution, bias, residual and ReLU in float16",
        reference=conv1x1_residual_relu_fp16,
        description="Last layer of a residual bottleneck in float16: relu(1×1 convolution of x + bias + residual), "
            "summed in fp32.",
        inputs=tensors(
            "x: float16[n,c_in,side,side]", "weight: float16[c_out,c_in,1,1]", "bias: float16[c_out]",
            "residual: float16[n,c_out,side,side]", weight=unit_sums, bias=normal(0.5),
        ),
        flops=lambda p: multiply_adds(p["n"], (p["side"], p["side"]), p["c_in"], p["c_out"], 1),
        sizes=(
            Size("resnet50_conv2", _sized(64, 64, 256, 56), "ResNet-50 conv2_x expansion, 64 images"),
            Size("resnet50_conv4", _sized(64, 256, 1024, 14), "ResNet-50 conv4_x expansion, 64 images"),
            Size("resnet50_conv5", _sized(128, 512, 2048, 7), "ResNet-50 conv5_x expansion, 128 images"),
        ),
        tiny=Size("tiny", _sized(2, 12, 10, 7)),
        cases=(large("x", factor=1e3), one_hot("x"), outliers("x", atol_scale=100.0), zero_rows("residual")),
    ),
)  # fmt: skip
