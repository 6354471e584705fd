"""`kbench kernels best|show`: which kernel is fastest, why, and how it came to be."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kbench.loaders.options import NearGroup, dataset_option, echo_json, json_option, layout, out_option
from kbench.schemas import UserError
from kbench.schemas.records.problems import LAUNCH_BOUND_US

if TYPE_CHECKING:
    from kbench.loaders.summary.best import KernelView

gpu_option = click.option("--gpu", help="GPU name, or any unambiguous part such as H200, or all.")
diff_option = click.option(
    "--diff", is_flag=True, help="Show what changed since the nearest ancestor that is decidedly slower."
)
FACTS = ("problem_id", "backend", "gpu", "status", "error", "runtime_us", "speedup", "speedup_best", "search_method",
         "proposer", "model", "run_id", "step", "shared_bytes", "parent_id", "edit")  # fmt: skip

PRECISION = (
    "references compute in the problem's data type with TF32 off; a kernel may use less precision within its tolerance"
)
"""What a factor over a reference does not say by itself."""


@click.group(cls=NearGroup)
def kernels() -> None:
    """Find the fastest kernels of a problem, and show one with its times and ancestors."""


@kernels.command("best")
@click.argument("problem", required=False)
@click.option("--problem", "named", metavar="PROBLEM", help="The same, as an option.")
@click.option("--family", help="Only kernels of problems of this family, as `kbench problems list` names them.")
@click.option("--backend", type=click.Choice(["triton", "cuda"]), help="Only kernels written this way.")
@gpu_option
@click.option("--where", help="Such as: source contains 'wgmma' and spill_bytes == 0.")
@click.option(
    "--beats",
    metavar="NAME",
    help="Only kernels faster than torch.compile, cuBLAS, …, vendor, which is any library, or best, which is the best"
    " reference; furthest ahead first.",
)
@click.option("--each", is_flag=True, help="Only the fastest kernel of each problem.")
@click.option("--limit", type=click.IntRange(min=0), default=10, show_default=True, help="How many; 0 for all.")
@diff_option
@dataset_option
@json_option
def best(
    problem: str | None,
    named: str | None,
    family: str | None,
    backend: str | None,
    gpu: str | None,
    where: str | None,
    beats: str | None,
    each: bool,
    limit: int,
    diff: bool,
    dataset: str | None,
    as_json: bool,
) -> None:
    """List the fastest correct kernels of PROBLEM, or without it the largest speedups of every problem.

    With --diff, also show how the first differs from its nearest ancestor whose runtime's interval lies above its own.

    Of several GPUs the one with the most kernels is shown, unless --gpu says otherwise.
    Speedups are over eager PyTorch; speedup_best is over the fastest of eager, torch.compile and the vendor's library
    (the best reference), without workloads on which that takes less than 10 µs unless all do, and empty where none was
    timed. The roofline is the time of all inputs and outputs at the measured copy bandwidth, or of the arithmetic at
    measured rates; the share is that over the measured time, without launch-bound workloads, and above 100 % where
    outputs stay in L2. It is no limit that is enforced: times are refused below floor_us (--json), which is lower.
    Registers are those of the largest function of a file, launched or not.
    """
    from kbench.loaders.corpus.corpus import EVERY_GPU, Corpus
    from kbench.loaders.summary.best import best_kernels, find_kernel, reference_speedups

    if problem and named and problem != named:
        raise UserError(f"--problem is {named!r}, beside the problem {problem!r}; name one")
    problem = problem or named
    corpus = Corpus.open(dataset)
    main = corpus.main_gpu() if gpu is None else None
    device = main if gpu in (None, EVERY_GPU) else gpu
    rows, count = best_kernels(
        corpus, problem, limit or None, where=where, beats=beats, each=each, family=family, backend=backend, gpu=device
    )
    if main:
        click.echo(f"kernels on {main}; of every GPU: --gpu {EVERY_GPU}", err=True)
    view = find_kernel(corpus, rows[0]["kernel_id"], rows[0]["gpu"])[0] if diff else None
    if as_json:
        changes = {"diff": "\n".join(view.diff()), "diff_note": view.diff_note()} if view else {}
        echo_json({"kernels": rows} | changes)
        return
    has_best, short = (any(row[name] for row in rows) for name in ("speedup_best", "launch_bound_workloads"))
    for line in layout([_cells(row, named=not problem, over_best=has_best, short=short) for row in rows]):
        click.echo(line)
    if short:
        click.echo(
            f"launch-bound: workloads on which the best reference takes less than {LAUNCH_BOUND_US:g} µs, too short to "
            "tell kernels apart by",
            err=True,
        )
    for name in sorted({row["gpu"] for row in rows if row["gpu"]} if problem else ()):
        for baseline, speedup in reference_speedups(corpus, problem or "", name).items():
            click.echo(f"{baseline} on {name}: {speedup:.3f}x over eager PyTorch")
    if beats:
        click.echo(PRECISION, err=True)
    if problem and rows and not has_best:
        click.echo("no torch.compile or vendor's library was timed: speedups are over eager PyTorch alone", err=True)
    click.echo(f"{len(rows):,} of {count:,} kernels", err=True)
    for line in ["", *_changes(view, "the fastest has no parent in the corpus")] if view else ():
        click.echo(line)


def _changes(view: KernelView, orphan: str) -> list[str]:
    """A kernel's diff under what must be known of it."""
    note = view.diff_note()
    return [*([note] if note else []), *view.diff()] or [orphan]


