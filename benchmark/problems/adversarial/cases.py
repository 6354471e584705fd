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
from collections.abc import Mapping

from kbench.benchmark.problems.adversarial.changes import (
    Change,
    alternate,
    choose,
    fill_rows,
    keep_one,
    multiply_some,
    negate,
    round_to,
    scale,
    shift_rows,
    some_rows,
    sort_rows,
    spread_exponents,
    stride_rows,
)
from kbench.benchmark.problems.inputs import InputSpec, draw
from kbench.benchmark.problems.lazy_torch import Tensor, torch


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
    strict: bool = False
    """Whether every element must be right: the case is about a few of them."""
    unit: int | None = None
    """Trailing dimensions that stay whole where parts of drawn inputs are replaced by the case's; 0 where a few
    neighbours will do, None where no part makes sense."""
    mixed: bool = False
    """Whether it replaces a few parts of drawn inputs."""

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


# The standard cases. Problems name the inputs they apply to; the rest is what the specification covers.


def large(
    *names: str, factor: float = 1e4, atol_scale: float | None = None, case: str = "large", unit: int | None = 0
) -> InputCase:
    """Inputs far larger than drawn ones; by default the summed magnitudes grow with each."""
    scaled = factor ** len(names) if atol_scale is None else atol_scale
    text = "Magnitudes far above the drawn ones find narrow types, clipped operands and overflowing intermediates."
    return InputCase(case, text, dict.fromkeys(names, scale(factor)), scaled, unit=unit)


def huge(*names: str, factor: float = 1e30) -> InputCase:
    """Inputs near the end of float32's range."""
    text = "Values near the end of the range find sentinels such as -1e30 and squares or cubes that overflow."
    return InputCase("huge", text, dict.fromkeys(names, scale(factor)), unit=0)


def small(*names: str, factor: float = 1e-4, atol_scale: float | None = None, unit: int | None = 0) -> InputCase:
    """Inputs far smaller than drawn ones; by default the summed magnitudes shrink with each."""
    scaled = factor ** len(names) if atol_scale is None else atol_scale
    text = "Magnitudes far below the drawn ones find underflow and constants that are not small against the data."
    return InputCase("small", text, dict.fromkeys(names, scale(factor)), scaled, unit=unit)


def shifted(
    *names: str, by: float, dims: tuple[int, ...] = (-1,), atol_scale: float = 1.0, rtol_scale: float = 1.0
) -> InputCase:
    """Rows far from zero, up or down."""
    text = "Rows far from zero find exponentials without the maximum and one-pass variances."
    return InputCase("shifted", text, dict.fromkeys(names, shift_rows(by, dims)), atol_scale, rtol_scale, unit=0)


def constant_rows(
    *names: str, dims: tuple[int, ...] = (-1,), atol_scale: float = 1.0, rtol_scale: float = 1.0
) -> InputCase:
    """Half of the rows hold one number each."""
    text = "Rows of one number have no variance and nothing but ties."
    changes = dict.fromkeys(names, some_rows(fill_rows(dims=dims), dims))
    return InputCase("constant_rows", text, changes, atol_scale, rtol_scale, unit=0)


def zero_rows(*names: str, dims: tuple[int, ...] = (-1,)) -> InputCase:
    """Half of the rows hold zeros, of the signs of the drawn values; of a vector, with `dims=()`, half the elements."""
    text = "Rows of zeros, positive and negative, find divisions by a sum, a maximum or a norm."
    return InputCase("zero_rows", text, dict.fromkeys(names, some_rows(scale(0.0), dims)), unit=0)


def outliers(
    *names: str, factor: float = 1e3, dim: int = -1, atol_scale: float | None = None, rtol_scale: float = 1.0
) -> InputCase:
    """One large element per row."""
    text = "One large element per row finds clipping, lost small terms and statistics that assume like magnitudes."
    scaled = factor if atol_scale is None else atol_scale
    return InputCase("outliers", text, dict.fromkeys(names, multiply_some(factor, dim)), scaled, rtol_scale, unit=0)


def one_hot(*names: str, dim: int = -1) -> InputCase:
    """One element per row, the others zero."""
    text = "A single element among zeros finds terms that are skipped, misplaced or counted twice."
    return InputCase("one_hot", text, dict.fromkeys(names, keep_one(dim)), unit=0)


def ties(*names: str, unjudged: tuple[str, ...] = ()) -> InputCase:
    """Values on a coarse grid."""
    text = "Many equal values, zeros of both signs among them, find selections that assume distinct ones."
    return InputCase("ties", text, dict.fromkeys(names, round_to(0.5)), unjudged=unjudged, unit=0)


def negative(*names: str) -> InputCase:
    """Nothing above zero."""
    text = "Values below zero find maxima that start from zero."
    return InputCase("negative", text, dict.fromkeys(names, negate), unit=0)


def alternating(*names: str, dim: int = -1) -> InputCase:
    """Signs in turn."""
    text = "Signs in turn make sums cancel and find positions swapped, dropped or assumed positive."
    # A thread that takes every other element has partial sums far larger than their total.
    return InputCase("alternating", text, dict.fromkeys(names, alternate(dim)), atol_scale=10.0, unit=0)


def sorted_rows(*names: str, dim: int = -1) -> InputCase:
    """Rows in order."""
    text = "Rows in order find selections that stop early and partial results that assume a mixed row."
    return InputCase("sorted", text, dict.fromkeys(names, sort_rows(dim)), unit=0)


def strided_rows(*names: str) -> InputCase:
    """The largest values of a row apart by a power of two."""
    text = "Largest values at places a power of two apart find selections that keep few of every bucket."
    return InputCase("strided", text, dict.fromkeys(names, stride_rows), unit=0)


def wide(*names: str, decades: float, atol_scale: float = 1.0) -> InputCase:
    """Magnitudes over many powers of ten."""
    text = "Magnitudes over many powers of ten find approximations that hold in a narrow range."
    return InputCase("wide", text, dict.fromkeys(names, spread_exponents(decades)), atol_scale, unit=0)


def extremes(*names: str, values: tuple[float, ...], atol_scale: float = 1.0, case: str = "extremes") -> InputCase:
    """Nothing but the given values, mostly ends of the type's range."""
    text = "Numbers at the ends of the range find signs, offsets, sums and tables that hold for the usual ones alone."
    return InputCase(case, text, dict.fromkeys(names, choose(*values)), atol_scale, unit=0)
