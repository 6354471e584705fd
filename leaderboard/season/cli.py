"""`kbench leaderboard season`: open a season, enter it, close it."""

from __future__ import annotations

import datetime
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kbench.loaders.options import NearGroup, dataset_option, echo_json, json_option, out_option
from kbench.schemas import UserError

if TYPE_CHECKING:
    from kbench.benchmark.surrogates.protocol import Compiler
    from kbench.benchmark.tasks.asked import Tables

name_argument = click.argument("name")
seasons_option = click.option(
    "--seasons", type=click.Path(file_okay=False, path_type=Path), help="Folder of seasons; the shipped one by default."
)


@click.group(cls=NearGroup)
def season() -> None:
    """Forecast kernels that nobody has measured yet.

    `open` publishes queries, `forecast` answers them, `enter` freezes a submission, and `close` labels the queries with
    measurements that were made afterwards and scores the entries.
    """


def _folder(seasons: Path | None, name: str) -> Path:
    from kbench.leaderboard.season.life import SEASONS

    if not re.fullmatch("[a-z0-9][a-z0-9-]{0,63}", name):
        raise UserError(f"NAME is {name!r}; use lower-case letters, digits and dashes, such as 2026-spring")
    return (seasons or SEASONS) / name


def _dataset(dataset: str | None) -> Tables:
    from kbench.benchmark.tasks.versions import benchmark_of
    from kbench.loaders.corpus.corpus import Corpus

    return benchmark_of(Corpus.open(dataset, verified=True))


def _now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)


@season.command("open", short_help="Publish queries about kernels without measurements.")
@name_argument
@click.option(
    "--from-folder",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Kernels named <problem>__<backend>__<name>.py.",
)
@click.option("--from-corpus", help="Corpus folder of kernels that nobody has measured.")
@click.option("--proposer", default="human", show_default=True, help="Who wrote the kernels of --from-folder.")
@click.option("--gpu", default="NVIDIA H200", show_default=True, help="The GPU asked about, as its driver names it.")
@click.option("--skip-known", is_flag=True, help="Leave out kernels that the dataset knows, instead of refusing.")
@dataset_option
@seasons_option
@json_option
def open_(
    name: str,
    from_folder: Path | None,
    from_corpus: str | None,
    proposer: str,
    gpu: str,
    skip_known: bool,
    dataset: str | None,
    seasons: Path | None,
    as_json: bool,
) -> None:
    """Publish queries about kernels that nobody has measured, with their fingerprint and the date."""
    from kbench.leaderboard.season import sources
    from kbench.leaderboard.season.life import open_season
    from kbench.loaders.corpus.corpus import Corpus
    from kbench.schemas import to_dict

    folder = _folder(seasons, name)
    if (from_folder is None) == (from_corpus is None):
        raise UserError("give the kernels with one of --from-folder and --from-corpus")
    if from_folder is not None:
        kernels = sources.from_folder(from_folder, proposer, f"season-{name}")
    else:
        kernels = sources.from_corpus(Corpus.open(from_corpus))
    base = _dataset(dataset)
    kept, refused = sources.fresh(kernels, base)
    sources.check_fresh(kept, refused, skip_known)
    made = open_season(folder, kept, base, gpu, _now())
    for one in refused:
        click.echo(f"kbench: left out: {one}", err=True)
    if as_json:
        echo_json({"path": str(folder), "left_out": len(refused), **to_dict(made)})
    else:
        said = f"{made.queries:,} queries about {made.kernels:,} kernels, fingerprint {made.fingerprint}"
        click.echo(f"{folder}: {said}, opened {made.opened_at}")


@season.command(short_help="Forecast a season's queries with a surrogate.")
@name_argument
@click.option("--surrogate", required=True, help="As `kbench evaluate` takes it.")
@out_option("Folder for the submission.", required=True)
@dataset_option
@seasons_option
@json_option
@click.pass_obj
def forecast(
    compiler: Compiler | None,
    name: str,
    surrogate: str,
    out: Path,
    dataset: str | None,
    seasons: Path | None,
    as_json: bool,
) -> None:
    """Forecast a season's queries with a surrogate and write its submission."""
    from kbench.leaderboard.baselines import write_submission
    from kbench.leaderboard.season.life import corpus_of, questions_of
    from kbench.leaderboard.season.record import read_season

    folder, base = _folder(seasons, name), _dataset(dataset)
    record = read_season(folder)
    asked = questions_of(folder, record, base)
    write_submission(surrogate, corpus_of(folder, record, base), asked, out, compiler)
    echo_json({"path": str(out), "queries": len(asked.queries)}) if as_json else click.echo(str(out))


@season.command(short_help="Freeze a submission in an open season.")
@name_argument
@click.argument("submission", type=click.Path(path_type=Path))
@seasons_option
@json_option
def enter(name: str, submission: Path, seasons: Path | None, as_json: bool) -> None:
    """Copy a submission into an open season and record its digest and the date; it cannot be changed afterwards."""
    from kbench.leaderboard.season.life import enter as enter_season
    from kbench.schemas import to_dict

    entry = enter_season(_folder(seasons, name), submission, _now())
    echo_json(to_dict(entry)) if as_json else click.echo(
        f"{entry.entry_id}: entered {entry.entered_at}, {entry.digest}"
    )


@season.command(short_help="Label, score and publish.")
@name_argument
@click.option(
    "--measurements", required=True, help="Corpus that `kbench measure --corpus` made of the season's kernels."
)
@click.option("--resamples", type=click.IntRange(min=1), default=2000, show_default=True, help="Bootstrap resamples.")
@dataset_option
@seasons_option
@json_option
def close(
    name: str, measurements: str, resamples: int, dataset: str | None, seasons: Path | None, as_json: bool
) -> None:
    """Label the queries with measurements, score the entries and publish both.

    Entries that changed since they entered, or entered after measuring began, are refused; the exit code is then 1.
    """
    from kbench.benchmark.scoring.score import BootstrapSettings
    from kbench.leaderboard.scoring.results import summary
    from kbench.leaderboard.season.life import close as close_season
    from kbench.loaders.corpus.corpus import Corpus
    from kbench.schemas import to_dict

    settings, folder = BootstrapSettings(resamples=resamples), _folder(seasons, name)
    made, results = close_season(
        folder, Corpus.open(measurements, verified=True), _dataset(dataset), _now(), settings,
        lambda entry: click.echo(f"scoring {entry} …", err=True),
    )  # fmt: skip
    assert made.closing is not None
    if as_json:
        echo_json({"path": str(folder), "scored": [result.entry_id for result in results], **to_dict(made)})
    else:
        for result in results:
            click.echo(summary(result))
    for reason in made.closing.refused:
        click.echo(f"kbench: refused: {reason}", err=True)
    if made.closing.refused:
        sys.exit(1)
