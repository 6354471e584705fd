"""Floor: the time below which no correct kernel can run on a GPU, from ceilings measured on that GPU.

Memory. With a cold L2 every input byte a kernel needs comes from device memory. Outputs need not get there within
the measured time: the L2 writes back later, so up to its capacity of output bytes is not counted.
Arithmetic. The counted operations at the rate of the fastest unit that may be legal: a float32 problem may be solved
with tensor cores in TF32, so it is bounded by half the bf16 rate, not by the float32 rate. Convolutions may be done
by fewer multiplications than counted (Winograd), which their margin allows for.
"""

from __future__ import annotations

import dataclasses

from kbench.benchmark.problems import ProblemDefinition, Size

MARGIN = 0.9
"""A kernel may beat the measured ceilings by this much before it is refused."""
FAST_ALGORITHM_MARGIN = 0.25
"""For families with algorithms that need fewer operations than counted."""
FAST_ALGORITHM_FAMILIES = ("convolution", "transposed_convolution", "fused_convolution", "conv", "scan", "sorting")
UNIT_RATES = {"bf16": 1.0, "fp16": 1.0, "tf32": 0.5, "fp32": 0.5, "fp64": 0.15, "fp8": 2.1, "int8": 2.1}
"""Fastest legal rate by the problem's unit, relative to the measured bf16 matrix product."""


@dataclasses.dataclass(frozen=True, slots=True)
class Ceilings:
    """The best rates measured on the GPU."""

    copy_bandwidth_gbs: float
    read_bandwidth_gbs: float
    matmul_peak_tflops: float
    timer_step_ns: float
    l2_bytes: int


def floor_us(definition: ProblemDefinition, size: Size, ceilings: Ceilings) -> float:
    """The least plausible time of one call, margin included."""
    outputs = sum(spec.nbytes for spec in definition.outputs(size.params))
    moved = definition.count_bytes(size.params) - min(outputs, ceilings.l2_bytes)
    bandwidth = max(ceilings.copy_bandwidth_gbs, ceilings.read_bandwidth_gbs)
    memory = MARGIN * max(0, moved) / (bandwidth * 1e3)
    rate = ceilings.matmul_peak_tflops * UNIT_RATES[definition.compute_unit]
    fast = any(word in definition.family for word in FAST_ALGORITHM_FAMILIES)
    margin = FAST_ALGORITHM_MARGIN if fast else MARGIN
    return max(memory, margin * definition.flops(size.params) / (rate * 1e6))


def implausible(runtime_us: float, floor: float) -> str | None:
    """Why a time cannot be true; None when it can."""
    if runtime_us >= floor:
        return None
    return f"measured {runtime_us:.2f} us, below the roofline floor of {floor:.2f} us"
