"""`kbench leaderboard`: check, score and publish submissions; export queries."""

from __future__ import annotations

import dataclasses
import functools
import json
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kbench.benchmark.evaluate.options import Options, options_of
from kbench.loaders.options import NearGroup, dataset_option, echo_json, json_option, out_option
from kbench.schemas import UserError

if TYPE_CHECKING:
    from kbench.benchmark.questions import Questions
    from kbench.leaderboard.submission.forecast_rows import Expected

CACHE = Path("build") / "leaderboard"
SMALL = 2000
"""Questions that are scored before another process has started."""

existing_path = click.Path(exists=True, path_type=Path)
"""A path that is wrong is refused before a corpus is read, which takes seconds."""
paths_argument = click.argument("paths", nargs=-1, required=True, type=existing_path)
labels_option = click.option(
    "--labels", type=existing_path, help="Private labels instead of a corpus, or answers to a private edition."
)
resamples_option = click.option(
    "--resamples", type=click.IntRange(min=1), default=2000, show_default=True, help="Bootstrap resamples."
)


def load_questions(options: Options, labels: Path | None) -> tuple[Questions, Expected]:
    """The questions that a command is about, of a corpus or of private labels, and what a submission must answer."""
    from kbench.benchmark.questions.answers import read_answers
    from kbench.leaderboard.board import expected_of
    from kbench.leaderboard.submission.labels import read_labels

    answers = None if labels is None else read_answers(labels)
    if labels is not None and answers is None:
        questions = read_labels(labels)
        return questions, expected_of(questions)
    corpus = options.corpus(answers)
    questions, whole = options.questions(corpus), None
    if options.subset is not None or options.shots:
        # Where a part of the split is asked, answers to the rest of it do no harm.
        whole = Options(split=options.split).questions(corpus)
    stated = corpus.table("questions", columns=["question_id", "split"]).to_pylist()
    elsewhere: dict[str, list[str]] = {}
    for row in stated:
        if row["split"] != options.split:
            elsewhere.setdefault(row["split"], []).append(row["question_id"])
    return questions, dataclasses.replace(expected_of(questions, whole), elsewhere=elsewhere)


