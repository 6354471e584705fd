"""`kbench leaderboard`: check, score, verify, baselines, build, serve, export-queries, eval-results, eval-yaml."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from kbench.loaders.options import NearGroup
from kbench.schemas import UserError

F = TypeVar("F", bound=Callable[..., Any])


def question_options(command: F) -> F:
    """Which questions: a corpus, or private labels."""
    for option in (
        click.option("--dataset", metavar="PATH", help="Corpus folder or Hub id; the shipped dataset by default."),
        click.option("--labels", type=click.Path(path_type=Path), help="Private labels instead of a corpus."),
        click.option("--split", default="test", show_default=True, help="Which split the entries answer."),
    ):
        command = option(command)
    return command


@click.group(cls=NearGroup)
def leaderboard() -> None:
    """Check, score and publish submissions.

    A submission is what `kbench evaluate --surrogate MINE --out FOLDER` writes. `check` says whether it can be entered,
    `score` what it scores, `build` makes the page and `serve` shows it.
    """


@leaderboard.command(short_help="List everything wrong with submissions.")
@click.argument("paths", nargs=-1, required=True, type=click.Path(path_type=Path))
@question_options
@click.option("--format-only", is_flag=True, help="Check the files alone, not whether they answer the dataset.")
@click.option("--json", "as_json", is_flag=True, help="Print the findings as JSON.")
def check(
    paths: tuple[Path, ...], dataset: str | None, labels: Path | None, split: str, format_only: bool, as_json: bool
) -> None:
    """List everything wrong with submissions; exit 1 when anything is."""
    from kbench.leaderboard.board import check_all, expected_of, load_questions

    expected = None if format_only else expected_of(load_questions(dataset, labels, split))
    outcomes = check_all(paths, expected)
    if as_json:
        rows = [
            {"path": path, "file": f.file, "field": f.field, "value": f.value, "message": f.message}
            for path, one in outcomes.items()
            for f in one.findings
        ]
        click.echo(json.dumps({"ok": not rows, "errors": rows}, indent=1, ensure_ascii=False))
    else:
        for path, one in outcomes.items():
            click.echo(f"{path}: {'ok' if one.ok else f'{len(one.findings)} problem(s)'}")
            for finding in one.findings:
                click.echo(f"  {finding}")
    if any(not one.ok for one in outcomes.values()):
        sys.exit(1)


@leaderboard.command(short_help="Recompute every figure from forecasts.")
@click.argument("paths", nargs=-1, required=True, type=click.Path(path_type=Path))
@question_options
@click.option("--out", type=click.Path(path_type=Path), help="Folder for the results, one JSON file an entry.")
@click.option("--resamples", type=click.IntRange(min=1), default=2000, show_default=True, help="Bootstrap resamples.")
@click.option(
    "--seed",
    type=click.IntRange(0, 2**32 - 1),
    default=0,
    show_default=True,
    help="Of the bootstrap; the same for every entry.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the results as JSON.")
def score(
    paths: tuple[Path, ...],
    dataset: str | None,
    labels: Path | None,
    split: str,
    out: Path | None,
    resamples: int,
    seed: int,
    as_json: bool,
) -> None:
    """Recompute every figure of submissions from their forecasts."""
    from kbench.benchmark.scoring.score import BootstrapSettings
    from kbench.leaderboard.board import load_questions, score_all, write_results

    questions = load_questions(dataset, labels, split)
    results = score_all(paths, questions, BootstrapSettings(resamples=resamples, seed=seed), _tell("scoring"))
    written = write_results(results, out) if out is not None else []
    if as_json:
        click.echo(json.dumps([result.to_json() for result in results], ensure_ascii=False, allow_nan=False))
        return
    for result in results:
        click.echo(_summary(result))
    for path in written:
        click.echo(f"wrote {path}", err=True)


def _tell(doing: str) -> Callable[[str], None]:
    """A line on stderr for each entry: a large dataset takes seconds each."""
    return lambda name: click.echo(f"{doing} {name} …", err=True)


def _summary(result: Any) -> str:
    from kbench.benchmark.metrics.registry import METRICS

    parts = []
    for metric in METRICS:
        value = result.value(metric.track.name, metric.name) if metric.headline else None
        if value is not None:
            parts.append(f"{metric.label} {metric.text(value)}")
    flagged = f"  flags: {'; '.join(result.flags)}" if result.flags else ""
    return f"{result.submission.name} {result.submission.version}: {', '.join(parts)}{flagged}"


@leaderboard.command(short_help="Score again and compare byte for byte.")
@click.option(
    "--submissions", type=click.Path(path_type=Path), help="Folder of submissions; the shipped ones by default."
)
@click.option("--results", type=click.Path(path_type=Path), help="Folder of results; the shipped ones by default.")
@question_options
@click.option("--json", "as_json", is_flag=True, help="Print the differences as JSON.")
def verify(
    submissions: Path | None, results: Path | None, dataset: str | None, labels: Path | None, split: str, as_json: bool
) -> None:
    """Score all submissions again and compare byte for byte; exit 1 when a stored result is not reproduced."""
    from kbench.benchmark.scoring.score import BootstrapSettings
    from kbench.leaderboard.board import RESULTS, SUBMISSIONS, differences, load_questions, read_all_results, score_all

    stored = read_all_results(results or RESULTS)
    settings = BootstrapSettings(resamples=stored[0].resamples, seed=stored[0].seed)
    made = score_all([submissions or SUBMISSIONS], load_questions(dataset, labels, split), settings, _tell("scoring"))
    found = differences(made, results or RESULTS)
    if as_json:
        click.echo(json.dumps({"ok": not found, "entries": len(made), "differences": found}, indent=1))
    else:
        click.echo("\n".join(found) if found else f"{len(made)} entries score exactly what their results say")
    if found:
        sys.exit(1)


@leaderboard.command(short_help="Rebuild the built-in entries.")
@click.option(
    "--submissions", type=click.Path(path_type=Path), help="Folder of submissions; the shipped ones by default."
)
@click.option("--results", type=click.Path(path_type=Path), help="Folder of results; the shipped ones by default.")
@click.option("--dataset", metavar="PATH", help="Corpus folder or Hub id; the shipped dataset by default.")
@click.option("--split", default="test", show_default=True, help="Which split the entries answer.")
@click.option("--json", "as_json", is_flag=True, help="Print what was written as JSON.")
def baselines(submissions: Path | None, results: Path | None, dataset: str | None, split: str, as_json: bool) -> None:
    """Make the built-in surrogates' submissions again, and score every submission of the folder."""
    from kbench.benchmark.tasks.build import build_questions
    from kbench.leaderboard.baselines import write_baselines
    from kbench.leaderboard.board import RESULTS, SUBMISSIONS, score_all, write_results
    from kbench.loaders.corpus.corpus import Corpus

    corpus = Corpus.open(dataset)
    questions = build_questions(corpus, split)
    write_baselines(corpus, questions, submissions or SUBMISSIONS, tell=_tell("forecasting with"))
    scored = score_all([submissions or SUBMISSIONS], questions, tell=_tell("scoring"))
    paths = write_results(scored, results or RESULTS)
    if as_json:
        click.echo(json.dumps({"dataset": questions.dataset, "results": [str(path) for path in paths]}))
        return
    for result in scored:
        click.echo(_summary(result))


