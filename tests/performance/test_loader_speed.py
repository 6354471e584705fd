"""Loader speed, side by side with bare pyarrow and with `datasets`; and a million rows imported in bounded memory.

Run with `pytest -m performance tests/performance/test_loader_speed.py`."""

import hashlib
import json
import os
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pytest

from kbench.loaders.checks.validate import validate
from kbench.loaders.corpus.corpus import Corpus, load
from kbench.loaders.corpus.writer import SHARD_ROWS, CorpusWriter
from kbench.schemas import Kernel, arrow_schema
from kbench.schemas.ids import kernel_id

pytestmark = [pytest.mark.performance, pytest.mark.timeout(3600)]

ROWS = 12_388
SOURCE_BYTES = 5_000
SCALE_ROWS = int(os.environ.get("KBENCH_SCALE_ROWS", "10000000"))
SCALE_PROBLEMS = 200
SOURCE_FOLDER = str(Path(__file__).parents[2] / "src")
GPUS = ("NVIDIA H200", "NVIDIA A100-SXM4-80GB", "NVIDIA L40S")
METHODS = ("random", "hill_climb", "evolve", "puct")
COLUMNS = ["kernel_id", "runtime_us"]


def random_source(rng: random.Random, size: int) -> str:
    words = ["tl.load", "tl.store", "acc", "offs_m", "BLOCK", "+=", "*", "mask", "=", "(", ")", "for k in range", "0.0"]
    lines = []
    while size > 0:
        line = "    " + " ".join(rng.choices(words, k=8)) + f" {rng.randrange(10**6)}"
        lines.append(line)
        size -= len(line) + 1
    return "\n".join(lines) + "\n"


