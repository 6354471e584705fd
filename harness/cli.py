"""The commands measure, compare, doctor, contribute, problems references and kernels counters."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import json
import re
import sys
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kbench.harness.device.gpu import parse_gpus
from kbench.loaders.options import F, json_option, out_option
from kbench.schemas import KernelSource, Measurement, UserError, to_dict

if TYPE_CHECKING:
    from kbench.harness.commands.measure import MeasureOptions
    from kbench.harness.kernel.sources import RawLaunch

CHECK_ONLY = "--check-only still compiles for a target and verifies Triton kernels through the interpreter"
EXPLAIN = "without one, kbench explain counts what kernels do and what changed between two files"

PROBLEM = "an id of `kbench problems list`, or a file or folder that defines a problem."
STORED, STORED_FILES = "kbench.problems", "kbench.files"
"""Where a command's context keeps the problems of the dataset's kernels that it names, and their ids by file."""


class KernelPath(click.Path):
    """A kernel's file, or the first digits of the id of one in the shipped dataset, which then gets a file."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if ctx is None or Path(value).exists() or not re.fullmatch(r"[0-9a-f]{4,32}", str(value)):
            return super().convert(value, param, ctx)
        from kbench.loaders.corpus.corpus import Corpus
        from kbench.loaders.storage.scratch import temporary_folder
        from kbench.loaders.summary.best import SHOWN_DIGITS, find_kernel

        row = find_kernel(Corpus.open(None), str(value))[0].row
        ctx.meta.setdefault(STORED, set()).add(row["problem_id"])
        path = ctx.with_resource(temporary_folder()) / f"{row['kernel_id'][:SHOWN_DIGITS]}.py"
        path.write_text(row["source"])
        ctx.meta.setdefault(STORED_FILES, {})[str(path)] = path.stem
        return path


def problem_solved(named: str | None) -> str:
    """The problem that --problem names, or else the one of the dataset's kernels in place of files.

    Raises:
        UserError: neither says one.
    """
    stored = sorted(click.get_current_context().meta.get(STORED, ()))
    if not named and len(stored) != 1:
        why = f"the kernels solve {' and '.join(stored)}" if stored else "--problem is missing"
        raise UserError(f"{why}; say which problem the files solve, such as --problem {(*stored, 'gelu_tanh')[0]}")
    return named or str(stored[0])


gpu_option = click.option(
    "--gpu",
    default="0",
    show_default=True,
    help="GPUs such as 0 or 0,1; 0:64 is a partition of 64 SMs, MIG-… an instance.",
)
limit_option = click.option(
    "--limit",
    type=click.IntRange(min=1),
    help="At most this many kernels: some of every problem and backend, then whole pools.",
)
lines_option = click.option(
    "--out", required=True, type=click.Path(path_type=Path), help="JSON Lines file; a stopped run is resumed."
)
backend_option = click.option(
    "--backend", type=click.Choice(["triton", "cuda"]), help="Backend of the kernels; by default read from the source."
)
allow_option = click.option(
    "--allow-unscreened", is_flag=True, help="Run a kernel that cannot be planned in the process that judges it."
)


def raw_options(command: F) -> F:
    """Options that say how a file of raw CUDA C++ is launched; the command gets them as `launch`."""

    @functools.wraps(command)
    def with_launch(*args: Any, entry: str | None, grid: str | None, **options: Any) -> Any:
        raw = {name: options.pop(name) for name in ("block", "args", "shared_bytes")}
        if entry and not grid:
            raise UserError("--grid is missing; say how many blocks, such as --grid 'cdiv(y.numel(), 256)'")
        from kbench.harness.kernel.sources import RawLaunch

        return command(*args, launch=RawLaunch(entry, grid, **raw) if entry and grid else None, **options)

    options = [
        click.option("--entry", help="Function of a .cu file to launch."),
        click.option(
            "--grid", help="Its blocks, such as 'cdiv(y.numel(), 256)' or 'cdiv(x.shape[1], 32), x.shape[0]'."
        ),
        click.option("--block", default="256", show_default=True, help="Its threads per block."),
        click.option(
            "--args", help="What it is called with, such as 'x, y, y.numel()'; inputs, then outputs by default."
        ),
        click.option("--shared-bytes", default="0", show_default=True, help="Its dynamic shared memory."),
    ]
    return functools.reduce(lambda made, option: option(made), reversed(options), with_launch)  # type: ignore[return-value]


