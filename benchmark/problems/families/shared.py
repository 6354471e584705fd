"""What families share: types inside a reference, sizes and matrices of products, extents of windows, ragged sequences.

A reference is wide where it sums, narrow where it stores, and in float64 all along where its inputs are. Lengths of
ragged sequences are always the same ones in random order: drawn freely, they would make work depend on the seed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from kbench.benchmark.problems.adversarial.cases import InputCase
from kbench.benchmark.problems.inputs import Fill, Params, TensorSpec, parameters
from kbench.benchmark.problems.lazy_torch import Generator, Tensor, torch

FP8_MAX = 448.0
"""Largest float8_e4m3fn number."""
sized = parameters("m n k")
AXES = ("depth", "height", "width", "length")
"""Names of spatial parameters, in the order of a tensor's dimensions."""
SHORTEST, LONGEST = 0.25, 1.75
"""Range of lengths of packed sequences, as shares of their mean."""


def wide(x: Tensor) -> Tensor:
    """In float32; float64 stays."""
    return x if x.dtype is torch.float64 else x.to(torch.float32)


def bf16(x: Tensor) -> Tensor:
    """Rounded to bfloat16; float64 stays, so that a reference on float64 inputs gives the high-precision answer."""
    return x if x.dtype is torch.float64 else x.to(torch.bfloat16)


def fp8(x: Tensor) -> Tensor:
    """Rounded to float8_e4m3fn; float64 is rounded to the same numbers and stays float64."""
    rounded = x.clamp(-FP8_MAX, FP8_MAX).to(torch.float8_e4m3fn)
    return rounded.to(torch.float64) if x.dtype is torch.float64 else rounded


def product_flops(p: Params) -> int:
    """Operations of a product, a multiply-add counting two."""
    return int(2 * p["m"] * p["n"] * p["k"])


def symmetric_fill(generator: Generator, spec: TensorSpec, device: str) -> Tensor:
    """A random symmetric matrix with unit variance off the diagonal."""
    drawn = torch.randn(spec.shape, generator=generator, device=device, dtype=torch.float32)
    half = drawn.mul(0.5**0.5)
    return half.add(half.t()).to(getattr(torch, spec.dtype))


def scaled_symmetric_fill(generator: Generator, spec: TensorSpec, device: str) -> Tensor:
    """A random symmetric matrix whose product with a unit one has unit variance."""
    unit = symmetric_fill(generator, TensorSpec(spec.name, spec.shape), device)
    return unit.mul(spec.shape[0] ** -0.5).to(getattr(torch, spec.dtype))


def upper_fill(generator: Generator, spec: TensorSpec, device: str) -> Tensor:
    """A random upper-triangular matrix; scaled so that the longest sums of a product have unit variance."""
    drawn = torch.randn(spec.shape, generator=generator, device=device, dtype=torch.float32)
    return torch.triu(drawn * spec.shape[0] ** -0.25).to(getattr(torch, spec.dtype))


def lower_fill(generator: Generator, spec: TensorSpec, device: str) -> Tensor:
    """A random lower-triangular matrix; scaled so that the longest sums of a product have unit variance."""
    drawn = torch.randn(spec.shape, generator=generator, device=device, dtype=torch.float32)
    return torch.tril(drawn * spec.shape[0] ** -0.25).to(getattr(torch, spec.dtype))


def spatial_shape(p: Params) -> tuple[int, ...]:
    """The spatial dimensions a workload has."""
    return tuple(p[axis] for axis in AXES if axis in p)


def window_extent(length: int, kernel: int, stride: int = 1, padding: int = 0, dilation: int = 1) -> int:
    """How many windows of `kernel` taps fit an axis."""
    return (length + 2 * padding - dilation * (kernel - 1) - 1) // stride + 1


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


def packed_starts(tokens: int) -> Fill:
    """Starts of sequences packed one after another, and the end of the last: int32, one more than there are."""

    def fill(generator: Generator, spec: TensorSpec, device: str) -> Tensor:
        count = spec.shape[0] - 1
        share = torch.linspace(SHORTEST, LONGEST, count, device=device)
        share = share[torch.randperm(count, generator=generator, device=device)]
        starts = torch.zeros(count + 1, device=device)
        starts[1:] = (share.cumsum(0) / share.sum() * tokens).round()
        starts[-1] = tokens
        return starts.to(torch.int32)

    return fill


def packed_pairs(tokens: int, count: int, window: int | None = None) -> int:
    """Pairs of a query and a key that it sees in packed causal sequences, near enough for counting work."""
    lengths = [tokens / count * (SHORTEST + (LONGEST - SHORTEST) * i / max(count - 1, 1)) for i in range(count)]
    seen = [min(window or length, length) for length in lengths]
    return int(sum(s * (length - s) + s * (s + 1) / 2 for s, length in zip(seen, lengths, strict=True)))


def sequence_of(starts: Tensor, tokens: int) -> Tensor:
    """The sequence that each packed token belongs to."""
    places = torch.arange(tokens, device=starts.device)
    return torch.searchsorted(starts[1:].long(), places, right=True)


def lengths_up_to(longest: int) -> Fill:
    """Lengths from half of the longest to the longest; of one sequence, the longest."""

    def fill(generator: Generator, spec: TensorSpec, device: str) -> Tensor:
        lengths = torch.linspace(longest, longest / 2, spec.shape[0], device=device).round()
        return lengths[torch.randperm(spec.shape[0], generator=generator, device=device)].to(torch.int32)

    return fill


def used_tokens(batch: int, longest: int) -> int:
    """Tokens of all sequences that `lengths_up_to` draws."""
    return batch * longest * 3 // 4 if batch > 1 else longest


def few_short(generator: Generator, lengths: Tensor) -> Tensor:
    """A quarter of the sequences, at least one, has 1 to 20 tokens; the others keep their lengths."""
    order = torch.rand(lengths.shape, generator=generator, device=lengths.device).argsort()
    drawn = torch.randint(1, 21, lengths.shape, generator=generator, device=lengths.device)
    return torch.where(order < max(lengths.numel() // 4, 1), drawn, lengths)


def one_token_sequences(generator: Generator, starts: Tensor) -> Tensor:
    """About a quarter of the packed sequences keeps one token; the sequence after it takes the rest."""
    inner = starts[1:-1]
    picked = torch.rand(inner.shape, generator=generator, device=starts.device) < 0.25
    moved = torch.where(picked & (inner > starts[:-2]), starts[:-2] + 1, inner).cummax(0).values
    return torch.cat((starts[:1], moved.to(starts.dtype), starts[-1:]))


MIXED_LENGTHS = InputCase(
    "mixed_lengths",
    "Few tokens in some sequences find splits that assume a long cache.",
    {"lengths": few_short},
    mixed=True,
)
MIXED_STARTS = InputCase(
    "mixed_starts", "Sequences of one token among long ones find tiles that cross a start.",
    {"starts": one_token_sequences}, atol_scale=2.0, mixed=True,
)  # fmt: skip
