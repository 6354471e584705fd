"""White-box times against measured ones, with and without the floor of a problem's own bytes: work_floor.py [FAMILIES]

Over all kernels of train and validation, and of test, whose counted work is in the dataset or in
docs/evidence/runs/work/totals-3.parquet, on the whole H200. An error is log2 of white-box time over measured time,
without the trees that correct it. With any argument, medians by family too.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from pathlib import Path

import click
import numpy as np
from pool import GPU

from kbench.benchmark.problems.registry import known
from kbench.benchmark.questions.corpus_view import benchmark_of
from kbench.benchmark.surrogates.counted.fit import read_works as of_tables
from kbench.benchmark.surrogates.counted.model import TIME, CountedModel, plan_row
from kbench.benchmark.surrogates.counted.shipped import read_works
from kbench.benchmark.work.gpus import gpu_named
from kbench.benchmark.work.times import fastest
from kbench.loaders.corpus.corpus import Corpus, load

TOTALS = Path(__file__).parents[1] / "runs" / "work" / "totals-3.parquet"


def main() -> None:
    gpu, fitted = gpu_named(GPU), CountedModel.load().fitted
    rows = load(gpu=GPU, status="ok", columns=["kernel_id", "problem_id", "family", "split"]).to_arrow().to_pylist()
    kernels = {row["kernel_id"]: row for row in rows if row["split"] in ("train", "validation", "test")}
    times = load(config="measurements", gpu=GPU, status="ok", columns=["kernel_id", "workload", "runtime_us"])
    runtimes = {(row["kernel_id"], row["workload"]): row["runtime_us"] for row in times.to_arrow().to_pylist()}
    works = {**read_works(benchmark_of(Corpus.open()), GPU), **of_tables([TOTALS])}
    errors = defaultdict(list)
    for kernel_id in works.keys() & kernels.keys():
        kernel = kernels[kernel_id]
        definition = known().get(kernel["problem_id"])
        min_bytes = {} if definition is None else {one.name: one.min_bytes for one in definition.record().workloads}
        for name, configurations in works[kernel_id].items():
            work = fastest(configurations, gpu, fitted)
            if work is not None and name in min_bytes and (kernel_id, name) in runtimes:
                measured = np.log2(runtimes[kernel_id, name])
                both = [plan_row(work, gpu, fitted, floor)[TIME] - measured for floor in (0, min_bytes[name])]
                errors["test" if kernel["split"] == "test" else "train and validation"].append(both)
                if kernel["split"] == "test" and sys.argv[1:]:
                    errors[f"test, {kernel['family']}"].append(both)
    for part, found in sorted(errors.items()):
        without, floored = np.array(found).T
        for label, error in (("counted", without), ("with the floor", floored)):
            size, square = np.abs(error), np.sqrt((error**2).mean())
            figures = f"median {np.median(size):.3f}, mean {size.mean():.3f}, root mean square {square:.3f}"
            click.echo(f"{part}, {label}: {figures}, from {error.min():.1f} to {error.max():.1f} octaves")
        click.echo(f"  {len(found):,} workloads; the floor changes {(floored > without + 0.01).sum()}")


if __name__ == "__main__":
    main()
