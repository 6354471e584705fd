"""Comparison: does a kernel's answer match the expected one, and by how much does it miss."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from kbench.benchmark.problems.definition import EDGE_FACTOR, Tolerance, as_tuple
from kbench.benchmark.problems.inputs import TensorSpec
from kbench.benchmark.problems.lazy_torch import Tensor, torch

NEIGHBOURS = 4
"""Times as many elements as may miss that may hold the next number of a coarse type instead. Values that lie between
two of its numbers come in groups that share a scale, so that their count varies far more than that of lone ones."""
CHUNK = 1 << 23
"""Elements compared at a time: bounds the float64 scratch memory at a few hundred MB for any output."""


@dataclasses.dataclass(frozen=True, slots=True)
class Comparison:
    """A verdict and its reason; the errors are over all outputs, and null when nothing could be compared."""

    ok: bool
    reason: str
    """Empty when ok, else one line."""
    max_abs_error: float | None = None
    max_rel_error: float | None = None
    """Relative to |expected|, or to atol / rtol where |expected| is smaller than that: there atol rules."""


def compare(
    outputs: Any,
    expected: Any,
    tolerance: Tolerance,
    specs: Sequence[TensorSpec],
    statistics: Callable[[Tensor, Tensor, Tolerance], Statistics] | None = None,
) -> Comparison:
    """Compare outputs with the expected ones, on the device they are on, with one host synchronisation per output.

    Integer and boolean outputs must agree within `atol` alone (so exactly, unless atol is at least 1): a relative
    tolerance would let an index drift. Layout and aliasing are for the caller to judge. Not judged are elements whose
    expected value is not finite in the output's dtype, and outputs that `tolerance.unjudged` names.

    Args:
        outputs: a tensor or a tuple of them, as a kernel returned it.
        expected: the high-precision answer, as a tensor or tuple of them.
        tolerance: the problem's tolerance.
        specs: the declared outputs.
        statistics: another way to find how far an output is from its answer, by the same rules.
    """
    got, want = as_tuple(outputs), as_tuple(expected)
    if len(got) != len(specs):
        return Comparison(False, f"returned {len(got)} outputs, expected {len(specs)}")
    worst_abs, worst_rel, reason = 0.0, 0.0, ""
    for actual, target, spec in zip(got, want, specs, strict=True):
        misfit = _misfit(actual, spec)
        if misfit:
            return Comparison(False, misfit)
        if spec.name in tolerance.unjudged:
            continue
        stats = (statistics or torch_statistics)(actual, target, tolerance)
        worst_abs, worst_rel = max(worst_abs, stats.max_abs), max(worst_rel, stats.max_rel)
        reason = reason or _verdict(stats, spec, tolerance)
    return Comparison(not reason, reason, worst_abs, worst_rel)


def _misfit(actual: Any, spec: TensorSpec) -> str:
    """Why a value is not the declared kind of tensor; empty when it is."""
    if not isinstance(actual, torch.Tensor):
        return f"output {spec.name!r} is a {type(actual).__name__}, expected a tensor"
    if tuple(actual.shape) != spec.shape:
        return f"output {spec.name!r} has shape {list(actual.shape)}, expected {list(spec.shape)}"
    dtype = str(actual.dtype).removeprefix("torch.")
    if dtype != spec.dtype:
        return f"output {spec.name!r} has dtype {dtype}, expected {spec.dtype}"
    return ""


@dataclasses.dataclass(frozen=True, slots=True)
class Statistics:
    """How far one output is from the expected one."""

    numel: int
    beyond: int
    far: int
    """Those of them that are beyond EDGE_FACTOR times the tolerance and, in eight-bit floats, not the next number."""
    nonfinite: int
    max_abs: float
    max_rel: float


def relative_floor(tolerance: Tolerance) -> float:
    """The size below which an expected value's error is taken relative to this size instead: there atol rules."""
    return tolerance.atol / tolerance.rtol if tolerance.rtol and tolerance.atol else 1e-30


def torch_statistics(actual: Tensor, target: Tensor, tolerance: Tolerance) -> Statistics:
    """How far an output is from its answer, whatever their types."""
    if actual.dtype is torch.bool:
        # A byte that is neither 0 nor 1 is no bool.
        actual = actual.view(torch.uint8)
    exact = not (actual.is_floating_point() or actual.is_complex())
    rtol = 0.0 if exact else tolerance.rtol
    floor = 1.0 if exact else relative_floor(tolerance)
    totals = torch.zeros(5, dtype=torch.float64, device=actual.device)
    for out, want in _chunks(actual, target):
        # Where the answer overflows its type, the specification asks for nothing.
        judged = torch.isfinite(want.to(actual.dtype).to(torch.float64))
        error, size = (out - want).abs(), want.abs()
        allowed = tolerance.atol + rtol * size
        nearly = EDGE_FACTOR * allowed
        if actual.dtype is torch.float8_e4m3fn:
            nearly = torch.maximum(nearly, float8_step(size))
        beyond, far = (~(error <= bound) & judged for bound in (allowed, nearly))
        error = torch.where(torch.isfinite(error) & judged, error, 0.0)
        totals[:3] += torch.stack([beyond.sum(), far.sum(), (~torch.isfinite(out) & judged).sum()])
        totals[3] = torch.maximum(totals[3], error.max())
        totals[4] = torch.maximum(totals[4], (error / size.clamp_min(floor)).nan_to_num_(0.0).max())
    missed, missed_far, nonfinite, max_abs, max_rel = totals.tolist()
    return Statistics(actual.numel(), int(missed), int(missed_far), int(nonfinite), max_abs, max_rel)


def float8_step(size: Tensor) -> Tensor:
    """How far the next float8_e4m3fn number is from numbers of this size: an eighth of their power of two."""
    # Exact on every device: a logarithm may put a power of two a little below its exponent, and halve the step.
    normal = size.clamp_min(2.0**-6)
    return normal / (16.0 * torch.frexp(normal).mantissa)


def _chunks(actual: Tensor, target: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    flat, flat_target = actual.detach().reshape(-1), target.detach().reshape(-1)
    if flat.shape != flat_target.shape:
        raise ValueError(f"expected answer has {flat_target.numel()} elements, its specification {flat.numel()}")
    for start in range(0, flat.numel(), CHUNK):
        yield flat[start : start + CHUNK].to(torch.float64), flat_target[start : start + CHUNK].to(torch.float64)


def _verdict(stats: Statistics, spec: TensorSpec, tolerance: Tolerance) -> str:
    """Why an output is wrong; empty when it is right."""
    if stats.nonfinite:
        return f"output {spec.name!r} has {stats.nonfinite} NaN or Inf of {stats.numel} elements"
    anywhere, edges = tolerance.mismatches(stats.numel), tolerance.edges(stats.numel)
    if spec.dtype == "float8_e4m3fn":
        anywhere, edges = 0, edges + NEIGHBOURS * anywhere
    if stats.far > anywhere or stats.beyond > anywhere + edges:
        return (
            f"output {spec.name!r} has {stats.beyond} of {stats.numel} elements beyond tolerance"
            f" (max abs error {stats.max_abs:.3g}, max rel error {stats.max_rel:.3g})"
        )
    return ""
