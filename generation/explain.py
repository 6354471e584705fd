"""`kbench explain`: what kernels do and what bounds them, counted from compilers' output without a GPU."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click
import numpy as np

from kbench.benchmark.metrics.arrays import Floats
from kbench.benchmark.problems.registry import named, problem
from kbench.benchmark.surrogates.counted.model import KERNELS, CountedModel, plan_row
from kbench.benchmark.work.explain import Comparison, Forecast, WorkloadFacts, compare_facts, explain_work
from kbench.benchmark.work.gpus import Gpu, gpu_named
from kbench.benchmark.work.render import caution, comparison_text, draw, duration, text_of
from kbench.benchmark.work.times import fastest
from kbench.generation.executors.compiler import kernel_work
from kbench.harness.cli import KernelPath, problem_solved, raw_options
from kbench.harness.kernel.sources import RAW, RawLaunch, of_raw, other_inputs, read_kernel
from kbench.loaders.corpus.corpus import Corpus
from kbench.loaders.options import json_option
from kbench.schemas import Backend, KernelSource, UserError, bins


@click.command("explain")
@click.argument("files", nargs=-1, required=True, type=KernelPath(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--problem", "problem_id",
    help="What the files solve: an id of `kbench problems list`, or a file or folder that defines a problem.",
)  # fmt: skip
@click.option("--gpu", "gpu_name", default="H200", show_default=True, help="NVIDIA GPU, such as H100, A100 or B200.")
@click.option(
    "--plot", type=click.Path(dir_okay=False, path_type=Path), help="Draw where the time goes: .png, .svg or .pdf."
)
@raw_options
@json_option
def command(
    files: tuple[Path, ...],
    problem_id: str | None,
    gpu_name: str,
    plot: Path | None,
    as_json: bool,
    launch: RawLaunch | None,
) -> None:
    """Say what FILE does on each workload and what bounds it; of two, what changed. No GPU is needed.

    FILE is a kernel's file, or the id of a kernel of the dataset. Kernels are compiled and their PTX is executed
    abstractly: instructions, bytes and tensor work are counted, times are forecast by `static-compiler`. Nothing is
    verified.
    """
    if len(files) > 2:
        raise UserError(f"{len(files)} files; explain takes one, or two to compare")
    if plot is not None and plot.suffix not in (".png", ".svg", ".pdf"):
        raise UserError(f"--plot is {str(plot)!r}; it must end in .png, .svg or .pdf")
    if launch is not None and all(of_raw(path, launch) is None for path in files):
        raise UserError("--entry is for files of raw CUDA C++ (.cu); a Python file has its own `run`")
    gpu, definition = gpu_named(gpu_name), named(problem_solved(problem_id))
    # Compiling takes seconds, so whatever else is wrong with either file is said before.
    kernels = [read_kernel(path, definition.id, launch=of_raw(path, launch)) for path in files]
    for path, kernel in zip(files, kernels, strict=True):
        if reason := other_inputs(kernel.source, kernel.problem_id):
            raise UserError(f"{path}: {reason}")
    explained = []
    for path, kernel in zip(files, kernels, strict=True):
        try:
            one = explain_kernel(kernel, gpu)
            explained.append(one if path.suffix not in RAW else in_its_own_lines(one, path.read_text()))
        except UserError as error:
            first, *rest = str(error).splitlines()
            if rest:
                click.echo("".join(c for c in str(error) if c.isprintable() or c == "\n"), err=True)
                first += " …" + "; Triton counts lines from the function's `def`" * (kernel.backend is Backend.TRITON)
            raise UserError(f"{path}: {first}") from error
    seen = [measured(kernel, gpu) for kernel in kernels]
    compared = compare(*explained) if len(explained) == 2 else []
    if plot is not None:
        draw({path.name: each.workloads for path, each in zip(files, explained, strict=True)}, plot)
        click.echo(f"{plot} is written", err=True)
    if as_json:
        rows = [
            {"file": str(path), "workloads": [dataclasses.asdict(facts) for facts in each.workloads], "measured": times}
            for path, each, times in zip(files, explained, seen, strict=True)
        ]
        changes = [dataclasses.asdict(comparison) for comparison in compared]
        click.echo(json.dumps({"gpu": gpu.name, "kernels": rows, "comparisons": changes}))
        return
    lines = []
    for kernel, each, times in zip(kernels, explained, seen, strict=True) if not compared else ():
        for facts in each.workloads:
            first, *rest = text_of(facts, each.source)
            lines += [first, *measured_text(facts, kernel, times.get(facts.workload)), *rest]
    for number, comparison in enumerate(compared):
        lines += comparison_text(comparison)
        for path, kernel, each, times in zip(files, kernels, explained, seen, strict=True):
            facts = each.workloads[number]
            lines += measured_text(facts, kernel, times.get(facts.workload), f"{path.stem} ")
    click.echo("\n".join([*lines, *filter(None, [caution(gpu.name)])]))


def explain(kernel: KernelSource, gpu: str = "H200") -> list[WorkloadFacts]:
    """What `kbench explain` counts and forecasts of a kernel on each workload; no GPU is needed.

    Args:
        kernel: `kbench.KernelSource(problem_id, backend, source)`.
        gpu: a name of `kbench explain --gpu`.
    """
    if not isinstance(kernel, KernelSource):
        made = "kbench.KernelSource(problem_id, backend, source)"
        raise UserError(f"explain takes a kernel, not {type(kernel).__name__}; make one: {made}")
    return explain_kernel(kernel, gpu_named(gpu)).workloads


@dataclasses.dataclass(frozen=True, slots=True)
class Explained:
    """A kernel's facts on each workload."""

    source: str
    workloads: list[WorkloadFacts]
    rows: list[Floats]
    """What `static-compiler` forecasts from, by workload."""


