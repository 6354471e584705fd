"""Precision: the same kernels in five fresh processes. Usage: precision.py OUT (after throughput.py OUT)

Writes precision_<n>.json for each process, keeping those an earlier call made, and precision.json: log ratios between
processes and the coverage of the 95 % intervals, as recorded and as they would be with other averages of a round, with
and without subtracting the launch-overhead baseline, and for other values of PROCESS_SIGMA_US.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
import math
import statistics
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pool import DRY, TIMING, make_harness, out_folder, pool, say, write
from traces import exposed_share, interval, order_effects, pack, speedup, times

from kbench.harness.timing.centre import centre
from kbench.harness.timing.interval import Interval
from kbench.schemas import KernelSource, to_dict

PROCESSES = 2 if DRY else 5
KERNELS = 100
SIGMAS_US = (0.0, 0.02, 0.03, 0.05, 0.08, 0.1, 0.15)
AVERAGES = {"trimmed": centre, "median": statistics.median}
Key = tuple[str, str]
Rows = Sequence[dict[str, Any]]


def choose(folder: Path) -> list[KernelSource]:
    """Correct kernels spread evenly over the logarithm of their time."""
    rows = json.loads((folder / "throughput.json").read_text())["rows"]
    most = math.inf if DRY else 20_000.0
    usual = {r["kernel_id"]: r["runtime_us"] for r in rows if r["status"] == "ok" and r["runtime_us"] <= most}
    known = [k for k in pool() if k.kernel_id in usual]
    known.sort(key=lambda k: usual[k.kernel_id])
    if len(known) <= KERNELS:
        return known
    low, high = math.log(usual[known[0].kernel_id]), math.log(usual[known[-1].kernel_id])
    chosen: dict[str, KernelSource] = {}
    for step in range(KERNELS):
        wanted = low + (high - low) * step / (KERNELS - 1)
        free = [k for k in known if k.kernel_id not in chosen]
        best = min(free, key=lambda k: abs(math.log(usual[k.kernel_id]) - wanted))
        chosen[best.kernel_id] = best
    # By problem, so that a worker makes each problem's inputs once.
    return sorted(chosen.values(), key=lambda k: k.problem_id)


def run_once(kernels: list[KernelSource], folder: Path, number: int) -> None:
    extra: dict[Key, dict[str, Any]] = {}

    def keep_extra(kernel: KernelSource, result: Mapping[str, Any]) -> None:
        if result.get("trace"):
            extra[kernel.kernel_id, result["workload"]] = {
                "trace": pack(result["trace"]), "ruler_us": result["ruler_us"], "shift_us": result["shift_us"]
            }  # fmt: skip

    with make_harness(timing=dataclasses.replace(TIMING, trace=True)) as harness:
        harness.on_result = keep_extra
        rows = [to_dict(m) for m in harness.measure(kernels)]
        environment = to_dict(harness.environment())
    keep = ("kernel_id", "problem_id", "workload", "status", "runtime_us", "runtime_low_us", "runtime_high_us",
            "speedup", "speedup_low", "speedup_high", "rounds", "sm_clock_mhz", "temperature_c", "power_w",
            "throttle_reasons", "time_s")  # fmt: skip
    slim = [{name: row[name] for name in keep} | extra.get((row["kernel_id"], row["workload"]), {}) for row in rows]
    write(folder, f"precision_{number}.json", {"environment": environment, "rows": slim})


def complete(runs: Sequence[Rows]) -> dict[Key, Rows]:
    """Kernels and workloads with a time in every process."""
    table: dict[Key, list[dict[str, Any]]] = {}
    for rows in runs:
        for row in rows:
            if row["status"] == "ok" and row.get("trace"):
                table.setdefault((row["kernel_id"], row["workload"]), []).append(row)
    return {key: rows for key, rows in table.items() if len(rows) == len(runs)}


def spread(figures: Sequence[Sequence[float]]) -> dict[str, float]:
    """Log ratios between all pairs of processes."""
    gaps = sorted(abs(math.log(a / b)) for one in figures for a, b in itertools.combinations(one, 2))
    return {
        "pairs": len(gaps),
        "median_log_ratio": statistics.median(gaps),
        "p95_log_ratio": gaps[int(0.95 * len(gaps))],
        "worst_log_ratio": gaps[-1],
    }


def coverage(found: Sequence[Sequence[Interval]]) -> float:
    """Share of intervals that hold the true time; the mean of the other processes stands in for it."""
    inside = []
    for group in found:
        logs = [math.log(one.value) for one in group]
        for at, one in enumerate(group):
            others = statistics.fmean(logs[:at] + logs[at + 1 :])
            # The mean of the others has an error of its own, which widens the difference.
            shrunk = (logs[at] - others) / math.sqrt(1.0 + 1.0 / (len(group) - 1))
            inside.append(math.log(one.low) - logs[at] <= -shrunk <= math.log(one.high) - logs[at])
    return statistics.fmean(inside)


def by_length(full: Mapping[Key, Rows]) -> dict[str, list[Rows]]:
    """Short and long kernels."""
    groups: dict[str, list[Rows]] = {"from_20_us": [], "below_20_us": []}
    for rows in full.values():
        short = statistics.median(row["runtime_us"] for row in rows) < 20.0
        groups["below_20_us" if short else "from_20_us"].append(rows)
    return {name: group for name, group in groups.items() if group}


def recorded(group: Sequence[Rows]) -> dict[str, Any]:
    """The figures as the records have them."""
    intervals = [[Interval(r["runtime_us"], r["runtime_low_us"], r["runtime_high_us"]) for r in rows] for rows in group]
    ratios = spread([[row["speedup"] for row in rows] for rows in group])
    return spread([[one.value for one in ones] for ones in intervals]) | {
        "speedup_median_log_ratio": ratios["median_log_ratio"],
        "speedup_p95_log_ratio": ratios["p95_log_ratio"],
        "interval_coverage": coverage(intervals),
    }


def corrections(runs: Sequence[Rows]) -> dict[str, list[dict[Key, float]]]:
    """What to take off each measurement of each process: nothing, or what the null kernel says.

    The null kernel over the whole process, as the harness knew it then, or in the measurement's own rounds alone.
    """
    # A dry run has no null kernels in its rounds, because no kernel is short.
    whole = [[us for row in rows if row.get("trace") for _, us in times(row["trace"], "r")] or [0.0] for rows in runs]
    usual = statistics.fmean(centre(one) for one in whole)
    keyed = [{(r["kernel_id"], r["workload"]): r for r in rows if r.get("trace")} for rows in runs]
    return {
        "none": [dict.fromkeys(rows, 0.0) for rows in keyed],
        "process_ruler": [dict.fromkeys(rows, centre(one) - usual) for rows, one in zip(keyed, whole, strict=True)],
        "running_ruler": [{key: row["ruler_us"] - usual for key, row in rows.items()} for rows in keyed],
        "own_ruler": [
            # Long kernels are timed without null kernels.
            {
                key: centre([us for _, us in own]) - usual if (own := times(row["trace"], "r")) else 0.0
                for key, row in rows.items()
            }
            for rows in keyed
        ],
    }


def variants(group: Sequence[Rows], shifts: Mapping[str, list[dict[Key, float]]]) -> dict[str, Any]:
    """The figures with each average and correction, and the coverage with each spread between processes."""
    found: dict[str, Any] = {}
    for (name, average), (by, tables) in itertools.product(AVERAGES.items(), shifts.items()):
        at = [[(r, t[r["kernel_id"], r["workload"]]) for t, r in zip(tables, rows, strict=True)] for rows in group]
        intervals = {
            sigma: [[interval(row["trace"], average, off, sigma) for row, off in one] for one in at]
            for sigma in SIGMAS_US
        }
        ratios = spread([[speedup(row["trace"], average, off) for row, off in one] for one in at])
        found[f"{name}, {by}"] = spread([[one.value for one in ones] for ones in intervals[SIGMAS_US[0]]]) | {
            "speedup_median_log_ratio": ratios["median_log_ratio"],
            "speedup_p95_log_ratio": ratios["p95_log_ratio"],
            "coverage_by_sigma_us": {str(sigma): coverage(one) for sigma, one in intervals.items()},
        }
    return found


def rulers(rows: Rows) -> dict[str, Any]:
    """The null kernel in one process: its time, its spread, and whether it drifts."""
    taken = [(row["problem_id"], us) for row in rows if row.get("trace") for _, us in times(row["trace"], "r")]
    values = [us for _, us in taken]
    half = len(values) // 2
    by_problem: dict[str, list[float]] = {}
    for name, us in taken:
        by_problem.setdefault(name, []).append(us)
    return {
        "samples": len(values),
        "centre_us": centre(values),
        "median_us": statistics.median(values),
        "spread_us": statistics.stdev(values),
        "second_half_minus_first_us": centre(values[half:]) - centre(values[:half]),
        "by_problem_us": {name: round(centre(one), 4) for name, one in by_problem.items()},
        "as_used_us": [row["ruler_us"] for row in rows if row.get("trace")][:: max(1, len(rows) // 12)],
    }


def summarise(folder: Path) -> dict[str, Any]:
    runs = [json.loads((folder / f"precision_{n}.json").read_text())["rows"] for n in range(PROCESSES)]
    full = complete(runs)
    groups, shifts = by_length(full), corrections(runs)
    summary: dict[str, Any] = {"kernel_workloads": len(full), "processes": PROCESSES}
    summary |= {name: recorded(group) for name, group in groups.items()}
    summary["interval_coverage"] = recorded(list(full.values()))["interval_coverage"]
    summary["process_sigma_us"] = TIMING.process_sigma_us
    summary["rulers"] = []
    if "below_20_us" in groups:
        short = [[rows[n]["trace"] for rows in groups["below_20_us"]] for n in range(PROCESSES)]
        summary["rulers"] = [rulers(rows) for rows in runs]
        summary["order_effects_below_20_us"] = [order_effects(traces) for traces in short]
        summary["exposed_share_below_20_us"] = [exposed_share(traces) for traces in short]
        summary["thin_share_below_20_us"] = [exposed_share(traces, "2") for traces in short]
    read = [(len(row["sm_clock_mhz"] or ()), row["rounds"]) for rows in runs for row in rows if row.get("trace")]
    summary["conditions"] = {"readings": sum(one for one, _ in read), "rounds": sum(two for _, two in read)}
    summary["variants"] = {name: variants(group, shifts) for name, group in groups.items()}
    return summary


def table(summary: Mapping[str, Any]) -> list[str]:
    """The figures in a few lines."""
    lines = []
    for name in ("from_20_us", "below_20_us"):
        for label, found in [("as recorded", summary.get(name, {})), *summary["variants"].get(name, {}).items()]:
            if found:
                sizes = " / ".join(f"{100 * found[key]:.2f}" for key in ("median_log_ratio", "p95_log_ratio"))
                ratio = " / ".join(f"{100 * found['speedup_' + k]:.2f}" for k in ("median_log_ratio", "p95_log_ratio"))
                covered = found.get("coverage_by_sigma_us") or {"recorded": found["interval_coverage"]}
                cover = ", ".join(f"{sigma}: {100 * share:.1f}" for sigma, share in covered.items())
                lines.append(f"{name:12} {label:26} time {sizes} %  speedup {ratio} %  coverage {cover}")
    for number, one in enumerate(summary["rulers"]):
        effects = summary["order_effects_below_20_us"][number]
        lines.append(
            f"process {number}: null kernel {one['centre_us']:.3f} us (median {one['median_us']:.3f}, spread "
            f"{one['spread_us']:.3f}, n {one['samples']}, drift {one['second_half_minus_first_us']:+.3f}), exposed "
            f"{100 * summary['exposed_share_below_20_us'][number]:.1f} %, thin "
            f"{100 * summary['thin_share_below_20_us'][number]:.1f} %, lag-1 {effects['lag_1_correlation']:+.2f}, "
            f"round spread ratio {effects['round_spread_ratio']:.2f}"
        )
    lines.append(f"conditions {summary['conditions']}, coverage as recorded {summary['interval_coverage']:.3f}")
    return lines


def main() -> None:
    folder = out_folder()
    kernels = choose(folder)
    for number in range(PROCESSES):
        if not (folder / f"precision_{number}.json").exists():
            began = time.monotonic()
            run_once(kernels, folder, number)
            say(f"process {number + 1} of {PROCESSES}: {time.monotonic() - began:.1f} s")
    summary = summarise(folder)
    write(folder, "precision.json", summary)
    say("\n".join(table(summary)))


if __name__ == "__main__":
    main()