@click.command()
@click.argument("files", nargs=-1, type=KernelPath(exists=True, path_type=Path))
@click.option("--problem", "problem_id", help=f"What the files solve: {PROBLEM}")
@backend_option
@gpu_option
@out_option("Corpus folder to write to; a killed run is resumed.")
@click.option("--half-width", default=0.01, show_default=True, type=click.FloatRange(0.0, 1.0, min_open=True),
              help="Relative half-width at which timing stops.")  # fmt: skip
@click.option("--corpus", help="Measure kernels of this corpus (folder or Hub id) again.")
@click.option("--where", help="Which rows of the corpus, such as \"status == 'ok' and runtime_us < 100\".")
@limit_option
@click.option("--deadline", "deadline_s", type=click.FloatRange(0.0, min_open=True),
              help="Stop cleanly after this many seconds; the same command with --out goes on. Kernels of a corpus that"
                   " failed before come last.")  # fmt: skip
@click.option("--check-only", is_flag=True,
              help="Verify without timing. On a GPU the memory after each tensor is unmapped, so a kernel that reads or"
                   " writes past its end fails. Without a GPU, run the tiny workload (Triton) or only compile"
                   " (CUDA).")  # fmt: skip
@click.option("--target", default="sm_90", show_default=True,
              help="Architecture for --check-only without a GPU: sm_90, or a GPU such as H100.")  # fmt: skip
@allow_option
@click.option("--timeout", "timeout_s", default=10.0, show_default=True, type=click.FloatRange(0.0, min_open=True),
              help="Seconds that one stage of a kernel may take.")  # fmt: skip
@click.option(
    "--max-memory",
    metavar="AMOUNT",
    help="Memory of the GPU to use, such as 24G; workloads that take more are left out.",
)
@click.option("--watch", "watching", is_flag=True,
              help="Measure FILE again whenever it is saved; show the change since the last version.")  # fmt: skip
@click.option("--tune", "shapes", metavar="SHAPES",
              help="Find the best of FILE's own @triton.autotune configurations at each of some shapes, such as"
                   " 'm=1,2,4,8 n=4096', and write them to --out: configs.py, and configs.json in vLLM's"
                   " form.")  # fmt: skip
@raw_options
@json_option
def measure(
    files: tuple[Path, ...],
    problem_id: str | None,
    backend: str | None,
    gpu: str,
    check_only: bool,
    as_json: bool,
    launch: RawLaunch | None,
    half_width: float,
    timeout_s: float,
    allow_unscreened: bool,
    max_memory: str | None,
    watching: bool,
    shapes: str | None,
    **selection: Any,
) -> None:
    """Verify and time kernels on a local GPU: FILES, or ids of kernels of the dataset.

    A file of raw CUDA C++ (.cu) needs --entry and --grid. --grid, --block, --args and --shared-bytes are Python
    expressions over the problem's inputs and outputs by name.
    """
    problem_id = problem_solved(problem_id) if files else problem_id
    # First of all: the processes it starts import for seconds.
    if problem_id and not (check_only or selection["corpus"] or Path(problem_id).exists()):
        from kbench.harness.isolate.spawner import start_early

        start_early()
    from kbench.benchmark.problems.registry import named
    from kbench.harness.commands.doctor import require_gpus
    from kbench.harness.commands.measure import MeasureOptions
    from kbench.harness.settings import HarnessSettings
    from kbench.harness.timing.rounds import TimingSettings
    from kbench.harness.workloads import left_out, parse_amount

    modes = {"--check-only": check_only, "--watch": watching, "--tune": shapes is not None, "--json": as_json}
    modes |= {"--out": selection["out"] is not None, "--corpus": bool(selection["corpus"])}
    refuse_together(files, problem_id, {name for name, given in modes.items() if given})
    settings = HarnessSettings(
        timing=TimingSettings(half_width=half_width),
        timeout_s=timeout_s,
        allow_unscreened=allow_unscreened,
        max_memory_bytes=None if max_memory is None else parse_amount(max_memory),
    )
    options = MeasureOptions(gpus=parse_gpus(gpu), quiet=as_json, harness=settings, **selection)
    if options.corpus:
        measure_corpus(options, check_only, as_json)
        return
    kernels = [] if shapes is not None else _kernels(files, problem_id, backend, launch)
    if not check_only:
        require_gpus(options.gpus, EXPLAIN if watching or shapes is not None else CHECK_ONLY)
    if shapes is not None:
        tune_file(files[0], str(problem_id), shapes, options, as_json)
        return
    solved = named(str(problem_id))
    for line in left_out(solved, settings.max_memory_bytes):
        click.echo(line, err=True)
    if watching:
        watch_file(files[0], solved.id, backend, launch, options)
    else:
        measure_kernels(kernels, solved.id, options, check_only, as_json)


