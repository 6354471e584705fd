"""Precision: the same kernels in five fresh processes. Usage: precision.py OUT (after throughput.py OUT)

Writes precision_<n>.json for each process, keeping those an earlier call made, and precision.json: log ratios between
processes and the coverage of the 95 % intervals.
"""

from __future__ import annotations

import itertools
import json
import math
import statistics
from pathlib import Path

from pool import make_harness, out_folder, pool, say, write

from kbench.schemas import KernelSource, to_dict

PROCESSES = 5
KERNELS = 100


def choose(folder: Path) -> list[KernelSource]:
    """Correct kernels spread evenly over the logarithm of their time."""
    rows = json.loads((folder / "throughput.json").read_text())["rows"]
    times = {r["kernel_id"]: r["runtime_us"] for r in rows if r["status"] == "ok" and r["runtime_us"] <= 20_000}
    known = [k for k in pool() if k.kernel_id in times]
    known.sort(key=lambda k: times[k.kernel_id])
    if len(known) <= KERNELS:
        return known
    low, high = math.log(times[known[0].kernel_id]), math.log(times[known[-1].kernel_id])
    chosen: dict[str, KernelSource] = {}
    for step in range(KERNELS):
        wanted = low + (high - low) * step / (KERNELS - 1)
        free = [k for k in known if k.kernel_id not in chosen]
        best = min(free, key=lambda k: abs(math.log(times[k.kernel_id]) - wanted))
        chosen[best.kernel_id] = best
    # By problem, so that a worker makes each problem's inputs once.
    return sorted(chosen.values(), key=lambda k: k.problem_id)


def run_once(kernels: list[KernelSource], folder: Path, number: int) -> None:
    with make_harness(second_clock_share=0.0) as harness:
        rows = [to_dict(m) for m in harness.measure(kernels)]
        environment = to_dict(harness.environment())
    keep = ("kernel_id", "problem_id", "workload", "status", "runtime_us", "runtime_low_us", "runtime_high_us",
            "speedup", "speedup_low", "speedup_high", "samples_us", "anchor_us", "rounds", "sm_clock_mhz",
            "temperature_c", "power_w", "throttle_reasons", "time_s")  # fmt: skip
    slim = [{name: row[name] for name in keep} for row in rows]
    write(folder, f"precision_{number}.json", {"environment": environment, "rows": slim})


def summarise(folder: Path) -> dict[str, object]:
    runs = [json.loads((folder / f"precision_{n}.json").read_text())["rows"] for n in range(PROCESSES)]
    table: dict[tuple[str, str], list[dict[str, float]]] = {}
    for rows in runs:
        for row in rows:
            if row["status"] == "ok":
                table.setdefault((row["kernel_id"], row["workload"]), []).append(row)
    full = {key: rows for key, rows in table.items() if len(rows) == PROCESSES}
    groups: dict[str, dict[str, list[float]]] = {
        name: {"gaps": [], "covered": [], "speedup_gaps": []} for name in ("from_20_us", "below_20_us")
    }
    for rows in full.values():
        logs = [math.log(row["runtime_us"]) for row in rows]
        group = groups["from_20_us" if statistics.median(logs) >= math.log(20.0) else "below_20_us"]
        group["gaps"] += [abs(a - b) for a, b in itertools.combinations(logs, 2)]
        ratios = [math.log(row["speedup"]) for row in rows]
        group["speedup_gaps"] += [abs(a - b) for a, b in itertools.combinations(ratios, 2)]
        for at, row in enumerate(rows):
            others = statistics.fmean(logs[:at] + logs[at + 1 :])
            # The mean of the other four stands in for the truth; its own error widens the difference.
            shrunk = (logs[at] - others) / math.sqrt(1.0 + 1.0 / (PROCESSES - 1))
            low, high = math.log(row["runtime_low_us"]) - logs[at], math.log(row["runtime_high_us"]) - logs[at]
            group["covered"].append(float(low <= -shrunk <= high))
    summary: dict[str, object] = {"kernel_workloads": len(full), "processes": PROCESSES}
    for name, group in groups.items():
        gaps, apart = sorted(group["gaps"]), sorted(group["speedup_gaps"])
        if gaps:
            summary[name] = {
                "pairs": len(gaps),
                "median_log_ratio": statistics.median(gaps),
                "p95_log_ratio": gaps[int(0.95 * len(gaps))],
                "worst_log_ratio": gaps[-1],
                "speedup_median_log_ratio": statistics.median(apart),
                "speedup_p95_log_ratio": apart[int(0.95 * len(apart))],
                "interval_coverage": statistics.fmean(group["covered"]),
            }
    covered = [c for group in groups.values() for c in group["covered"]]
    summary["interval_coverage"] = statistics.fmean(covered)
    return summary


def main() -> None:
    folder = out_folder()
    kernels = choose(folder)
    for number in range(PROCESSES):
        if not (folder / f"precision_{number}.json").exists():
            run_once(kernels, folder, number)
            say(f"process {number + 1} of {PROCESSES} done")
    summary = summarise(folder)
    write(folder, "precision.json", summary)
    say(str(summary))


if __name__ == "__main__":
    main()
