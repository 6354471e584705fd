"""`kbench generate study`."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import click
from click.core import ParameterSource

from kbench.generation.log import found_files
from kbench.generation.proposers.pool import LIVE, pools_in
from kbench.generation.study.report import POINTS, write_study
from kbench.generation.study.study import METHODS, study, study_of_runs
from kbench.generation.study.trials import parts_of
from kbench.loaders.options import CorpusPath, echo_json, json_option, out_option
from kbench.schemas import UserError

AT_LEAST_1 = click.IntRange(min=1)


@click.command("study", short_help="Compare methods: replayed on recorded pools, or in run folders.")
@click.argument(
    "places", metavar="CORPUS|RUN...", nargs=-1, required=True, type=CorpusPath(exists=True, path_type=Path)
)
@out_option("New folder for points.csv, searches.csv, table.md, plot.png.", required=True)
@click.option("--seeds", type=AT_LEAST_1, default=20, show_default=True, help="Searches per method and pool.")
@click.option("--budget", type=AT_LEAST_1, default=16, show_default=True, help="Measurements per search.")
@click.option("--least", type=AT_LEAST_1, default=48, show_default=True, help="Smallest pool to use, in kernels.")
@click.option("--pools", type=AT_LEAST_1, default=24, show_default=True, help="Pools to use, spread over problems.")
@click.option("--problem", "problems", multiple=True, help="Only pools of this problem. Repeatable.")
@click.option("--backend", "backends", multiple=True, help="Only pools of this backend. Repeatable.")
@click.option(
    "--live", is_flag=True, help="Larger pools: all kernels of searches on a GPU (config live), of test problems."
)
@click.option("--split", help="Only kernels of this split: test for surrogates that learned from training problems.")
@click.option(
    "--methods",
    help="Comma-separated, the baseline first: NAME or FILE.py[:NAME]; NAME+SURROGATE filters by that surrogate's "
    "forecasts. By default all built-in ones, two of them also with `online`.",
)
@click.option(
    "--unsure-share", type=click.FloatRange(0, 1), default=0.25, show_default=True, help="Share of unsure forecasts."
)
@json_option
def command(
    places: tuple[Path, ...], out: Path, seeds: int, budget: int, least: int, pools: int, problems: tuple[str, ...],
    backends: tuple[str, ...], live: bool, split: str | None, methods: str | None, unsure_share: float, as_json: bool,
) -> None:  # fmt: skip
    """Replay methods on recorded pools: best speedup found against measurements spent.

    CORPUS is a folder, or the word shipped. Fresh draws are kernels recorded without a parent. Imported parameter
    spaces are searched by their parameters. Files are written when all pools are done; a stopped study keeps none.

    Run folders are compared as they are: the searches in their logs, and nothing is replayed.
    """
    if (out / POINTS).exists():
        raise UserError(f"--out {str(out)!r} holds a study already; name a new folder, or remove that one")
    names = None if methods is None else methods.split(",")
    if any(map(found_files, places)):
        context = click.get_current_context()
        for name in ("seeds", "budget", "least", "pools", "live", "split", "unsure_share"):
            if context.get_parameter_source(name) is not ParameterSource.DEFAULT:
                raise UserError(f"--{name.replace('_', '-')} changes nothing for searches that were made; leave it out")
        result = study_of_runs(places, names, problems, backends)
    elif len(places) > 1:
        raise UserError(f"{str(places[1])!r} is one corpus too many; name one, or run folders")
    else:
        replayed = METHODS if names is None else names
        for name in replayed:
            parts_of(name)
        recorded = pools_in(places[0], least, pools, problems, backends, split, LIVE if live else "kernels")
        out.mkdir(parents=True, exist_ok=True)  # where that is refused, no minute has passed
        result = study(
            recorded, methods=replayed, seeds=seeds, budget=budget, unsure_share=unsure_share,
            report=lambda text: click.echo(text, err=True),
        )  # fmt: skip
    text = write_study(result, out)
    echo_json([dataclasses.asdict(point) for point in result.points]) if as_json else click.echo(text)
