"""Convolutions of one to three dimensions, transposed ones, and those of image models in float16 and channels last."""

from __future__ import annotations

import dataclasses
import functools
import math

from kbench.benchmark.problems.adversarial.cases import large, one_hot, outliers, small, zero_rows
from kbench.benchmark.problems.definition import ProblemDefinition, Size, Tolerance
from kbench.benchmark.problems.families.shared import multiply_adds, spatial_shape, window_extent
from kbench.benchmark.problems.inputs import Params, Sized, TensorSpec, normal, parameters, tensors
from kbench.benchmark.problems.lazy_torch import F, Generator, Tensor, torch

CONVOLUTION_CASES = (large("x", factor=1e5), small("x", factor=1e-6), one_hot("x"), outliers("x", atol_scale=100.0))


def fp32_sum(length: str) -> Tolerance:
    """Tolerance for unit-variance fp32 sums: above any fp32 order or Winograd form, below tf32 and fp16 products."""
    return Tolerance(
        5e-5, 5e-5, f"fp32 sums of {length} unit-variance products; tf32 or fp16 operands err by about 3e-4"
    )


def unit_sums(generator: Generator, spec: TensorSpec, device: str) -> Tensor:
    """Filters [c_out, c_in, *taps] scaled so that outputs have unit variance."""
    return normal(1.0 / math.sqrt(math.prod(spec.shape[1:])))(generator, spec, device)


@dataclasses.dataclass(frozen=True, slots=True)
class Window:
    """A convolution without padding that mixes all input channels."""

    taps: tuple[int, ...]
    stride: int = 1
    dilation: int = 1

    def extents(self, p: Params) -> tuple[int, ...]:
        """Of the output."""
        lengths = zip(spatial_shape(p), self.taps, strict=True)
        return tuple(window_extent(length, taps, self.stride, dilation=self.dilation) for length, taps in lengths)

    def inputs(self, p: Params) -> tuple[TensorSpec, ...]:
        """What is convolved, and the filters."""
        filters = TensorSpec("weight", (p["c_out"], p["c_in"], *self.taps), fill=unit_sums)
        return TensorSpec("x", (p["n"], p["c_in"], *spatial_shape(p))), filters

    def outputs(self, p: Params) -> tuple[TensorSpec, ...]:
        """The sums over windows."""
        return (TensorSpec("y", (p["n"], p["c_out"], *self.extents(p))),)

    def flops(self, p: Params) -> int:
        """Operations, a multiply-add counting two."""
        return multiply_adds(p["n"], self.extents(p), p["c_in"], p["c_out"], math.prod(self.taps))


LINE, DILATED = Window((3,)), Window((3,), stride=3, dilation=4)
SQUARE, OBLONG, CUBE, POINT = Window((3, 3)), Window((3, 5)), Window((3, 3, 3)), Window((1, 1))


def _conv1d(x: Tensor, weight: Tensor) -> Tensor:
    return F.conv1d(x, weight)


def _conv1d_dilated_strided(x: Tensor, weight: Tensor) -> Tensor:
    return F.conv1d(x, weight, stride=3, dilation=4)


def _conv2d_square(x: Tensor, weight: Tensor) -> Tensor:
    return F.conv2d(x, weight)


def _conv2d_asymmetric(x: Tensor, weight: Tensor) -> Tensor:
    return F.conv2d(x, weight)


def _conv3d(x: Tensor, weight: Tensor) -> Tensor:
    return F.conv3d(x, weight)


def _depthwise_conv2d(x: Tensor, weight: Tensor) -> Tensor:
    return F.conv2d(x, weight, groups=x.shape[1])


def _depthwise_separable_conv2d(x: Tensor, depthwise: Tensor, pointwise: Tensor) -> Tensor:
    return F.conv2d(F.conv2d(x, depthwise, groups=x.shape[1]), pointwise)


def _separable_flops(p: Params) -> int:
    extents = SQUARE.extents(p)
    depthwise = multiply_adds(p["n"], extents, 1, p["c_in"], 9)
    return depthwise + multiply_adds(p["n"], extents, p["c_in"], p["c_out"], 1)


def _pointwise_conv2d(x: Tensor, weight: Tensor) -> Tensor:
    return F.conv2d(x, weight)


problem = functools.partial(ProblemDefinition, family="convolution", cases=CONVOLUTION_CASES)

