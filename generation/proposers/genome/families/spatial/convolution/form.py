"""What a convolution problem asks for, in the terms its kernels are generated from."""

from __future__ import annotations

import dataclasses

from kbench.generation.proposers.genome.families.spatial.parts.lines import AXES, extents
from kbench.generation.proposers.genome.family import Genome


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ConvolutionForm:
    """A dense or grouped convolution with what follows it.

    Expressions are in the common subset of Triton and CUDA C++, over `v`, the per-channel inputs by name, and the
    functions relu, tanh_, sigmoid, mish and hardswish, which each backend defines.
    """

    problem: str
    taps: tuple[int, ...]
    stride: int = 1
    dilation: int = 1
    padding: int = 0
    groups: int = 1
    transposed: bool = False
    half: bool = False
    channel_inputs: tuple[str, ...] = ()
    """Inputs after x and weight: one value per output channel each."""
    before: str = "v"
    """Applied to every convolution output."""
    window: int = 1
    """Edge of the square window that is combined after `before`."""
    combine: str = ""
    """How a window (sum, max) or the channels (min) become one value."""
    after: str = "v"
    """Applied to the combined value."""
    total: bool = False
    """Whether all values of an image are finally summed."""

    @property
    def axes(self) -> tuple[str, ...]:
        """Names of the spatial axes, slowest first."""
        return AXES[3 - len(self.taps) :]

    @property
    def tap_count(self) -> int:
        """Filter elements per channel pair."""
        count = 1
        for taps in self.taps:
            count *= taps
        return count

    @property
    def over_channels(self) -> bool:
        """Whether the output has one channel: the minimum over all."""
        return self.combine == "min"

    @property
    def plain(self) -> bool:
        """Whether every convolution output is an output of the kernel."""
        return self.window == 1 and not self.over_channels and not self.total

    @property
    def has_epilogue(self) -> bool:
        """Whether anything follows the convolution."""
        return self.before != "v" or not self.plain

    @property
    def phased(self) -> bool:
        """Whether outputs fall into classes that meet different taps."""
        return self.transposed and self.stride > 1


FORMS: dict[str, ConvolutionForm] = {
    form.problem: form
    for form in (
        ConvolutionForm(problem="conv1d", taps=(3,)),
        ConvolutionForm(problem="conv1d_dilated_strided", taps=(3,), stride=3, dilation=4),
        ConvolutionForm(problem="conv2d_square", taps=(3, 3)),
        ConvolutionForm(problem="conv2d_asymmetric", taps=(3, 5)),
        ConvolutionForm(problem="conv3d", taps=(3, 3, 3)),
        ConvolutionForm(problem="pointwise_conv2d", taps=(1, 1)),
        ConvolutionForm(problem="transposed_conv1d", taps=(4,), stride=2, padding=1, transposed=True),
        ConvolutionForm(problem="transposed_conv2d", taps=(3, 3), transposed=True),
        ConvolutionForm(
            problem="transposed_conv3d_grouped", taps=(3, 3, 3), stride=2, padding=1, groups=4, transposed=True
        ),
        ConvolutionForm(
            problem="conv2d_relu_bias_add",
            taps=(3, 3),
            channel_inputs=("conv_bias", "bias"),
            before="relu(v + conv_bias) + bias",
        ),
        ConvolutionForm(
            problem="conv2d_mish_mish",
            taps=(3, 3),
            channel_inputs=("conv_bias",),
            before="mish(mish(v + conv_bias))",
        ),
        ConvolutionForm(
            problem="conv2d_relu_hardswish",
            taps=(3, 3),
            half=True,
            channel_inputs=("conv_bias",),
            before="hardswish(relu(v + conv_bias))",
        ),
        ConvolutionForm(
            problem="conv2d_avg_pool_sigmoid_sum",
            taps=(3, 3),
            channel_inputs=("conv_bias",),
            before="v + conv_bias",
            window=2,
            combine="sum",
            after="sigmoid(v * 0.25)",
            total=True,
        ),
        ConvolutionForm(
            problem="conv2d_tanh_scaling_bias_max_pool",
            taps=(3, 3),
            channel_inputs=("conv_bias", "bias"),
            before="tanh_(v + conv_bias) * 2.0 + bias",
            window=4,
            combine="max",
        ),
        ConvolutionForm(
            problem="conv2d_scaling_min",
            taps=(3, 3),
            channel_inputs=("conv_bias",),
            before="(v + conv_bias) * 2.0",
            combine="min",
        ),
        ConvolutionForm(
            problem="conv3d_scaling_tanh_multiply_sigmoid",
            taps=(3, 3, 3),
            channel_inputs=("conv_bias", "scale", "bias"),
            before="sigmoid(tanh_((v + conv_bias) * scale) * bias)",
        ),
    )
}
"""Every convolution problem whose output channels mix the input channels, by problem id."""
MANY_CHANNELS = frozenset(
    {
        "conv1d", "conv1d_dilated_strided", "transposed_conv1d", "transposed_conv2d", "conv2d_relu_bias_add",
        "conv2d_mish_mish", "conv2d_scaling_min", "pointwise_conv2d",
    }
)  # fmt: skip
"""Problems with at least 16 input channels in a timed size: worth splitting and blocking over channels."""


def inner_form(problem: str, genome: Genome) -> tuple[ConvolutionForm, bool]:
    """The form the convolution itself computes, and whether a finishing pass follows it."""
    form = FORMS[problem]
    if genome.get("epilogue", "fused") == "fused" and int(genome.get("splits", 1)) == 1:
        return form, False
    return dataclasses.replace(form, channel_inputs=(), before="v", window=1, combine="", after="v", total=False), True


def flag(genome: Genome, name: str) -> bool:
    """A yes-or-no gene, false where the family lacks it."""
    return bool(genome.get(name, False))


def shapes(form: ConvolutionForm) -> list[str]:
    """Opening lines of `run`: all extents from the inputs' shapes."""
    lines = [f"n, c_in, {', '.join(extents(form, 'in'))} = x.shape"]
    if form.groups > 1:
        lines += [f"group_in, group_out = c_in // {form.groups}, weight.shape[1]", f"c_out = {form.groups} * group_out"]
    else:
        lines.append(f"c_out = weight.shape[{1 if form.transposed else 0}]")
    for axis, taps in zip(form.axes, form.taps, strict=True):
        if form.transposed:
            text = f"(in_{axis} - 1) * {form.stride} + {taps - 2 * form.padding}"
        else:
            text = f"(in_{axis} - {form.dilation * (taps - 1) + 1}) // {form.stride} + 1"
        lines.append(f"out_{axis} = {text}")
    return lines
