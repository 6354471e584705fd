"""`kbench data`: inspect, query, validate and describe corpora."""

from __future__ import annotations

import dataclasses
import re
import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import click

from kbench.loaders.options import F, NearGroup, corpus_argument, echo_json, json_option, layout, progress
from kbench.schemas.errors import DataError, UserError

if TYPE_CHECKING:
    from kbench.loaders.corpus.corpus import Corpus
    from kbench.loaders.corpus.selection import Selection

MAIN_COLUMNS = {
    "kernels": {"kernel_id", "problem_id", "backend", "gpu", "search_method", "status", "runtime_us", "speedup"},
    "measurements": {"kernel_id", "problem_id", "workload", "gpu", "status", "runtime_us", "speedup"},
    "questions": {
        "question_id", "kind", "author", "problem_id", "backend", "gpu", "workload", "speedup", "bin", "split",
    },
}  # fmt: skip
"""Columns shown to people who chose none; of other configs, all."""

# Commands that talk to the network or read foreign formats.
LAZY_COMMANDS = {
    "import": "kbench.loaders.hub.commands:import_command",
    "fetch": "kbench.loaders.hub.commands:fetch",
    "push": "kbench.loaders.hub.commands:push",
}


@click.group(cls=NearGroup, lazy=LAZY_COMMANDS)
def data() -> None:
    """Inspect, query, assemble, import, join, export, fetch and push corpora.

    PATH is a corpus folder, a Hub id such as owner/name, or Parquet files; the shipped dataset when left out.
    """


def filter_options(command: F) -> F:
    """The facets, columns and conditions that choose rows."""
    options: list[Callable[[F], F]] = [
        click.option("--config", default="kernels", show_default=True, help="Which config of the dataset."),
        click.option("--problem", multiple=True, help="Problem id. Repeatable, like the four options below."),
        click.option("--backend", multiple=True, help="triton, cuda, config or torch."),
        click.option("--gpu", multiple=True, help="GPU name, any unambiguous part such as H200, or all."),
        click.option("--status", multiple=True, help="ok, compile_error, incorrect, …"),
        click.option("--split", multiple=True, help="train, validation, test, test_near, test_seen, or all."),
        click.option("--where", help="Such as: runtime_us < 10 and (source contains 'wgmma' or parent_id is null)."),
        click.option("--columns", help="Columns to take, separated by commas."),
    ]
    for option in reversed(options):
        command = option(command)
    return command


def select_rows(
    path: tuple[str, ...], config: str, columns: str | None, where: str | None, facets: Mapping[str, Any]
) -> Selection:
    """The rows that `filter_options` choose."""
    from kbench.loaders.corpus.corpus import Corpus

    chosen = [name.strip() for name in columns.split(",")] if columns else None
    filters = {name: list(values) for name, values in facets.items() if values}
    corpus = Corpus.open(list(path) or None)
    corpus.refuse_absent(config)
    return corpus.select(config, columns=chosen, where=where, **filters)


@data.command()
@corpus_argument
@click.option("--coverage", is_flag=True, help="Show how well problems are covered.")
@click.option("--card", type=click.Choice(["print", "write"]),
              help="Print the dataset card, or rewrite it with plots, cost ledger and metadata.")  # fmt: skip
@json_option
def info(path: tuple[str, ...], coverage: bool, card: str | None, as_json: bool) -> None:
    """Say what a corpus holds."""
    from kbench.loaders.corpus.corpus import Corpus
    from kbench.loaders.summary.coverage import count, coverage_of, timed

    corpus = Corpus.open(list(path) or None)
    if card is not None:
        _card(corpus, path, card == "write", as_json)
        return
    if coverage:
        gpu = corpus.main_gpu()
        covered = coverage_of(corpus, timed(corpus, gpu))
        if gpu:
            click.echo(f"kernels as measured on {gpu}", err=True)
        rows = [{"property": one["what"], "found": one["text"]} for one in covered["figures"]]
        echo_json(covered) if as_json else click.echo("\n".join(layout(rows, width=60)))
        return
    counts = count(corpus)
    facts: dict[str, Any] = {
        "kernels": counts.distinct_kernels,
        # What the facets below add up to.
        **({"kernel_rows": counts.rows["kernels"]} if counts.repeated else {}),
        "measurements": counts.rows.get("measurements", 0),
        "questions": counts.rows.get("questions", 0),
        "problems": counts.problems,
        **{f"{name}s": counts.facets[name] for name in ("backend", "gpu", "search_method")},
        "statuses": counts.facets["status"],
        "families": counts.facets["family"],
        "splits": counts.facets["split"],
        **({"release": corpus.manifest.release} if corpus.manifest.release else {}),
        "fingerprint": corpus.fingerprint,
    }
    if as_json:
        echo_json(facts)
        return
    for name, value in facts.items():
        text, label = value if not isinstance(value, int) else f"{value:,}", name.replace("_", " ")
        if isinstance(value, Mapping):
            text = ", ".join(f"{key} {number:,}" for key, number in value.items())
            label += " (rows)" if counts.repeated and name != "gpus" else " (kernels)"
        click.echo(f"{label:22} {text}")