PLAIN: tuple[ProblemDefinition, ...] = (
    problem(
        id="conv1d", title="1D convolution", reference=_conv1d,
        description="Slides 3-tap filters over each sequence (no padding, stride 1) and sums over input channels.",
        inputs=LINE.inputs, outputs=LINE.outputs, flops=LINE.flops,
        sizes=(Size("large", {"n": 16, "c_in": 32, "c_out": 64, "length": 16384}),),
        tiny=Size("tiny", {"n": 2, "c_in": 3, "c_out": 5, "length": 37}),
        tolerance=fp32_sum("96"),
    ),
    problem(
        id="conv1d_dilated_strided", title="Dilated, strided 1D convolution", reference=_conv1d_dilated_strided,
        description="1D convolution whose three taps lie 4 positions apart and whose window moves by 3 (no padding).",
        inputs=DILATED.inputs, outputs=DILATED.outputs, flops=DILATED.flops,
        sizes=(Size("large", {"n": 16, "c_in": 32, "c_out": 128, "length": 32768}),),
        tiny=Size("tiny", {"n": 2, "c_in": 3, "c_out": 5, "length": 50}),
        tolerance=fp32_sum("96"),
    ),
    problem(
        id="conv2d_square", title="2D convolution, 3×3", reference=_conv2d_square,
        description="3×3 convolution of a batch of images (no padding, stride 1), summed over input channels.",
        inputs=SQUARE.inputs, outputs=SQUARE.outputs, flops=SQUARE.flops,
        sizes=(
            Size("first_layer", {"n": 16, "c_in": 3, "c_out": 64, "height": 256, "width": 256}),
            Size("deep_layer", {"n": 8, "c_in": 64, "c_out": 64, "height": 56, "width": 56}),
        ),
        tiny=Size("tiny", {"n": 2, "c_in": 3, "c_out": 5, "height": 11, "width": 13}),
        tolerance=fp32_sum("27 to 576"), aliases=("kernelbench/v0/L1/63",),
    ),
    problem(
        id="conv2d_asymmetric", title="2D convolution, 3×5", reference=_conv2d_asymmetric,
        description="Convolution of a batch of images with filters 3 high and 5 wide (no padding, stride 1).",
        inputs=OBLONG.inputs, outputs=OBLONG.outputs, flops=OBLONG.flops,
        sizes=(Size("large", {"n": 16, "c_in": 3, "c_out": 64, "height": 256, "width": 256}),),
        tiny=Size("tiny", {"n": 2, "c_in": 3, "c_out": 5, "height": 9, "width": 14}),
        tolerance=fp32_sum("45"), aliases=("kernelbench/v0/L1/62",),
    ),
    problem(
        id="conv3d", title="3D convolution, 3×3×3", reference=_conv3d,
        description="3×3×3 convolution of a batch of volumes (no padding, stride 1), summed over input channels.",
        inputs=CUBE.inputs, outputs=CUBE.outputs, flops=CUBE.flops,
        sizes=(Size("large", {"n": 2, "c_in": 3, "c_out": 64, "depth": 64, "height": 64, "width": 64}),),
        tiny=Size("tiny", {"n": 2, "c_in": 3, "c_out": 4, "depth": 5, "height": 6, "width": 7}),
        tolerance=fp32_sum("81"),
    ),
    problem(
        id="depthwise_conv2d", title="Depthwise 2D convolution", reference=_depthwise_conv2d,
        description="Every channel is convolved with its own 3×3 filter (no padding, stride 1); channels do not mix.",
        inputs=tensors("x[n,channels,height,width]", "weight[channels,1,3,3]", weight=unit_sums),
        outputs=lambda p: (TensorSpec("y", (p["n"], p["channels"], *SQUARE.extents(p))),),
        flops=lambda p: multiply_adds(p["n"], SQUARE.extents(p), 1, p["channels"], 9),
        sizes=(Size("large", {"n": 16, "channels": 64, "height": 192, "width": 192}),),
        tiny=Size("tiny", {"n": 2, "channels": 5, "height": 11, "width": 13}),
        tolerance=fp32_sum("9"),
    ),
    problem(
        id="depthwise_separable_conv2d", title="Depthwise-separable 2D convolution",
        reference=_depthwise_separable_conv2d,
        description="A depthwise 3×3 convolution (no padding) followed by a 1×1 convolution that mixes the channels.",
        inputs=tensors(
            "x[n,c_in,height,width]", "depthwise[c_in,1,3,3]", "pointwise[c_out,c_in,1,1]", depthwise=unit_sums,
            pointwise=unit_sums,
        ),
        outputs=SQUARE.outputs, flops=_separable_flops,
        sizes=(
            Size("first_layer", {"n": 16, "c_in": 3, "c_out": 64, "height": 256, "width": 256}),
            Size("mobile_layer", {"n": 8, "c_in": 32, "c_out": 64, "height": 128, "width": 128}),
        ),
        tiny=Size("tiny", {"n": 2, "c_in": 3, "c_out": 5, "height": 11, "width": 13}),
        tolerance=fp32_sum("9 and then 3 to 32"), aliases=("kernelbench/v0/L1/86",),
    ),
    problem(
        id="pointwise_conv2d", title="Pointwise 2D convolution", reference=_pointwise_conv2d,
        description="1×1 convolution: at every pixel the input channels are mixed by one matrix.",
        inputs=POINT.inputs, outputs=POINT.outputs, flops=POINT.flops,
        sizes=(
            Size("first_layer", {"n": 16, "c_in": 3, "c_out": 64, "height": 256, "width": 256}),
            Size("deep_layer", {"n": 16, "c_in": 128, "c_out": 128, "height": 64, "width": 64}),
        ),
        tiny=Size("tiny", {"n": 2, "c_in": 3, "c_out": 5, "height": 7, "width": 9}),
        tolerance=fp32_sum("3 to 128"), aliases=("kernelbench/v0/L1/87",),
    ),
)  # fmt: skip


