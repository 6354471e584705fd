"""Convolutions in bfloat16 with channels last: forward, both gradients, and depthwise."""

from __future__ import annotations

import functools

from kbench.benchmark.problems.adversarial.cases import large, one_hot, outliers, zero_rows
from kbench.benchmark.problems.definition import ProblemDefinition, Size, Tolerance
from kbench.benchmark.problems.families.shared import multiply_adds
from kbench.benchmark.problems.inputs import Params, Sized, normal, parameters, tensors
from kbench.benchmark.problems.lazy_torch import F, Tensor, torch

BF16_SUMS = Tolerance(1.5e-2, 1.5e-2, "fp32 sums of exact products of unit scale, rounded to bfloat16 (2^-9 relative)")


def conv3x3_nhwc(x: Tensor, weight: Tensor) -> Tensor:
    y = F.conv2d(x.permute(0, 3, 1, 2), weight.permute(0, 3, 1, 2), padding=1)
    return y.permute(0, 2, 3, 1).contiguous()


def conv3x3_wgrad_nhwc(x: Tensor, dy: Tensor) -> Tensor:
    shape = (dy.shape[3], x.shape[3], 3, 3)
    weight = x.new_empty(shape).to(memory_format=torch.channels_last)
    image, gradient = x.permute(0, 3, 1, 2), dy.permute(0, 3, 1, 2)
    _, dw, _ = torch.ops.aten.convolution_backward(
        gradient, image, weight, None, [1, 1], [1, 1], [1, 1], False, [0, 0], 1, [False, True, False]
    )
    filters: Tensor = dw.permute(0, 2, 3, 1).contiguous()
    return filters


def conv3x3_stride2_dgrad_nhwc(dy: Tensor, weight: Tensor) -> Tensor:
    dx = F.conv_transpose2d(dy.permute(0, 3, 1, 2), weight.permute(0, 3, 1, 2), stride=2, padding=1, output_padding=1)
    return dx.permute(0, 2, 3, 1).contiguous()