@leaderboard.command(short_help="Build the static site.")
@click.option("--results", type=click.Path(path_type=Path), help="Folder of results; the shipped ones by default.")
@question_options
@click.option("--out", type=click.Path(file_okay=False, path_type=Path), required=True,
              help="Folder to build the site in.")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print what was built as JSON.")
def build(results: Path | None, dataset: str | None, labels: Path | None, split: str, out: Path, as_json: bool) -> None:
    """Build the static site; it works from disk and asks no other host for anything."""
    from kbench.leaderboard.board import RESULTS, dataset_facts, load_questions, read_all_results
    from kbench.leaderboard.site.build import build as build_site
    from kbench.loaders.corpus.corpus import Corpus

    found = read_all_results(results or RESULTS)
    corpus = Corpus.open(dataset) if labels is None else None
    page = build_site(found, dataset_facts(load_questions(dataset, labels, split), corpus), out)
    size = sum(path.stat().st_size for path in out.rglob("*") if path.is_file())
    if as_json:
        click.echo(json.dumps({"page": str(page), "entries": len(found), "bytes": size}))
    else:
        click.echo(f"{page}: {len(found)} entries, {size / 1e6:.1f} MB")


@leaderboard.command(short_help="Serve a built site on this machine.")
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--port", type=click.IntRange(0, 65535), default=8000, show_default=True, help="0 takes a free port.")
@click.option("--json", "as_json", is_flag=True, help="Print the address as JSON.")
def serve(folder: Path, port: int, as_json: bool) -> None:
    """Serve a built site on this machine alone."""
    import functools
    import http.server

    if not (folder / "index.html").is_file():
        raise UserError(f"{folder} holds no index.html; build the site first: kbench leaderboard build --out {folder}")
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", port), handler) as server:
        address = f"http://127.0.0.1:{server.server_port}/"
        click.echo(json.dumps({"address": address}) if as_json else f"{address} (Ctrl-C ends it)")
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            click.echo("stopped", err=True)


