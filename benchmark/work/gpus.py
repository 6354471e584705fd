"""GPUs: what a device offers a kernel. One table; nothing here was fitted.

A device is its architecture, whose figures per multiprocessor and cycle are the same for all of its devices, and what
differs: multiprocessors, clock, memory, L2.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from kbench.schemas import UnknownNameError

if TYPE_CHECKING:
    from kbench.benchmark.work.totals import LaunchWork

KIB, MIB = 1 << 10, 1 << 20
ALLOCATION = 256
"""Registers are handed out to warps in units of this many."""


@dataclasses.dataclass(frozen=True, slots=True)
class Gpu:
    """A device's figures."""

    name: str
    capability: str | None
    """Compute capability; None for AMD's."""
    multiprocessors: int
    clock_mhz: float
    """Highest sustained clock under load."""
    dram_gbps: float
    l2_bytes: float
    l2_gbps: float
    """What multiprocessors can read from L2 together; an estimate."""
    tensor_tflops: Mapping[int, float]
    """Dense matrix products by bits of the factors (32 is tf32), summed in 32 bits."""
    shared_bytes: int
    """Of a multiprocessor, as much of it as blocks may use."""
    block_shared_bytes: int
    """That one block may use at most."""
    checked: bool = True
    """Whether published tables confirm multiprocessors, memory and matrix rates; other rows are not confirmed."""
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

    @property
    def fp32_tflops(self) -> float:
        """Sums and products of 32-bit floats outside matrix units."""
        return 2e-6 * self.warp * self.fma_per_clock * self.multiprocessors * self.clock_mhz


# By architecture: capability, matrix operations per multiprocessor and cycle by bits, bytes of L2 per multiprocessor
# and cycle, KiB of shared memory of a multiprocessor and of a block, and what differs from the defaults above.
# Residency, shared memory and rates per cycle: the CUDA programming guide's tables of technical specifications and
# arithmetic throughput. AMD: the ROCm page of GPU specifications and the CDNA 3 and CDNA 4 white papers; a compute unit
# starts one wavefront instruction per cycle on each of its 4 SIMDs, and L2 stands for the last-level cache, whose
# 17.2 TB/s are published. L2 rates of NVIDIA are estimates of 64 bytes per slice and cycle.
_SMALL = {"threads": 1536, "blocks": 24, "double_per_clock": 1 / 16}
_CDNA = {
    "blocks": 40, "registers": 131072, "warp": 64, "alu_per_clock": 4.0, "special_per_clock": 1.0,
    "memory_latency_ns": 800.0,
}  # fmt: skip
_ARCHITECTURES: Mapping[str, tuple[str | None, Mapping[int, int], float, int, int, Mapping[str, float]]] = {
    "GA100": ("8.0", {64: 128, 32: 1024, 16: 2048, 8: 4096}, 47.4, 164, 163, {}),
    "GA10x": ("8.6", {32: 256, 16: 512, 8: 2048}, 32, 100, 99, _SMALL | {"blocks": 16}),
    "GA10x pro": ("8.6", {32: 512, 16: 1024, 8: 2048}, 32, 100, 99, _SMALL | {"blocks": 16}),
    "AD10x": ("8.9", {32: 256, 16: 512, 8: 1024}, 32, 100, 99, _SMALL),
    "AD10x pro": ("8.9", {32: 512, 16: 1024, 8: 2048}, 36, 100, 99, _SMALL),
    "GH100": ("9.0", {64: 256, 32: 2048, 16: 4096, 8: 8192}, 38.8, 228, 227, {}),
    "H20": ("9.0", {32: 518, 16: 1037, 8: 2074}, 38.8, 228, 227, {"double_per_clock": 1 / 16}),
    "GB100": ("10.0", {64: 128, 32: 4096, 16: 8192, 8: 16384}, 69.2, 228, 227, {}),
    "GB20x": ("12.0", {32: 256, 16: 512, 8: 1024}, 24, 100, 99, _SMALL | {"alu_per_clock": 4.0}),
    "GB20x pro": ("12.0", {32: 512, 16: 1024, 8: 2048}, 24, 100, 99, _SMALL | {"alu_per_clock": 4.0}),
    "CDNA 3": (None, {64: 256, 32: 1024, 16: 2048, 8: 4096}, 26.9, 64, 64, _CDNA),
    "CDNA 4": (None, {64: 128, 32: 256, 16: 4096, 8: 8192}, 30.5, 160, 160, _CDNA),
}

