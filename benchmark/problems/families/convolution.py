"""Convolutions: 1d, 2d and 3d, dilated and strided, depthwise, separable, pointwise; and transposed ones."""

from __future__ import annotations

import dataclasses
import functools
import math

from kbench.benchmark.problems.adversarial.cases import large, one_hot, outliers, small
from kbench.benchmark.problems.definition import ProblemDefinition, Size, Tolerance
from kbench.benchmark.problems.families.shared import multiply_adds, spatial_shape, window_extent
from kbench.benchmark.problems.inputs import Params, Sized, TensorSpec, normal, tensors
from kbench.benchmark.problems.lazy_torch import F, Generator, Tensor

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