def kernel_table(rows: int, problem_of: Callable[[int], int], source_bytes: int) -> pa.Table:
    """Generated kernels, all timed; ids are hashes of their content."""
    rng = random.Random(0)
    numbers = range(rows)
    problems = [f"problem_{problem_of(number):03d}" for number in numbers]
    backends = [("triton", "cuda")[number % 2] for number in numbers]
    sources = [random_source(rng, source_bytes) for _ in numbers]
    runtimes = [rng.uniform(1, 1000) for _ in numbers]
    shas = [hashlib.sha256(str(number).encode()).hexdigest()[:32] for number in numbers]
    ids = [kernel_id(*parts) for parts in zip(problems, backends, sources, strict=True)]
    schema = arrow_schema(Kernel)
    columns: dict[str, list[Any]] = {
        "kernel_id": ids, "problem_id": problems, "family": ["matmul"] * rows, "backend": backends,
        "gpu": [GPUS[number % 3] for number in numbers], "search_method": [METHODS[number % 4] for number in numbers],
        "proposer": ["genome"] * rows, "run_id": ["run"] * rows, "step": list(numbers),
        "structure_id": shas, "cluster_id": shas, "split": ["train"] * rows, "source": sources,
        "status": ["ok"] * rows, "runtime_us": runtimes,
        "runtime_low_us": [value * 0.99 for value in runtimes], "runtime_high_us": [value * 1.01 for value in runtimes],
        "speedup": [1.5] * rows, "speedup_low": [1.4] * rows, "speedup_high": [1.6] * rows,
        "compile_ms": [30.0] * rows, "registers": [number % 255 for number in numbers], "shared_bytes": [0] * rows,
        "spill_bytes": [0] * rows, "origin": ["generated"] * rows,
    }  # fmt: skip
    return pa.table({name: columns.get(name, [None] * rows) for name in schema.names}, schema=schema)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("speed") / "corpus"
    with CorpusWriter(path) as writer:
        writer.append("kernels", kernel_table(ROWS, lambda number: number * 118 // ROWS, SOURCE_BYTES))
    return path


def medians(rounds: int, *functions: Callable[[], Any]) -> list[float]:
    """Median seconds of each, taken in turns so that drift of the machine falls on all alike."""
    times: list[list[float]] = [[] for _ in functions]
    for function in functions:
        function()
    for _ in range(rounds):
        for kept, function in zip(times, functions, strict=True):
            start = time.perf_counter()
            function()
            kept.append(time.perf_counter() - start)
    return [statistics.median(kept) for kept in times]


FACETS = {"problem_id": "problem_050", "backend": "triton", "gpu": GPUS[0], "search_method": "evolve"}


def bare_filter(path: Path) -> pa.Table:
    condition = None
    for name, value in FACETS.items():
        part = ds.field(name) == value
        condition = part if condition is None else condition & part
    files = [str(file) for file in sorted((path / "kernels").glob("*.parquet"))]
    return ds.dataset(files, format="parquet").to_table(columns=COLUMNS, filter=condition)


def test_a_four_facet_filter_is_near_bare_pyarrow(corpus: Path) -> None:
    def ours() -> pa.Table:
        facets = {"problem" if name == "problem_id" else name: value for name, value in FACETS.items()}
        return load(corpus, columns=COLUMNS, **facets).to_arrow()  # type: ignore[arg-type]

    assert ours().num_rows == bare_filter(corpus).num_rows > 0
    mine, bare = medians(60, ours, lambda: bare_filter(corpus))
    assert mine / bare < 1.5


DATASETS_CODE = """
import json, os, sys, time
import datasets
datasets.disable_progress_bars()
filters = [(name, "==", value) for name, value in json.loads(sys.argv[2]).items()]
start = time.perf_counter()
columns = ["kernel_id", "runtime_us"]
rows = datasets.load_dataset(sys.argv[1], "kernels", split="train", filters=filters, columns=columns)
print(len(rows), time.perf_counter() - start)
"""


def test_a_four_facet_filter_is_five_times_faster_than_datasets(corpus: Path, tmp_path: Path) -> None:
    def ours() -> pa.Table:
        return Corpus.open(corpus).table("kernels", columns=COLUMNS, **FACETS)

    times = {"cold": [], "warm": []}  # type: dict[str, list[float]]
    for number in range(3):
        for state in ("cold", "warm"):
            environment = os.environ | {"HF_DATASETS_CACHE": str(tmp_path / str(number)), "HF_HUB_OFFLINE": "1"}
            command = [sys.executable, "-W", "ignore", "-c", DATASETS_CODE, str(corpus), json.dumps(FACETS)]
            out = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout.split()
            assert int(out[0]) == ours().num_rows
            times[state].append(float(out[1]))
    (mine,) = medians(20, ours)
    cold, warm = statistics.median(times["cold"]), statistics.median(times["warm"])
    assert min(cold, warm) / mine > 5


def test_a_full_read_is_near_bare_pyarrow(corpus: Path) -> None:
    files = [str(file) for file in (corpus / "kernels").glob("*.parquet")]
    mine, bare = medians(15, lambda: load(corpus).to_arrow(), lambda: ds.dataset(files, format="parquet").to_table())
    assert mine / bare < 1.2


def test_validation_takes_under_two_seconds(corpus: Path) -> None:
    opened = Corpus.open(corpus)
    assert validate(opened) == []
    (mine,) = medians(5, lambda: validate(opened))
    assert mine < 2


SCAN_CODE = """
import json, re, sys, time
import pyarrow.dataset
sys.path.insert(0, sys.argv[1])
from kbench.loaders.corpus.corpus import load
start = time.perf_counter()
selection = load(sys.argv[2], columns=["kernel_id", "runtime_us"], **json.loads(sys.argv[3]))
rows = sum(batch.num_rows for batch in selection.batches())
seconds = time.perf_counter() - start
# Not getrusage: its maximum is inherited from the process that started this one.
peak = int(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1]) / 1024
print(json.dumps({"rows": rows, "seconds": seconds, "peak_mib": peak}))
"""


def scan(path: Path, **filters: Any) -> dict[str, float]:
    """A filtered scan in a process of its own, so that its peak memory is its own; the best of three by time."""
    command = [sys.executable, "-c", SCAN_CODE, SOURCE_FOLDER, str(path), json.dumps(filters)]
    runs = [json.loads(subprocess.run(command, capture_output=True, check=True).stdout) for _ in range(3)]
    return min(runs, key=lambda run: float(run["seconds"]))


def write_scaled(path: Path, rows: int, problems: int) -> Path:
    """Many short kernels in order of their problem; ids are numbers, since hashing them would take most of the time."""
    pattern = kernel_table(SHARD_ROWS, lambda number: 0, 40)
    with CorpusWriter(path) as writer:
        for first in range(0, rows, SHARD_ROWS):
            numbers = pa.array(range(first, min(first + SHARD_ROWS, rows)))
            part = pattern.slice(0, len(numbers))
            ids = pc.utf8_lpad(pc.cast(numbers, pa.string()), width=32, padding="0")
            problem = pc.cast(pc.divide(pc.multiply(numbers, problems), rows), pa.string())
            names = pc.binary_join_element_wise("problem", pc.utf8_lpad(problem, width=3, padding="0"), "_")
            for name, column in (("kernel_id", ids), ("step", numbers), ("problem_id", names)):
                part = part.set_column(part.column_names.index(name), name, column)
            writer.append("kernels", part)
    return path


def test_a_scan_of_very_many_rows_is_bounded_in_memory_and_linear_in_rows_touched(tmp_path: Path) -> None:
    tenth = write_scaled(tmp_path / "tenth", SCALE_ROWS // 10, SCALE_PROBLEMS // 10)
    whole = write_scaled(tmp_path / "whole", SCALE_ROWS, SCALE_PROBLEMS)
    names = [f"problem_{number:03d}" for number in range(SCALE_PROBLEMS)]
    one_of_tenth = scan(tenth, problem=names[7])
    one_of_whole = scan(whole, problem=names[7])
    ten_of_whole = scan(whole, problem=names[40:50])
    every = scan(whole, where="registers > 10")
    assert one_of_tenth["rows"] == one_of_whole["rows"] == ten_of_whole["rows"] / 10 == SCALE_ROWS / SCALE_PROBLEMS
    assert max(run["peak_mib"] for run in (one_of_whole, ten_of_whole, every)) < 1024
    # Ten times the rows stored cost no more than half again; ten times the rows touched cost at most ten times.
    assert one_of_whole["seconds"] < 1.5 * one_of_tenth["seconds"] + 0.02
    assert ten_of_whole["seconds"] < 10 * one_of_whole["seconds"]


def test_help_takes_under_a_fifth_of_a_second() -> None:
    command = [sys.executable, "-m", "kbench", "--help"]
    environment = os.environ | {"PYTHONPATH": SOURCE_FOLDER}
    processor = []
    for _ in range(10):
        before = os.times()
        subprocess.run(command, env=environment, capture_output=True, check=True)
        after = os.times()
        processor.append(after.children_user + after.children_system - before.children_user - before.children_system)
    # Processor time, which on an idle machine is the wall time and on a busy one still says what the command costs.
    assert statistics.median(processor) < 0.2


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


def test_a_million_rows_import_in_bounded_memory_and_linear_time(tmp_path: Path) -> None:
    small, large = (run_once(tmp_path, entries) for entries in SIZES)
    for found, entries in ((small, SIZES[0]), (large, SIZES[1])):
        assert found["rows"] == {"problems": 1, "kernels": entries, "measurements": entries, "questions": 200}
        assert found["peak_bytes"] < LARGEST_BYTES
    per_row = [found["seconds"] / entries for found, entries in ((small, SIZES[0]), (large, SIZES[1]))]
    assert per_row[1] < 1.5 * per_row[0]
    assert large["peak_bytes"] < 1.5 * small["peak_bytes"]
