"""Marks: what the launch queue adds to short calls, and what reading the sensors costs. Usage: marks.py OUT

Writes marks.json. In three fresh processes, an empty kernel, a small PyTorch operation and a small CUDA kernel are
timed with and without spare marks between the calls and a tail behind them, and with the sensors read meanwhile or not.
For each: the typical time, whether neighbouring samples alternate (lag-1 correlation), how much more batches differ
than their samples explain (batch ratio), and by how much the last six calls of a batch look shorter (end).
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pool import DRY, in_fresh_processes, main_or_part, out_folder, say, write
from traces import exposed_share, order_effects

from kbench.harness.device.device import CpuDevice, CudaDevice, Device
from kbench.harness.device.nvml import ConditionsReader, NoConditions, NvmlReader
from kbench.harness.timing.batch import Sample, Sampler, Slot
from kbench.harness.timing.centre import centre

PROCESSES = 1 if DRY else 3
PASSES, CALLS, END = 20, 57, 6
VARIANTS = {
    "as before": {"spare_marks": 0, "tail_marks": 0},
    "tail": {"spare_marks": 0},
    "spare and tail": {},
    "more spare": {"spare_marks": 8},
    "sensors": {},
}
"""Sampler settings; `sensors` is the default with the conditions read in every batch."""
COPY = r"""
extern "C" __global__ void copy(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i];
}
"""


def make_work(device: Device) -> dict[str, Callable[[], Any]]:
    """Calls of a few microseconds."""
    import torch

    from kbench.harness.cuda import CudaModule

    x = torch.randn(1 << 20, device=device.torch_name)
    y = torch.empty_like(x)
    work: dict[str, Callable[[], Any]] = {
        "empty": device.nothing,
        "relu": lambda: torch.clamp_min(x, 0.0, out=y),
    }
    if device.is_gpu:
        module = CudaModule(COPY)
        work["cuda copy"] = lambda: module.launch("copy", grid=(1 << 20) // 256, block=256, args=(x, y, 1 << 20))
    return work


def describe(batches: list[list[Sample]]) -> dict[str, Any]:
    """One kind of call under one variant."""
    trace = {
        "label": "".join("c" for batch in batches for _ in batch),
        "exposed": "".join("1" if s.exposed else "2" if s.thin else "0" for batch in batches for s in batch),
        "round": [number for number, batch in enumerate(batches) for _ in batch],
        "ns": [round(1e3 * s.time_us) for batch in batches for s in batch],
    }
    ends = [centre([s.time_us for s in b[-END:]]) - centre([s.time_us for s in b[:-END]]) for b in batches]
    good = [s.time_us for batch in batches for s in batch if s.good]
    # Without a tail the end of a batch is thin by definition.
    hidden = good if len(good) > 1 else [s.time_us for batch in batches for s in batch]
    return {
        "centre_us": centre(hidden),
        "median_us": statistics.median(hidden),
        "spread_us": statistics.stdev(hidden),
        "end_us": statistics.median(ends),
        "exposed": exposed_share([trace]),
        "thin": exposed_share([trace], "2"),
        "trace": trace,
    } | order_effects([trace])


def measure(device: Device, reader: ConditionsReader) -> dict[str, Any]:
    """Every kind of call under every variant, taking turns."""
    work = make_work(device)
    samplers = {name: Sampler(device, **settings) for name, settings in VARIANTS.items()}
    taken: dict[tuple[str, str], list[list[Sample]]] = {}
    for turn in range(2 if DRY else PASSES):
        for name, sampler in samplers.items():
            watch = (lambda number: reader.read()) if name == "sensors" else None
            for kind, call in work.items():
                samples = sampler.run([Slot(kind, turn, call)] * CALLS, watch)
                if turn:
                    # The first turn warms up.
                    taken.setdefault((name, kind), []).append(samples)
    return {f"{name}: {kind}": describe(batches) for (name, kind), batches in taken.items()}


def sensor_cost(device: Device, reader: ConditionsReader) -> dict[str, Any]:
    """Host time of one reading, on an idle and on a busy device, and that of each sensor."""
    found: dict[str, Any] = {}
    for name in ("idle", "busy"):
        spent = []
        for _ in range(100):
            if name == "busy":
                device.hold(2_000.0)
            began = time.perf_counter()
            reader.read()
            spent.append(1e6 * (time.perf_counter() - began))
            device.synchronize()
        found[name] = {"median_us": statistics.median(spent), "p95_us": sorted(spent)[95], "most_us": max(spent)}
    return found


def one_process(_: Path, path: Path) -> None:
    device: Device = CpuDevice() if DRY else CudaDevice(0)
    reader: ConditionsReader = NoConditions() if DRY else NvmlReader(0)
    found = {"sensors": sensor_cost(device, reader), "model": device.model, "calls": measure(device, reader)}
    path.write_text(json.dumps(found))


def main() -> None:
    folder = out_folder()
    processes = in_fresh_processes(__file__, folder, PROCESSES)
    write(folder, "marks.json", {"processes": processes})
    say(f"sensors: {processes[0]['sensors']}")
    for name in processes[0]["calls"]:
        rows = [one["calls"][name] for one in processes]
        level, lag, ratio, end, exposed, thin = (
            " ".join(f"{row[key]:+.3f}" for row in rows)
            for key in ("centre_us", "lag_1_correlation", "round_spread_ratio", "end_us", "exposed", "thin")
        )
        say(f"{name:26} us {level}  lag-1 {lag}  batch ratio {ratio}  end {end}  exposed {exposed}  thin {thin}")


if __name__ == "__main__":
    main_or_part(main, one_process)
