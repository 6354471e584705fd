"""A million rows import in bounded memory and linear time.

Run with `pytest -m performance tests/performance/test_import_speed.py`; KBENCH_EVIDENCE=FILE keeps the figures as JSON.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
SIZES = (62_500, 500_000)
"""Configurations; each becomes a kernel and a measurement, so that the larger file makes a million rows."""
LARGEST_BYTES = 1 << 30
"""Resident memory an import may take, whatever the number of rows: shards are written as they fill."""
WORK = """
import json, resource, sys, time
from pathlib import Path
from kbench.loaders.importers.reader import ImportSettings
from kbench.loaders.importers.run import import_files
began = time.perf_counter()
report = import_files("kernel-tuner", [Path(sys.argv[1])], Path(sys.argv[2]), ImportSettings())
seconds = time.perf_counter() - began
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
print(json.dumps({"rows": dict(report.rows), "seconds": seconds, "peak_bytes": peak}))
"""


def write_cache(path: Path, entries: int) -> None:
    """A cache of so many configurations, as Kernel Tuner writes it."""
    head = {"schema_version": "1.0.0", "device_name": "NVIDIA A100-PCIE-40GB", "kernel_name": "gemm"}
    head |= {"tune_params_keys": ["a", "b", "c"], "tune_params": {}}
    with path.open("w") as file:
        file.write(json.dumps(head)[:-1] + ',\n"cache": {\n')
        for number in range(entries):
            a, b, c = number % 128, number // 128 % 128, number // 16384
            time = 1.0 + number % 977 / 100
            entry = {"a": a, "b": b, "c": c, "time": time, "times": [time * 0.99, time * 1.01]}
            file.write(f'{"," if number else ""}"{a},{b},{c}": {json.dumps(entry)}\n')
        file.write("}}\n")


def run_once(folder: Path, entries: int) -> dict[str, Any]:
    """Import in a process of its own, so that its memory is its own."""
    path = folder / f"{entries}.json"
    write_cache(path, entries)
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src")}
    command = [sys.executable, "-c", WORK, str(path), str(folder / f"out{entries}")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.performance
@pytest.mark.timeout(1800)
def test_a_million_rows_import_in_bounded_memory_and_linear_time(tmp_path: Path, figures: dict[str, Any]) -> None:
    small, large = (run_once(tmp_path, entries) for entries in SIZES)
    for found, entries in ((small, SIZES[0]), (large, SIZES[1])):
        assert found["rows"] == {"problems": 1, "kernels": entries, "measurements": entries, "questions": 200}
        assert found["peak_bytes"] < LARGEST_BYTES
    per_row = [found["seconds"] / entries for found, entries in ((small, SIZES[0]), (large, SIZES[1]))]
    figures |= {"configurations": SIZES, "runs": [small, large], "seconds_a_configuration": per_row}
    assert per_row[1] < 1.5 * per_row[0]
    assert large["peak_bytes"] < 1.5 * small["peak_bytes"]