@data.command(short_help="Show rows that match.")
@corpus_argument
@filter_options
@click.option("--sort", default="", help="Columns to sort by, such as -speedup: the largest first, nulls last.")
@click.option("--limit", type=click.IntRange(min=0), default=20, show_default=True, help="Rows to show; 0 for all.")
@json_option
def query(
    path: tuple[str, ...],
    config: str,
    columns: str | None,
    where: str | None,
    sort: str,
    limit: int,
    as_json: bool,
    **facets: Any,
) -> None:
    """Show matching rows: the main columns and those of --where, or --columns; with --json all columns."""
    from itertools import islice

    selection = select_rows(path, config, columns, where, facets)
    keys = [key.strip() for key in sort.split(",") if key.strip()]
    batches = selection.ordered(keys, limit or None).to_batches() if keys else selection.batches(limit or 8192)
    rows = list(islice((row for batch in batches for row in batch.to_pylist()), limit or None))
    if as_json:
        echo_json(rows)
        return
    # What fits a terminal: the columns that tell a row apart, and those a condition or an order names.
    named = {*MAIN_COLUMNS.get(config, rows[0] if rows else ()), *re.findall(r"\w+", f"{where} {sort}")}
    cells = rows if columns else [{name: row[name] for name in row if name in named} for row in rows]
    for line in layout(cells):
        click.echo(line)
    click.echo(f"{len(rows):,} of {selection.count():,} rows", err=True)
    if rows and (mixed := selection.mixed_gpus()):
        click.echo(f"rows of several GPUs are mixed ({', '.join(mixed)}); choose one with --gpu", err=True)
    if rows and len(cells[0]) < len(rows[0]):
        click.echo(f"{len(rows[0]) - len(cells[0])} columns are not shown; choose with --columns, or --json", err=True)


@data.command(short_help="Check every row of a corpus, or prove its splits.")
@corpus_argument
@click.option("--splits", is_flag=True, help="Prove that splits share no near-duplicates, and show similarities.")
@json_option
def validate(path: tuple[str, ...], splits: bool, as_json: bool) -> None:
    """Check every row of a corpus; exit 1 when something is wrong.

    With --splits, prove that no held-out kernel has a near-duplicate (the same structure, however it is named) in
    train, and show how similar held-out kernels are to it: exit 1 when a near-duplicate is found, test is too similar,
    or recorded splits are not what the rule gives.
    """
    from kbench.loaders.checks.columns import Issue
    from kbench.loaders.checks.validate import validate as find_issues
    from kbench.loaders.corpus.corpus import Corpus

    if splits:
        _prove_splits(Corpus.open(list(path) or None), as_json)
        return
    try:
        corpus = Corpus.open(list(path) or None, check_files=False)
    except DataError as error:
        issues = [Issue(path[0] if path else "the shipped dataset", None, None, None, str(error))]
    else:
        with progress(sum(corpus.rows(name) for name in corpus.configs), "validating") as bar:
            issues = find_issues(corpus, bar.update)
    if as_json:
        echo_json({"ok": not issues, "errors": [dataclasses.asdict(issue) for issue in issues]})
    else:
        click.echo("\n".join([*map(str, issues), f"{len(issues)} errors" if issues else "ok"]))
    sys.exit(1 if issues else 0)


def _prove_splits(corpus: Corpus, as_json: bool) -> None:
    from kbench.loaders.checks.splits_proof import LEGEND, check_splits, distances, shapes

    sources = corpus.rows("kernels")
    click.echo(f"reading the sources of {sources:,} rows; that and comparing them can take minutes …", err=True)
    with progress(sources, "reading sources") as bar:
        kernel_shapes = shapes(corpus, bar.update)
    click.echo("sources read; measuring how far held-out ones lie from training …", err=True)
    rows, faults = distances(corpus, {kernel: shape.stripped for kernel, shape in kernel_shapes.items()})
    violations = check_splits(corpus, kernel_shapes) + faults
    if as_json:
        messages = [dataclasses.asdict(violation) for violation in violations]
        echo_json({"ok": not violations, "splits": rows, "violations": messages})
    else:
        verdict = (
            f"{len(violations)} violations"
            if violations
            else f"ok: {len(kernel_shapes):,} kernels, no near-duplicates across splits"
        )
        table = [*layout([dict(row) for row in rows]), *LEGEND] if rows else []
        click.echo("\n".join([*table, *(violation.message for violation in violations), verdict]))
    sys.exit(1 if violations else 0)


def _card(corpus: Corpus, path: tuple[str, ...], write: bool, as_json: bool) -> None:
    """The dataset card, generated from the data."""
    from kbench.loaders.card.card import front_matter, render_card
    from kbench.loaders.summary.coverage import count

    if write:
        from kbench.loaders.corpus.writer import refresh

        if len(path) > 1 or len(corpus.folders) != 1:
            raise UserError(
                f"--card write takes one corpus folder, got {' '.join(path)!r}; name the folder to describe"
            )
        folder = corpus.folders[0]
        fingerprint = refresh(folder)
        if as_json:
            echo_json({"path": str(folder), "fingerprint": fingerprint})
        else:
            click.echo(f"card, plots, ledger and metadata written to {folder}")
    elif as_json:
        echo_json(front_matter(corpus, count(corpus)))
    else:
        click.echo(render_card(corpus), nl=False)
