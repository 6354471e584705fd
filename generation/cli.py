"""`kbench generate`: search for kernels, look at runs, assemble corpora, study methods."""

from __future__ import annotations

import dataclasses
import functools
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from kbench.benchmark.problems.registry import named
from kbench.generation.campaign.options import GenerateOptions, refuse_unused
from kbench.generation.campaign.progress import CampaignProgress
from kbench.generation.log.pack import check_target, pack
from kbench.loaders.options import NearGroup, dataset_option, echo_json, json_option, out_option
from kbench.schemas import InfrastructureError, UserError

REPORT_EVERY_S = 2.0
PATH = click.Path(path_type=Path)
EXISTING = click.Path(exists=True, path_type=Path)
MORE_THAN_0 = click.FloatRange(min=0, min_open=True)
AT_LEAST_1 = click.IntRange(min=1)


@click.group(
    cls=NearGroup, invoke_without_command=True,
    lazy={"report": "kbench.generation.study.report:report",
          "proposed": "kbench.generation.assembly.proposed:proposed"},
)  # fmt: skip
@click.option(
    "--problem", "problem_id", help="Problem to search kernels for: an id, or a file or folder that defines a problem."
)
@click.option("--backend", type=click.Choice(["triton", "cuda"]), help="How the kernels are written.")
@click.option(
    "--method", default="evolve", show_default=True, help="random, hill_climb, evolve, puct, bayes, or FILE.py[:NAME]."
)
@click.option(
    "--proposer",
    help="genome, rewrite, llm, genome+rewrite, genome+llm or genome+rewrite+llm; with --from-folder: llm or human.",
)
@click.option("--budget", help="Such as 320 (measurements), 600s (GPU-seconds), 2000000t (tokens), 3600w (wall time).")
@out_option("Run folder; an existing one is resumed.")
@click.option("--seed", default=0, show_default=True, help="Random seed.")
@click.option("--seeds", default=8, show_default=True, help="Fresh candidates in the first step.")
@click.option("--batch", default=8, show_default=True, help="Candidates measured in each later step.")
@click.option("--surrogate", help="Filter candidates by this surrogate's forecasts.")
@click.option(
    "--draw", default="4x", show_default=True, help="Candidates drawn for each one measured, with --surrogate."
)
@click.option("--unsure-share", default=0.25, show_default=True, help="Share of measurements for unsure forecasts.")
@click.option("--confidence", default=0.5, show_default=True, help="A forecast below this confidence is unsure.")
@click.option("--campaign", type=PATH, help="JSON file that describes many searches.")
@click.option("--from-folder", type=PATH, help="Measure existing kernels <problem>__<backend>__<name>.py.")
@click.option(
    "--variants", type=click.IntRange(min=0), default=0, show_default=True,
    help="With --from-folder: rewrites searched and measured for each kernel.",
)  # fmt: skip
@click.option(
    "--executor", type=click.Choice(["local", "ray", "replay", "none"]), default="local", show_default=True,
    help="Measure on this machine's GPU or a Ray cluster's, answer from --recorded measurements, or measure "
    "nothing: propose kernels and write a language model's requests for the GPU of --recorded.",
)  # fmt: skip
@click.option(
    "--recorded",
    type=PATH,
    help="Run folder or corpus that --executor replay answers from, or none takes the GPU from.",
)
@click.option("--gpu", default="0", show_default=True, help="GPU for --executor local; 0:64 is a partition of 64 SMs.")
@click.option(
    "--half-width", type=MORE_THAN_0, default=0.01, show_default=True,
    help="Relative half-width of a measurement's interval.",
)  # fmt: skip
@click.option("--deadline", type=MORE_THAN_0, help="Stop cleanly after this many seconds; resume later.")
@click.option(
    "--order", type=click.Choice(["rounds", "problems"]), default="rounds", show_default=True,
    help="Campaigns: advance all searches evenly, or first all seeds and then one problem after another.",
)  # fmt: skip
@click.option("--gpu-seconds", type=MORE_THAN_0, help="Stop cleanly after this many GPU-seconds.")
@click.option(
    "--pack", "pack_to", type=PATH,
    help="Afterwards compress the log into this folder; an earlier pack of the same log is replaced.",
)  # fmt: skip
@json_option
@click.pass_context
def generate(ctx: click.Context, /, **options: Any) -> None:
    """Search for kernels and record every step; without a subcommand, run or resume searches."""
    if ctx.invoked_subcommand is None:
        _run(ctx, GenerateOptions(**options))