def _cells(row: Mapping[str, Any], *, named: bool, over_best: bool, short: bool) -> dict[str, Any]:
    from kbench.loaders.summary.best import SHOWN_DIGITS

    ahead = {"ahead": f"{row['ahead']:.3f}x {row['baseline']}"} if "ahead" in row else {}
    few, workloads = row["launch_bound_workloads"], row["workloads"]
    launch_bound = f"{'all' if few == workloads else few} of {workloads}" if few else None
    return {
        **({"problem": row["problem_id"]} if named else {}),
        "runtime_us": _with_interval(row, "runtime{}_us", ".5g"),
        **({"speedup_best": row["speedup_best"]} if over_best else {}),
        **ahead,
        "speedup": _with_interval(row, "speedup{}", ".3f"),
        "roofline": None if row["roofline_share"] is None else f"{row['roofline_share']:.0%}",
        **({"launch-bound": launch_bound} if short else {}),
        "registers": row["registers"],
        "spills": row["spill_bytes"],
        "method": row["search_method"],
        "backend": row["backend"],
        "gpu": row["gpu"],
        "id": row["kernel_id"][:SHOWN_DIGITS],
    }


def _with_interval(row: Mapping[str, Any], name: str, form: str) -> str | None:
    """A figure and its interval; empty where it is not known."""
    value, low, high = (row[name.format(end)] for end in ("", "_low", "_high"))
    if value is None or low is None or high is None:
        return None if value is None else format(value, form)
    return f"{value:{form}} ({low:{form}}-{high:{form}})"


@kernels.command("show")
@click.argument("id_prefix")
@gpu_option
@diff_option
@out_option("Write the source to this file and show no more.", file=True)
@dataset_option
@json_option
def show(id_prefix: str, gpu: str | None, diff: bool, out: Path | None, dataset: str | None, as_json: bool) -> None:
    """Show the kernel whose id begins with ID_PREFIX: times per workload, ancestors and source.

    Of several GPUs the one with the most kernels comes first, and --diff is about that one.
    """
    from kbench.loaders.corpus.corpus import EVERY_GPU, Corpus
    from kbench.loaders.storage.atomic import write_atomically
    from kbench.loaders.summary.best import find_kernel

    if out and diff:
        raise UserError("--out writes the source, --diff shows changes; choose one")
    views = find_kernel(Corpus.open(dataset), id_prefix, None if gpu == EVERY_GPU else gpu)
    if out:
        written = {"file": str(out), "next": f"kbench measure {out} --problem {views[0].row['problem_id']}"}
        write_atomically(out, views[0].row["source"])
        echo_json(written) if as_json else click.echo("{file} is written; measure it: {next}".format(**written))
        return
    if as_json:
        echo_json([dataclasses.asdict(view) for view in views])
        return
    for view in views:
        _describe(view)
    main = views[0]
    click.echo("\n".join(["", *_changes(main, "no parent in the corpus")]) if diff else f"\n{main.row['source']}")


def _describe(view: KernelView) -> None:
    from kbench.loaders.summary.best import label

    row = view.row
    click.echo(f"{row['kernel_id']}")
    for name in FACTS:
        if row[name] is not None:
            value = f"{row[name]:.5g}" if isinstance(row[name], float) else str(row[name])
            click.echo(f"  {name:14} {' '.join(value.split())}")
    if view.workloads:
        click.echo()
    for line in layout([_times(one) for one in view.workloads]):
        click.echo(f"  {line}")
    seen = {one["workload"]: one["counted"] for one in view.workloads if one["counted"]}
    if seen:
        click.echo("\n  counted by the hardware in one call")
    for workload, text in seen.items():
        click.echo(f"  {workload}: {text}")
    if len(view.lineage) > 1:
        click.echo("\n  from its first ancestor")
    for one in view.lineage if len(view.lineage) > 1 else ():
        click.echo(f"  {label(one):24} {one['search_method']} step {one['step']}  {one['edit'] or ''}".rstrip())


def _times(figure: Mapping[str, Any]) -> dict[str, Any]:
    low, high = figure["runtime_low_us"], figure["runtime_high_us"]
    reference = roofline = None
    if figure["best_reference"] is not None:
        name, runtime_us = figure["best_reference"]
        reference = f"{runtime_us:.4g} us {name}" + (", launch-bound" if figure["launch_bound"] else "")
    if figure["roofline_us"] is not None:
        share = f", {figure['roofline_share']:.0%}" if figure["roofline_share"] else ""
        roofline = f"{figure['roofline_us']:.4g} us{share}"
    return {
        "workload": figure["workload"],
        "status": figure["status"],
        "runtime_us": figure["runtime_us"],
        "interval": None if low is None or high is None else f"{low:.3f}-{high:.3f}",
        "speedup": figure["speedup"],
        "best reference": reference,
        "roofline": roofline,
        "registers": figure["registers"],
        "spills": figure["spill_bytes"],
    }
