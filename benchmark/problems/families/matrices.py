"""What products share: their sizes and operations, and matrices with structure, drawn from a seed."""

from __future__ import annotations

from kbench.benchmark.problems.inputs import Params, TensorSpec, parameters
from kbench.benchmark.problems.lazy_torch import Generator, Tensor, torch

sized = parameters("m n k")


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