def _transposed_conv1d(x: Tensor, weight: Tensor) -> Tensor:
    return F.conv_transpose1d(x, weight, stride=2, padding=1)


def _transposed_conv2d(x: Tensor, weight: Tensor) -> Tensor:
    return F.conv_transpose2d(x, weight)


def _transposed_conv3d_grouped(x: Tensor, weight: Tensor) -> Tensor:
    return F.conv_transpose3d(x, weight, stride=2, padding=1, groups=4)


transposed = functools.partial(ProblemDefinition, family="transposed_convolution", cases=CONVOLUTION_CASES)

TRANSPOSED: tuple[ProblemDefinition, ...] = (
    transposed(
        id="transposed_conv1d", title="Transposed 1D convolution, stride 2", reference=_transposed_conv1d,
        description="Doubles each sequence: position i adds 4 taps at outputs 2i − 1 … 2i + 2, summed over input "
            "channels.",
        # Filters are scaled by how many products meet in one output.
        inputs=tensors(
            "x[n,c_in,length]", "weight[c_in,c_out,4]", weight=Sized(lambda p: normal(1 / math.sqrt(2 * p["c_in"]))),
        ),
        outputs=tensors("y[n,c_out,2*length]"),
        flops=lambda p: multiply_adds(p["n"], [p["length"]], p["c_in"], p["c_out"], 4),
        sizes=(Size("large", {"n": 16, "c_in": 32, "c_out": 64, "length": 16384}),),
        tiny=Size("tiny", {"n": 2, "c_in": 3, "c_out": 5, "length": 19}),
        tolerance=fp32_sum("64"),
    ),
    transposed(
        id="transposed_conv2d", title="Transposed 2D convolution, 3×3", reference=_transposed_conv2d,
        description="Every pixel adds a 3×3 patch to the output (stride 1, no padding), summed over input channels.",
        inputs=tensors(
            "x[n,c_in,height,width]", "weight[c_in,c_out,3,3]",
            weight=Sized(lambda p: normal(1 / math.sqrt(9 * p["c_in"]))),
        ),
        outputs=tensors("y[n,c_out,height+2,width+2]"),
        flops=lambda p: multiply_adds(p["n"], [p["height"], p["width"]], p["c_in"], p["c_out"], 9),
        sizes=(Size("large", {"n": 16, "c_in": 32, "c_out": 64, "height": 128, "width": 128}),),
        tiny=Size("tiny", {"n": 2, "c_in": 3, "c_out": 5, "height": 8, "width": 9}),
        tolerance=fp32_sum("288"), aliases=("kernelbench/v0/L1/57",),
    ),
    transposed(
        id="transposed_conv3d_grouped", title="Grouped, strided transposed 3D convolution",
        reference=_transposed_conv3d_grouped,
        description="Every voxel adds a 3×3×3 patch at stride 2 with one voxel cropped on each side; channels form 4 "
            "groups, and outputs of a group sum only over its own inputs.",
        inputs=tensors(
            "x[n,c_in,depth,height,width]", "weight[c_in,c_out/4,3,3,3]",
            weight=Sized(lambda p: normal(1 / math.sqrt(2 * p["c_in"]))),
        ),
        outputs=tensors("y[n,c_out,2*depth-1,2*height-1,2*width-1]"),
        flops=lambda p: multiply_adds(p["n"], spatial_shape(p), p["c_in"], p["c_out"] // 4, 27),
        sizes=(Size("large", {"n": 4, "c_in": 32, "c_out": 64, "depth": 16, "height": 32, "width": 32}),),
        tiny=Size("tiny", {"n": 2, "c_in": 8, "c_out": 12, "depth": 3, "height": 4, "width": 5}),
        tolerance=fp32_sum("8 to 64"),
    ),
)  # fmt: skip


PROBLEMS: tuple[ProblemDefinition, ...] = (*PLAIN, *TRANSPOSED)


FP16_SUMS = Tolerance(
    4e-3, 4e-3, "float16 rounds by 5e-4 relative, after each step of an unfused chain; fp32 sums add far less"
)


def conv3x3_fp16(x: Tensor, weight: Tensor) -> Tensor:
    return F.conv2d(x, weight, padding=1)


def conv1x1_residual_relu_fp16(x: Tensor, weight: Tensor, bias: Tensor, residual: Tensor) -> Tensor:
    return torch.relu(F.conv2d(x, weight, bias) + residual)


_image = parameters("n c_in c_out side")
fp16_layer = functools.partial(
    ProblemDefinition, family="convolution", outputs=tensors("y: float16[n,c_out,side,side]"), tolerance=FP16_SUMS,
    compute_unit="fp16",
)  # fmt: skip

FP16_LAYERS: tuple[ProblemDefinition, ...] = (
    fp16_layer(
        id="conv3x3_fp16", title="3×3 convolution with padding in float16", reference=conv3x3_fp16,
        description="3×3 convolution of a float16 image batch (N, C, H, W) with one pixel of zero padding, so that "
            "the image keeps its size; summed in fp32.",
        inputs=tensors("x: float16[n,c_in,side,side]", "weight: float16[c_out,c_in,3,3]", weight=unit_sums),
        flops=lambda p: multiply_adds(p["n"], (p["side"], p["side"]), p["c_in"], p["c_out"], 9),
        sizes=(
            Size("resnet50_conv2", _image(64, 64, 64, 56), "ResNet-50 conv2_x 3×3, 64 images"),
            Size("resnet50_conv4", _image(64, 256, 256, 14), "ResNet-50 conv4_x 3×3, 64 images"),
            Size("sd15_unet", _image(4, 320, 320, 64), "Stable Diffusion 1.5 UNet 3×3 at 64 × 64, 4 images"),
        ),
        tiny=Size("tiny", _image(2, 5, 6, 9)),
        cases=(large("x", factor=1e3), small("x", factor=1e-2), one_hot("x"), outliers("x", atol_scale=100.0)),
    ),
    fp16_layer(
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
            Size("resnet50_conv2", _image(64, 64, 256, 56), "ResNet-50 conv2_x expansion, 64 images"),
            Size("resnet50_conv4", _image(64, 256, 1024, 14), "ResNet-50 conv4_x expansion, 64 images"),
            Size("resnet50_conv5", _image(128, 512, 2048, 7), "ResNet-50 conv5_x expansion, 128 images"),
        ),
        tiny=Size("tiny", _image(2, 12, 10, 7)),
        cases=(large("x", factor=1e3), one_hot("x"), outliers("x", atol_scale=100.0), zero_rows("residual")),
    ),
)  # fmt: skip


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
_nhwc = parameters("n side c_in c_out")


