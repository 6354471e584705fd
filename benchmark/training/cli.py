"""`kbench data export`: rows as they are, in other people's formats, or made into training examples."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from kbench.benchmark.questions.build import TEST_SPLITS
from kbench.benchmark.questions.corpus_view import benchmark_of
from kbench.benchmark.training.examples import Material
from kbench.benchmark.training.formats import ENDINGS, FORMATS, TASKS, format_of, write_rows, write_training_file
from kbench.loaders.cli import filter_options, select_rows
from kbench.loaders.corpus.corpus import Corpus
from kbench.loaders.exporters import FORMATS as ROW_FORMATS
from kbench.loaders.exporters import check_ending, check_format, write_stream
from kbench.loaders.exporters import export as write_file
from kbench.loaders.options import corpus_argument, echo_json, json_option, progress
from kbench.schemas import UnknownNameError, UserError


@dataclasses.dataclass(frozen=True, slots=True)
class _Chosen:
    """Options that choose rows."""

    path: tuple[str, ...]
    config: str
    columns: str | None
    where: str | None
    facets: Mapping[str, Any]


@click.command(short_help="Write rows that match, or training examples, to a file.")
@corpus_argument
@filter_options
@click.option(
    "--out", "--output", "-o", "output", required=True, help="File or folder to write, or - for standard output."
)
@click.option(
    "--format", "form",
    help=f"{', '.join(ROW_FORMATS)}; for training: {', '.join(FORMATS)}. By default chosen by the file's extension.",
)  # fmt: skip
@click.option(
    "--task", type=click.Choice(TASKS), default="forecast", show_default=True, help="What trl-prompt asks for."
)
@click.option(
    "--best", type=click.IntRange(min=1), default=4, show_default=True,
    help="Kernels that sft takes for a problem, backend and GPU.",
)  # fmt: skip
@click.option("--comments", is_flag=True, help="Training formats: keep the comments of sources.")
@json_option
def export(
    path: tuple[str, ...],
    config: str,
    columns: str | None,
    where: str | None,
    output: str,
    form: str | None,
    task: str,
    best: int,
    comments: bool,
    as_json: bool,
    **facets: Any,
) -> None:
    """Write rows that match to a Parquet, JSON-lines, CSV, T4 or flashinfer-bench trace file.

    A file that is there is replaced. --format files writes every kernel as a source file again, with a manifest.jsonl,
    into a new folder. The training formats take one split of the benchmark, train by default, and write JSON lines, or
    Parquet when the name ends in .parquet.
    """
    chosen = _Chosen(path, config, columns, where, {name: list(values) for name, values in facets.items() if values})
    if form is not None and form not in (*ROW_FORMATS, *FORMATS):
        raise UnknownNameError("export format", form, (*ROW_FORMATS, *FORMATS))
    is_there = output != "-" and Path(output).is_file()
    if form is not None and form in FORMATS:
        rows = _write_examples(chosen, form, task, output, best=best, comments=comments)
    else:
        rows = _write_rows(chosen, form, output)
    if output == "-":
        return
    if form in FORMATS and [*chosen.facets.get("split", ())] and chosen.facets["split"][0] in TEST_SPLITS:
        split = chosen.facets["split"][0]
        click.echo(
            f"kbench: split {split} is what the benchmark asks; what is trained on it has no score there", err=True
        )
    if as_json:
        echo_json({"rows": rows, "path": output})
    else:
        click.echo(f"{rows:,} rows written to {output}{', which was replaced' if is_there else ''}")


def _write_rows(chosen: _Chosen, form: str | None, output: str) -> int:
    if output != "-":
        check_format(Path(output), form)
    selection = select_rows(chosen.path, chosen.config, chosen.columns, chosen.where, chosen.facets)
    if mixed := selection.mixed_gpus():
        click.echo(f"rows of several GPUs are mixed ({', '.join(mixed)}); choose one with --gpu", err=True)
    if output == "-":
        return write_stream(selection, sys.stdout.buffer, form or "jsonl")
    with progress(selection.count(), "exporting") as bar:
        return write_file(selection, Path(output), form, bar.update)


def _write_examples(chosen: _Chosen, form: str, task: str, output: str, *, best: int, comments: bool) -> int:
    if chosen.config != "kernels" or chosen.columns is not None:
        raise UserError(f"--format {form} chooses its own rows and columns; leave --config and --columns out")
    facets = dict(chosen.facets)
    splits = facets.pop("split", ["train"])
    if len(splits) != 1 or splits[0] in ("all", "full"):
        raise UserError(f"--split is {', '.join(splits)}; --format {form} takes one split, so that none are mixed")
    if output != "-":
        check_ending(Path(output), form, ENDINGS)
        click.echo("reading kernels and making rows; a whole split can take minutes …", err=True)
    filters = facets | ({"where": chosen.where} if chosen.where else {})
    corpus = benchmark_of(Corpus.open(list(chosen.path) or None))
    material = Material(corpus, splits[0], filters, comments=comments, best=best)
    kind = format_of(form, task)
    if output == "-":
        return write_rows(kind, material, sys.stdout.buffer)
    return write_training_file(kind, material, Path(output))
