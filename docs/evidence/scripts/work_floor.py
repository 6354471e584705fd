"""What the floor of a problem's own bytes does to white-box times: `python docs/evidence/scripts/work_floor.py`.

Over all kernels of train and validation whose counted work is in the dataset or in runs/work/totals-2.parquet, on the
whole H200. An error is log2 of white-box time over measured time, without the trees that correct it.
"""

from __future__ import annotations

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

TOTALS = Path(__file__).parents[1] / "runs" / "work" / "totals-2.parquet"


def main() -> None:
    gpu, fitted = gpu_named(GPU), CountedModel.load().fitted
    rows = load(gpu=GPU, status="ok", columns=["kernel_id", "problem_id", "split"]).to_arrow().to_pylist()
    problem_of = {row["kernel_id"]: row["problem_id"] for row in rows if row["split"] in ("train", "validation")}
    times = load(config="measurements", gpu=GPU, status="ok", columns=["kernel_id", "workload", "runtime_us"])
    runtimes = {(row["kernel_id"], row["workload"]): row["runtime_us"] for row in times.to_arrow().to_pylist()}
    works = {**read_works(benchmark_of(Corpus.open()), GPU), **of_tables([TOTALS])}
    errors = []
    for kernel_id, workloads in works.items():
        definition = known().get(problem_of.get(kernel_id, ""))
        min_bytes = {} if definition is None else {one.name: one.min_bytes for one in definition.record().workloads}
        for name, configurations in workloads.items():
            work = fastest(configurations, gpu, fitted)
            if work is not None and name in min_bytes and (kernel_id, name) in runtimes:
                measured = np.log2(runtimes[kernel_id, name])
                errors.append([plan_row(work, gpu, fitted, floor)[TIME] - measured for floor in (0, min_bytes[name])])
    without, floored = np.array(errors).T
    for label, error in (("counted", without), ("with the floor", floored)):
        click.echo(
            f"{label}: {len(error):,} workloads, error {np.sqrt((error**2).mean()):.3f} octaves (root mean square),"
        )
        click.echo(f"  {np.abs(error).mean():.3f} in the mean, from {error.min():.1f} to {error.max():.1f}")
    click.echo(f"the floor changes {(floored > without + 0.01).sum()}")


if __name__ == "__main__":
    main()
