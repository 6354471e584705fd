"""Extents of convolution and pooling outputs along one axis, and the arithmetic counts that follow from them."""

from __future__ import annotations

import math
from collections.abc import Sequence

from kbench.benchmark.problems.inputs import Params

AXES = ("depth", "height", "width", "length")
"""Names of spatial parameters, in the order of a tensor's dimensions."""


def spatial_shape(p: Params) -> tuple[int, ...]:
    """The spatial dimensions a workload has."""
    return tuple(p[axis] for axis in AXES if axis in p)


def window_extent(length: int, kernel: int, stride: int = 1, padding: int = 0, dilation: int = 1) -> int:
    """How many windows of `kernel` taps fit an axis."""
    return (length + 2 * padding - dilation * (kernel - 1) - 1) // stride + 1


def transposed_extent(length: int, kernel: int, stride: int = 1, padding: int = 0) -> int:
    """How long an axis becomes when every position scatters `kernel` taps."""
    return (length - 1) * stride - 2 * padding + kernel


def multiply_adds(batch: int, positions: Sequence[int], channels_in: int, channels_out: int, taps: int) -> int:
    """Operations of a convolution at the given positions, a multiply-add counting two.

    Args:
        batch: samples.
        positions: extents over which windows slide: of the output, or of the input where the convolution is transposed.
        channels_in: input channels per output channel (per group).
        channels_out: output channels (of a transposed convolution: per group).
        taps: kernel elements per channel pair.
    """
    return 2 * batch * math.prod(positions) * channels_in * channels_out * taps
