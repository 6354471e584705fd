"""Changes: how a drawn tensor becomes an adversarial one. All run on the tensor's device and follow the generator.

"Row" is a line of elements along one dimension, or a block along several; a change says which by `dim` or `dims`.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from kbench.benchmark.problems.lazy_torch import Generator, Tensor, torch

Change = Callable[["Generator", "Tensor"], "Tensor"]
"""Turns a drawn tensor into an adversarial one of the same shape and dtype, on the same device."""


def scale(*factors: float) -> Change:
    """Every value times the factor, or times one of several."""

    def change(generator: Generator, x: Tensor) -> Tensor:
        if len(factors) == 1:
            return (_computable(x) * factors[0]).to(x.dtype)
        table = torch.tensor(factors, device=x.device)
        factor = table[torch.randint(len(factors), x.shape, generator=generator, device=x.device)]
        return (x.float() * factor).to(x.dtype)

    return change


def shift_rows(by: float, dims: tuple[int, ...] = (-1,)) -> Change:
    """Every row moved up or down by 1 to 1.25 times `by`; a row runs along the given dimensions."""

    def change(generator: Generator, x: Tensor) -> Tensor:
        shape = _row_shape(x, dims)
        size = by * (1.0 + 0.25 * torch.rand(shape, generator=generator, device=x.device))
        return (x.float() + size * _signs(generator, shape, x.device)).to(x.dtype)

    return change


def fill_rows(dims: tuple[int, ...] = (-1,)) -> Change:
    """One number per row, of either sign and never zero: a multiple of 1/8, so that its sums are exact."""

    def change(generator: Generator, x: Tensor) -> Tensor:
        shape = _row_shape(x, dims)
        level = torch.randint(1, 49, shape, generator=generator, device=x.device).float()
        return (level * 0.125 * _signs(generator, shape, x.device)).to(x.dtype).expand(x.shape)

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
        table = torch.tensor(values, device=x.device).to(_computable(x).dtype)
        return table[torch.randint(0, len(values), x.shape, generator=generator, device=x.device)]

    return change


def end_values(generator: Generator, x: Tensor) -> Tensor:
    """The largest, the smallest normal and the smallest subnormal number of the type, and zero, of both signs."""
    kind = torch.finfo(x.dtype)
    return choose(
        *(sign * size for sign in (1, -1) for size in (kind.max, kind.tiny, kind.smallest_normal * kind.eps, 0))
    )(generator, x)


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


def stride_rows(generator: Generator, x: Tensor) -> Tensor:
    """Every row's largest values at places that are a power of two apart, another one from row to row."""
    ordered, size = x.sort(dim=-1).values, x.shape[-1]
    strides = [2**power for power in range(1, size.bit_length()) if size % 2**power == 0 and 2**power < size]
    if not strides:
        return ordered
    first = int(torch.randint(len(strides), (1,), generator=generator, device=x.device))
    rows = ordered.reshape(-1, size).clone()
    for at in range(min(len(rows), len(strides))):
        stride = strides[(first + at) % len(strides)]
        some = rows[at :: len(strides)]
        rows[at :: len(strides)] = some.reshape(-1, stride, size // stride).transpose(1, 2).reshape(-1, size)
    return rows.reshape(x.shape)


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


LONG_SEGMENT = 16_384


def lengthen_one(generator: Generator, starts: Tensor) -> Tensor:
    """One of the segments between rising starts gets a quarter of everything, or many thousands; others shrink."""
    total = starts[-1].long()
    extra = (total // 4).clamp(max=LONG_SEGMENT)
    longest = torch.randint(starts.numel() - 1, (1,), generator=generator, device=starts.device)
    later = torch.arange(starts.numel(), device=starts.device) > longest
    return (starts.long() * (total - extra) // total + later * extra).to(starts.dtype)


def crowd_one(generator: Generator, ends: Tensor) -> Tensor:
    """One of the segments with these rising ends gets three quarters of everything; others shrink."""
    total = ends[-1].long()
    shrunk = ends.long() * (total // 4) // total
    longest = torch.randint(ends.numel(), (1,), generator=generator, device=ends.device)
    later = torch.arange(ends.numel(), device=ends.device) >= longest
    return (shrunk + later * (total - shrunk[-1])).to(ends.dtype)


def resemble(spread: float) -> Change:
    """Groups of sixteen rows along the first dimension that differ by little: all are like their first."""

    def change(generator: Generator, x: Tensor) -> Tensor:
        first = torch.arange(x.shape[0], device=x.device) // 16 * 16
        return x[first] + spread * x

    return change


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