@leaderboard.command("export-queries", short_help="Write queries without their answers.")
@click.argument("out", type=click.Path(path_type=Path))
@question_options
@click.option("--labels-out", type=click.Path(path_type=Path), help="Also write the answers, to be kept private.")
@click.option("--json", "as_json", is_flag=True, help="Print what was written as JSON.")
def export_queries(
    out: Path, dataset: str | None, labels: Path | None, split: str, labels_out: Path | None, as_json: bool
) -> None:
    """Write the queries without answers, so that a split can be kept private."""
    from kbench.leaderboard.board import load_questions
    from kbench.leaderboard.submission.labels import write_labels, write_queries

    if labels is not None:
        raise UserError("--labels holds no query texts; export from a corpus with --dataset")
    questions = load_questions(dataset, None, split)
    write_queries(questions, out)
    if labels_out is not None:
        write_labels(questions, labels_out)
    facts = {"queries": len(questions.queries), "dataset": questions.dataset, "path": str(out)}
    click.echo(json.dumps(facts) if as_json else f"{out}: {facts['queries']:,} queries of dataset {questions.dataset}")


@leaderboard.command("eval-results", short_help="Results for a model repository.")
@click.argument("result", type=click.Path(path_type=Path))
@click.option("--dataset-id", required=True, help="The dataset's id on the Hub, such as owner/kbench.")
@click.option("--revision", help="Git commit of the dataset on the Hub.")
@click.option("--out", type=click.Path(path_type=Path), help="File to write, such as .eval_results/kbench.yaml.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of YAML.")
def eval_results(result: Path, dataset_id: str, revision: str | None, out: Path | None, as_json: bool) -> None:
    """Show an entry's results as the Hub reads them in a model repository."""
    from kbench.leaderboard.hub import eval_results as rows_of
    from kbench.leaderboard.scoring.results import read_results

    _show_or_write(rows_of(read_results(result), dataset_id, revision), out, as_json)


@leaderboard.command("eval-yaml", short_help="Tasks for the dataset repository.")
@click.option("--out", type=click.Path(path_type=Path), help="File to write, such as the dataset folder's eval.yaml.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of YAML.")
def eval_yaml(out: Path | None, as_json: bool) -> None:
    """Show the benchmark's tasks as the Hub reads them in the dataset repository."""
    from kbench.leaderboard.hub import eval_yaml as tasks

    _show_or_write(tasks(), out, as_json)


def _show_or_write(value: object, out: Path | None, as_json: bool) -> None:
    import yaml

    from kbench.leaderboard.hub import write_yaml

    if out is not None:
        write_yaml(value, out)
        click.echo(json.dumps({"path": str(out)}) if as_json else str(out))
    else:
        click.echo(json.dumps(value, indent=1) if as_json else yaml.safe_dump(value, sort_keys=False).rstrip())
