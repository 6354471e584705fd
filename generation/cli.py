"""`kbench generate`: search for kernels; its commands make a dataset by a recipe, look at runs and study methods."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import click

from kbench.loaders.options import CorpusPath, NearGroup, echo_json, json_option, out_option
from kbench.schemas import InfrastructureError, UserError

if TYPE_CHECKING:
    from kbench.generation.campaign.campaign import CampaignProgress

# Before a command loads numpy: its systems of equations are small, and the cores are busy compiling.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

REPORT_EVERY_S = 2.0
INTERRUPTED = "kbench: interrupted; the same command resumes it"
PATH = click.Path(path_type=Path)
MORE_THAN_0 = click.FloatRange(min=0, min_open=True)


@click.group(
    cls=NearGroup, invoke_without_command=True,
    lazy={"status": "kbench.generation.campaign.status:status",
          "corpus": "kbench.generation.corpus:command",
          "study": "kbench.generation.study.command:command"},
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
    help="genome (the default), rewrite, llm, genome+rewrite, genome+llm or genome+rewrite+llm; with --from-folder: "
    "human (the default) or llm; with --executor replay of a corpus: pool (the default), its kernels.",
)
@click.option("--budget", help="Such as 320 (measurements), 600s (GPU-seconds), 2000000t (tokens), 3600w (wall time).")
@out_option("Run folder; an existing one is resumed.")
@click.option("--seed", default=0, show_default=True, help="Random seed.")
@click.option(
    "--batch", type=click.IntRange(min=1), default=8, show_default=True,
    help="Kernels measured in each step after the first, which measures 8.",
)  # fmt: skip
@click.option("--surrogate", help="Filter candidates by this surrogate's forecasts.")
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
    type=CorpusPath(path_type=Path),
    help="Run folder, corpus or the word shipped, that --executor replay answers from, or none takes the GPU from.",
)
@click.option("--gpu", default="0", show_default=True, help="GPU for --executor local; 0:64 is a partition of 64 SMs.")
@click.option(
    "--half-width", type=MORE_THAN_0, default=0.01, show_default=True,
    help="Relative half-width of a measurement's interval.",
)  # fmt: skip
@click.option("--deadline", type=MORE_THAN_0, help="Stop cleanly after this many seconds; resume later.")
@json_option
@click.pass_context
def generate(ctx: click.Context, /, **options: Any) -> None:
    """Search for kernels and record every step; without a subcommand, run or resume searches."""
    if ctx.invoked_subcommand is not None:
        return
    if options["out"] is None:
        raise UserError("--out is missing; name a folder for the run's log")
    from kbench.generation.campaign.drive import CampaignWaitingError, drive
    from kbench.generation.campaign.plan import planned, refuse_unused
    from kbench.generation.executors.replay import ReplayExecutor

    chosen = SimpleNamespace(**options)
    refuse_unused(ctx, chosen)
    runs, how = planned(chosen, ctx.obj, _reporter())
    try:
        progress = drive(chosen.out, runs, how)
        missing = how.executor.refuse_another_search() if isinstance(how.executor, ReplayExecutor) else None
    except CampaignWaitingError as waiting:
        if chosen.as_json:
            echo_json({"runs": len(runs), **waiting.to_json()})
        raise
    except KeyboardInterrupt:
        click.echo(INTERRUPTED, err=True)
        ctx.exit(130)
    if sys.stderr.isatty():
        click.echo(err=True)
    if chosen.as_json:
        echo_json({"runs": len(runs), **progress.to_json()})
    else:
        click.echo(progress.result())
    if missing:
        click.echo(missing, err=True)
    if progress.halted:
        raise InfrastructureError(
            f"{len(progress.halted)} of {len(runs)} runs cannot go on, the first because of: "
            f"{next(iter(progress.halted.values()))}; fix it and run the same command again"
        )


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
