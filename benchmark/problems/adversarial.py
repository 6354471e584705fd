"""Adversarial inputs: values a kernel must handle although no random draw ever shows them.

A kernel can be right on Gaussian inputs and wrong by specification: softmax without subtracting the maximum, top-k
above a constant, a variance as E[x²] − E[x]². Every problem therefore declares cases beside its drawn inputs:

    PROBLEM = ProblemDefinition(
        ...,
        cases=(
            shifted("x", by=100.0, rtol_scale=10.0),
            outliers("x", factor=30.0),
            InputCase("my_case", "What it stresses, in one sentence.", {"x": my_change}),
        ),
    )

How to declare one:

- A case starts from the drawn inputs and changes some of them by name. Shapes, dtypes and the validity of the other
  inputs (indices, masks, packed weights) are therefore kept. A `Change` gets the drawn tensor and a seeded generator.
- Values must depend on the seed, so that no answer can be prepared: a change keeps drawn values or draws new ones.
- The oracle gives the expected answer. Declare a case only where the specification covers it and the reference, in its
  own dtype, is right on it. What may overflow is not judged: an element whose expected value is not finite in the
  output's dtype counts as right whatever a kernel returns.
- The problem's tolerance holds unless the case scales it. Scale `atol` where the terms summed up are larger than drawn
  ones; scale `rtol` where an honest kernel loses digits, as in exp2(x * log2(e)) of a large x.
- Name outputs that the specification leaves open in `unjudged`, such as the places of tied values.
"""

from __future__ import annotations

import dataclasses
import hashlib
import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from kbench.benchmark.problems.inputs import InputSpec, draw
from kbench.benchmark.problems.lazy_torch import torch

if TYPE_CHECKING:
    from torch import Generator, Tensor

Change = Callable[["Generator", "Tensor"], "Tensor"]
"""Turns a drawn tensor into an adversarial one of the same shape and dtype, on the same device."""


@dataclasses.dataclass(frozen=True, slots=True)
class InputCase:
    """One set of adversarial inputs of a problem."""

    name: str
    stresses: str
    """Which mistake it finds, in one sentence."""
    changes: Mapping[str, Change]
    """How each named input differs from its draw; the others stay as drawn."""
    atol_scale: float = 1.0
    rtol_scale: float = 1.0
    unjudged: tuple[str, ...] = ()
    """Outputs on which the specification leaves a choice here."""

    def draw(self, specs: tuple[InputSpec, ...], seed: int, device: str) -> tuple[Tensor | int | float, ...]:
        """The case's inputs for these specifications, all of them contiguous and a function of the seed."""
        unknown = self.changes.keys() - {spec.name for spec in specs}
        if unknown:
            raise ValueError(f"case {self.name!r} changes {sorted(unknown)}, which are not inputs")
        generator = torch.Generator(device=device)
        digest = hashlib.sha256(f"{self.name}:{seed}".encode()).digest()
        generator.manual_seed(int.from_bytes(digest[:8], "big") >> 1)
        drawn = draw(specs, seed, device)
        return tuple(
            self.changes[spec.name](generator, value).to(value.dtype).contiguous()
            if spec.name in self.changes and isinstance(value, torch.Tensor)
            else value
            for spec, value in zip(specs, drawn, strict=True)
        )


def scale(factor: float) -> Change:
    """Every value times the factor."""

    def change(generator: Generator, x: Tensor) -> Tensor:
        return (_computable(x) * factor).to(x.dtype)

    return change


def shift_rows(by: float, dims: tuple[int, ...] = (-1,)) -> Change:
    """Every row moved up or down by 1 to 1.25 times `by`; a row runs along the given dimensions."""

    def change(generator: Generator, x: Tensor) -> Tensor:
        shape = _row_shape(x, dims)
        size = by * (1.0 + 0.25 * torch.rand(shape, generator=generator, device=x.device))
        return (x.float() + size * _signs(generator, shape, x.device)).to(x.dtype)

    return change


def fill_rows(step: float = 0.125, levels: int = 48, dims: tuple[int, ...] = (-1,)) -> Change:
    """One number a row, of either sign and never zero: a multiple of `step`, so that its sums are exact."""

    def change(generator: Generator, x: Tensor) -> Tensor:
        shape = _row_shape(x, dims)
        level = torch.randint(1, levels + 1, shape, generator=generator, device=x.device).float()
        return (level * step * _signs(generator, shape, x.device)).to(x.dtype).expand(x.shape)

    return change


