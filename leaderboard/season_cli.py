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
    from kbench.benchmark.questions.asked import Tables
    from kbench.benchmark.surrogates.protocol import Compiler

season_argument = click.argument("season", callback=lambda context, argument, text: season_folder(text))


def season_folder(text: str) -> Path:
    """The folder of a season: a path, or the name of one beside the shipped seasons.

    Raises:
        UserError: it cannot be the name of a season.
    """
    from kbench.leaderboard.season_record import SEASONS

    path = Path(text)
    if not re.fullmatch("[a-z0-9][a-z0-9-]{0,63}", path.name):
        raise UserError(f"SEASON is {text!r}; use lower-case letters, digits and dashes, such as 2026-spring")
    return SEASONS / path if path.name == text else path


def _dataset(dataset: str | None) -> Tables:
    """What surrogates learn from."""
    from kbench.benchmark.questions.corpus_view import benchmark_of
    from kbench.loaders.corpus.corpus import Corpus

    return benchmark_of(Corpus.open(dataset, verified=True))


def _now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)


@click.group(cls=NearGroup)
def season() -> None:
    """Forecast kernels that nobody has measured yet.

    `open` publishes queries, `forecast` answers them, `enter` freezes a submission, and `close` labels the queries with
    measurements that were made afterwards and scores the entries. SEASON is a name, or the path of a folder.
    """


@season.command("open", short_help="Publish queries about kernels without measurements.")
@season_argument
@click.argument("kernels", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--proposer", default="human", show_default=True, help="Who wrote the kernels, where they are files.")
@click.option("--gpu", default="NVIDIA H200", show_default=True, help="The GPU asked about, as its driver names it.")
@dataset_option
@json_option
def open_command(season: Path, kernels: Path, proposer: str, gpu: str, dataset: str | None, as_json: bool) -> None:
    """Publish queries about KERNELS that nobody has measured, with their fingerprint and the date.

    KERNELS is a corpus, or a folder of files named <problem>__<backend>__<name>.py. None may have a public relative:
    a kernel of the dataset, its live studies or earlier seasons that it equals, comes from or resembles.
    """
    from kbench.leaderboard.season import open_season, proposed_kernels
    from kbench.schemas import to_dict

    proposed = proposed_kernels(kernels, proposer, f"season-{season.name}")
    record = open_season(season, proposed, _dataset(dataset), gpu, _now())
    if as_json:
        echo_json({"path": str(season), **to_dict(record)})
    else:
        opened = f"{record.queries:,} queries about {record.kernels:,} kernels, fingerprint {record.fingerprint}"
        click.echo(f"{season}: {opened}, opened {record.opened_at}")


@season.command(short_help="Forecast a season's queries with a surrogate.")
@season_argument
@click.option("--surrogate", required=True, help="As `kbench evaluate` takes it.")
@click.option("--surrogate-arg", "pairs", multiple=True, metavar="K=V", help="Argument of the surrogate. Repeatable.")
@out_option("Folder for the submission.", required=True)
@dataset_option
@json_option
@click.pass_obj
def forecast(
    compiler: Compiler | None,
    season: Path,
    surrogate: str,
    pairs: tuple[str, ...],
    out: Path,
    dataset: str | None,
    as_json: bool,
) -> None:
    """Forecast a season's queries with a surrogate and write its submission."""
    from kbench.benchmark.cli import parse_arguments
    from kbench.benchmark.evaluate.evaluate import evaluate_on
    from kbench.benchmark.evaluate.folder import write_folder
    from kbench.benchmark.evaluate.options import Options
    from kbench.benchmark.surrogates.resolve import locate
    from kbench.leaderboard.season import season_corpus, season_questions
    from kbench.leaderboard.season_record import read_season
    from kbench.leaderboard.submission.archive import FORECAST_FILES, METADATA_FILE
    from kbench.loaders.storage.atomic import replace_together
    from kbench.loaders.storage.scratch import temporary_folder

    locate(surrogate)
    record = read_season(season)
    corpus = season_corpus(season, record, _dataset(dataset))
    questions = season_questions(corpus, record)
    # One resample: there is nothing to score yet.
    options = Options(resamples=1, arguments=parse_arguments(pairs))
    made = evaluate_on(surrogate, corpus, options, questions=questions, compiler=compiler)
    with temporary_folder() as scratch:
        files = write_folder(made, scratch)
        replace_together(out, {name: files[name].read_bytes() for name in (METADATA_FILE, FORECAST_FILES[0])})
    echo_json({"path": str(out), "queries": len(questions.queries)}) if as_json else click.echo(str(out))


@season.command(short_help="Freeze a submission in an open season.")
@season_argument
@click.argument("submission", type=click.Path(exists=True, path_type=Path))
@json_option
def enter(season: Path, submission: Path, as_json: bool) -> None:
    """Copy a submission into an open season and record its digest and the date; it cannot be changed afterwards."""
    from kbench.leaderboard.season import enter_season
    from kbench.schemas import to_dict

    entry = enter_season(season, submission, _now())
    text = f"{entry.entry_id}: entered {entry.entered_at}, {entry.digest}"
    echo_json(to_dict(entry)) if as_json else click.echo(text)


@season.command(short_help="Label, score and publish.")
@season_argument
@click.option(
    "--measurements", required=True, help="Corpus that `kbench measure --corpus` made of the season's kernels."
)
@dataset_option
@json_option
def close(season: Path, measurements: str, dataset: str | None, as_json: bool) -> None:
    """Label the queries with measurements, score the entries and publish both.

    Entries that changed since they entered, or entered after measuring began, are refused; the exit code is then 1.
    """
    from kbench.leaderboard.scoring.results import summary
    from kbench.leaderboard.season import close_season
    from kbench.leaderboard.season_record import read_season
    from kbench.loaders.corpus.corpus import Corpus
    from kbench.schemas import to_dict

    read_season(season, to_change=True)
    measured = Corpus.open(measurements, verified=True)
    record, results = close_season(
        season, measured, _dataset(dataset), _now(), tell=lambda entry: click.echo(f"scoring {entry} …", err=True)
    )
    assert record.closing is not None
    if as_json:
        echo_json({"path": str(season), "scored": [result.entry_id for result in results], **to_dict(record)})
    else:
        for result in results:
            click.echo(summary(result))
    for reason in record.closing.refused:
        click.echo(f"kbench: refused: {reason}", err=True)
    if record.closing.refused:
        sys.exit(1)