def _use_one_blas_thread() -> None:
    """Before numpy loads: its systems of equations are small, and the cores are busy compiling."""
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


def _run(ctx: click.Context, options: GenerateOptions) -> None:
    if options.out is None:
        raise UserError("--out is missing; name a folder for the run's log")
    refuse_unused(ctx, options)
    _use_one_blas_thread()
    from kbench.generation.campaign.drive import Drive, drive
    from kbench.generation.campaign.exchange import CampaignWaitingError
    from kbench.generation.campaign.plan import chosen_executor, planned_runs
    from kbench.generation.executors.replay import ReplayExecutor
    from kbench.generation.search.guidance.question import guide_named

    runs, proposer_for = planned_runs(options)
    executor = chosen_executor(options)
    how = Drive(
        executor=executor,
        deadline_s=options.deadline,
        gpu_seconds=options.gpu_seconds,
        proposer_for=proposer_for,
        surrogate_for=functools.partial(guide_named, compiler=ctx.obj),
        report=_reporter(),
        order=options.order,
        measure=options.executor != "none",
    )
    if options.pack_to is not None:
        check_target(options.out, options.pack_to)
    try:
        progress = drive(options.out, runs, how)
    except CampaignWaitingError as waiting:
        _finish(options.out, options, waiting.to_json(), len(runs))
        raise
    if sys.stderr.isatty():
        click.echo(err=True)
    if not options.as_json:
        click.echo(progress.result())
    _finish(options.out, options, progress.to_json(), len(runs))
    if isinstance(executor, ReplayExecutor) and (told := executor.told()):
        if not progress.measured:
            raise UserError(
                f"nothing was replayed: {told}; name the recording of these searches, or use `generate study`"
            )
        click.echo(told, err=True)
    if progress.halted:
        raise InfrastructureError(
            f"{len(progress.halted)} of {len(runs)} runs cannot go on, the first because of: "
            f"{next(iter(progress.halted.values()))}; fix it and run the same command again"
        )


def _finish(out: Path, options: GenerateOptions, found: dict[str, Any], runs: int) -> None:
    """Pack the log where asked to, and say what was found even when packing fails."""
    packed: list[Path] = []
    try:
        packed = pack(out, options.pack_to) if options.pack_to is not None else []
    finally:
        if options.as_json:
            files = [{"file": str(path), "bytes": path.stat().st_size} for path in packed]
            echo_json({"runs": runs, **found, "packed": files})
    if not options.as_json:
        for path in packed:
            click.echo(f"packed {path} ({path.stat().st_size / 2**20:.1f} MiB)")


def _reporter() -> Callable[[CampaignProgress], None]:
    last = time.monotonic()
    ending = "\r" if sys.stderr.isatty() else "\n"
    every = REPORT_EVERY_S if sys.stderr.isatty() else 10 * REPORT_EVERY_S

    def report(progress: CampaignProgress) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last >= every:
            last = now
            click.echo(progress.line() + ending, nl=False, err=True)

    return report


@generate.command()
@click.argument("run", type=EXISTING)
@json_option
def status(run: Path, as_json: bool) -> None:
    """Show what the runs in a folder have found and spent."""
    from kbench.generation.campaign.report import render, summaries

    rows = summaries(run)
    if as_json:
        echo_json([dataclasses.asdict(row) for row in rows])
    else:
        click.echo(render(rows))