def multiply_some(factor: float, dim: int = -1) -> Change:
    """One element of every row times the factor, at a random place."""

    def change(generator: Generator, x: Tensor) -> Tensor:
        values, place = _computable(x), _places(generator, x, dim)
        return values.scatter(dim, place, values.gather(dim, place) * factor)

    return change


def keep_one(dim: int = -1) -> Change:
    """All but one element of every row become zero."""

    def change(generator: Generator, x: Tensor) -> Tensor:
        values, place = _computable(x), _places(generator, x, dim)
        return torch.zeros_like(values).scatter(dim, place, values.gather(dim, place))

    return change


def round_to(step: float) -> Change:
    """Values rounded to multiples of `step`: many ties, and zeros of both signs."""
    return lambda generator, x: (x / step).round() * step


def negate(generator: Generator, x: Tensor) -> Tensor:
    """No value above zero."""
    return -x.abs()


def choose(*values: float) -> Change:
    """One of the given values at every place."""

    def change(generator: Generator, x: Tensor) -> Tensor:
        table = torch.tensor(values, device=x.device).to(x.dtype)
        return table[torch.randint(0, len(values), x.shape, generator=generator, device=x.device)]

    return change


def repeat_one(generator: Generator, x: Tensor) -> Tensor:
    """One of the drawn values, picked at random, at about half of all places."""
    picked = x.flatten()[torch.randint(0, x.numel(), (1,), generator=generator, device=x.device)]
    return torch.where(torch.rand(x.shape, generator=generator, device=x.device) < 0.5, picked, x)


def alternate(dim: int = -1) -> Change:
    """Magnitudes as drawn, signs in turn along a dimension, so that sums cancel."""

    def change(generator: Generator, x: Tensor) -> Tensor:
        shape = [1] * x.dim()
        shape[dim] = -1
        place = torch.arange(x.shape[dim], device=x.device).view(shape)
        start = torch.randint(0, 2, _row_shape(x, (dim,)), generator=generator, device=x.device)
        return x.abs() * (1 - 2 * ((place + start) % 2)).to(x.dtype)

    return change


def sort_rows(dim: int = -1) -> Change:
    """Every row in rising or in falling order, by the seed."""

    def change(generator: Generator, x: Tensor) -> Tensor:
        rising = x.sort(dim=dim).values
        falling = torch.rand(_row_shape(x, (dim,)), generator=generator, device=x.device) < 0.5
        return torch.where(falling, rising.flip(dim), rising)

    return change


def spread_exponents(decades: float) -> Change:
    """Every value times ten to a power drawn from −decades to decades."""

    def change(generator: Generator, x: Tensor) -> Tensor:
        power = torch.rand(x.shape, generator=generator, device=x.device).mul_(2.0).sub_(1.0)
        return (x.float() * torch.exp(power.mul_(decades * math.log(10.0)))).to(x.dtype)

    return change