def question_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options that choose questions; the command gets them as `options` and `labels`."""
    names = ("split", "subset", "shots")

    @functools.wraps(command)
    def collected(*arguments: Any, dataset: str | None, **given: Any) -> Any:
        options = Options(dataset=dataset, **{name: given.pop(name) for name in names})
        options.check()
        return command(*arguments, options=options, **given)

    return dataset_option(labels_option(options_of(names)(collected)))


@click.group(cls=NearGroup, lazy={"season": "kbench.leaderboard.season_cli:season"})
def leaderboard() -> None:
    """Check, score and publish submissions.

    A submission is what `kbench evaluate --surrogate MINE --out FOLDER` writes. `check` says whether it can be entered,
    `score` what it scores, `build` makes the page and `serve` shows it.
    """


@leaderboard.command(short_help="List everything wrong with submissions.")
@paths_argument
@question_options
@click.option("--format-only", is_flag=True, help="Check the files alone, not whether they answer the dataset.")
@json_option
def check(paths: tuple[Path, ...], options: Options, labels: Path | None, format_only: bool, as_json: bool) -> None:
    """List all errors in submissions; exit 1 if there are any."""
    from kbench.leaderboard.board import check_all, check_report

    # A corpus is read in seconds, and files that are missing or unreadable show without it.
    readable = not format_only and any(
        all(flaw.field != "file" for flaw in one.flaws) for _, one in check_all(paths, None)
    )
    outcomes = check_all(paths, load_questions(options, labels)[1] if readable else None)
    if as_json:
        report = check_report(outcomes)
        echo_json(report)
        sys.exit(0 if report["ok"] else 1)
    refused = 0
    for path, one in outcomes:
        refused += not one.ok
        click.echo(f"{path}: {'ok' if one.ok else f'{len(one.flaws)} problem(s)'}")
        for flaw in one.flaws:
            click.echo(f"  {flaw}")
    sys.exit(1 if refused else 0)


@leaderboard.command(short_help="Recompute every figure from forecasts.")
@paths_argument
@question_options
@out_option("Folder for the results, one JSON file per entry.")
@click.option(
    "--compare",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Folder of earlier results, which --out wrote; exit 1 where a byte differs.",
)
@click.option(
    "--hub-id", help="Print results as a model repository states them, for the dataset of this id on the Hub."
)
@resamples_option
@json_option
def score(
    paths: tuple[Path, ...],
    options: Options,
    labels: Path | None,
    out: Path | None,
    compare: Path | None,
    hub_id: str | None,
    resamples: int,
    as_json: bool,
) -> None:
    """Recompute every figure of submissions from their forecasts."""
    from kbench.benchmark.scoring.score import BootstrapSettings
    from kbench.leaderboard.board import score_all
    from kbench.leaderboard.scoring.results import differences, hub_rows, summary, write_results
    from kbench.loaders.storage.scratch import temporary_folder

    questions, expected = load_questions(options, labels)
    refused: list[str] = []
    settings = BootstrapSettings(resamples=resamples)

    def tell(name: str) -> None:
        """A large dataset takes seconds for each entry."""
        click.echo(f"scoring {name} …", err=True)

    with temporary_folder() as scratch:
        results = score_all(paths, questions, settings, tell, refused.append, expected, scratch)
        written = write_results(results, out) if out is not None else []
        if hub_id is not None:
            rows = [row for result in results for row in hub_rows(result, hub_id)]
            click.echo(json.dumps(rows, indent=1))
        elif as_json:
            click.echo(json.dumps([result.to_json() for result in results], ensure_ascii=False, allow_nan=False))
        else:
            for result in results:
                click.echo(summary(result))
            for path in written:
                click.echo(f"wrote {path}", err=True)
        changed = [] if compare is None else differences(results, compare)
    for line in changed:
        click.echo(f"kbench: {line}", err=True)
    if compare is not None and not changed:
        click.echo(f"{len(results)} entries score exactly what their results say", err=True)
    _exit_refused(refused)
    if changed:
        sys.exit(1)


def _exit_refused(refused: Sequence[str]) -> None:
    """Name the entries that were left out; the exit code tells that there were any."""
    for reason in refused:
        click.echo(f"kbench: refused: {reason}", err=True)
    if refused:
        sys.exit(1)


@leaderboard.command(short_help="Score all submissions and build the static site.")
@click.option(
    "--submissions",
    type=existing_path,
    help="Folder of submissions; by default the shipped ones, and those in leaderboard/submissions of this folder.",
)
@click.option(
    "--cache",
    type=click.Path(file_okay=False, path_type=Path),
    default=CACHE,
    show_default=True,
    help="Folder that keeps scores, so that an unchanged submission is not scored again.",
)
@dataset_option
@labels_option
@out_option("Folder to build the site in.", required=True)
@click.option(
    "--link",
    "links",
    type=(str, str),
    multiple=True,
    metavar="NAME URL",
    help="A link on the first page, such as code.",
)
@click.option("--address", metavar="URL", help="Where the site will be found; previews of links to it need this.")
@json_option
def build(
    submissions: Path | None,
    cache: Path,
    dataset: str | None,
    labels: Path | None,
    out: Path,
    links: tuple[tuple[str, str], ...],
    address: str | None,
    as_json: bool,
) -> None:
    """Score all submissions and build the static site.

    The site works from disk and contacts no other host.
    """
    from kbench.benchmark.questions.corpus_view import benchmark_of
    from kbench.leaderboard.board import entries_text, score_board
    from kbench.leaderboard.season_record import SEASONS
    from kbench.leaderboard.site.answers import answers_of
    from kbench.leaderboard.site.build import build as build_site
    from kbench.leaderboard.site.build import prepare
    from kbench.leaderboard.site.scope import dataset_facts, season_facts
    from kbench.leaderboard.submission.labels import read_labels
    from kbench.loaders.corpus.corpus import Corpus
    from kbench.loaders.storage.lock import held
    from kbench.loaders.storage.pool import beside
    from kbench.loaders.storage.scratch import temporary_folder

    refused: list[str] = []
    corpus = version = None
    begun = time.perf_counter()

    def tell(text: str) -> None:
        click.echo(f"{time.perf_counter() - begun:4.0f} s  {text} …", err=True)

    tell("reading the questions")
    if labels is not None:
        questions = read_labels(labels)
    else:
        corpus = Corpus.open(dataset, verified=True)
        version = benchmark_of(corpus)
        questions = Options().questions(version)
    click.echo(f"submissions: {submissions or entries_text(questions)}", err=True)
    answers = answers_of(questions, version)
    look = (lambda entry, packed: None) if answers is None else answers.look
    side = corpus is not None and len(questions.queries) > SMALL
    with held(out), temporary_folder() as scratch, beside(prepare, dataset) if side else nullcontext(None) as ready:
        # Private labels are not part of the questions' fingerprint, so their scores are not kept.
        keeping = scratch if corpus is None else cache
        board = score_board(
            questions, version, submissions, keeping, tell, refused.append, look, ready or (lambda: None)
        )
        facts = {**dataset_facts(questions, corpus, board.parts), "seasons": season_facts(SEASONS)}
        page = build_site(
            board.results, facts, out, corpus=corpus, answers=answers, links=dict(links), address=address,
            probes=board.probes, keep=corpus is not None, tell=tell,
        )  # fmt: skip
    size = sum(path.stat().st_size for path in out.rglob("*") if path.is_file())
    if as_json:
        echo_json({"page": str(page), "entries": len(board.results), "bytes": size})
    else:
        click.echo(f"{page}: {len(board.results)} entries, {size / 1e6:.1f} MB, {time.perf_counter() - begun:.0f} s")
    _exit_refused(refused)


@leaderboard.command(short_help="Serve a built site.")
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on; 0.0.0.0 lets others in.")
@click.option("--port", type=click.IntRange(0, 65535), default=8000, show_default=True, help="0 takes a free port.")
@click.option("--check", "checks", is_flag=True, help="Let visitors check a submission against the shipped dataset.")
@json_option
def serve(folder: Path, host: str, port: int, checks: bool, as_json: bool) -> None:
    """Serve a built site, on this machine only unless --host says otherwise."""
    from kbench.leaderboard.board import check_all, check_report
    from kbench.leaderboard.space import SiteServer

    if not (folder / "index.html").is_file():
        raise UserError(f"{folder} holds no index.html; build the site first: kbench leaderboard build --out {folder}")
    expected = load_questions(Options(), None)[1] if checks else None
    checker = (lambda path: check_report(check_all([path], expected))) if checks else None
    try:
        bound = SiteServer((host, port), folder, checker)
    except OSError as error:
        raise UserError(
            f"port {port} of {host} cannot be used ({error.strerror}); choose another, or a free one with --port 0"
        ) from None
    with bound as server:
        address = f"http://{host}:{server.server_port}/"
        click.echo(json.dumps({"address": address}) if as_json else f"{address} (Ctrl-C ends it)")
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            click.echo("stopped", err=True)


@leaderboard.command("export-queries", short_help="Write queries without their answers.")
@click.argument("out", type=click.Path(file_okay=False, path_type=Path))
@dataset_option
@options_of(("split", "subset", "shots", "gpu"))
@click.option("--labels-out", type=click.Path(path_type=Path), help="Also write the answers, to be kept private.")
@json_option
def export_queries(out: Path, labels_out: Path | None, as_json: bool, **given: Any) -> None:
    """Write the queries without answers, one file per track, so that a split can be kept private.

    Everything that the set offers by itself, without reading sources, is fitted to the answers first. Exit 1 if it
    predicts the order of a pool with a Spearman correlation above 0.05, and chance does not explain it.
    """
    from kbench.leaderboard.scoring.leaks import find_leaks
    from kbench.leaderboard.submission.labels import gpu_of, write_labels, write_queries

    options = Options(**given)
    options.check()
    questions = options.questions(options.corpus())
    findings = find_leaks(questions)
    leaks = [dataclasses.asdict(one) for one in findings if one.leaks]
    write_queries(questions, out)
    if labels_out is not None:
        write_labels(questions, labels_out)
    if as_json:
        echo_json({
            "queries": len(questions.queries), "dataset": questions.dataset,
            "gpu": gpu_of(questions), "path": str(out), "leaks": leaks,
            "findings": [dataclasses.asdict(one) for one in findings],
        })  # fmt: skip
    else:
        click.echo(f"{out}: {len(questions.queries):,} queries, dataset {questions.dataset}")
    for leak in leaks:
        figure = f"the order of a pool with {leak['value']:.3f} ({leak['low']:.3f} to {leak['high']:.3f})"
        click.echo(f"kbench: these queries give answers away: {leak['feature']} tells {figure}", err=True)
    if leaks:
        sys.exit(1)


@leaderboard.command(short_help="What can be answered without understanding a kernel?")
@click.argument("submissions", nargs=-1, type=existing_path)
@dataset_option
@options_of(("split", "gpu"))
@json_option
def audit(submissions: tuple[Path, ...], as_json: bool, **given: Any) -> None:
    """Answer the questions with probes that see a kernel's layout, names or author alone, or no source at all.

    SUBMISSIONS are shown beside the strongest probe of each headline, with the paired difference and how large a
    difference between two of them must be to be decided in four of five samples of problems.
    """
    from kbench.leaderboard.board import read_entries
    from kbench.leaderboard.scoring.audit import audit_text, audited

    options = Options(**given)
    options.check()
    corpus = options.corpus()
    questions = options.questions(corpus)
    entries = read_entries(submissions, questions) if submissions else []
    report = audited(corpus, questions, {entry.name: entry.table for entry in entries})
    echo_json(report) if as_json else click.echo(audit_text(report))
