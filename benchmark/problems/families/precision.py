"""Types inside a reference: wide where it sums, narrow where it stores, and float64 all along where its inputs are."""

from __future__ import annotations

from kbench.benchmark.problems.lazy_torch import Tensor, torch

FP8_MAX = 448.0
"""Largest float8_e4m3fn number."""


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
