"""`kbench generate`: search for kernels, look at runs, assemble corpora."""

from __future__ import annotations

import csv
import dataclasses
import functools
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kbench.schemas import InfrastructureError, UserError

if TYPE_CHECKING:
    from kbench.generation.campaign.progress import CampaignProgress

REPORT_EVERY_S = 2.0
MORE_THAN_0 = click.FloatRange(min=0, min_open=True)
AT_LEAST_1 = click.IntRange(min=1)


@click.group(invoke_without_command=True)
@click.option("--problem", "problem_id", help="Problem to search kernels for.")
@click.option("--backend", type=click.Choice(["triton", "cuda"]), help="How the kernels are written.")
@click.option("--method", default="evolve", show_default=True, help="random, hill_climb, evolve or puct.")
@click.option("--proposer", help="genome, rewrite, genome+rewrite or llm; with --from-folder: llm or human.")
@click.option("--budget", help="Such as 320 (measurements), 600s (GPU-seconds), 2000000t (tokens), 3600w (seconds).")
@click.option("--out", type=click.Path(path_type=Path), help="Run folder; an existing one is resumed.")
@click.option("--seed", default=0, show_default=True, help="Random seed.")
@click.option("--seeds", default=8, show_default=True, help="Fresh candidates of the first step.")
@click.option("--batch", default=8, show_default=True, help="Candidates measured in each later step.")
@click.option("--surrogate", help="Filter candidates by this surrogate's forecasts.")
@click.option(
    "--draw", default="4x", show_default=True, help="Candidates drawn for each one measured, with --surrogate."
)
@click.option("--unsure-share", default=0.25, show_default=True, help="Share of places for unsure forecasts.")
@click.option("--confidence", default=0.5, show_default=True, help="A forecast below this confidence is unsure.")
@click.option("--campaign", type=click.Path(path_type=Path), help="JSON file that describes many searches.")
@click.option(
    "--from-folder", type=click.Path(path_type=Path), help="Measure existing kernels <problem>__<backend>__<name>.py."
)
@click.option(
    "--variants", type=click.IntRange(min=0), default=0, show_default=True,
    help="With --from-folder: rewrites searched and measured for each kernel.",
)  # fmt: skip
@click.option(
    "--executor", type=click.Choice(["local", "ray", "replay"]), default="local", show_default=True,
    help="Measure on this machine's GPU, on a Ray cluster's, or answer from --recorded measurements without one.",
)  # fmt: skip
@click.option(
    "--recorded", type=click.Path(path_type=Path), help="Run folder or corpus that --executor replay answers from."
)
@click.option("--gpu", type=click.IntRange(min=0), default=0, show_default=True, help="GPU index for --executor local.")
@click.option(
    "--half-width", type=MORE_THAN_0, default=0.01, show_default=True,
    help="Relative half-width of a measurement's interval.",
)  # fmt: skip
@click.option("--deadline", type=MORE_THAN_0, help="Stop cleanly after this many seconds; resume later.")
@click.option(
    "--order", type=click.Choice(["rounds", "problems"]), default="rounds", show_default=True,
    help="Campaigns: all searches advance evenly, or seeds first and then problem after problem.",
)  # fmt: skip
@click.option("--gpu-seconds", type=MORE_THAN_0, help="Stop cleanly after this many GPU-seconds.")
@click.option(
    "--pack", "pack_to", type=click.Path(path_type=Path),
    help="Afterwards compress the log into this folder; an earlier pack of the same log is replaced.",
)  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
@click.pass_context
def generate(ctx: click.Context, /, **options: Any) -> None:
    """Search for kernels and record every step; without a subcommand, run or resume searches."""
    if ctx.invoked_subcommand is None:
        _run(ctx, options)


def _run(ctx: click.Context, options: dict[str, Any]) -> None:
    from kbench.generation.campaign.drive import Drive, drive
    from kbench.generation.campaign.options import refuse_unused
    from kbench.generation.campaign.plan import chosen_executor, planned_runs
    from kbench.generation.log.pack import check_target
    from kbench.generation.search.question import surrogate_named

    if options["out"] is None:
        raise UserError("--out is missing; name a folder for the run's log")
    refuse_unused(ctx)
    # Small systems of equations on a machine whose cores are busy compiling: more threads only wait for each other.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    runs, proposer_for = planned_runs(options)
    how = Drive(
        executor=chosen_executor(options),
        deadline_s=options["deadline"],
        gpu_seconds=options["gpu_seconds"],
        proposer_for=proposer_for,
        surrogate_for=functools.partial(surrogate_named, compiler=ctx.obj),
        report=_reporter(),
        order=options["order"],
    )
    if options["pack_to"] is not None:
        check_target(options["out"], options["pack_to"])
    progress = drive(options["out"], runs, how)
    if sys.stderr.isatty():
        click.echo(err=True)
    pack = functools.partial(_pack, options)
    if options["as_json"]:
        _tell_json(progress, len(runs), pack)
    else:
        _tell(progress, pack)
    if progress.halted:
        raise InfrastructureError(
            f"{len(progress.halted)} of {len(runs)} runs cannot go on, the first because of: "
            f"{next(iter(progress.halted.values()))}; mend it and run the same command again"
        )


