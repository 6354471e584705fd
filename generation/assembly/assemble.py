"""Assemble: run logs become a corpus folder. Deterministic: the same inputs give the same rows."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click

from kbench.benchmark.problems.registry import known, named, users
from kbench.benchmark.questions.answers import packed_answers
from kbench.benchmark.questions.draw import draw_questions
from kbench.generation.assembly.figures import Samples, corrected, measured_elsewhere, read_errata, refuted, repeated
from kbench.generation.assembly.gather import Measured, gather
from kbench.generation.assembly.kernels import against_best, kernel_rows, orphans, rows_elsewhere
from kbench.generation.assembly.ledger import Ledger, ledger_of
from kbench.generation.assembly.private import private_edition
from kbench.generation.assembly.recipe import Recipe, recipe_of
from kbench.loaders.importers.run import REPORT
from kbench.loaders.options import echo_json, json_option, out_option
from kbench.loaders.storage.atomic import write_atomically
from kbench.loaders.storage.lines import parse_json, read_lines, read_records
from kbench.schemas import DataError, KernelCounters, PlanSummary, ReferenceTime, UserError, from_dict


@click.command("assemble", short_help="Merge run logs into a corpus.")
@click.argument("sources", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path))
@out_option("Corpus folder to write.", required=True)
@click.option("--problem", "problems", multiple=True, help="File or folder of a problem of yours that was searched.")
@json_option
def command(sources: tuple[Path, ...], out: Path, problems: tuple[str, ...], as_json: bool) -> None:
    """Merge run logs into a corpus: kernels, measurements, repeats, plans, problems, questions, environments, events.

    SOURCES are run folders, or one recipe: a TOML file that names runs, and what else the corpus is made from.
    """
    for name in problems:
        named(name)
    ledger = assemble(recipe_of(sources), out)
    echo_json(ledger.to_json()) if as_json else click.echo(ledger.text())


def assemble(recipe: Recipe, out: Path) -> Ledger:
    """Make a corpus from its recipe; what the folder held before is replaced.

    Returns:
        what the corpus holds and what it cost.

    Raises:
        DataError: a log or another file is damaged, or a lineage is incomplete.
        UserError: the logs hold no measurement, or one of the other inputs no kernel of theirs.
    """
    from kbench.loaders.corpus.writer import CorpusWriter

    samples = Samples(recipe.samples)
    gathered = gather(recipe.runs, samples.entry)
    if not gathered.kernels:
        raise UserError(f"no measured kernel in {', '.join(map(str, recipe.runs))}; run kbench generate first")
    gathered, corrected_in = corrected(gathered, recipe.corrections)
    errata = read_errata(recipe.errata, gathered.kernels)
    gathered = dataclasses.replace(gathered, kernels=refuted(samples.kernels(gathered.kernels), errata))
    kernels = kernel_rows(gathered)
    lost = orphans(kernels)
    if lost:
        raise DataError(f"kernel {lost[0].kernel_id} has the parent {lost[0].parent_id}, which no run measured")
    repeats, repeated_in = repeated(recipe.repeats, {kernel.kernel_id for kernel in kernels})
    moved, moved_to = measured_elsewhere(recipe.other_gpus, gathered.kernels)
    moved = refuted(samples.kernels(moved), errata)
    kernels += rows_elsewhere(moved, kernels)
    measurements = [row for one in (*gathered.kernels, *moved) for row in one.measurements]
    questions = draw_questions(kernels, measurements)
    environments = {one.env_id: one for one in (*gathered.environments, *corrected_in, *repeated_in, *moved_to)}
    kernel_ids, solved = {kernel.kernel_id for kernel in kernels}, {kernel.problem_id for kernel in kernels}
    references = [row for path in recipe.references for row in read_records(path, ReferenceTime)]
    kernels = against_best(kernels, measurements, references)
    counters = [row for path in recipe.counters for row in read_records(path, KernelCounters)]
    tables: dict[str, Sequence[Any]] = {
        "kernels": kernels,
        "measurements": measurements,
        "problems": [one.record() for one in (*known().values(), *users().values()) if one.id in solved],
        "references": [row for row in references if row.problem_id in solved],
        "counters": [row for row in counters if row.kernel_id in kernel_ids],
        "questions": questions,
        "environments": list(environments.values()),
        "repeats": samples.rows(repeats),
        "plans": plan_rows(recipe.plans, gathered.kernels),
        "events": gathered.events,
        **samples.kept,
    }
    if recipe.private:
        tables, held_out = private_edition(tables)
        write_atomically(out.with_name(f"{out.name}-answers.parquet"), packed_answers(held_out))
    with CorpusWriter(out) as writer:
        for name, rows in tables.items():
            writer.replace(name, rows)
        # Of the rows that an import had put there; gone before the manifest lists the folder's files.
        (out / REPORT).unlink(missing_ok=True)
    return ledger_of(gathered, moved, kernels, len(questions))


def plan_rows(paths: Sequence[Path], kernels: Sequence[Measured]) -> list[PlanSummary]:
    """What these kernels launch on the workloads they were measured on; of a kernel planned twice, the last.

    Args:
        paths: files of checks by plan, one kernel per line.
        kernels: those whose plans are wanted.

    Raises:
        DataError: a line is no JSON, or a plan lacks a figure.
        UserError: a file has no plan of any of the kernels.
    """
    plans: dict[str, list[PlanSummary]] = {}
    by_id = {one.node.kernel_id: one for one in kernels}
    for path in paths:
        lines = [line for line, _ in read_lines(path, _parse_plans) if line["kernel_id"] in by_id]
        if not lines:
            raise UserError(f"{str(path)!r} has no plan of a kernel of these runs; name a file made from theirs")
        plans |= {line["kernel_id"]: list(_summaries(line, by_id[line["kernel_id"]])) for line in lines}
    return [row for rows in plans.values() for row in rows]


def _parse_plans(text: str, where: str) -> dict[str, Any]:
    line = parse_json(text, where)
    if not isinstance(line, dict) or not {"kernel_id", "rows", "plans"} <= set(line):
        raise DataError(f"{where} is no record of a planned kernel: it needs kernel_id, rows and plans")
    return line


def _summaries(line: dict[str, Any], one: Measured) -> Iterator[PlanSummary]:
    """One row per measured workload; none of a kernel that could not be planned.

    A plan's own id is left out: it names machine code and arguments, which no table holds.
    """
    same = {name: line[name] for name in ("kernel_id", "problem_id", "registers", "spill_bytes")}
    for workload in sorted({row.workload for row in one.measurements} & set(line["plans"] or ())):
        plan = {name: value for name, value in line["plans"][workload].items() if name != "plan_id"}
        where = f"kernel {one.node.kernel_id} workload {workload!r}"
        yield from_dict(PlanSummary, same | {"gpu": one.gpu, "workload": workload} | plan, where)