def explain_kernel(kernel: KernelSource, gpu: Gpu) -> Explained:
    """Compile a kernel for a GPU, count its work and forecast its times."""
    model, definition = CountedModel.load(), problem(kernel.problem_id)
    explained = Explained(kernel.source, [], [])
    counted, names = kernel_work(kernel, gpu)
    for workload, configurations in counted.items():
        work = fastest(configurations, gpu, model.fitted)
        if work is None:
            errors = [error for one in configurations for error in one.errors]
            raise UserError(f"workload {workload!r} cannot be counted: {errors[0] if errors else 'no launch'}")
        min_bytes = definition.workload(definition.size(workload)).min_bytes
        row = plan_row(work, gpu, model.fitted, min_bytes)
        explained.rows.append(row)
        explained.workloads.append(
            explain_work(
                workload,
                work,
                gpu,
                model.fitted,
                configurations=len(configurations),
                configuration=dict(zip(map(id, configurations), names.get(workload, ()), strict=False)).get(id(work)),
                min_bytes=min_bytes,
                forecast=Forecast(*model.interval_us(row)),
            )
        )
    return explained


def measured(kernel: KernelSource, gpu: Gpu) -> dict[str, dict[str, Any]]:
    """The dataset's measurements of a kernel on a GPU, by workload."""
    where, columns = f"gpu == 'NVIDIA {gpu.name}' and runtime_us > 0", ("workload", "runtime_us", "registers")
    table = Corpus.open(None).table("measurements", columns=columns, kernel_id=kernel.kernel_id, where=where)
    return {row["workload"]: row for row in table.to_pylist()}


def measured_text(
    facts: WorkloadFacts, kernel: KernelSource, row: Mapping[str, Any] | None, name: str = ""
) -> Iterator[str]:
    """What the dataset measured of this kernel, and whether it was of the code that is explained."""
    if row is None:
        return
    here, there = max((launch.registers for launch in facts.launches), default=0), row["registers"]
    # A CUDA file's registers are those of its largest function, launched or not.
    other = there is not None and (there < here or (there > here and kernel.backend is Backend.TRITON))
    code = f", by a compiler that gave it {there} registers, not {here}" if other else ""
    bound_us = facts.bound_us or 0.0
    below = f"; that is less than the bound of {duration(bound_us)}, so what is counted is not what ran"
    wrong = below if row["runtime_us"] < bound_us else ""
    yield f"  {name}measured {duration(row['runtime_us'])} in the dataset{code}{wrong}"


def in_its_own_lines(explained: Explained, text: str) -> Explained:
    """What was found of a raw file in Python, with the lines of the raw file."""
    above, inside, _ = explained.source.partition(text)
    if not inside:
        return explained
    shift = above.count("\n")
    workloads = [
        dataclasses.replace(
            facts, lines=tuple(dataclasses.replace(line, line=line.line - shift) for line in facts.lines)
        )
        for facts in explained.workloads
    ]
    return dataclasses.replace(explained, source=text, workloads=workloads)


def compare(one: Explained, other: Explained) -> list[Comparison]:
    """What is different about the second kernel on each workload."""
    model, compared = CountedModel.load(), []
    for facts, others, row, other_row in zip(one.workloads, other.workloads, one.rows, other.rows, strict=True):
        before, after = model.times(np.stack([row, other_row])).tolist()
        point, shares = model.answer(KERNELS, before - after, row, other_row)
        compared.append(compare_facts(facts, others, speedup=2.0**point, p_faster=sum(shares[bins.bin_of(1.0) - 1 :])))
    return compared
