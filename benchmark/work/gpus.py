"""GPUs: what a device offers a kernel, from its makers' documents. One table; nothing here was fitted."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from kbench.schemas import UnknownNameError


@dataclasses.dataclass(frozen=True, slots=True)
class Gpu:
    """A device's figures."""

    name: str
    multiprocessors: int
    clock_mhz: float
    """Highest sustained clock under load."""
    dram_gbps: float
    l2_bytes: float
    l2_gbps: float
    """What multiprocessors can read from L2 together."""
    tensor_tflops: Mapping[int, float]
    """Dense matrix products by bits of the factors (32 is tf32)."""
    shared_bytes: int
    """Of a multiprocessor, as much of it as blocks may use."""
    block_shared_bytes: int
    """That one block may use at most."""
    threads: int = 2048
    blocks: int = 32
    registers: int = 65536
    warp: int = 32
    issue_per_clock: float = 4.0
    """Warp instructions that a multiprocessor starts in a cycle."""
    fma_per_clock: float = 4.0
    """Warp instructions on 32-bit floats."""
    alu_per_clock: float = 2.0
    special_per_clock: float = 0.5
    double_per_clock: float = 2.0
    shared_bytes_per_clock: float = 128.0
    memory_latency_ns: float = 500.0

    @property
    def cycles_per_us(self) -> float:
        """Clock cycles in a microsecond."""
        return self.clock_mhz


KIB, MIB = 1 << 10, 1 << 20

# Multiprocessors, clocks, memory and dense tensor rates: NVIDIA's A100, H100 and H200 data sheets, the Ada and
# Blackwell (RTX) architecture white papers, the HGX B200 data sheet, AMD's MI300X and MI350X data sheets. Per-cycle
# rates, shared memory and residency: tables of arithmetic throughput and technical specifications in the CUDA
# programming guide, and AMD's CDNA 3 and CDNA 4 white papers (a compute unit starts one wavefront instruction per cycle
# on each of its 4 SIMDs). L2 rates: 64 bytes per slice and cycle for NVIDIA, 128 per channel and cycle for AMD, whose
# figure here is that of the last-level cache. Latencies are rounded published microbenchmarks.
A100 = Gpu(
    "A100", 108, 1410, 2039, 40 * MIB, 5120 * 1.41, {64: 19.5, 32: 156, 16: 312, 8: 624}, 164 * KIB, 163 * KIB
)  # fmt: skip
H100 = Gpu(
    "H100", 132, 1830, 3350, 50 * MIB, 5120 * 1.83, {64: 67, 32: 494, 16: 989, 8: 1979}, 228 * KIB, 227 * KIB
)  # fmt: skip
H200 = dataclasses.replace(H100, name="H200", clock_mhz=1830, dram_gbps=4800)
L40S = Gpu(
    "L40S", 142, 2520, 864, 96 * MIB, 5120 * 2.52, {32: 183, 16: 362, 8: 733}, 100 * KIB, 99 * KIB, threads=1536,
    blocks=24, double_per_clock=1 / 16,
)  # fmt: skip
RTX_4090 = Gpu(
    "RTX 4090", 128, 2520, 1008, 72 * MIB, 4096 * 2.52, {32: 82.6, 16: 165, 8: 330}, 100 * KIB, 99 * KIB, threads=1536,
    blocks=24, double_per_clock=1 / 16,
)  # fmt: skip
RTX_5090 = Gpu(
    "RTX 5090", 170, 2410, 1792, 96 * MIB, 4096 * 2.41, {32: 105, 16: 210, 8: 419}, 100 * KIB, 99 * KIB, threads=1536,
    blocks=24, alu_per_clock=4.0, double_per_clock=1 / 16,
)  # fmt: skip
B200 = Gpu(
    "B200", 148, 1965, 8000, 126 * MIB, 10240 * 1.965, {64: 37, 32: 1125, 16: 2250, 8: 4500}, 228 * KIB, 227 * KIB,
)  # fmt: skip
MI300X = Gpu(
    "MI300X", 304, 2100, 5300, 256 * MIB, 17200, {64: 163, 32: 654, 16: 1307, 8: 2615}, 64 * KIB, 64 * KIB,
    blocks=40, registers=131072, warp=64, alu_per_clock=4.0, special_per_clock=1.0, double_per_clock=2.0,
    memory_latency_ns=800,
)  # fmt: skip
MI350X = Gpu(
    "MI350X", 256, 2200, 8000, 256 * MIB, 17200, {64: 72, 16: 2300, 8: 4600}, 160 * KIB, 160 * KIB,
    blocks=40, registers=131072, warp=64, alu_per_clock=4.0, special_per_clock=1.0, double_per_clock=2.0,
    memory_latency_ns=800,
)  # fmt: skip
GPUS = {gpu.name: gpu for gpu in (A100, H100, H200, L40S, RTX_4090, RTX_5090, B200, MI300X, MI350X)}


def gpu_named(name: str) -> Gpu:
    """The GPU that a name such as "NVIDIA H200 (64 of 132 SMs)" or H200 means; a partition has fewer multiprocessors.

    Raises:
        UnknownNameError: the table has no such GPU.
    """
    whole, _, part = name.partition("(")
    words = whole.upper().replace("-", " ")
    # Longer names first: "H100" must not answer for a name that holds another's.
    found = next((gpu for known, gpu in GPUS.items() if known in words), None)
    if found is None:
        raise UnknownNameError("GPU", name, GPUS)
    share = part.split(" of ")[0].strip()
    return dataclasses.replace(found, multiprocessors=int(share)) if share.isdigit() else found