def _pack(options: dict[str, Any]) -> list[Path]:
    from kbench.generation.log.pack import pack

    return pack(options["out"], options["pack_to"]) if options["pack_to"] is not None else []


def _tell(progress: CampaignProgress, pack: Callable[[], list[Path]]) -> None:
    # What was found is told first: packing takes a while, and may fail.
    click.echo(progress.result())
    for path in pack():
        click.echo(f"packed {path} ({path.stat().st_size / 2**20:.1f} MiB)")


def _tell_json(progress: CampaignProgress, runs: int, pack: Callable[[], list[Path]]) -> None:
    packed: list[Path] = []
    try:
        packed = pack()
    finally:  # one object for all, told even when packing fails
        summary = {
            "runs": runs, "measured": progress.measured, "ok": progress.ok,
            "best_speedup": progress.best or None, "failures": dict(progress.failures), "reused": progress.reused,
            "lost": progress.lost, "failed_forecasts": progress.failed_forecasts,
            "forecast_failure": progress.forecast_failure, "halted": progress.halted,
            "gpu_seconds": progress.gpu_seconds, "kernels_per_s": progress.rate,
            "packed": [{"file": str(path), "bytes": path.stat().st_size} for path in packed],
        }  # fmt: skip
        click.echo(json.dumps(summary))


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
@click.argument("run", type=click.Path(exists=True, path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print as JSON.")
def status(run: Path, as_json: bool) -> None:
    """Show what the runs in a folder have found and spent."""
    from kbench.generation.campaign.report import render, summaries

    rows = summaries(run)
    click.echo(json.dumps(rows) if as_json else render(rows))


@generate.command(short_help="Merge run logs into a corpus.")
@click.argument("runs", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path))
@click.option("--out", required=True, type=click.Path(path_type=Path), help="Corpus folder to write.")
@click.option(
    "--repeats", multiple=True, type=click.Path(exists=True, path_type=Path),
    help="Corpus of measurements made again, by kbench measure --corpus; may be given several times.",
)  # fmt: skip
@click.option(
    "--corrections", multiple=True, type=click.Path(exists=True, path_type=Path),
    help="The same, of kernels whose logged figures are wrong: these take their place.",
)  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print the ledger as JSON.")
def assemble(
    runs: tuple[Path, ...], out: Path, repeats: tuple[Path, ...], corrections: tuple[Path, ...], as_json: bool
) -> None:
    """Merge run logs into a corpus: kernels, measurements, repeats, problems, pairs, environments, events."""
    from kbench.generation.assembly.assemble import assemble as build

    ledger = build(runs, out, repeats, corrections)
    click.echo(json.dumps(ledger.to_json()) if as_json else ledger.text())


@generate.command(short_help="Replay every method on recorded pools.")
@click.argument("corpus", type=click.Path(exists=True, path_type=Path))
@click.option(
    "--out", required=True, type=click.Path(path_type=Path), help="Folder for points.csv, table.md, plot.png."
)
@click.option("--seeds", type=AT_LEAST_1, default=20, show_default=True, help="Searches of each method on each pool.")
@click.option("--budget", type=AT_LEAST_1, default=32, show_default=True, help="Measurements of each search.")
@click.option("--batch", type=AT_LEAST_1, default=4, show_default=True, help="Measurements a step.")
@click.option("--least", type=AT_LEAST_1, default=48, show_default=True, help="Fewest kernels of a pool.")
@click.option("--pools", type=AT_LEAST_1, default=24, show_default=True, help="Pools to take, spread over problems.")
@click.option("--json", "as_json", is_flag=True, help="Print the points as JSON.")
def study(corpus: Path, out: Path, as_json: bool, **options: int) -> None:
    """Replay every method on recorded pools: best speedup found against measurements spent."""
    from kbench.generation.study import study as replay

    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    found = replay.pools_in(corpus, options["least"], options["pools"])
    points = replay.study(
        found, seeds=options["seeds"], budget=options["budget"], batch=options["batch"],
        report=lambda text: click.echo(text, err=True),
    )  # fmt: skip
    out.mkdir(parents=True, exist_ok=True)
    rows = [dataclasses.asdict(point) for point in points]
    with (out / "points.csv").open("w", newline="", encoding="utf-8") as stream:
        writer = csv.DictWriter(stream, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    shown = [*(n for n in (8, 16, 32, 64, 128) if n < options["budget"]), options["budget"]]
    text = replay.table(points, shown)
    (out / "table.md").write_text(text + "\n", encoding="utf-8")
    replay.plot(points, out / "plot.png")
    click.echo(json.dumps(rows) if as_json else text)
