"""`kbench leaderboard`: check, score and publish submissions; export and probe queries."""

from __future__ import annotations

import dataclasses
import functools
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kbench.benchmark.evaluate.options import option_of
from kbench.loaders.options import NearGroup, dataset_option, echo_json, json_option, out_option
from kbench.schemas import UserError

if TYPE_CHECKING:
    from kbench.benchmark.tasks import Questions
    from kbench.leaderboard.submission.rules import Expected

CACHE = Path("build") / "leaderboard"

shots_option, subset_option = option_of("shots"), option_of("subset")
split_option = click.option("--split", default="test", show_default=True, help="The split that entries answer.")
labels_option = click.option("--labels", type=click.Path(path_type=Path), help="Private labels instead of a corpus.")
submissions_option = click.option(
    "--submissions", type=click.Path(path_type=Path), help="Folder of submissions; the shipped ones by default."
)
paths_argument = click.argument("paths", nargs=-1, required=True, type=click.Path(path_type=Path))


@dataclasses.dataclass(frozen=True, slots=True)
class Asked:
    """The questions that a command is about: those of a corpus, or private labels."""

    dataset: str | None
    labels: Path | None
    split: str
    subset: str | None
    shots: int

    def questions(self, gpu: str | None = None) -> Questions:
        """Load them."""
        from kbench.leaderboard.board import load_questions

        return load_questions(self.dataset, self.labels, self.split, self.subset, self.shots, gpu)

    def expected(self, questions: Questions) -> Expected:
        """What a submission must answer."""
        from kbench.leaderboard.board import asked_of

        return asked_of(questions, self.dataset, self.labels)


