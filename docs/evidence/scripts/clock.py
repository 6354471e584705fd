"""Clocks: what they cost, and whether they agree about honest kernels. Usage: clock.py OUT [KERNELS [SECONDS]]

Without KERNELS, runs 340 kernels of ten problems four times, with the harness's stamps on and off in turn, and writes
pace.json: measurements per second, times and refusals of each run; a run before them builds. With KERNELS, measures
so many correct kernels of the dataset again, of problems of all families, and writes again.jsonl: each measurement
with its verdict and how far apart the clocks were. Both print what the clocks said: least, 1 %, 5 %, median, 95 %, 99
%, most.
"""

from __future__ import annotations

import json
import math
import random
import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pool import GPU, out_folder, pool, say, write

from kbench.harness.harness import Harness
from kbench.harness.isolate import spawner
from kbench.loaders.corpus.corpus import load
from kbench.schemas import Backend, KernelSource, Measurement

PROBLEMS, SEED = 48, 46
USUAL = spawner.ZYGOTE
UNSTAMPED = (
    f"{USUAL} import serve; import kbench.harness.device.device as d; d.StampClock = lambda *_: None; from {USUAL}"
)
"""What workers are forked from, and the same with a device that has no stamps."""
Clocks = dict[str, float]


def measured(harness: Harness, kernels: Iterable[KernelSource]) -> Iterator[tuple[Measurement, Clocks | None]]:
    """Measurements with how far the clocks were apart."""
    clocks: dict[tuple[str, str], Clocks | None] = {}

    def keep(kernel: KernelSource, result: Mapping[str, Any]) -> None:
        clocks[kernel.kernel_id, result["workload"]] = result.get("clocks")

    harness.on_result = keep
    for row in harness.measure(kernels, on_lost=lambda kernel, why: say(f"lost {kernel.kernel_id}: {why}")):
        yield row, clocks.get((row.kernel_id, row.workload))


def run(on: bool, kernels: Sequence[KernelSource]) -> dict[str, Any]:
    """The kernels measured once."""
    spawner.ZYGOTE = USUAL if on else UNSTAMPED
    Harness.spawner_type = spawner.Spawner
    with Harness(gpu=0) as harness:
        harness.open()
        began = time.monotonic()
        rows = list(measured(harness, kernels))
        wall_s, tally = time.monotonic() - began, harness.tally
    times = {f"{row.kernel_id} {row.workload}": row.runtime_us for row, _ in rows if row.runtime_us is not None}
    refused = {f"{row.kernel_id} {row.workload}": row.error for row, _ in rows if row.runtime_us is None}
    say(
        f"stamps {'on' if on else 'off'}: {len(times) / wall_s:.2f} verified measurements per second ({len(times)} in "
        f"{wall_s:.1f} s: verify {tally.verify_s:.1f} s, time {tally.time_s:.1f} s), {refused}"
    )
    return {"on": on, "wall_s": wall_s, "times_us": times, "refused": refused, "clocks": [one for _, one in rows]}


def pace(folder: Path) -> None:
    kernels, runs = pool(), []
    run(True, kernels)
    for on in (False, True, False, True):
        runs.append(run(on, kernels))
        write(folder, "pace.json", {"runs": runs})
    for one, other, name in ((0, 2, "off against off"), (1, 3, "on against on"), (1, 0, "on against off")):
        for where, long in (("from 20 us on", True), ("below", False)):
            mine, theirs = runs[one]["times_us"], runs[other]["times_us"]
            logs = [math.log(mine[k] / theirs[k]) for k in mine.keys() & theirs.keys() if (mine[k] >= 20.0) is long]
            sizes = sorted(map(abs, logs))
            most, middle = sizes[int(0.95 * len(sizes))], statistics.median(logs)
            say(f"{name}, {where}: {len(logs)}, |log| {statistics.median(sizes):.4f}, {most:.4f}; log {middle:+.4f}")
    show([one for each in runs if each["on"] for one in each["clocks"] if one])


def chosen(count: int) -> list[KernelSource]:
    """Correct kernels of problems of all families, those that compile fast preferred, problem by problem."""
    rng = random.Random(SEED)
    problems = load(config="problems", columns=["problem_id", "family"]).to_arrow().to_pylist()
    columns = ["kernel_id", "problem_id", "backend", "source", "compile_ms"]
    known: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in load(gpu=GPU, where="status == 'ok' and runtime_us < 20000", columns=columns).to_arrow().to_pylist():
        known[row["problem_id"]].append(row)
    families: defaultdict[str, list[str]] = defaultdict(list)
    for row in sorted(problems, key=lambda row: row["problem_id"]):
        if row["problem_id"] in known:
            families[row["family"]].append(row["problem_id"])
    names: list[str] = []
    while len(names) < PROBLEMS and any(families.values()):
        names += [group.pop(rng.randrange(len(group))) for group in families.values() if group]
    each, picked = -(-count // PROBLEMS), []
    for name in rng.sample(names[:PROBLEMS], min(PROBLEMS, len(names))):
        fast = sorted(known[name], key=lambda row: row["compile_ms"] or math.inf)
        picked += rng.sample(fast[: max(each, 2 * len(fast) // 3)], min(each, len(fast)))
    return [KernelSource(row["problem_id"], Backend(row["backend"]), row["source"]) for row in picked]


def again(folder: Path, count: int, limit_s: float) -> None:
    began, clocks = time.monotonic(), []
    statuses: defaultdict[str, int] = defaultdict(int)

    def source() -> Iterator[KernelSource]:
        for kernel in chosen(count):
            if time.monotonic() - began > limit_s:
                return
            yield kernel

    with Harness(gpu=0) as harness, (folder / "again.jsonl").open("w") as file:
        for row, apart in measured(harness, source()):
            line = {"kernel_id": row.kernel_id, "problem_id": row.problem_id, "workload": row.workload}
            line |= {"status": row.status.value, "error": row.error, "runtime_us": row.runtime_us, "clocks": apart}
            file.write(json.dumps(line) + "\n")
            statuses[row.status.value] += 1
            clocks += [apart] if apart else []
            if row.error is not None:
                say(f"{row.problem_id} {row.kernel_id} {row.workload}: {row.status.value}: {row.error}")
    say(f"{dict(statuses)} in {time.monotonic() - began:.0f} s")
    show(clocks)


def show(clocks: Sequence[Clocks]) -> None:
    for name in sorted({name for one in clocks for name in one if not name.endswith(", idle")}):
        values = [one[name] - one.get(f"{name}, idle", 0.0) for one in clocks if name in one]
        shares = [one[name] / one[f"{name}, idle"] for one in clocks if f"{name}, idle" in one]
        more = f", as a share {quantiles(shares)}" if shares else ""
        say(f"{name}{', less idle' if shares else ''}: {len(values)}, {quantiles(values)}{more}")


def quantiles(values: Iterable[float]) -> list[float]:
    ordered = sorted(values)
    places = (min(len(ordered) - 1, int(p * len(ordered))) for p in (0, 0.01, 0.05, 0.5, 0.95, 0.99, 1))
    return [round(ordered[place], 2) for place in places]


if __name__ == "__main__":
    if len(sys.argv) > 2:
        again(out_folder(), int(sys.argv[2]), float((sys.argv[3:] or ["inf"])[0]))
    else:
        pace(out_folder())
