"""Import files of 200 MB, each in a process of its own, and print the most memory it and its reader took.

python docs/evidence/scripts/import_memory.py FOLDER [MIB [NAMES]]
"""

from __future__ import annotations

import gzip
import itertools
import json
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

WORK = """
import json, resource, sys
from pathlib import Path
from kbench.loaders.importers.context import ImportSettings
from kbench.loaders.importers.run import import_files
from kbench.loaders.storage import isolation, parquet_stream
columns = json.loads(sys.argv[4])
report = import_files(sys.argv[1], [Path(sys.argv[2])], Path(sys.argv[3]), ImportSettings(columns=columns, gpu="A100"))
isolation.shared_reader(parquet_stream.PARSER).close()
peaks = [resource.getrusage(who).ru_maxrss / 1024 for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
print(json.dumps({"rows": dict(report.rows), "own_mib": peaks[0], "reader_mib": peaks[1]}))
"""


def source(number: int, rng: random.Random) -> str:
    """A kernel's text of about ten kilobytes that does not compress to nothing."""
    body = "".join(f"    float v{i} = x[{rng.getrandbits(40)}];\n" for i in range(280))
    return f'code = r"""\n__global__ void k{number}(float* x) {{\n{body}}}\n"""\n'


def long_source(number: int, rng: random.Random) -> str:
    """A text near the largest a kernel may have, which compresses well: a file holds far more than its size."""
    return source(number, rng) + "#" * 890_000


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


def timing() -> Iterator[str]:
    """Times of references."""
    yield '{"level1": {'
    for number in itertools.count():
        record = {"mean": 1.0, "std": 0.1, "min": 0.9, "max": 1.1, "num_trials": 100, "hardware": "A100"}
        yield f'{"," if number else ""}"{number % 99_999 + 1}_task{number}.py": {json.dumps(record)}\n'


def t4() -> Iterator[str]:
    """Results of a tuner."""
    yield '{"results": ['
    for number in itertools.count():
        times = [{"name": "time", "value": 1.0, "unit": "milliseconds"}]
        record = {"configuration": {"a": number}, "invalidity": "correct", "measurements": times}
        yield f"{',' if number else ''}{json.dumps(record)}\n"


def ktt() -> Iterator[str]:
    """Results of another tuner."""
    yield '{"Metadata": {"TimeUnit": "Milliseconds", "Device": "A100"}, "Results": ['
    for number in itertools.count():
        values = [{"Name": "a", "Value": number}]
        record = {"KernelName": "gemm", "Status": "Ok", "Configuration": values, "TotalDuration": 1.0}
        yield f"{',' if number else ''}{json.dumps(record)}\n"


def traces() -> Iterator[str]:
    """Traces, each of a solution of its own."""
    for number in itertools.count():
        figures = {"latency_ms": 1.0, "reference_latency_ms": 2.0, "speedup_factor": 2.0}
        evaluation = {"status": "PASSED", "environment": {"hardware": "A100"}, "performance": figures}
        trace = {"definition": "gemm", "workload": {"uuid": f"u{number}"}, "solution": f"s{number}"}
        yield json.dumps(trace | {"evaluation": evaluation}) + "\n"


def rows_of_texts() -> Iterator[dict[str, object]]:
    """Rows of a table that hold a text each."""
    rng = random.Random(0)
    for number in itertools.count():
        yield {"task": f"task {number % 500}", "code": source(number, rng), "us": number % 97 + 1.0}


def texts_as_csv() -> Iterator[str]:
    """CSV with a text per row."""
    yield "task,code,us\n"
    for row in rows_of_texts():
        text = str(row["code"]).replace('"', '""')
        yield f'{row["task"]},"{text}",{row["us"]}\n'


def texts_as_lines() -> Iterator[str]:
    """JSON lines with a text per row."""
    for row in rows_of_texts():
        yield json.dumps(row) + "\n"


def submissions(text: Callable[[int, random.Random], str]) -> Iterator[dict[str, object]]:
    """Submissions to GPU MODE, one row each."""
    rng = random.Random(0)
    for number in itertools.count():
        yield {"code": text(number, rng), "leaderboard": "gelu", "gpu_type": "A100", "score": 1e-5}


def runs() -> Iterator[dict[str, object]]:
    """kernelbot's export: a row per run, three of each submission."""
    rng = random.Random(0)
    for number in itertools.count():
        text = source(number, rng)
        for mode in ("test", "benchmark", "leaderboard"):
            times = {f"benchmark.{case}.{field}": "12345.6" for case in range(8) for field in ("mean", "err", "best")}
            yield {
                "submission_id": number, "code": text, "leaderboard_name": "gelu", "run_mode": mode, "run_passed": True,
                "run_score": 1e-5 if mode == "leaderboard" else None, "run_result": {} if mode == "test" else times,
                "run_system_info": {"gpu": "A100", "cpu": "x"},
            }  # fmt: skip