def question_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options that choose questions; the command gets them as `asked`."""

    @functools.wraps(command)
    def collected(*given: Any, **told: Any) -> Any:
        asked = Asked(**{field.name: told.pop(field.name) for field in dataclasses.fields(Asked)})
        return command(*given, asked=asked, **told)

    options = (dataset_option, labels_option, split_option, subset_option, shots_option)
    return functools.reduce(lambda made, option: option(made), reversed(options), collected)


@click.group(cls=NearGroup, lazy={"season": "kbench.leaderboard.season.cli:season"})
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
def check(
    paths: tuple[Path, ...],
    asked: Asked,
    format_only: bool,
    as_json: bool,
) -> None:
    """List all errors in submissions; exit 1 if there are any."""
    from kbench.leaderboard.board import check_all, check_report

    outcomes = check_all(paths, None if format_only else asked.expected(asked.questions()))
    if as_json:
        echo_json(check_report(outcomes))
    else:
        for path, one in outcomes.items():
            click.echo(f"{path}: {'ok' if one.ok else f'{len(one.flaws)} problem(s)'}")
            for flaw in one.flaws:
                click.echo(f"  {flaw}")
    if any(not one.ok for one in outcomes.values()):
        sys.exit(1)


@leaderboard.command(short_help="Recompute every figure from forecasts.")
@paths_argument
@question_options
@out_option("Folder for the results, one JSON file per entry.")
@click.option("--resamples", type=click.IntRange(min=1), default=2000, show_default=True, help="Bootstrap resamples.")
@click.option("--seed", type=click.IntRange(0, 2**32 - 1), default=0, show_default=True, help="Seed of the bootstrap.")
@json_option
def score(
    paths: tuple[Path, ...],
    asked: Asked,
    out: Path | None,
    resamples: int,
    seed: int,
    as_json: bool,
) -> None:
    """Recompute every figure of submissions from their forecasts."""
    from kbench.benchmark.scoring.score import BootstrapSettings
    from kbench.leaderboard.board import score_all
    from kbench.leaderboard.scoring.results import summary, write_results

    questions = asked.questions()
    refused: list[str] = []
    settings = BootstrapSettings(resamples=resamples, seed=seed)
    results = score_all(paths, questions, settings, _tell("scoring"), refused.append, asked.expected(questions))
    written = write_results(results, out) if out is not None else []
    if as_json:
        click.echo(json.dumps([result.to_json() for result in results], ensure_ascii=False, allow_nan=False))
    else:
        for result in results:
            click.echo(summary(result))
        for path in written:
            click.echo(f"wrote {path}", err=True)
    _say_refused(refused)


def _say_refused(refused: Sequence[str]) -> None:
    """Entries that were left out; the exit code tells that there were any."""
    for reason in refused:
        click.echo(f"kbench: refused: {reason}", err=True)
    if refused:
        sys.exit(1)


def _tell(doing: str) -> Callable[[str], None]:
    """A line on stderr for each entry: a large dataset takes seconds each."""
    return lambda name: click.echo(f"{doing} {name} …", err=True)


@leaderboard.command(short_help="Score again and compare byte for byte.")
@submissions_option
@click.option("--results", type=click.Path(path_type=Path), required=True, help="Folder that `score --out` wrote.")
@question_options
@json_option
def verify(
    submissions: Path | None,
    results: Path,
    asked: Asked,
    as_json: bool,
) -> None:
    """Score submissions again and compare with results byte for byte; exit 1 when one is not reproduced."""
    from kbench.benchmark.scoring.score import BootstrapSettings
    from kbench.leaderboard.board import score_all, shipped
    from kbench.leaderboard.scoring.results import differences, read_all_results

    stored = read_all_results(results)
    settings = BootstrapSettings(resamples=stored[0].resamples, seed=stored[0].seed)
    questions = asked.questions()
    paths = shipped(questions) if submissions is None else [submissions]
    made = score_all(paths, questions, settings, _tell("scoring"), expected=asked.expected(questions))
    found = differences(made, results)
    if as_json:
        echo_json({"ok": not found, "entries": len(made), "differences": found})
    else:
        click.echo("\n".join(found) if found else f"{len(made)} entries score exactly what their results say")
    if found:
        sys.exit(1)


@leaderboard.command(short_help="Rebuild the built-in entries.")
@submissions_option
@dataset_option
@split_option
@subset_option
@shots_option
@json_option
def baselines(
    submissions: Path | None,
    dataset: str | None,
    split: str,
    subset: str | None,
    shots: int,
    as_json: bool,
) -> None:
    """Forecast with every built-in surrogate again and write its submission."""
    from kbench.benchmark.tasks.build import build_questions
    from kbench.benchmark.tasks.few_shot import with_shots
    from kbench.benchmark.tasks.versions import benchmark_of
    from kbench.leaderboard.baselines import write_baselines
    from kbench.leaderboard.board import own_folder
    from kbench.loaders.corpus.corpus import Corpus

    corpus = benchmark_of(Corpus.open(dataset, verified=True))
    questions = with_shots(build_questions(corpus, split, subset=subset), corpus, shots)
    paths = write_baselines(corpus, questions, submissions or own_folder(questions), tell=_tell("forecasting with"))
    if as_json:
        echo_json({"dataset": questions.dataset, "submissions": [str(path) for path in paths]})
        return
    for path in paths:
        click.echo(str(path))


@leaderboard.command(short_help="Score all submissions and build the static site.")
@submissions_option
@click.option("--results", type=click.Path(path_type=Path), help="Show these results; score no submission.")
@click.option(
    "--cache",
    type=click.Path(file_okay=False, path_type=Path),
    default=CACHE,
    show_default=True,
    help="Folder that keeps scores, so that an unchanged submission is not scored again.",
)
@question_options
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
    results: Path | None,
    cache: Path,
    asked: Asked,
    out: Path,
    links: tuple[tuple[str, str], ...],
    address: str | None,
    as_json: bool,
) -> None:
    """Score all submissions and build the static site.

    The site works from disk and contacts no other host.
    """
    from kbench.benchmark.tasks.versions import benchmark_of
    from kbench.leaderboard.board import asked_of, load_questions, read_entries, score_entries, score_parts, shipped
    from kbench.leaderboard.scoring.results import read_all_results
    from kbench.leaderboard.season.life import SEASONS
    from kbench.leaderboard.site.answers import answers_of
    from kbench.leaderboard.site.build import build as build_site
    from kbench.leaderboard.site.scope import dataset_facts, season_facts
    from kbench.loaders.corpus.corpus import Corpus

    corpus = Corpus.open(asked.dataset, verified=True) if asked.labels is None else None
    version = None if corpus is None else benchmark_of(corpus)
    questions = load_questions(version, asked.labels, asked.split, subset=asked.subset, shots=asked.shots)
    refused: list[str] = []
    answers = None
    if results is not None:
        found = read_all_results(results)
    else:
        paths = shipped(questions) if submissions is None else [submissions]
        entries = read_entries(paths, questions, refused.append, asked_of(questions, version, asked.labels))
        # Private labels are not part of the questions' fingerprint, so their scores are not kept.
        kept = cache if asked.labels is None else None
        found = score_entries(entries, questions, tell=_tell("scoring"), cache=kept)
        answers = answers_of(entries, questions, version)
    parts = []
    if version is not None and results is None and submissions is None and asked.subset is None and not asked.shots:
        parts = list(score_parts(questions, version, _tell("scoring"), refused.append, cache))
    found = [*found, *(result for _, scored in parts for result in scored)]
    facts = {**dataset_facts(questions, corpus, [part for part, _ in parts]), "seasons": season_facts(SEASONS)}
    page = build_site(found, facts, out, corpus=corpus, answers=answers, links=dict(links), address=address)
    size = sum(path.stat().st_size for path in out.rglob("*") if path.is_file())
    if as_json:
        echo_json({"page": str(page), "entries": len(found), "bytes": size})
    else:
        click.echo(f"{page}: {len(found)} entries, {size / 1e6:.1f} MB")
    _say_refused(refused)


@leaderboard.command(short_help="Serve a built site.")
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on; 0.0.0.0 lets others in.")
@click.option("--port", type=click.IntRange(0, 65535), default=8000, show_default=True, help="0 takes a free port.")
@click.option("--check", "checks", is_flag=True, help="Let visitors check a submission against the shipped dataset.")
@json_option
def serve(folder: Path, host: str, port: int, checks: bool, as_json: bool) -> None:
    """Serve a built site, on this machine only unless --host says otherwise."""
    from kbench.leaderboard.board import check_all, check_report, expected_of, load_questions
    from kbench.leaderboard.space.server import SiteServer

    if not (folder / "index.html").is_file():
        raise UserError(f"{folder} holds no index.html; build the site first: kbench leaderboard build --out {folder}")
    expected = expected_of(load_questions(None, None)) if checks else None
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
@question_options
@click.option("--gpu", metavar="GPU", help="Ask about this GPU, or all; the one with the most kernels by default.")
@click.option("--labels-out", type=click.Path(path_type=Path), help="Also write the answers, to be kept private.")
@json_option
def export_queries(out: Path, asked: Asked, gpu: str | None, labels_out: Path | None, as_json: bool) -> None:
    """Write the queries without answers, one file per track, so that a split can be kept private.

    The set is probed first; exit 1 when it gives answers away by itself.
    """
    from kbench.leaderboard.probe.probe import probe as find
    from kbench.leaderboard.submission.labels import gpu_of, write_labels, write_queries

    if asked.labels is not None:
        raise UserError("--labels holds no query texts; export from a corpus with --dataset")
    questions = asked.questions(gpu)
    found = find(questions)
    write_queries(questions, out)
    if labels_out is not None:
        write_labels(questions, labels_out)
    facts = {
        "queries": len(questions.queries), "dataset": questions.dataset, "benchmark": questions.benchmark,
        "gpu": gpu_of(questions), "path": str(out), "leaks": [dataclasses.asdict(one) for one in found.leaks],
    }  # fmt: skip
    text = f"{out}: {len(questions.queries):,} queries, dataset {questions.dataset}"
    echo_json(facts) if as_json else click.echo(text)
    if found.leaks:
        click.echo(f"kbench: these queries give answers away; see: kbench leaderboard probe {out}", err=True)
        sys.exit(1)


@leaderboard.command(short_help="Find what queries give away before a source is read.")
@click.argument("queries", type=click.Path(exists=True, file_okay=False, path_type=Path))
@dataset_option
@labels_option
@json_option
def probe(queries: Path, dataset: str | None, labels: Path | None, as_json: bool) -> None:
    """Fit everything that a folder of query files offers by itself, without reading sources, to the answers.

    Exit 1 if this predicts validity with an AUROC above 0.55, or the order of a pool with a Spearman correlation above
    0.05, and chance does not explain it.
    """
    from kbench.leaderboard.board import load_questions
    from kbench.leaderboard.probe.probe import probe as find
    from kbench.leaderboard.submission.labels import read_queries
    from kbench.loaders.options import layout

    files, facts = read_queries(queries)
    # Pairs that a corpus states itself are about every GPU, and there is none to choose.
    gpu = None if facts["benchmark"] is None else facts["gpu"]
    set_facts = {name: facts[name] for name in ("split", "subset", "shots")}
    questions = load_questions(dataset, labels, gpu=gpu, **set_facts)
    if questions.dataset != facts["dataset"]:
        raise UserError(f"{queries} is of dataset {facts['dataset']}; name the corpus it came from with --dataset")
    found = find(questions, files)
    rows = [dataclasses.asdict(one) for one in found.findings]
    if as_json:
        echo_json({"ok": not found.leaks, **facts, "findings": rows})
    else:
        for line in layout([{**row, "leaks": "yes" if row["leaks"] else ""} for row in rows]):
            click.echo(line)
        click.echo(f"{len(found.leaks)} leaks" if found.leaks else "ok: the set tells nothing by itself")
    if found.leaks:
        sys.exit(1)


@leaderboard.command("eval-results", short_help="Show results for a model repository.")
@click.argument("result", type=click.Path(path_type=Path))
@click.option("--dataset-id", required=True, help="The dataset's id on the Hub, such as owner/kbench.")
@click.option("--revision", help="Git commit of the dataset on the Hub.")
@out_option("File to write, such as .eval_results/kbench.yaml.")
@json_option
def eval_results(result: Path, dataset_id: str, revision: str | None, out: Path | None, as_json: bool) -> None:
    """Show an entry's results as the Hub reads them in a model repository."""
    from kbench.leaderboard.hub import eval_results as rows_of
    from kbench.leaderboard.scoring.results import read_results

    _show_or_write(rows_of(read_results(result), dataset_id, revision), out, as_json)


@leaderboard.command("eval-yaml", short_help="Show tasks for the dataset repository.")
@out_option("File to write, such as the dataset folder's eval.yaml.")
@json_option
def eval_yaml(out: Path | None, as_json: bool) -> None:
    """Show the benchmark's tasks as the Hub reads them in the dataset repository."""
    from kbench.loaders.card.eval_tasks import eval_facts

    _show_or_write(eval_facts(), out, as_json)


def _show_or_write(value: object, out: Path | None, as_json: bool) -> None:
    import yaml

    from kbench.loaders.storage.atomic import write_atomically

    if out is not None:
        out.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(out, yaml.safe_dump(value, sort_keys=False, allow_unicode=True))
        click.echo(json.dumps({"path": str(out)}) if as_json else str(out))
    else:
        click.echo(json.dumps(value, indent=1) if as_json else yaml.safe_dump(value, sort_keys=False).rstrip())
