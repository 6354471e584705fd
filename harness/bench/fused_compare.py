"""Fused comparison: the statistics of `kbench.benchmark.problems.compare` in one pass over GPU memory.

The same rules in one function: what torch does in a dozen passes takes longer than most kernels that are judged. Many
outputs are one launch.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from kbench.benchmark.problems.compare import Comparison, Statistics, compare, relative_floor, torch_statistics
from kbench.benchmark.problems.definition import EDGE_FACTOR, Tolerance
from kbench.benchmark.problems.inputs import TensorSpec
from kbench.harness.cuda import CudaModule

if TYPE_CHECKING:
    from torch import Tensor

FLOATS = {"float64": "double", "float32": "float", "float16": "__half", "bfloat16": "__nv_bfloat16"}
INTEGERS = {"int64": "long long", "int32": "int", "int16": "short", "int8": "signed char", "uint8": "unsigned char"}
# A bool that is neither 0 nor 1 is wrong.
TYPES = FLOATS | INTEGERS | {"bool": "unsigned char"}
"""Output types it knows; answers are double."""
ROWS, THREADS, PER_THREAD, MOST_BLOCKS = 24, 256, 16, 1024
ROW = struct.Struct("<2Qq3d")
CONSTANTS = f"constexpr int ROWS = {ROWS}; constexpr double EDGE_FACTOR = {EDGE_FACTOR};\n"
SOURCE = CONSTANTS + Path(__file__).with_suffix(".cu").read_text(encoding="utf-8")


@dataclasses.dataclass(frozen=True, slots=True)
class Judged:
    """Outputs, the answer they are compared with, and what counts as correct."""

    outputs: Sequence[Tensor]
    expected: Sequence[Tensor]
    tolerance: Tolerance


def compare_together(answers: Sequence[Judged], specs: Sequence[TensorSpec]) -> list[Comparison]:
    """The verdict of `compare` on each; outputs of known types take one pass each, and the host waits once for all."""
    pairs = [
        Pair(out, want, answer.tolerance)
        for answer in answers
        for out, want in zip(answer.outputs, answer.expected, strict=True)
        if has_function(out, want)
    ]
    statistics_of = {id(pair.out): statistics for pair, statistics in zip(pairs, all_statistics(pairs), strict=True)}

    def lookup(out: Tensor, want: Tensor, tolerance: Tolerance) -> Statistics:
        return statistics_of.get(id(out)) or torch_statistics(out, want, tolerance)

    return [compare(tuple(a.outputs), tuple(a.expected), a.tolerance, specs, lookup) for a in answers]


def has_function(out: Tensor, want: Tensor) -> bool:
    """Whether there is a function for these types."""
    fits = out.is_contiguous() and want.is_contiguous() and out.shape == want.shape
    return type_name(out) in TYPES and fits and out.numel() > 0


def type_name(tensor: Tensor) -> str:
    """Name of a tensor's element type."""
    return str(tensor.dtype).removeprefix("torch.")


class Pair:
    """An output and its answer."""

    def __init__(self, out: Tensor, want: Tensor, tolerance: Tolerance) -> None:
        """Take both, and what counts as correct."""
        self.out, self.want, self.type = out, want.double(), type_name(out)
        exact = self.type not in FLOATS
        self._rtol, self._floor = (0.0, 1.0) if exact else (tolerance.rtol, relative_floor(tolerance))
        self._atol = tolerance.atol

    def row(self) -> bytes:
        """Its addresses, length and bounds as the function takes them."""
        bounds = (self._atol, self._rtol, self._floor)
        return ROW.pack(self.out.data_ptr(), self.want.data_ptr(), self.out.numel(), *bounds)


def all_statistics(pairs: Sequence[Pair]) -> list[Statistics]:
    """How far each output is from its answer, in the order given."""
    import torch

    if not pairs:
        return []
    totals = torch.zeros((len(pairs), 5), dtype=torch.float64, device=pairs[0].out.device)
    order = sorted(range(len(pairs)), key=lambda at: pairs[at].type)
    start, longest = 0, max(pair.out.numel() for pair in pairs)
    blocks = min(-(-longest // (THREADS * PER_THREAD)), MOST_BLOCKS)
    for kind, alike in itertools.groupby(order, key=lambda at: pairs[at].type):
        rows = [pairs[at].row() for at in alike]
        for at in range(0, len(rows), ROWS):
            some = rows[at : at + ROWS]
            arguments = (b"".join(some).ljust(ROWS * ROW.size, b"\0"), totals[start:])
            module().launch(f"measure<{TYPES[kind]}>", (blocks, len(some)), THREADS, arguments)
            start += len(some)
    on_host = totals.cpu()
    counts, errors = on_host.view(torch.int64).tolist(), on_host.tolist()
    statistics = {at: Statistics(pairs[at].out.numel(), *counts[n][:3], *errors[n][3:]) for n, at in enumerate(order)}
    return [statistics[at] for at in range(len(pairs))]


def make_ready(device: str) -> None:
    """Compile and load the functions."""
    import torch

    nothing = torch.zeros(1, device=device)
    all_statistics([Pair(nothing, nothing, Tolerance(0.0, 0.0, ""))])


@functools.cache
def module() -> CudaModule:
    """The functions, compiled at their first launch."""
    return CudaModule(SOURCE, names=sorted({f"measure<{kind}>" for kind in TYPES.values()}))