def refuse_together(files: Sequence[Path], problem_id: str | None, given: Collection[str]) -> None:
    """Refuse options that exclude one another, or that these files do not fit.

    Raises:
        UserError: says what the option takes.
    """
    from kbench.benchmark.problems.registry import edition, named

    one_file = len(files) == 1 and not files[0].is_dir()
    if {"--check-only", "--out"} <= set(given):
        raise UserError("--check-only times nothing, so there is nothing to write to --out")
    if "--corpus" in given and (files or (problem_id and edition(named(problem_id).id) == "")):
        raise UserError("--corpus takes no FILES, and of --problem only files; the rows say which problem they solve")
    if "--watch" in given and (not one_file or {"--check-only", "--json", "--out", "--corpus"} & set(given)):
        raise UserError("--watch takes one FILE, and neither --check-only, --corpus, --out nor --json")
    if "--tune" in given and (not one_file or not problem_id or {"--check-only", "--watch", "--corpus"} & set(given)):
        raise UserError("--tune takes one FILE and --problem, and neither --check-only, --corpus nor --watch")


def measure_corpus(options: MeasureOptions, check_only: bool, as_json: bool) -> None:
    """Check a corpus's kernels, or measure them again and show how the figures agree."""
    from kbench.harness.commands.doctor import require_gpus
    from kbench.harness.commands.measure import remeasure, verify_only
    from kbench.harness.commands.selection import select
    from kbench.harness.commands.show import show_agreement, show_verified
    from kbench.loaders.corpus.corpus import Corpus

    if check_only:
        chosen, _ = select(options.corpus, options.where, options.limit)
        show_verified(verify_only([(key, one.kernel) for key, one in chosen.items()], options), as_json)
        return
    Corpus.open(options.corpus)
    require_gpus(options.gpus, CHECK_ONLY)
    show_agreement(remeasure(options), as_json)


def measure_kernels(
    kernels: Sequence[tuple[str, KernelSource]], problem_id: str, options: MeasureOptions, check_only: bool,
    as_json: bool,
) -> None:  # fmt: skip
    """Measure or check kernels, show each row as it comes, and exit 1 when a kernel failed."""
    from kbench.harness.commands.measure import measure_files, verify_only
    from kbench.harness.commands.show import describe, finish, show_hints
    from kbench.harness.device.target import Target

    shown: list[str] = []

    def show(name: str, row: Measurement) -> str:
        shown.append(describe(name, row, problem_id))
        return shown[-1]

    if check_only:
        rows = verify_only(kernels, options)
    else:
        rows = measure_files(kernels, options, show=None if as_json else show)
    if not as_json:
        show_hints(kernels, rows)
    finish(rows, as_json, problem_id, shown, str(Target.named(options.target)) if check_only else None)


def tune_file(path: Path, problem_id: str, shapes: str, options: MeasureOptions, as_json: bool) -> None:
    """Tune a kernel over shapes, show each, and write the table; exit 1 when nothing works at a shape."""
    from kbench.benchmark.problems.registry import named
    from kbench.harness.commands.tune import at_shapes, failures, parse_shapes, tune, write
    from kbench.harness.harness import Harness
    from kbench.harness.kernel.sources import read_kernel
    from kbench.loaders.storage.scratch import temporary_folder

    sizes = parse_shapes(shapes, named(problem_id))
    with temporary_folder() as folder:
        kernel = read_kernel(path, at_shapes(problem_id, sizes, folder).id)
        with Harness(gpu=list(options.gpus)[:1], settings=options.harness) as harness:
            tuned = tune(kernel, sizes, harness, lambda line: click.echo(line, err=as_json))
    written = [str(place) for place in write(tuned, options.out)] if options.out is not None else []
    if as_json:
        best = {size.name: tuned.best(size.name) for size in sizes}
        configs = {name: None if number is None else tuned.configs[number] for name, number in best.items()}
        measured = {"measured": len(tuned.rows), "of": len(sizes) * len(tuned.configs)}
        click.echo(json.dumps({"gpu": tuned.gpu, "best": configs, "files": written} | measured))
    elif written:
        click.echo(f"files: {', '.join(written)}")
    for line in failures(tuned):
        click.echo(f"kbench: {line}", err=True)
    if failures(tuned):
        sys.exit(1)