# Device: architecture, multiprocessors, MHz, GB/s, MiB of L2. Checked in November 2026 against comparison tables and
# resellers' copies of data sheets. Clocks are those at which the maker's dense matrix rate follows from the rate per
# cycle, so that boost clocks may be higher. What _UNCHECKED holds was found in no such document.
_CHECKED: Mapping[str, tuple[str, int, float, float, float]] = {
    "A100": ("GA100", 108, 1410, 2039, 40),
    "A100 40GB": ("GA100", 108, 1410, 1555, 40),
    "A800": ("GA100", 108, 1410, 2039, 40),
    "A30": ("GA100", 56, 1440, 933, 24),
    "A10": ("GA10x pro", 72, 1695, 600, 6),
    "A40": ("GA10x pro", 84, 1740, 696, 6),
    "L4": ("AD10x pro", 58, 2040, 300, 48),
    "L40": ("AD10x", 142, 2490, 864, 96),
    "L40S": ("AD10x pro", 142, 2520, 864, 96),
    "H100": ("GH100", 132, 1830, 3350, 50),
    "H800": ("GH100", 132, 1830, 3350, 50),
    "H200": ("GH100", 132, 1830, 4800, 50),
    "H20": ("H20", 78, 1830, 4000, 60),
    "B200": ("GB100", 148, 1860, 8000, 126),
    "RTX 3090": ("GA10x", 82, 1695, 936, 6),
    "RTX 4080": ("AD10x", 76, 2505, 717, 64),
    "RTX 4090": ("AD10x", 128, 2520, 1008, 72),
    "RTX 4090 D": ("AD10x", 114, 2520, 1008, 72),
    "RTX 5080": ("GB20x", 84, 2617, 960, 64),
    "RTX 5090": ("GB20x", 170, 2407, 1792, 96),
    "MI300X": ("CDNA 3", 304, 2100, 5300, 256),
    "MI325X": ("CDNA 3", 304, 2100, 6000, 256),
    "MI350X": ("CDNA 4", 256, 2200, 8000, 256),
    "MI355X": ("CDNA 4", 256, 2400, 8000, 256),
}
_UNCHECKED: Mapping[str, tuple[str, int, float, float, float]] = {
    "A10G": ("GA10x pro", 80, 1710, 600, 6),
    "A16": ("GA10x pro", 10, 1695, 200, 1),
    "A4000": ("GA10x pro", 48, 1560, 448, 4),
    "A5000": ("GA10x pro", 64, 1695, 768, 6),
    "A6000": ("GA10x pro", 84, 1800, 768, 6),
    "RTX 6000 Ada": ("AD10x pro", 142, 2505, 960, 96),
    "L20": ("AD10x", 92, 2520, 864, 96),
    "H100 PCIe": ("GH100", 114, 1755, 2039, 50),
    "H100 NVL": ("GH100", 132, 1545, 3938, 50),
    "H200 NVL": ("GH100", 132, 1545, 4800, 50),
    "GH200": ("GH100", 132, 1830, 4000, 50),
    "GB200": ("GB100", 148, 1860, 8000, 126),
    "B300": ("GB100", 148, 1860, 8000, 126),
    "GB300": ("GB100", 152, 1860, 8000, 126),
    "RTX PRO 5000 Blackwell": ("GB20x pro", 110, 2617, 1344, 96),
    "RTX PRO 6000 Blackwell": ("GB20x pro", 188, 2617, 1792, 128),
    "RTX 3060": ("GA10x", 28, 1777, 360, 3),
    "RTX 3060 Ti": ("GA10x", 38, 1665, 448, 4),
    "RTX 3070": ("GA10x", 46, 1725, 448, 4),
    "RTX 3070 Ti": ("GA10x", 48, 1770, 608, 4),
    "RTX 3080": ("GA10x", 68, 1710, 760, 5),
    "RTX 3080 Ti": ("GA10x", 80, 1665, 912, 6),
    "RTX 3090 Ti": ("GA10x", 84, 1860, 1008, 6),
    "RTX 4060": ("AD10x", 24, 2460, 272, 24),
    "RTX 4060 Ti": ("AD10x", 34, 2535, 288, 32),
    "RTX 4070": ("AD10x", 46, 2475, 504, 36),
    "RTX 4070 SUPER": ("AD10x", 56, 2475, 504, 48),
    "RTX 4070 Ti": ("AD10x", 60, 2610, 504, 48),
    "RTX 4070 Ti SUPER": ("AD10x", 66, 2610, 672, 48),
    "RTX 4080 SUPER": ("AD10x", 80, 2550, 736, 64),
    "RTX 5060": ("GB20x", 30, 2497, 448, 32),
    "RTX 5060 Ti": ("GB20x", 36, 2572, 448, 32),
    "RTX 5070": ("GB20x", 48, 2512, 672, 48),
    "RTX 5070 Ti": ("GB20x", 70, 2452, 896, 48),
    "MI300A": ("CDNA 3", 228, 2100, 5300, 256),
}
_VARIANTS = frozenset(("TI", "SUPER", "D", "LAPTOP", "MOBILE", "MAX", "NVL", "ADA", "BLACKWELL"))
"""Words that make a device another one with the same number."""


