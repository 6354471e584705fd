"""Throughput: verified measurements per second, and where the time goes. Usage: throughput.py OUT

Writes throughput.json: every kernel's status and time, the totals, and the environment. The build cache is fresh, so
the figure includes compiling: it is the default one when that is empty, so that other scripts find the builds there.
"""

from __future__ import annotations

import contextlib
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from pool import make_harness, out_folder, pool, say, write

from kbench.loaders.storage.scratch import cache_folder
from kbench.schemas import to_dict


@contextlib.contextmanager
def fresh_cache() -> Iterator[Path]:
    """An empty folder for builds."""
    usual = cache_folder()
    if not usual.exists() or not any(usual.iterdir()):
        yield usual
        return
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder)


def main() -> None:
    folder = out_folder()
    kernels = pool()
    backends = {k.kernel_id: k.backend.value for k in kernels}
    with fresh_cache() as cache, make_harness(cache=cache) as harness:
        opened = time.monotonic()
        environment = harness.environment()
        say(f"{len(kernels)} kernels, workers ready in {time.monotonic() - opened:.1f} s")
        began, rows, arrivals = time.monotonic(), [], []
        for row in harness.measure(kernels):
            rows.append(row)
            arrivals.append(time.monotonic() - began)
        wall = time.monotonic() - began
        tally = harness.tally
    ok = [row for row in rows if row.status == "ok"]
    widths = sorted((r.runtime_high_us - r.runtime_low_us) / 2 / r.runtime_us for r in ok)
    result = {
        "environment": to_dict(environment),
        "kernels": len(kernels),
        "measurements": len(rows),
        "verified_measurements": len(ok),
        "wall_s": wall,
        "first_s": arrivals[0],
        "measurements_per_s": len(rows) / wall,
        "verified_measurements_per_s": len(ok) / wall,
        "statuses": Counter(row.status.value for row in rows),
        "gpu_s": {"verify": tally.verify_s, "time": tally.time_s, "busy": tally.busy_s, "idle": wall - tally.busy_s},
        "build_process_s": tally.build_s,
        "half_width_median": widths[len(widths) // 2],
        "half_width_p95": widths[int(0.95 * len(widths))],
        "arrivals_s": [round(at, 3) for at in arrivals],
        "rows": [
            {"kernel_id": r.kernel_id, "problem_id": r.problem_id, "backend": backends[r.kernel_id],
             "workload": r.workload, "status": r.status.value, "error": r.error, "runtime_us": r.runtime_us,
             "low_us": r.runtime_low_us, "high_us": r.runtime_high_us, "speedup": r.speedup, "rounds": r.rounds,
             "samples": None if r.samples_us is None else len(r.samples_us),
             "build_s": r.build_s, "verify_s": r.verify_s, "time_s": r.time_s, "floor_us": r.floor_us}
            for r in rows
        ],
    }  # fmt: skip
    write(folder, "throughput.json", result)
    say(str({name: value for name, value in result.items() if name not in ("rows", "arrivals_s", "environment")}))


if __name__ == "__main__":
    main()