def watch_file(
    path: Path, problem_id: str, backend: str | None, launch: RawLaunch | None, options: MeasureOptions
) -> None:
    """Measure a file whenever it is saved, and show every version."""
    from kbench.harness.commands.show import describe
    from kbench.harness.commands.watch import watch
    from kbench.harness.kernel.sources import read_kernel

    watch(
        path,
        lambda: read_kernel(path, problem_id, backend, launch),
        problem_id,
        options,
        lambda row, change: describe(path.name, row, problem_id) + change,
        lambda line: click.echo(line, err=True),
    )


def _kernels(
    files: Sequence[Path], problem_id: str | None, backend: str | None, launch: RawLaunch | None
) -> list[tuple[str, KernelSource]]:
    from kbench.benchmark.problems import named
    from kbench.harness.kernel.sources import read_kernels

    if not files:
        raise UserError("no kernel files; give FILES with --problem, or --corpus")
    ids = click.get_current_context().meta.get(STORED_FILES, {})
    kernels = read_kernels(files, named(str(problem_id)).id, backend, launch)
    return [(ids.get(name, name), kernel) for name, kernel in kernels]


@click.command()
@click.argument("one", type=KernelPath(exists=True, path_type=Path, dir_okay=False))
@click.argument("other", type=KernelPath(exists=True, path_type=Path, dir_okay=False))
@click.option("--problem", "problem_id", help=f"What both files solve: {PROBLEM}")
@backend_option
@gpu_option
@click.option("--threshold", default=0.01, show_default=True, type=click.FloatRange(0.0, 1.0, min_open=True),
              help="Relative difference that matters.")  # fmt: skip
@allow_option
@raw_options
@json_option
def compare(one: Path, other: Path, problem_id: str | None, gpu: str, as_json: bool, **settings: Any) -> None:
    """Say whether OTHER is the SAME as, FASTER or SLOWER than ONE, or UNDECIDED: one line per workload.

    Both are files, or ids of kernels of the dataset.
    """
    from kbench.benchmark.problems import named
    from kbench.harness.commands.compare import compare_files
    from kbench.harness.commands.doctor import require_gpus

    gpus, solved = parse_gpus(gpu), named(problem_solved(problem_id))
    require_gpus(gpus, EXPLAIN)
    for comparison in compare_files(one, other, solved.id, gpu=gpus[0], **settings):
        fields = comparison.to_dict()
        click.echo(json.dumps(fields) if as_json else "{workload}  {verdict}  {reason}".format(**fields))


@click.command()
@gpu_option
@click.option("--quick", is_flag=True, help="Do not start workers or measure ceilings.")
@json_option
def doctor(gpu: str, quick: bool, as_json: bool) -> None:
    """Inspect GPU, driver, compilers, clocks and sandbox; exit 1 when nothing can be measured."""
    from kbench.harness.commands.doctor import examine, render

    report = examine(parse_gpus(gpu), measure=not quick)
    click.echo(json.dumps(report) if as_json else render(report))
    if not report["can_measure"]:
        sys.exit(1)


@click.command(short_help="Measure 200 kernels on your GPU, to send them in.")
@gpu_option
@click.option("--out", default="contribution", show_default=True, type=click.Path(path_type=Path),
              help="Folder of the bundle.")  # fmt: skip
@click.option("--deadline", default=600.0, show_default=True, type=click.FloatRange(60.0),
              help="Seconds that it may take; the same command goes on with what is left.")  # fmt: skip