def _gpu(name: str, row: tuple[str, int, float, float, float], *, checked: bool) -> Gpu:
    architecture, multiprocessors, clock, dram, l2 = row
    capability, tensor, l2_rate, shared, block_shared, rest = _ARCHITECTURES[architecture]
    cycles = multiprocessors * clock
    return Gpu(
        name, capability, multiprocessors, clock, dram, l2 * MIB, l2_rate * cycles / 1e3,
        {bits: rate * cycles / 1e6 for bits, rate in tensor.items()},
        shared * KIB, block_shared * KIB, checked, **rest,  # type: ignore[arg-type]
    )  # fmt: skip


GPUS = {name: _gpu(name, row, checked=True) for name, row in _CHECKED.items()}
GPUS |= {name: _gpu(name, row, checked=False) for name, row in _UNCHECKED.items()}
H200 = GPUS["H200"]


def gpu_named(name: str) -> Gpu:
    """The GPU that a name such as "NVIDIA H200 (64 of 132 SMs)" or H200 means; a partition has fewer multiprocessors.

    Raises:
        UnknownNameError: the table has no such GPU.
    """
    whole, _, part = name.partition("(")
    words = _words(whole)
    for known in sorted(GPUS, key=lambda known: -len(known)):
        wanted = _words(known)
        # Whole words: an A10 is no A100. A laptop's chip, or a Ti that is not in the table, is no close relative.
        if wanted <= words and not (words - wanted) & _VARIANTS:
            share = part.split(" of ")[0].strip()
            gpu = GPUS[known]
            return dataclasses.replace(gpu, multiprocessors=int(share)) if share.isdigit() else gpu
    raise UnknownNameError("GPU", name, GPUS)


def _words(name: str) -> frozenset[str]:
    return frozenset(re.findall(r"[A-Z0-9]+", name.upper()))


def resident_blocks(launch: LaunchWork, gpu: Gpu) -> int:
    """Blocks that a multiprocessor holds at once."""
    warps = -(-launch.threads // gpu.warp)
    limits = [gpu.blocks, gpu.threads // max(1, warps * gpu.warp), gpu.shared_bytes // (launch.shared_bytes + 1024)]
    if launch.registers:
        per_warp = -(-launch.registers * gpu.warp // ALLOCATION) * ALLOCATION
        limits.append(gpu.registers // max(1, warps * per_warp))
    return max(1, min(limits))


def waves(launch: LaunchWork, gpu: Gpu) -> int:
    """Rounds in which the blocks run."""
    return -(-launch.blocks // (resident_blocks(launch, gpu) * gpu.multiprocessors))