def codes() -> Iterator[str]:
    """CSV whose every row is a kernel and a problem of its own."""
    yield "task,code,us\n"
    for number in itertools.count(1):
        yield f"task number {number} of very many,x={number},{number % 97 + 1}\n"


TEXTS = {"problem": "task", "source": "code", "runtime_us": "us"}
CASES: dict[str, tuple[str, Callable[[], Iterator[str]], str, dict[str, str]]] = {
    "CUDA-L1 lines": ("cuda-l1", cuda_l1, "", {}),
    "KernelBench results": ("kernelbench-eval", samples, "}", {}),
    "Kernel Tuner cache": ("kernel-tuner", cache, "}}", {}),
    "CSV, a problem per row": ("table", table, "", {"problem": "task", "run": "run", "runtime_us": "us"}),
    "CSV, a kernel and a problem per row": (
        "table",
        codes,
        "",
        {"problem": "task", "source": "code", "runtime_us": "us"},
    ),
    "KernelBench timings": ("kernelbench-timing", timing, "}}", {}),
    "T4": ("t4", t4, "]}", {}),
    "KTT": ("ktt", ktt, "]}", {}),
    "flashinfer-bench traces": ("flashinfer-trace", traces, "", {}),
    "CSV, a text per row": ("table", texts_as_csv, "", TEXTS),
    "JSON lines, a text per row": ("table", texts_as_lines, "", TEXTS),
}
PARQUET: dict[str, tuple[str, Callable[[], Iterator[dict[str, object]]], dict[str, str]]] = {
    "Parquet, a text per row": ("table", rows_of_texts, TEXTS),
    "GPU MODE Parquet": ("gpu-mode", lambda: submissions(source), {}),
    "GPU MODE Parquet, texts of 900 kB": ("gpu-mode", lambda: submissions(long_source), {}),
    "kernelbot Parquet, a row per run": ("gpu-mode", runs, {}),
}


def write_text(path: Path, lines: Iterator[str], end: str, size: int) -> None:
    """A text file of a size."""
    with path.open("w") as file:
        while file.tell() < size:
            file.write("".join(itertools.islice(lines, 100)))
        file.write(end)


def write_parquet(path: Path, rows: Iterator[dict[str, object]], size: int) -> None:
    """A Parquet file of a size."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    # So many that every column holds a value in the first.
    parts = iter(lambda: list(itertools.islice(rows, 51)), [])
    first = pa.Table.from_pylist(next(parts))
    with path.open("wb") as file, pq.ParquetWriter(file, first.schema, use_dictionary=False) as writer:
        writer.write_table(first)
        while file.tell() < size:
            writer.write_table(pa.Table.from_pylist(next(parts), schema=first.schema))


def measure(name: str, form: str, path: Path, columns: dict[str, str]) -> None:
    """Import one file and say what it took."""
    out, began = path.with_name(f"{path.name}-out"), time.monotonic()
    command = [sys.executable, "-c", WORK, form, str(path), str(out), json.dumps(columns)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    took = time.monotonic() - began
    sys.stdout.write(f"{name} ({path.stat().st_size >> 20} MiB, {path.suffix}, {took:.0f} s): {done.stdout}")
    sys.stdout.flush()
    path.unlink()
    shutil.rmtree(out)


def main(folder: Path, size: int, chosen: set[str]) -> None:
    """Write, import and measure each case; the first also packed."""
    for name, (form, lines, end, columns) in CASES.items():
        if chosen and name not in chosen:
            continue
        path = folder / f"{form}.json"
        write_text(path, lines(), end, size)
        packed = folder / f"{form}.json.gz"
        if form == "cuda-l1":
            packed.write_bytes(gzip.compress(path.read_bytes(), 1))
        for one in (path, packed):
            if one.exists():
                measure(name, form, one, columns)
    for name, (form, rows, columns) in PARQUET.items():
        if not chosen or name in chosen:
            path = folder / f"{form}.parquet"
            write_parquet(path, rows(), size)
            measure(name, form, path, columns)


if __name__ == "__main__":
    names = set(sys.argv[3].split(";")) if len(sys.argv) > 3 else set()
    main(Path(sys.argv[1]), (int(sys.argv[2]) if len(sys.argv) > 2 else 200) << 20, names)
