"""Inputs and outputs of a problem, declared without torch and drawn from a seed on any device."""

from __future__ import annotations

import dataclasses
import math
import operator
import re
from collections.abc import Callable, Mapping
from typing import Any

from kbench.benchmark.problems.lazy_torch import Generator, Tensor, torch

ITEM_BYTES = {
    "float64": 8, "float32": 4, "float16": 2, "bfloat16": 2, "float8_e4m3fn": 1,
    "int64": 8, "int32": 4, "int16": 2, "int8": 1, "uint8": 1, "bool": 1,
}  # fmt: skip
"""Bytes of one element, by torch's name of the type."""

Params = Mapping[str, Any]
"""A workload's shape parameters by name."""
DECLARED = re.compile(r"([\w ]+)(?:: (\w+))?\[([\w,*/+-]*)\]")
"""Tensors as `tensors` takes them: names, element type and dimensions."""

Fill = Callable[["Generator", "TensorSpec", str], "Tensor"]
"""Draws a tensor: (generator, spec, device) -> tensor of that spec. Every value must depend on the generator."""


def after_wiping(drawn: Tensor, made: Tensor) -> Tensor:
    """What was made of drawn values, which are left nowhere else in memory: a kernel might look for them there."""
    if made is not drawn:
        drawn.zero_()
    return made


def normal(scale: float = 1.0, shift: float = 0.0) -> Fill:
    """Gaussian values."""

    def fill(generator: Generator, spec: TensorSpec, device: str) -> Tensor:
        drawn = torch.randn(spec.shape, generator=generator, device=device, dtype=torch.float32)
        return after_wiping(drawn, drawn.mul_(scale).add_(shift).to(getattr(torch, spec.dtype)))

    return fill


def uniform(low: float = 0.0, high: float = 1.0) -> Fill:
    """Values uniform in [low, high)."""

    def fill(generator: Generator, spec: TensorSpec, device: str) -> Tensor:
        drawn = torch.rand(spec.shape, generator=generator, device=device, dtype=torch.float32)
        return after_wiping(drawn, drawn.mul_(high - low).add_(low).to(getattr(torch, spec.dtype)))

    return fill


def integers(low: int, high: int) -> Fill:
    """Integers uniform in [low, high)."""

    def fill(generator: Generator, spec: TensorSpec, device: str) -> Tensor:
        drawn = torch.randint(low, high, spec.shape, generator=generator, device=device)
        return after_wiping(drawn, drawn.to(getattr(torch, spec.dtype)))

    return fill


def booleans(share: float = 0.5) -> Fill:
    """True with the given probability."""

    def fill(generator: Generator, spec: TensorSpec, device: str) -> Tensor:
        drawn = torch.rand(spec.shape, generator=generator, device=device)
        below = after_wiping(drawn, drawn < share)
        return after_wiping(below, below.to(getattr(torch, spec.dtype)))

    return fill


def distinct_in_row(generator: Generator, spec: TensorSpec, device: str) -> Tensor:
    """Gaussian float32 values, no two equal within a row, so that ranks are unambiguous.

    Values are rounded to a grid, and the columns of a row add fractions of a grid step, each another one: exact in 24
    bits. Which column has which is random in every row, so that a value does not tell its place.
    """
    columns = spec.shape[-1]
    finest = 2.0**-19
    step = finest * 2.0 ** math.ceil(math.log2(columns))
    drawn = torch.randn(spec.shape, generator=generator, device=device, dtype=torch.float32).clamp_(-7.0, 7.0)
    fractions = torch.rand(spec.shape, generator=generator, device=device).argsort(dim=-1, stable=True)
    return drawn.div_(step).round_().mul_(step).add_(fractions, alpha=finest)


def permutation(generator: Generator, spec: TensorSpec, device: str) -> Tensor:
    """Every number from 0 on once, in random order."""
    return torch.rand(spec.numel, generator=generator, device=device).argsort().view(spec.shape).to(torch.int32)