def _nhwc_flops(p: Params, shrink: int = 1) -> int:
    side = p["side"] // shrink
    return multiply_adds(p["n"], (side, side), p["c_in"], p["c_out"], 9)


channels_last = functools.partial(
    ProblemDefinition, family="convolution", tolerance=BF16_SUMS, compute_unit="bf16", flops=_nhwc_flops,
    tiny=Size("tiny", _nhwc(2, 8, 16, 24)),
)  # fmt: skip
CHANNELS_LAST_CASES = (
    large("x", factor=32.0, atol_scale=32.0), outliers("x", factor=32.0, atol_scale=8.0), one_hot("x"),
)  # fmt: skip
GRADIENT_CASES = (
    large("dy", factor=32.0, atol_scale=32.0), outliers("dy", factor=32.0, atol_scale=8.0), one_hot("dy"),
)  # fmt: skip

CHANNELS_LAST: tuple[ProblemDefinition, ...] = (
    channels_last(
        id="conv3x3_nhwc", title="3×3 convolution, channels last", reference=conv3x3_nhwc,
        description="3×3 convolution of images (N, H, W, C) with filters (O, 3, 3, C) and one pixel of zero padding, "
            "in bfloat16 with fp32 sums; the result is (N, H, W, O).",
        inputs=tensors(IMAGES, FILTERS, weight=Sized(lambda p: normal((9 * p["c_in"]) ** -0.5))),
        outputs=tensors("y: bfloat16[n,side,side,c_out]"),
        sizes=(
            Size("resnet50_conv3", _nhwc(128, 28, 128, 128), "ResNet-50 conv3_x 3×3, 128 images"),
            Size("sdxl_unet", _nhwc(8, 64, 640, 640), "Stable Diffusion XL UNet at 64 × 64, 8 images"),
            Size("sd_vae", _nhwc(1, 512, 256, 256), "Stable Diffusion VAE decoder at 512 × 512, one image"),
        ),
        cases=(*CHANNELS_LAST_CASES, zero_rows("weight")),
    ),
    channels_last(
        id="conv3x3_wgrad_nhwc", title="Weight gradient of a 3×3 convolution, channels last",
        reference=conv3x3_wgrad_nhwc,
        description="Gradient of the filters (O, 3, 3, C) of a 3×3 convolution with one pixel of zero padding, from "
            "images x (N, H, W, C) and the gradient dy (N, H, W, O); bfloat16 with fp32 sums over images and pixels.",
        inputs=tensors(
            IMAGES, "dy: bfloat16[n,side,side,c_out]", dy=Sized(lambda p: normal((p["n"] * p["side"] ** 2) ** -0.5)),
        ),
        outputs=tensors("dw: bfloat16[c_out,3,3,c_in]"),
        sizes=(
            Size("resnet50_conv3", _nhwc(128, 28, 128, 128), "ResNet-50 conv3_x 3×3, 128 images"),
            Size("resnet50_conv5", _nhwc(256, 7, 512, 512), "ResNet-50 conv5_x 3×3, 256 images"),
            Size("sd15_unet", _nhwc(16, 32, 640, 640), "Stable Diffusion 1.5 UNet at 32 × 32, 16 images"),
        ),
        cases=(
            large("dy", factor=32.0, atol_scale=32.0), outliers("x", factor=32.0, atol_scale=16.0),
            zero_rows("x", dims=(-1, -2, -3)),
        ),
    ),
    channels_last(
        id="conv3x3_stride2_dgrad_nhwc", title="Input gradient of a strided 3×3 convolution, channels last",
        reference=conv3x3_stride2_dgrad_nhwc,
        description="Gradient of the images (N, H, W, C) of a 3×3 convolution of stride 2 with one pixel of zero "
            "padding, from the gradient dy (N, H/2, W/2, O) and filters (O, 3, 3, C); bfloat16 with fp32 sums.",
        inputs=tensors(
            "dy: bfloat16[n,side/2,side/2,c_out]", FILTERS,
            weight=Sized(lambda p: normal((9 * p["c_out"] // 4) ** -0.5)),
        ),
        outputs=tensors("dx: bfloat16[n,side,side,c_in]"), flops=lambda p: _nhwc_flops(p, 2),
        sizes=(
            Size("resnet50_conv3", _nhwc(128, 56, 128, 128), "ResNet-50 conv3_x first 3×3, 128 images"),
            Size("sdxl_unet", _nhwc(8, 128, 320, 320), "Stable Diffusion XL UNet downsampling, 8 images"),
            Size("sd15_unet", _nhwc(16, 64, 320, 320), "Stable Diffusion 1.5 UNet downsampling, 16 images"),
        ),
        tolerance=Tolerance(3e-2, 2e-2, "fp32 sums rounded to bfloat16 (2^-9 relative); taps may be added in bfloat16"),
        cases=GRADIENT_CASES,
    ),
    channels_last(
        id="depthwise7x7_nhwc", title="7×7 depthwise convolution, channels last", reference=depthwise7x7_nhwc,
        description="7×7 convolution of each channel of images (N, H, W, C) with its own filter, weight[:, :, c] (7, "
            "7, C), three pixels of zero padding and a bias per channel; bfloat16 with fp32 sums.",
        inputs=tensors(
            IMAGES, "weight: bfloat16[7,7,c_in]", "bias: bfloat16[c_in]", weight=normal(1 / 7), bias=normal(0.5),
        ),
        outputs=tensors("y: bfloat16[n,side,side,c_in]"),
        flops=lambda p: 98 * p["n"] * p["side"] ** 2 * p["c_in"], compute_unit="fp32",
        sizes=(
            Size("convnext_t_stage1", _nhwc(128, 56, 96, 96), "ConvNeXt-T stage 1, 128 images"),
            Size("convnext_l_stage3", _nhwc(64, 14, 768, 768), "ConvNeXt-L stage 3, 64 images"),
            Size("convnext_b_stage2", _nhwc(128, 28, 256, 256), "ConvNeXt-B stage 2, 128 images"),
        ),
        cases=CHANNELS_LAST_CASES,
    ),
)  # fmt: skip
