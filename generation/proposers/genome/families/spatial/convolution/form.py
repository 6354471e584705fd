"""What a convolution problem asks for, in the terms its kernels are generated from."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any

from kbench.generation.proposers.genome.families.spatial.form import SlidingForm, nest
from kbench.generation.proposers.genome.family import Gene, Genome
from kbench.generation.proposers.genome.templated import pick, shape


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class ConvolutionForm(SlidingForm):
    """A dense or grouped convolution with what follows it.

    Expressions are in the common subset of Triton and CUDA C++, over `v`, the per-channel inputs by name, and the
    functions relu, tanh_, sigmoid, mish and hardswish, which each backend defines.
    """

    groups: int = 1
    transposed: bool = False
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

    @functools.cached_property
    def over_channels(self) -> bool:
        """Whether the output has one channel: the minimum over all."""
        return self.combine == "min"

    @functools.cached_property
    def plain(self) -> bool:
        """Whether every convolution output is an output of the kernel."""
        return self.window == 1 and not self.over_channels and not self.total

    @functools.cached_property
    def has_epilogue(self) -> bool:
        """Whether anything follows the convolution."""
        return self.before != "v" or not self.plain

    @functools.cached_property
    def phased(self) -> bool:
        """Whether outputs fall into classes that meet different taps."""
        return self.transposed and self.stride > 1

    @functools.cached_property
    def exponential(self) -> bool:
        """Whether its functions need an exponential."""
        return any(map(self.uses, ("tanh_", "sigmoid", "mish")))

    @functools.cache  # noqa: B019 - see the base class
    def uses(self, function: str) -> bool:
        """Whether an expression calls a function."""
        return f"{function}(" in self.before + self.after

    @functools.cache  # noqa: B019 - see the base class
    def upper(self, pattern: str) -> list[str]:
        """The pattern for each axis in capitals."""
        return [pattern.format(axis.upper()) for axis in self.axes]

    @functools.cache  # noqa: B019 - see the base class
    def phased_tap(self) -> str:
        """Index of a tap in the filter, from its number among the taps of a phase."""
        return nest([f"(FIRST_{a.upper()} + {self.stride} * k{a})" for a in self.axes], [str(t) for t in self.taps])

    def nested(self, places: Sequence[str]) -> str:
        """Offset of places in the input."""
        return nest(places, self.names("in_{}"))

    @functools.cache  # noqa: B019 - see the base class
    def arguments(self, target: str) -> str:
        """Arguments of a CUDA function that writes to `target`."""
        groups = ["group_in", "group_out"] if self.groups > 1 else []
        names = ["x", "weight", *self.channel_inputs, target, "n", "c_in", "c_out", *groups]
        return ", ".join([*names, *self.names("in_{}"), *self.names("out_{}")])


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


BARE = {
    name: dataclasses.replace(form, channel_inputs=(), before="v", window=1, combine="", after="v", total=False)
    for name, form in FORMS.items()
}
"""The convolutions alone."""


def values(problem: str, genome: Genome) -> dict[str, Any]:
    """What templates see of a problem: the whole form, and what the convolution itself computes of it.

    A finishing pass does the rest where the epilogue is separate or the sum is split.
    """
    finishing = genome.get("epilogue", "fused") != "fused" or int(genome.get("splits", 1)) != 1
    form = (BARE if finishing else FORMS)[problem]
    return {**ABSENT, **genome, "full": FORMS[problem], "form": form, "finishing": finishing}


ABSENT = {"splits": 1, "phased": False, "math": "precise", "columns": "gathered", "precision": "ieee"}
"""Values of genes that a family or a problem does not have."""


def common_genes(problem: str) -> dict[str, Gene]:
    """Genes of several families that a problem has, by name."""
    form = FORMS[problem]
    genes = [
        *([shape("phased", True, False)] if form.phased else []),
        *([shape("epilogue", "fused", "separate")] if form.has_epilogue else []),
        *([pick("math", "precise", "fast")] if form.exponential else []),
        *([shape("splits", 1, 1, 2, 4)] if problem in MANY_CHANNELS else []),
    ]
    return {gene.name: gene for gene in genes}