@generate.command(short_help="Merge run logs into a corpus.")
@click.argument("runs", nargs=-1, required=True, type=EXISTING)
@out_option("Corpus folder to write.", required=True)
@click.option(
    "--repeats", multiple=True, type=EXISTING,
    help="Corpus of measurements made again, by kbench measure --corpus; may be given several times.",
)  # fmt: skip
@click.option(
    "--corrections", multiple=True, type=EXISTING,
    help="Corpus of measurements that replace wrong logged figures, or a .jsonl file of verdicts. Repeatable.",
)  # fmt: skip
@click.option(
    "--plans", multiple=True, type=EXISTING,
    help="Records of planned kernels (.jsonl, .jsonl.xz), for the config plans; may be given several times.",
)  # fmt: skip
@click.option(
    "--other-gpus", multiple=True, type=EXISTING,
    help="Corpus of these kernels measured on another GPU, by kbench measure --corpus; may be given several times.",
)  # fmt: skip
@click.option(
    "--references", multiple=True, type=EXISTING,
    help="Reference times of `kbench problems references`, for the config references; may be given several times.",
)  # fmt: skip
@click.option(
    "--counters", multiple=True, type=EXISTING,
    help="Hardware counters of `kbench kernels counters`, for the config counters; may be given several times.",
)  # fmt: skip
@click.option(
    "--samples", type=EXISTING, help="Corpus with the texts and samples that the logs and other corpora leave out.",
)  # fmt: skip
@click.option("--problem", "problems", multiple=True, help="File or folder of a problem of yours that was searched.")
@json_option
def assemble(
    runs: tuple[Path, ...],
    out: Path,
    repeats: tuple[Path, ...],
    corrections: tuple[Path, ...],
    plans: tuple[Path, ...],
    other_gpus: tuple[Path, ...],
    references: tuple[Path, ...],
    counters: tuple[Path, ...],
    samples: Path | None,
    problems: tuple[str, ...],
    as_json: bool,
) -> None:
    """Merge run logs into a corpus: kernels, measurements, repeats, plans, problems, pairs, environments, events."""
    from kbench.generation.assembly.assemble import assemble as assemble_runs

    for name in problems:
        named(name)
    ledger = assemble_runs(runs, out, repeats, corrections, plans, other_gpus, references, counters, samples)
    if as_json:
        echo_json(ledger.to_json())
    else:
        click.echo(ledger.text())


@generate.command(short_help="Replay every method on recorded pools.")
@click.argument("corpus", type=EXISTING)
@out_option("Folder for points.csv, table.md, plot.png.", required=True)
@click.option("--seeds", type=AT_LEAST_1, default=20, show_default=True, help="Searches per method and pool.")
@click.option("--budget", type=AT_LEAST_1, default=32, show_default=True, help="Measurements per search.")
@click.option("--batch", type=AT_LEAST_1, default=4, show_default=True, help="Measurements per step.")
@click.option("--least", type=AT_LEAST_1, default=48, show_default=True, help="Smallest pool to use, in kernels.")
@click.option("--pools", type=AT_LEAST_1, default=24, show_default=True, help="Pools to use, spread over problems.")
@click.option("--methods", help="Comma-separated, the baseline first; NAME+surrogate, FILE.py[:NAME]. All by default.")
@click.option("--unsure-share", default=0.0, show_default=True, help="Share of measurements for unsure forecasts.")
@json_option
def study(
    corpus: Path, out: Path, seeds: int, budget: int, batch: int, least: int, pools: int, methods: str | None,
    unsure_share: float, as_json: bool,
) -> None:  # fmt: skip
    """Replay methods on recorded pools: best speedup found against measurements spent.

    Fresh draws are kernels recorded without a parent. Imported parameter spaces are searched by their parameters.
    """
    _use_one_blas_thread()
    from kbench.generation.study.figures import write_study
    from kbench.generation.study.pool import pools_in
    from kbench.generation.study.study import METHODS
    from kbench.generation.study.study import study as study_methods

    points = study_methods(
        pools_in(corpus, least, pools), methods=methods.split(",") if methods else METHODS, seeds=seeds, budget=budget,
        batch=batch, unsure_share=unsure_share,
        report=lambda text: click.echo(text, err=True),
    )  # fmt: skip
    text = write_study(points, out)
    if as_json:
        echo_json([dataclasses.asdict(point) for point in points])
    else:
        click.echo(text)


@generate.command(short_help="Compile training kernels for their instruction mixes.")
@dataset_option
@out_option("Table to complete; the shipped one by default.")
@click.option("--capability", default="9.0", show_default=True, help="Compute capability to compile for.")
@click.option("--minutes", type=MORE_THAN_0, help="Start no batch after this long; all kernels by default.")
def mixes(dataset: str | None, out: Path | None, capability: str, minutes: float | None) -> None:
    """Compile the training kernels and keep their instruction mixes for the `static` surrogate.

    Kernels already in the table are not compiled again.
    """
    from kbench.benchmark.surrogates.static.training.mixes import MIXES_FILE
    from kbench.generation.assembly.mixes import compile_mixes
    from kbench.loaders.corpus.corpus import Corpus

    began = time.monotonic()
    for done, of in compile_mixes(Corpus.open(dataset), out or MIXES_FILE, capability):
        click.echo(f"{done:,} of {of:,} kernels", err=True)
        if minutes is not None and time.monotonic() - began > 60 * minutes:
            break
