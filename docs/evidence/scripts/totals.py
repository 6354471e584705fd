"""Counted work of the dataset's kernels: counts it without a GPU, and merges counts into the table of a recipe.

    python docs/evidence/scripts/totals.py count OUT.jsonl [KERNELS]     # KERNELS: a file of ids, one a line
    python docs/evidence/scripts/totals.py merge TABLE.parquet FILE...   # files that count wrote, folders, tables

`count` plans and compiles, on all processors, correct kernels of the whole H200 whose work neither the dataset nor
OUT.jsonl has; called again it goes on. `merge` writes TABLE.parquet anew: column `work_json` is as in config `plans`,
and of a kernel that several files have, the first counts. A recipe names the table as `totals`, and assembly joins it
to the plans. An assembled dataset is the `samples` of the next one, so the table may go then.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pool import GPU, say

from kbench.benchmark.questions.corpus_view import benchmark_of
from kbench.benchmark.surrogates.counted.shipped import read_works
from kbench.benchmark.work.table import read_work, work_text
from kbench.generation.executors.compiler import builds
from kbench.harness.device.target import H200, Target
from kbench.harness.plan.cache import Build
from kbench.loaders.corpus.corpus import Corpus, load
from kbench.schemas import Backend, KernelSource

EACH = 64
"""Kernels counted between two writes."""


def count(out: Path, wanted: frozenset[str] | None) -> None:
    """Count kernels, a line for each: kernel_id, error and work by workload."""
    seen = read_works(benchmark_of(Corpus.open()), GPU).keys()
    columns = ["kernel_id", "problem_id", "backend", "source"]
    rows = load(gpu=GPU, where="status == 'ok'", columns=columns).to_arrow().to_pylist()
    rows = [row for row in rows if row["kernel_id"] not in seen and (wanted is None or row["kernel_id"] in wanted)]
    count_all(out, [KernelSource(row["problem_id"], Backend(row["backend"]), row["source"]) for row in rows], entry)


def count_all(
    out: Path, kernels: Sequence[KernelSource], line: Callable[[str, Build | str], Mapping[str, Any]]
) -> None:
    """Append a line for each kernel that the file does not have."""
    seen = {each["kernel_id"] for each in lines(out)} if out.exists() else set()
    kernels = [kernel for kernel in kernels if kernel.kernel_id not in seen]
    for start in range(0, len(kernels), EACH):
        several = kernels[start : start + EACH]
        entries = [line(kernel.kernel_id, build) for kernel, build in builds(several, Target(9, 0), H200)]
        with out.open("a") as file:
            file.writelines(json.dumps(each, separators=(",", ":")) + "\n" for each in entries)
        failed = sum(each["error"] is not None for each in entries)
        say(f"{start + len(several)} of {len(kernels)} kernels, {failed} not counted")


def entry(kernel_id: str, build: Build | str) -> dict[str, Any]:
    """A line of a file of counts."""
    error = build if isinstance(build, str) else build.error
    work = {} if isinstance(build, str) else build.work or {}
    texts = {name: json.loads(work_text([read_work(one) for one in each])) for name, each in work.items()}
    return {"kernel_id": kernel_id, "error": error, "work": {} if error else texts}


def lines(path: Path) -> Iterator[dict[str, Any]]:
    """Entries of a file of counts; a last line cut short is left out."""
    for line in path.read_text("utf-8").splitlines(keepends=True):
        if line.endswith("\n"):
            yield json.loads(line)


def works(path: Path) -> Iterator[tuple[str, dict[str, str]]]:
    """Kernels of a file or folder, each with the text of its work by workload."""
    if path.is_dir():
        for file in sorted((*path.rglob("*.parquet"), *path.rglob("*.jsonl"))):
            yield from works(file)
    elif path.suffix == ".parquet":
        found: dict[str, dict[str, list[Any]]] = {}
        for row in pq.read_table(path).to_pylist():
            # Older tables have a row for each configuration, in their order.
            several = json.loads(row["work_json"]) if "work_json" in row else [json.loads(row["work"])]
            found.setdefault(row["kernel_id"], {}).setdefault(row["workload"], []).extend(several)
        for kernel_id, work in found.items():
            yield kernel_id, texts(work)
    else:
        for line in lines(path):
            if line["work"] and not line["error"]:
                yield line["kernel_id"], texts(line["work"])


def texts(work: dict[str, list[Any]]) -> dict[str, str]:
    """Work of configurations as the table has it, by workload."""
    return {name: work_text([read_work(one) for one in each]) for name, each in work.items()}


def merge(out: Path, paths: list[Path]) -> None:
    """Write the table of all kernels that the files have."""
    first: dict[str, dict[str, str]] = {}
    for path in paths:
        for kernel_id, work in works(path):
            first.setdefault(kernel_id, work)
    rows = [(kernel_id, name, text) for kernel_id, work in first.items() for name, text in work.items()]
    # Texts of one problem are alike and begin alike: side by side they compress better.
    rows.sort(key=lambda row: (row[2], row))
    columns = dict(zip(("kernel_id", "workload", "work_json"), map(list, zip(*rows, strict=True)), strict=True))
    pq.write_table(
        pa.table(columns), out, compression="zstd", compression_level=19, use_dictionary=False, data_page_size=2**23
    )
    say(f"{out}: {len(first)} kernels, {len(rows)} rows, {out.stat().st_size:,} bytes")


def main() -> None:
    """Count or merge."""
    job, out, *rest = sys.argv[1:]
    if job == "count":
        count(Path(out), frozenset(Path(rest[0]).read_text("utf-8").split()) if rest else None)
    elif job == "merge":
        merge(Path(out), [Path(name) for name in rest])
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    sys.exit(__doc__) if "--help" in sys.argv else main()
