"""Partitions: the same kernels in fresh processes on parts of a GPU and on the whole. Usage: partitions.py OUT [GPU...]

GPU is what --gpu takes; by default 0, 0:64 and 0:32. Writes partition_<gpu>_<n>.json for each process, keeping those an
earlier call made, and partitions.json: what each device is, the multiprocessors its work was seen on, how far two
processes are apart, as recorded and relative to each process's null kernel, and how much slower kernels are on it.
"""

from __future__ import annotations

import itertools
import json
import math
import statistics
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pool import make_harness, out_folder, pool, say, write

from kbench.harness.timing.null_kernel import corrected
from kbench.schemas import KernelSource, to_dict

PROCESSES = 2
LONG_US = 20.0
Row = dict[str, Any]


def run_once(kernels: Sequence[KernelSource], gpu: str, path: Path) -> None:
    """Measure kernels in fresh workers."""
    with make_harness(gpu, second_clock_share=0.0) as harness:
        environment, ids, ceilings = harness.environment(), harness.sm_ids(), harness.ceilings()
        began = time.monotonic()
        rows = [to_dict(row) for row in harness.measure(kernels)]
        wall_s = time.monotonic() - began
    keep = ("kernel_id", "workload", "status", "error", "runtime_us", "speedup", "floor_us", "ruler_us", "shift_us")
    found = {
        "environment": to_dict(environment),
        "read_bandwidth_gbs": ceilings.read_bandwidth_gbs,
        "sm_ids": ids,
        "kernels": len(kernels),
        "wall_s": wall_s,
        "rows": [{name: row[name] for name in keep} for row in rows],
    }
    write(path.parent, path.name, found)
    say(f"{gpu}: {environment.gpu}, {len(kernels)} kernels in {wall_s:.1f} s")


def timed(run: Mapping[str, Any]) -> dict[tuple[str, str], Row]:
    """Rows with a time, by kernel and workload."""
    return {(row["kernel_id"], row["workload"]): row for row in run["rows"] if row["runtime_us"] is not None}


def gaps(pairs: Sequence[tuple[float, float]]) -> dict[str, float]:
    """How far two processes are apart."""
    found = sorted(abs(math.log(one / other)) for one, other in pairs)
    return {"count": len(found), "median": statistics.median(found), "p95": found[int(0.95 * len(found))]}


def agreement(runs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Two processes on one device: times as recorded, and less what each one's null kernel takes beyond their mean."""
    first, second = (timed(run) for run in runs)
    rulers = [statistics.fmean(row["ruler_us"] or 0.0 for row in rows.values()) for rows in (first, second)]
    usual = statistics.fmean(rulers)
    groups: dict[str, list[tuple[float, float]]] = {}
    for key in first.keys() & second.keys():
        pair = [rows[key] for rows in (first, second)]
        raw = [row["runtime_us"] + (row["shift_us"] or 0.0) for row in pair]
        relative = [corrected(us, ruler - usual) for us, ruler in zip(raw, rulers, strict=True)]
        length = f"{'from' if pair[0]['runtime_us'] >= LONG_US else 'below'} {LONG_US:g} us"
        for how, values in (("recorded", [row["runtime_us"] for row in pair]), ("relative", relative)):
            groups.setdefault(f"{length}, {how}", []).append((values[0], values[1]))
    return {"null_kernel_us": rulers, "apart": {name: gaps(pairs) for name, pairs in sorted(groups.items())}}


def against_whole(run: Mapping[str, Any], whole: Mapping[str, Any]) -> dict[str, float]:
    """How kernels move from the whole GPU to a device."""
    here, there = timed(run), timed(whole)
    both = sorted(here.keys() & there.keys())
    slower = sorted(here[key]["runtime_us"] / there[key]["runtime_us"] for key in both)
    moved = sorted(abs(math.log(here[key]["speedup"] / there[key]["speedup"])) for key in both)
    return {
        "slower_median": statistics.median(slower),
        "slower_least": slower[0],
        "slower_most": slower[-1],
        "speedup_moves_median": statistics.median(moved),
        "speedup_moves_p95": moved[int(0.95 * len(moved))],
    }


def main() -> None:
    folder = out_folder()
    gpus = [word for word in sys.argv[2:] if not word.startswith("--")] or ["0", "0:64", "0:32"]
    kernels = pool(each=4)
    runs: dict[str, list[dict[str, Any]]] = {}
    # The rounds alternate between devices, so that neither a warm-up nor a drift falls on one of them.
    for number, gpu in itertools.product(range(PROCESSES), gpus):
        path = folder / f"partition_{gpu.replace(':', '_')}_{number}.json"
        if not path.exists():
            run_once(kernels, gpu, path)
        runs.setdefault(gpu, []).append(json.loads(path.read_text()))
    summary: dict[str, Any] = {}
    for gpu, pair in runs.items():
        environment = pair[0]["environment"]
        device = {name: environment[name] for name in ("gpu", "sm_count", "copy_bandwidth_gbs", "matmul_peak_tflops")}
        device |= {name: pair[0][name] for name in ("read_bandwidth_gbs", "sm_ids", "kernels", "wall_s")}
        bad = [f"{row['status']}: {row['error']}" for run in pair for row in run["rows"] if row["status"] != "ok"]
        summary[gpu] = device | agreement(pair) | {"not_ok": bad}
        summary[gpu]["against_first"] = against_whole(pair[0], runs[gpus[0]][0])
    write(folder, "partitions.json", summary)
    say(json.dumps(summary, indent=1))


if __name__ == "__main__":
    main()