def depthwise7x7_nhwc(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    y = F.conv2d(x.permute(0, 3, 1, 2), weight.permute(2, 0, 1).unsqueeze(1), bias, padding=3, groups=x.shape[3])
    return y.permute(0, 2, 3, 1).contiguous()


IMAGES, FILTERS = "x: bfloat16[n,side,side,c_in]", "weight: bfloat16[c_out,3,3,c_in]"
_sized = parameters("n side c_in c_out")


def _flops(p: Params, shrink: int = 1) -> int:
    side = p["side"] // shrink
    return multiply_adds(p["n"], (side, side), p["c_in"], p["c_out"], 9)


problem = functools.partial(
    ProblemDefinition, family="convolution", tolerance=BF16_SUMS, compute_unit="bf16", flops=_flops,
    tiny=Size("tiny", _sized(2, 8, 16, 24)),
)  # fmt: skip
CASES = (
    large("x", factor=32.0, atol_scale=32.0), outliers("x", factor=32.0, atol_scale=8.0), one_hot("x"),
)  # fmt: skip
GRADIENT_CASES = (
    large("dy", factor=32.0, atol_scale=32.0), outliers("dy", factor=32.0, atol_scale=8.0), one_hot("dy"),
)  # fmt: skip

PROBLEMS: tuple[ProblemDefinition, ...] = (
    problem(
        id="conv3x3_nhwc", title="3×3 convolution, channels last", reference=conv3x3_nhwc,
        description="3×3 convolution of images (N, H, W, C) with filters (O, 3, 3, C) and one pixel of zero padding, "
            "in bfloat16 with fp32 sums; the result is (N, H, W, O).",
        inputs=tensors(IMAGES, FILTERS, weight=Sized(lambda p: normal((9 * p["c_in"]) ** -0.5))),
        outputs=tensors("y: bfloat16[n,side,side,c_out]"),
        sizes=(
            Size("resnet50_conv3", _sized(128, 28, 128, 128), "ResNet-50 conv3_x 3×3, 128 images"),
            Size("sdxl_unet", _sized(8, 64, 640, 640), "Stable Diffusion XL UNet at 64 × 64, 8 images"),
            Size("sd_vae", _sized(1, 512, 256, 256), "Stable Diffusion VAE decoder at 512 × 512, one image"),
        ),
        cases=(*CASES, zero_rows("weight")),
    ),
    problem(
        id="conv3x3_wgrad_nhwc", title="Weight gradient of a 3×3 convolution, channels last",
        reference=conv3x3_wgrad_nhwc,
        description="Gradient of the filters (O, 3, 3, C) of a 3×3 convolution with one pixel of zero padding, from "
            "images x (N, H, W, C) and the gradient dy (N, H, W, O); bfloat16 with fp32 sums over images and pixels.",
        inputs=tensors(
            IMAGES, "dy: bfloat16[n,side,side,c_out]", dy=Sized(lambda p: normal((p["n"] * p["side"] ** 2) ** -0.5)),
        ),
        outputs=tensors("dw: bfloat16[c_out,3,3,c_in]"),
        sizes=(
            Size("resnet50_conv3", _sized(128, 28, 128, 128), "ResNet-50 conv3_x 3×3, 128 images"),
            Size("resnet50_conv5", _sized(256, 7, 512, 512), "ResNet-50 conv5_x 3×3, 256 images"),
            Size("sd15_unet", _sized(16, 32, 640, 640), "Stable Diffusion 1.5 UNet at 32 × 32, 16 images"),
        ),
        cases=(
            large("dy", factor=32.0, atol_scale=32.0), outliers("x", factor=32.0, atol_scale=16.0),
            zero_rows("x", dims=(-1, -2, -3)),
        ),
    ),
    problem(
        id="conv3x3_stride2_dgrad_nhwc", title="Input gradient of a strided 3×3 convolution, channels last",
        reference=conv3x3_stride2_dgrad_nhwc,
        description="Gradient of the images (N, H, W, C) of a 3×3 convolution of stride 2 with one pixel of zero "
            "padding, from the gradient dy (N, H/2, W/2, O) and filters (O, 3, 3, C); bfloat16 with fp32 sums.",
        inputs=tensors(
            "dy: bfloat16[n,side/2,side/2,c_out]", FILTERS,
            weight=Sized(lambda p: normal((9 * p["c_out"] // 4) ** -0.5)),
        ),
        outputs=tensors("dx: bfloat16[n,side,side,c_in]"), flops=lambda p: _flops(p, 2),
        sizes=(
            Size("resnet50_conv3", _sized(128, 56, 128, 128), "ResNet-50 conv3_x first 3×3, 128 images"),
            Size("sdxl_unet", _sized(8, 128, 320, 320), "Stable Diffusion XL UNet downsampling, 8 images"),
            Size("sd15_unet", _sized(16, 64, 320, 320), "Stable Diffusion 1.5 UNet downsampling, 16 images"),
        ),
        tolerance=Tolerance(3e-2, 2e-2, "fp32 sums rounded to bfloat16 (2^-9 relative); taps may be added in bfloat16"),
        cases=GRADIENT_CASES,
    ),
    problem(
        id="depthwise7x7_nhwc", title="7×7 depthwise convolution, channels last", reference=depthwise7x7_nhwc,
        description="7×7 convolution of each channel of images (N, H, W, C) with its own filter, weight[:, :, c] (7, "
            "7, C), three pixels of zero padding and a bias per channel; bfloat16 with fp32 sums.",
        inputs=tensors(
            IMAGES, "weight: bfloat16[7,7,c_in]", "bias: bfloat16[c_in]", weight=normal(1 / 7), bias=normal(0.5),
        ),
        outputs=tensors("y: bfloat16[n,side,side,c_in]"),
        flops=lambda p: 98 * p["n"] * p["side"] ** 2 * p["c_in"], compute_unit="fp32",
        sizes=(
            Size("convnext_t_stage1", _sized(128, 56, 96, 96), "ConvNeXt-T stage 1, 128 images"),
            Size("convnext_l_stage3", _sized(64, 14, 768, 768), "ConvNeXt-L stage 3, 64 images"),
            Size("convnext_b_stage2", _sized(128, 28, 256, 256), "ConvNeXt-B stage 2, 128 images"),
        ),
        cases=CASES,
    ),
)  # fmt: skip
