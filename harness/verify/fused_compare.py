"""Fused comparison: the statistics of `kbench.benchmark.problems.compare` in one pass over GPU memory.

The same rules in one function: what torch does in a dozen passes takes longer than most kernels that are judged.
"""

from __future__ import annotations

import ctypes
import dataclasses
import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING

from kbench.benchmark.problems.compare import Comparison, Statistics, compare, relative_floor, torch_statistics
from kbench.benchmark.problems.definition import Tolerance
from kbench.benchmark.problems.inputs import TensorSpec
from kbench.harness.cuda import CudaModule

if TYPE_CHECKING:
    from torch import Tensor

TYPES = {"float64": "double", "float32": "float", "float16": "__half", "bfloat16": "__nv_bfloat16"}
"""Output types it knows; answers are double."""
BLOCKS, THREADS = 1024, 256
SOURCE = r"""
#include <cuda_bf16.h>
#include <cuda_fp16.h>

__device__ double widen(double v) { return v; }
__device__ double widen(float v) { return v; }
__device__ double widen(__half v) { return __half2float(v); }
__device__ double widen(__nv_bfloat16 v) { return __bfloat162float(v); }

template <typename T> __device__ T narrow(double v) { return T(float(v)); }
template <> __device__ double narrow<double>(double v) { return v; }
template <> __device__ float narrow<float>(double v) { return float(v); }

struct Totals {
    unsigned long long beyond, nonfinite;
    double largest_error, largest_relative;
};

// Doubles that are not negative are ordered as their bits are.
__device__ void keep_largest(double* place, double value) {
    atomicMax(reinterpret_cast<unsigned long long*>(place), (unsigned long long)__double_as_longlong(value));
}

template <typename T>
__global__ void measure(const T* out, const double* want, long long n, double atol, double rtol, double floor,
                        Totals* totals) {
    unsigned long long beyond = 0, nonfinite = 0;
    double error = 0.0, relative = 0.0;
    const long long step = (long long)gridDim.x * blockDim.x;
    for (long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; i < n; i += step) {
        const double w = want[i], o = widen(out[i]);
        // Where the answer overflows its type, the specification asks for nothing.
        if (!isfinite(widen(narrow<T>(w)))) continue;
        const double miss = fabs(o - w), size = fabs(w);
        if (!(miss <= atol + rtol * size)) ++beyond;
        if (!isfinite(o)) ++nonfinite;
        if (isfinite(miss)) {
            error = fmax(error, miss);
            relative = fmax(relative, miss / fmax(size, floor));
        }
    }
    for (int lane = 16; lane > 0; lane >>= 1) {
        beyond += __shfl_down_sync(0xffffffffu, beyond, lane);
        nonfinite += __shfl_down_sync(0xffffffffu, nonfinite, lane);
        error = fmax(error, __shfl_down_sync(0xffffffffu, error, lane));
        relative = fmax(relative, __shfl_down_sync(0xffffffffu, relative, lane));
    }
    if (threadIdx.x % 32 == 0) {
        if (beyond) atomicAdd(&totals->beyond, beyond);
        if (nonfinite) atomicAdd(&totals->nonfinite, nonfinite);
        keep_largest(&totals->largest_error, error);
        keep_largest(&totals->largest_relative, relative);
    }
}
"""


@dataclasses.dataclass(frozen=True, slots=True)
class Judged:
    """Outputs, the answer they are compared with, and what counts as correct."""

    outputs: Sequence[Tensor]
    expected: Sequence[Tensor]
    tolerance: Tolerance


def compare_together(answers: Sequence[Judged], specs: Sequence[TensorSpec]) -> list[Comparison]:
    """What `compare` says of each; outputs of known types take one pass each, and the host waits once for all."""
    pairs = [(o, w, a.tolerance) for a in answers for o, w in zip(a.outputs, a.expected, strict=True) if known(o, w)]
    found = {id(pair[0]): statistics for pair, statistics in zip(pairs, all_statistics(pairs), strict=True)}

    def lookup(out: Tensor, want: Tensor, tolerance: Tolerance) -> Statistics:
        return found.get(id(out)) or torch_statistics(out, want, tolerance)

    return [compare(tuple(a.outputs), tuple(a.expected), a.tolerance, specs, lookup) for a in answers]


def known(out: Tensor, want: Tensor) -> bool:
    """Whether there is a function for these types."""
    fits = out.is_contiguous() and want.is_contiguous() and out.shape == want.shape
    return type_name(out) in TYPES and str(want.dtype) == "torch.float64" and fits and out.numel() > 0


def type_name(tensor: Tensor) -> str:
    """Name of a tensor's element type."""
    return str(tensor.dtype).removeprefix("torch.")


def all_statistics(pairs: Sequence[tuple[Tensor, Tensor, Tolerance]]) -> list[Statistics]:
    """How far each output is from its answer."""
    import torch

    if not pairs:
        return []
    totals = torch.zeros((len(pairs), 4), dtype=torch.float64, device=pairs[0][0].device)
    for row, (out, want, tolerance) in zip(totals, pairs, strict=True):
        bounds = (tolerance.atol, tolerance.rtol, relative_floor(tolerance))
        arguments = (out, want, out.numel(), *map(ctypes.c_double, bounds), row)
        module().launch(f"measure<{TYPES[type_name(out)]}>", BLOCKS, THREADS, arguments)
    on_host = totals.cpu()
    counts = on_host.view(torch.int64).tolist()
    return [
        Statistics(out.numel(), beyond, nonfinite, *errors)
        for (out, _, _), (beyond, nonfinite, *_), (_, _, *errors) in zip(pairs, counts, on_host.tolist(), strict=True)
    ]


@functools.cache
def module() -> CudaModule:
    """The functions, compiled at their first launch."""
    made = CudaModule(SOURCE, names=[f"measure<{kind}>" for kind in TYPES.values()])
    CudaModule.declared.pop()
    return made
