"""Import files of 200 MB, each in a process of its own, and print the most memory it and its reader took.

python docs/evidence/scripts/import_memory.py FOLDER
"""

from __future__ import annotations

import gzip
import json
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

SIZE = 200 << 20
WORK = """
import json, resource, sys
from pathlib import Path
from kbench.loaders.importers.context import ImportSettings
from kbench.loaders.importers.run import import_files
columns = json.loads(sys.argv[4])
report = import_files(sys.argv[1], [Path(sys.argv[2])], Path(sys.argv[3]), ImportSettings(columns=columns, gpu="A100"))
peaks = [resource.getrusage(who).ru_maxrss / 1024 for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
print(json.dumps({"rows": dict(report.rows), "own_mib": peaks[0], "reader_mib": peaks[1]}))
"""


def source(number: int, rng: random.Random) -> str:
    """A kernel's text of about ten kilobytes that does not compress to nothing."""
    body = "".join(f"    float v{i} = x[{rng.getrandbits(40)}];\n" for i in range(280))
    return f'code = r"""\n__global__ void k{number}(float* x) {{\n{body}}}\n"""\n'


def cuda_l1() -> Iterator[str]:
    """Lines with two texts each."""
    rng, number = random.Random(0), 0
    while True:
        number += 1
        text = source(number, rng)
        row = {"level_id": 1, "task_id": number % 100 + 1, "ref_code": "x", "custom_code": text, "score_default": 2.0}
        yield json.dumps(row) + "\n"


def samples() -> Iterator[str]:
    """Results of many problems, with their texts."""
    rng, number = random.Random(0), 0
    yield "{"
    while True:
        record = {"compiled": True, "correctness": True, "runtime": 1.0, "kernel": source(number, rng)}
        yield f'{"," if number else ""}"{number}": {json.dumps(record)}\n'
        number += 1


def cache() -> Iterator[str]:
    """A cache that was never closed."""
    head = {"schema_version": "1.0.0", "device_name": "x", "kernel_name": "gemm", "tune_params_keys": ["a"]}
    yield json.dumps(head)[:-1] + ',\n"cache": {\n'
    number = 0
    while True:
        entry = {"a": number, "time": 1.0, "times": [1.0] * 8}
        yield f'{"," if number else ""}"{number}": {json.dumps(entry)}\n'
        number += 1


def table() -> Iterator[str]:
    """CSV whose every row is a problem of its own."""
    yield "task,run,us\n"
    number = 0
    while True:
        number += 1
        yield f"task number {number} of very many,run,{number % 97 + 1}\n"


CASES: dict[str, tuple[str, Callable[[], Iterator[str]], str, dict[str, str]]] = {
    "CUDA-L1 lines": ("cuda-l1", cuda_l1, "", {}),
    "KernelBench results": ("kernelbench-eval", samples, "}", {}),
    "Kernel Tuner cache": ("kernel-tuner", cache, "}}", {}),
    "CSV, a problem per row": ("table", table, "", {"problem": "task", "run": "run", "runtime_us": "us"}),
}


def main(folder: Path) -> None:
    """Write, import and measure each case; then the first again, packed."""
    for name, (form, lines, end, columns) in CASES.items():
        path = folder / f"{form}.json"
        with path.open("w") as file:
            parts = lines()
            while file.tell() < SIZE:
                file.write("".join(next(parts) for _ in range(100)))
            file.write(end)
        packed = folder / f"{form}.json.gz"
        if form == "cuda-l1":
            packed.write_bytes(gzip.compress(path.read_bytes(), 1))
        for one in (path, packed):
            if one.exists():
                out = folder / f"{one.name}-out"
                command = [sys.executable, "-c", WORK, form, str(one), str(out), json.dumps(columns)]
                done = subprocess.run(command, capture_output=True, text=True, check=True)
                sys.stdout.write(f"{name} ({one.stat().st_size >> 20} MiB, {one.suffix}): {done.stdout}")
                sys.stdout.flush()
                one.unlink()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
