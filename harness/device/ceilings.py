"""Measuring a GPU's ceilings: copy and read bandwidth, matrix product rate, timer step."""

from __future__ import annotations

import itertools
import statistics

from kbench.harness.device.device import CudaDevice, Device
from kbench.harness.device.floor import Ceilings
from kbench.harness.timing.batch import Sampler, Slot

COPY_BYTES = 1 << 30
MATMUL_SIDE = 8192
REPEATS = 8


def measure_ceilings(device: Device, sampler: Sampler) -> Ceilings:
    """Bandwidth over a gibibyte, a large bf16 product on random data, and the smallest step between timestamps."""
    import torch

    place = device.torch_name
    small = not device.is_gpu
    source = torch.empty((1 << 22 if small else COPY_BYTES) // 4, dtype=torch.float32, device=place).normal_()
    target = torch.empty_like(source)
    side = 128 if small else MATMUL_SIDE
    left = torch.randn(side, side, device=place).to(torch.bfloat16)
    right = torch.randn(side, side, device=place).to(torch.bfloat16)
    work = {
        "copy": lambda: target.copy_(source),
        "read": lambda: source.sum(),
        "matmul": lambda: left @ right,
    }
    times: dict[str, float] = {}
    for name, call in work.items():
        sampler.run([Slot(name, 0, call)] * 3)
        # The best, not the median: a ceiling must not be beaten by a lucky kernel.
        times[name] = min(s.time_us for s in sampler.run([Slot(name, 0, call)] * REPEATS))
    size = source.numel() * source.element_size()
    work.clear()
    return Ceilings(
        copy_bandwidth_gbs=2 * size / times["copy"] / 1e3,
        read_bandwidth_gbs=size / times["read"] / 1e3,
        matmul_peak_tflops=2 * side**3 / times["matmul"] / 1e6,
        timer_step_ns=timer_step_ns(device),
        l2_bytes=device.l2_bytes if isinstance(device, CudaDevice) else 0,
    )


def timer_step_ns(device: Device) -> float:
    """The smallest non-zero difference between the times of back-to-back marks."""
    marks = [device.mark() for _ in range(200)]
    device.synchronize()
    gaps = sorted(device.elapsed_us(one, two) * 1e3 for one, two in itertools.pairwise(marks))
    steps = [two - one for one, two in itertools.pairwise(gaps) if two - one > 0.5]
    return min(steps) if steps else statistics.median(gaps) or 1.0