@json_option
def contribute(gpu: str, out: Path, deadline: float, as_json: bool) -> None:
    """Measure 200 anchor kernels and their references on your GPU, check that it repeats itself, write a bundle.

    It takes ten minutes and at most 8 GB. The bundle holds times, the GPU's name and versions of software, nothing
    of yours; `kbench data import` reads it. Exit 1 when kernels are left, or two measurements disagree too much.
    """
    from kbench.harness.commands.contribute import REPEATABLE, measure_anchors
    from kbench.harness.commands.doctor import require_gpus

    gpus = parse_gpus(gpu)
    if len(gpus) > 1:
        raise UserError(f"--gpu is {gpu!r}; contribute measures one GPU at a time, each into its own --out")
    if out.exists():
        raise UserError(f"--out {str(out)!r} exists; send it, or choose another folder")
    require_gpus(gpus, "`kbench doctor` says what is missing")
    done = measure_anchors(gpus[0], out, deadline, quiet=as_json, stage=lambda text: click.echo(f"{text} …", err=True))
    if as_json:
        click.echo(json.dumps(dataclasses.asdict(done)))
    else:
        click.echo(
            f"{done.kernels} kernels and {done.references} references on {', '.join(done.gpus)} in {done.seconds:.0f} s"
        )
        for title, compared in (("measured again", done.repeats), ("against the dataset", done.dataset)):
            figures = ", ".join(f"{name} {value}" for name, value in compared["agreement"].items())
            click.echo(f"{title}: {figures or 'nothing to compare'}")
        for note in done.notes:
            click.echo(f"note: {note}")
    if done.left:
        click.echo(f"kbench: {done.left} kernels are left; the same command goes on with them", err=True)
    elif not done.repeatable:
        limit = f"{100 * REPEATABLE:.0f} %"
        click.echo(f"kbench: two measurements differ by more than {limit}; free the GPU and start again", err=True)
    elif not as_json:
        click.echo(f"bundle: {done.bundle}; docs/add-your-gpu.md says how to send it")
    if done.left or not done.repeatable:
        sys.exit(1)


@click.command(short_help="Time references: eager, compiled and the vendor's.")
@lines_option
@click.option("--problem", "names", multiple=True, help="Only these problems; by default all, retired ones too.")
@click.option("--deadline", type=click.FloatRange(0.0), help="Start no workload after this many seconds; resume later.")
@click.option("--gpu", default=0, show_default=True, help="GPU to time on.")
@click.option("--cpu", is_flag=True, help="Dry run of the tiny workloads on the CPU, without compiling.")
def references(out: Path, names: tuple[str, ...], deadline: float | None, gpu: int, cpu: bool) -> None:
    """Time every reference in eager PyTorch, through torch.compile and as the vendor's call where there is one."""
    from kbench.benchmark.problems.registry import known, named
    from kbench.harness.commands.references import default_compiler, measure_references, open_device

    chosen = [named(name) for name in names] or list(known().values())
    compiler = (lambda call: call) if cpu else default_compiler
    for row in measure_references(chosen, out, open_device(None if cpu else gpu), deadline, compiler):
        click.echo(f"failed  {row}" if isinstance(row, str) else json.dumps(to_dict(row)))


@click.command(short_help="Read hardware counters with Nsight Compute.")
@click.option("--corpus", help="Corpus of the kernels (folder or Hub id); the shipped dataset by default.")
@click.option("--where", default="status == 'ok'", show_default=True, help="Which rows of the corpus.")
@limit_option
@lines_option
@click.option("--deadline", type=click.FloatRange(0.0), help="Start no batch after this many seconds; resume later.")
@click.option("--gpu", default="0", show_default=True, help="GPU to count on.")
def counters(corpus: str | None, where: str, limit: int | None, out: Path, deadline: float | None, gpu: str) -> None:
    """Run kernels once on each workload under Nsight Compute (`ncu`) and record what the hardware counted.

    Bytes of DRAM and L2, occupancy, issue slots and tensor cores. Clocks stay as they are.
    """
    from kbench.harness.commands.counters import count
    from kbench.harness.commands.doctor import require_gpus
    from kbench.harness.commands.selection import select
    from kbench.harness.device.gpu import Gpu

    chosen = Gpu.parse(gpu)
    require_gpus((chosen,), EXPLAIN)
    stored, left_out = select(corpus, where, limit)
    for row in itertools.chain(left_out, count(stored, out, chosen, deadline)):
        click.echo(f"left out  {row}" if isinstance(row, str) else json.dumps(to_dict(row)))