def merge_ends(generator: Generator, ends: Tensor) -> Tensor:
    """Half of the segments with these rising ends become empty; a later one takes what they held."""
    order = torch.rand(ends.shape, generator=generator, device=ends.device).argsort()
    merged = torch.where(order < ends.numel() // 2, 0, ends).cummax(0).values
    merged[-1] = ends[-1]
    return merged


def some_rows(change: Change, dims: tuple[int, ...] = (-1,)) -> Change:
    """The change in half of the rows, picked at random; the others stay as drawn."""

    def picked(generator: Generator, x: Tensor) -> Tensor:
        shape = _row_shape(x, dims)
        rows = math.prod(shape)
        order = torch.rand(rows, generator=generator, device=x.device).argsort()
        mask = (order < max(rows // 2, 1)).view(shape)
        return torch.where(mask, change(generator, x), x)

    return picked


def _computable(x: Tensor) -> Tensor:
    """Eight-bit floats as float32: they know no arithmetic of their own."""
    return x.float() if x.is_floating_point() and x.itemsize == 1 else x


def _row_shape(x: Tensor, dims: tuple[int, ...]) -> tuple[int, ...]:
    along = {dim % x.dim() for dim in dims}
    return tuple(1 if dim in along else length for dim, length in enumerate(x.shape))


def _signs(generator: Generator, shape: tuple[int, ...], device: torch.device) -> Tensor:
    return torch.randint(0, 2, shape, generator=generator, device=device).mul_(2).sub_(1).float()


def _places(generator: Generator, x: Tensor, dim: int) -> Tensor:
    return torch.randint(0, x.shape[dim], _row_shape(x, (dim,)), generator=generator, device=x.device)


# The standard cases. Problems name the inputs they apply to; the rest is what the specification covers.


def large(*names: str, factor: float = 1e4, atol_scale: float | None = None, rtol_scale: float = 1.0) -> InputCase:
    """Inputs far larger than drawn ones; by default the summed magnitudes grow with each."""
    scaled = factor ** len(names) if atol_scale is None else atol_scale
    text = "Magnitudes far above the drawn ones find narrow types, clipped operands and overflowing intermediates."
    return InputCase("large", text, dict.fromkeys(names, scale(factor)), scaled, rtol_scale)


def huge(*names: str, factor: float = 1e30, atol_scale: float = 1.0) -> InputCase:
    """Inputs near the end of float32's range."""
    text = "Values near the end of the range find sentinels such as -1e30 and squares or cubes that overflow."
    return InputCase("huge", text, dict.fromkeys(names, scale(factor)), atol_scale)


def small(*names: str, factor: float = 1e-4, atol_scale: float | None = None, rtol_scale: float = 1.0) -> InputCase:
    """Inputs far smaller than drawn ones; by default the summed magnitudes shrink with each."""
    scaled = factor ** len(names) if atol_scale is None else atol_scale
    text = "Magnitudes far below the drawn ones find underflow and constants that are not small against the data."
    return InputCase("small", text, dict.fromkeys(names, scale(factor)), scaled, rtol_scale)


def shifted(
    *names: str, by: float, dims: tuple[int, ...] = (-1,), atol_scale: float = 1.0, rtol_scale: float = 1.0
) -> InputCase:
    """Rows far from zero, up or down."""
    text = "Rows far from zero find exponentials without the maximum and one-pass variances."
    return InputCase("shifted", text, dict.fromkeys(names, shift_rows(by, dims)), atol_scale, rtol_scale)


def constant_rows(*names: str, dims: tuple[int, ...] = (-1,), atol_scale: float = 1.0) -> InputCase:
    """Half of the rows hold one number each."""
    text = "Rows of one number have no variance and nothing but ties."
    return InputCase("constant_rows", text, dict.fromkeys(names, some_rows(fill_rows(dims=dims), dims)), atol_scale)


def zero_rows(*names: str, dims: tuple[int, ...] = (-1,)) -> InputCase:
    """Half of the rows hold zeros, of the signs of the drawn values; of a vector, with `dims=()`, half the elements."""
    text = "Rows of zeros, positive and negative, find divisions by a sum, a maximum or a norm."
    return InputCase("zero_rows", text, dict.fromkeys(names, some_rows(scale(0.0), dims)))


def outliers(
    *names: str, factor: float = 1e3, dim: int = -1, atol_scale: float | None = None, rtol_scale: float = 1.0
) -> InputCase:
    """One large element a row."""
    text = "One large element a row finds clipping, lost small terms and statistics that assume like magnitudes."
    scaled = factor if atol_scale is None else atol_scale
    return InputCase("outliers", text, dict.fromkeys(names, multiply_some(factor, dim)), scaled, rtol_scale)


def one_hot(*names: str, dim: int = -1) -> InputCase:
    """One element a row, the others zero."""
    text = "A single element among zeros finds terms that are skipped, misplaced or counted twice."
    return InputCase("one_hot", text, dict.fromkeys(names, keep_one(dim)))


def ties(*names: str, step: float = 0.5, unjudged: tuple[str, ...] = ()) -> InputCase:
    """Values on a coarse grid."""
    text = "Many equal values, zeros of both signs among them, find selections that assume distinct ones."
    return InputCase("ties", text, dict.fromkeys(names, round_to(step)), unjudged=unjudged)


def negative(*names: str) -> InputCase:
    """Nothing above zero."""
    return InputCase("negative", "Values below zero find maxima that start from zero.", dict.fromkeys(names, negate))


def alternating(*names: str, dim: int = -1) -> InputCase:
    """Signs in turn."""
    text = "Signs in turn make sums cancel and find positions swapped, dropped or assumed positive."
    return InputCase("alternating", text, dict.fromkeys(names, alternate(dim)))


def sorted_rows(*names: str, dim: int = -1, atol_scale: float = 1.0) -> InputCase:
    """Rows in order."""
    text = "Rows in order find selections that stop early and partial results that assume a mixed row."
    return InputCase("sorted", text, dict.fromkeys(names, sort_rows(dim)), atol_scale)


def wide(*names: str, decades: float, atol_scale: float = 1.0, rtol_scale: float = 1.0) -> InputCase:
    """Magnitudes over many powers of ten."""
    text = "Magnitudes over many powers of ten find approximations that hold in a narrow range."
    return InputCase("wide", text, dict.fromkeys(names, spread_exponents(decades)), atol_scale, rtol_scale)