@dataclasses.dataclass(frozen=True, slots=True)
class TensorSpec:
    """A tensor's name, shape, element type and, for an input, how it is drawn. Always contiguous."""

    name: str
    shape: tuple[int, ...]
    dtype: str = "float32"
    fill: Fill = dataclasses.field(default_factory=normal, compare=False)

    @property
    def numel(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Size in device memory."""
        return self.numel * ITEM_BYTES[self.dtype]

    def __str__(self) -> str:
        return f"{self.name}: {self.dtype}[{','.join(map(str, self.shape))}]"


@dataclasses.dataclass(frozen=True, slots=True)
class Sized:
    """A way to draw that depends on a workload's parameters."""

    fill: Callable[[Params], Fill]


def rooted(dimension: str, factor: float = 1.0) -> Sized:
    """Gaussian values whose sums over a dimension have this deviation."""
    return Sized(lambda p: normal(factor * p[dimension] ** -0.5))


def around(unit: Callable[[Params], float], low: float = 0.5, high: float = 1.5) -> Sized:
    """Values uniform around a number of the workload, from `low` to `high` times as much."""
    return Sized(lambda p: uniform(low * unit(p), high * unit(p)))


def parameters(names: str, **defaults: int) -> Callable[..., dict[str, int]]:
    """A function that names shape parameters in this order; those with defaults may be left out, more added by name."""
    listed = names.split()

    def named(*values: int, **more: int) -> dict[str, int]:
        params = {**defaults, **dict(zip(listed, values, strict=False)), **more}
        if len(values) > len(listed) or not params.keys() >= set(listed):
            raise TypeError(f"shape parameters are {names}; got {values} and {more}")
        return params

    return named


Specs = Callable[[Params], tuple[TensorSpec, ...]]
"""Tensors of a problem, by a workload's parameters."""


def tensors(*declared: str | Specs, **fills: Fill | Sized) -> Specs:
    """Tensors of a problem by their text, such as `x[rows,cols]` or `gate up: bfloat16[cols/2,3]`.

    Args:
        *declared: names, element type (float32 unless stated), and dimensions: numbers, names of parameters, and what
            is computed from left to right of these; or tensors declared elsewhere.
        **fills: how tensors are drawn, by name; Gaussian unless stated.
    """
    texts = [text for text in declared if isinstance(text, str)]
    parts = {text: match for text in texts if (match := DECLARED.fullmatch(text))}
    if len(parts) < len(texts) or fills.keys() - {name for part in parts.values() for name in part[1].split()}:
        raise ValueError(f"tensors {texts} with fills of {sorted(fills)}: write name: dtype[dimensions]")

    def of(part: re.Match[str], p: Params) -> tuple[TensorSpec, ...]:
        shape = tuple(_extent(text, p) for text in part[3].split(",") if text)
        drawn = {name: fills.get(name, normal()) for name in part[1].split()}
        own = {name: fill.fill(p) if isinstance(fill, Sized) else fill for name, fill in drawn.items()}
        return tuple(TensorSpec(name, shape, part[2] or "float32", fill) for name, fill in own.items())

    return lambda p: tuple(spec for one in declared for spec in (of(parts[one], p) if isinstance(one, str) else one(p)))


def _extent(text: str, p: Params) -> int:
    """A dimension such as `2*n`, `n/128` or `count+1`."""
    first, *others = re.split(r"([-+*/])", text)
    value = int(first) if first.isdecimal() else p[first]
    compute = {"*": operator.mul, "/": operator.floordiv, "+": operator.add, "-": operator.sub}
    for sign, other in zip(others[::2], others[1::2], strict=True):
        value = compute[sign](value, int(other) if other.isdecimal() else p[other])
    return int(value)


@dataclasses.dataclass(frozen=True, slots=True)
class ScalarSpec:
    """A Python number handed to the kernel as it is."""

    name: str
    value: int | float

    def __str__(self) -> str:
        return f"{self.name}: {self.value!r}"


InputSpec = TensorSpec | ScalarSpec


def with_numbers(specs: Specs, **numbers: str | float) -> Callable[[Params], tuple[InputSpec, ...]]:
    """Tensors, and Python numbers after them: each a parameter of the workload by its name, or always the same."""
    return lambda p: (
        *specs(p), *(ScalarSpec(name, p[of] if isinstance(of, str) else of) for name, of in numbers.items()),
    )  # fmt: skip


def draw(specs: tuple[InputSpec, ...], seed: int, device: str) -> tuple[Tensor | int | float, ...]:
    """Draw every input from one seeded generator on the device, in the order declared."""
    generator = torch.Generator(device=device)
    generator.manual_seed(seed)
    return tuple(spec.value if isinstance(spec, ScalarSpec) else spec.fill(generator, spec, device) for spec in specs)
