"""Assemble: run logs become a corpus folder. Deterministic: the same inputs give the same rows."""

from __future__ import annotations

import dataclasses
import itertools
import json
import math
import tomllib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import click
import pyarrow as pa
import pyarrow.parquet as pq

from kbench.benchmark.problems.registry import known, named, users
from kbench.benchmark.questions.answers import packed_answers, without_answer, without_figures
from kbench.benchmark.questions.build import TEST_SPLITS
from kbench.benchmark.questions.draw import draw_questions
from kbench.benchmark.work.table import read_work_text
from kbench.generation.assembly.figures import Samples, corrected, measured_elsewhere, read_errata, refuted, repeated
from kbench.generation.assembly.kernels import (
    Gathered,
    Measured,
    against_best,
    gather,
    kernel_rows,
    rows_elsewhere,
    write_unmeasured,
)
from kbench.loaders.corpus.corpus import Corpus
from kbench.loaders.corpus.manifest import RELEASE
from kbench.loaders.corpus.places import is_corpus
from kbench.loaders.corpus.writer import CorpusWriter
from kbench.loaders.importers.run import REPORT
from kbench.loaders.options import echo_json, json_option, out_option
from kbench.loaders.storage.atomic import write_atomically
from kbench.loaders.storage.lines import parse_json, read_lines
from kbench.schemas import DataError, Kernel, PlanSummary, Question, Status, UserError, from_dict


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """The inputs of one corpus, as a TOML file whose paths are relative to its own folder.

    Each field but `release`, `samples` and `private` is a list of paths in the file.
    """

    runs: tuple[Path, ...]
    """Run folders or log files, each run in one of them."""
    samples: Path | None = None
    """Corpus that holds what the logs and corpora below leave out: texts, samples, plans, payloads of its events."""
    corrections: tuple[Path, ...] = ()
    """Corpora with measurements of these kernels that replace wrong logged ones; a later corpus overrules an earlier
    one."""
    repeats: tuple[Path, ...] = ()
    """Corpora with measurements of these kernels made again, kept beside the first (`kbench measure --corpus`)."""
    other_gpus: tuple[Path, ...] = ()
    """Corpora with measurements of these kernels on GPUs that the logs do not have; they become further rows."""
    references: tuple[Path, ...] = ()
    """Files of reference times (`kbench problems references`), in place of those that `samples` has."""
    counters: tuple[Path, ...] = ()
    """Files of hardware counters (`kbench kernels counters`), in place of those that `samples` has; those of other
    kernels are left out."""
    tuning: tuple[Path, ...] = ()
    """Files of tuning times (`docs/evidence/scripts/tuning.py`), in place of those that `samples` has."""
    plans: tuple[Path, ...] = ()
    """Files that say what these kernels launch, one kernel per line; they overrule the plans of `samples`."""
    totals: tuple[Path, ...] = ()
    """Parquet files of counted work by kernel and workload; that of kernels without plans is left out."""
    errata: tuple[Path, ...] = ()
    """YAML files of kernels that were found wrong after they were measured: what is wrong, by kernel id."""
    release: str | None = None
    """The number under which the corpus is published, such as 2.2.0."""
    private: bool = False
    """Whether held-out questions keep their answers in a file of their own beside the corpus."""


def recipe_of(sources: Sequence[Path]) -> Recipe:
    """The recipe that a command names: one TOML file, or run folders and log files alone."""
    recipes = [path for path in sources if path.suffix == ".toml"]
    if not recipes:
        return Recipe(runs=tuple(sources))
    path = recipes[0]
    if len(sources) > 1:
        raise UserError(f"{str(path)!r} is a recipe and stands alone; list the runs in it")
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise DataError(f"{path}: not TOML: {error}") from None
    names = [field.name for field in dataclasses.fields(Recipe)]
    if unknown := sorted(set(data) - set(names)):
        raise DataError(f"{path}: unknown field {unknown[0]!r}; known: {', '.join(names)}")
    if not data.get("runs"):
        raise DataError(f"{path}: field 'runs' is missing; list the run folders")
    fields: dict[str, Any] = {"private": data.pop("private", False)}
    if not isinstance(fields["private"], bool):
        raise DataError(f"{path}: field 'private' is {fields['private']!r}; it must be true or false")
    fields["release"] = data.pop("release", None)
    release = fields["release"]
    if release is not None and not (isinstance(release, str) and RELEASE.fullmatch(release)):
        raise DataError(f"{path}: field 'release' is {release!r}; it must be a text such as '2.2.0'")
    for name, value in data.items():
        listed_paths = [value] if name == "samples" else value
        if not isinstance(listed_paths, list) or not all(isinstance(item, str) for item in listed_paths):
            raise DataError(f"{path}: field {name!r} is {value!r}; it must be a list of paths")
        paths = tuple(path.parent / item for item in listed_paths)
        if missing := [one for one in paths if not one.exists()]:
            raise UserError(f"{path}: field {name!r} names {str(missing[0])!r}, which does not exist")
        fields[name] = paths[0] if name == "samples" else paths
    return Recipe(**fields)


BY_KERNEL = ("measurements", "repeats", "plans", "counters")
"""Tables whose rows say how one kernel did."""


@click.command("assemble", short_help="Merge run logs into a corpus.")
@click.argument("sources", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path))
@out_option("Corpus folder to write.", required=True)
@click.option("--problem", "problems", multiple=True, help="File or folder of a problem of yours that was searched.")
@click.option("--unmeasured", is_flag=True, help="Collect the kernels that wait to be measured instead.")
@json_option
def command(sources: tuple[Path, ...], out: Path, problems: tuple[str, ...], unmeasured: bool, as_json: bool) -> None:
    """Merge run logs into a corpus: kernels, measurements, repeats, plans, problems, questions, environments, events.

    SOURCES are run folders, or one recipe: a TOML file that names runs, and what else the corpus is made from.
    """
    for name in problems:
        named(name)
    if unmeasured:
        count = write_unmeasured(sources, out)
        echo_json({"path": str(out), "kernels": count}) if as_json else click.echo(
            f"{out}: {count:,} kernel{'s' * (count != 1)}"
        )
        return
    ledger = assemble(recipe_of(sources), out, lambda text: click.echo(text, err=True))
    echo_json(dataclasses.asdict(ledger)) if as_json else click.echo(ledger.text())


def assemble(
    recipe: Recipe, out: Path, report: Callable[[str], None] = lambda text: None, *, replace: bool = False
) -> Ledger:
    """Make a corpus from its recipe, in place of an earlier one of the same runs.

    Args:
        recipe: the inputs.
        out: the corpus folder.
        report: is told what is being done.
        replace: whether a corpus of other runs may be replaced too.

    Returns:
        what the corpus holds and what it cost.

    Raises:
        UserError: the folder holds a corpus of other runs.
    """
    if recipe.samples:
        report(f"texts and samples in {recipe.samples}")
    samples = Samples(recipe.samples)
    gathered = gather(recipe.runs, samples.entry, report)
    if not gathered.kernels:
        raise UserError(f"no measured kernel in {', '.join(map(str, recipe.runs))}; run kbench generate first")
    if not replace and (recipe.samples is None or recipe.samples.resolve() != out.resolve()):
        _refuse_another_corpus(out, {state.run_id for state in gathered.states})
    report("corrections, repeats, other GPUs")
    gathered, corrected_in = corrected(gathered, recipe.corrections)
    errata = read_errata(recipe.errata, gathered.kernels)
    gathered = dataclasses.replace(gathered, kernels=refuted(samples.kernels(gathered.kernels), errata))
    kernels = kernel_rows(gathered)
    kernel_ids = {kernel.kernel_id for kernel in kernels}
    for kernel in kernels:
        if kernel.parent_id is not None and kernel.parent_id not in kernel_ids:
            raise DataError(f"kernel {kernel.kernel_id} has the parent {kernel.parent_id}, which no run measured")
    repeats, repeated_in = repeated(recipe.repeats, kernel_ids)
    moved, moved_to = measured_elsewhere(recipe.other_gpus, gathered.kernels)
    moved = refuted(samples.kernels(moved), errata)
    kernels += rows_elsewhere(moved, kernels)
    measurements = [row for one in (*gathered.kernels, *moved) for row in one.measurements]
    report("questions")
    questions = draw_questions(kernels, measurements)
    used = {row.env_id for row in (*measurements, *repeats)}
    published = (one for one in samples.table("environments") if one.env_id in used)
    sources = (published, gathered.environments, corrected_in, repeated_in, moved_to)
    environments = {one.env_id: one for one in itertools.chain(*sources)}
    solved = {kernel.problem_id for kernel in kernels}
    references = samples.table("references", recipe.references)
    kernels = against_best(kernels, measurements, references)
    times = samples.table("tuning", recipe.tuning)
    tables: dict[str, Sequence[Any]] = {
        "kernels": kernels,
        "measurements": measurements,
        "problems": [one.record() for one in (*known().values(), *users().values()) if one.id in solved],
        "references": [row for row in references if row.problem_id in solved],
        "counters": [row for row in samples.table("counters", recipe.counters) if row.kernel_id in kernel_ids],
        "questions": questions,
        "environments": list(environments.values()),
        "repeats": samples.rows(repeats),
        "plans": with_work(plan_rows(recipe.plans, gathered.kernels, samples.table("plans")), recipe.totals),
        "events": gathered.events,
        "live": samples.table("live"),
        "tuning": [one if one.env_id in environments else dataclasses.replace(one, env_id=None) for one in times],
    }
    if recipe.private:
        tables, held_out = private_edition(tables)
        write_atomically(out.with_name(f"{out.name}-answers.parquet"), packed_answers(held_out))
    with CorpusWriter(out) as writer:
        for name, rows in tables.items():
            report(f"table {name}: {len(rows):,} rows")
            writer.replace(name, rows)
        writer.release = recipe.release
        # Of the rows that an import had put there; gone before the manifest lists the folder's files.
        (out / REPORT).unlink(missing_ok=True)
    return ledger_of(gathered, moved, kernels, len(questions))


def _refuse_another_corpus(out: Path, run_ids: set[str]) -> None:
    """Refuse to replace a corpus with kernels that these runs do not have; runs that went on have all of them."""
    if not is_corpus(out):
        return
    corpus = Corpus.open(out)
    held = set(corpus.table("kernels", columns=["run_id"]).column("run_id").to_pylist())
    if others := sorted(held - run_ids):
        raise UserError(
            f"--out {str(out)!r} holds a corpus already: {corpus.rows():,} kernels, of other runs than these, "
            f"such as {others[0]!r}; name a new folder, or remove that one"
        )


def plan_rows(
    paths: Sequence[Path], kernels: Sequence[Measured], published: Iterable[PlanSummary] = ()
) -> list[PlanSummary]:
    """What these kernels launch on the workloads they were measured on; of a kernel planned twice, the last.

    Args:
        paths: files of checks by plan, one kernel per line.
        kernels: those whose plans are wanted.
        published: rows of an earlier corpus, which count for kernels that the files do not have.

    Raises:
        DataError: a line is no JSON, or a plan lacks a figure.
        UserError: a file has no plan of any of the kernels.
    """
    plans: dict[str, list[PlanSummary]] = {}
    by_id = {one.node.kernel_id: one for one in kernels}
    measured = {(row.kernel_id, row.gpu, row.workload) for one in kernels for row in one.measurements}
    for row in published:
        if (row.kernel_id, row.gpu, row.workload) in measured:
            plans.setdefault(row.kernel_id, []).append(row)
    for path in paths:
        lines = [line for line, _ in read_lines(path, _parse_plans) if line["kernel_id"] in by_id]
        if not lines:
            raise UserError(f"{str(path)!r} has no plan of a kernel of these runs; name a file made from theirs")
        plans |= {line["kernel_id"]: list(_summaries(line, by_id[line["kernel_id"]])) for line in lines}
    return [row for rows in plans.values() for row in rows]


def with_work(plans: Sequence[PlanSummary], paths: Sequence[Path]) -> list[PlanSummary]:
    """Plans with the work that was counted of them; of work counted twice, the last.

    Args:
        plans: the rows.
        paths: Parquet files with kernel_id, workload and work_json (`docs/evidence/scripts/totals.py`).
    """
    plans = list(plans)
    for path in paths:
        try:
            table = pq.read_table(path, columns=["kernel_id", "workload", "work_json"]).to_pylist()
        except (pa.ArrowException, KeyError) as error:
            raise DataError(f"{path} is no table of kernel_id, workload and work_json: {error}") from None
        counted = {(row["kernel_id"], row["workload"]): row["work_json"] for row in table}
        places = [at for at, row in enumerate(plans) if (row.kernel_id, row.workload) in counted]
        if not places:
            raise UserError(f"{str(path)!r} has no work of a kernel whose plans are known; name a file made from these")
        for at in places:
            row = plans[at]
            where = f"{path}: kernel {row.kernel_id} workload {row.workload!r}"
            text = counted[row.kernel_id, row.workload]
            if len(read_work_text(text, where)) > row.configurations:
                raise DataError(f"{where} has work of more plans than the {row.configurations} it has; count it again")
            plans[at] = dataclasses.replace(row, work_json=text)
    return plans


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


def private_edition(tables: Mapping[str, Sequence[Any]]) -> tuple[dict[str, Sequence[Any]], list[Question]]:
    """A corpus whose held-out questions have no answers and whose tables give none away, and those questions.

    Known kernels of few-shot questions keep their figures. The log of a search that tried a hidden kernel goes as a
    whole: which kernels became parents tells which were fast.
    """
    questions: Sequence[Question] = tables["questions"]
    shown = {key for one in questions for key in one.known_ids}
    hidden = {
        one.kernel_id: one.run_id
        for one in tables["kernels"]
        if one.split in TEST_SPLITS and one.kernel_id not in shown
    }
    runs = set(hidden.values())
    left = {name: [row for row in tables[name] if row.kernel_id not in hidden] for name in BY_KERNEL}
    kernels = [without_figures(one) if one.kernel_id in hidden else one for one in tables["kernels"]]
    public_questions = [without_answer(one) if one.split in TEST_SPLITS else one for one in questions]
    events = [row for row in tables["events"] if row.run_id not in runs]
    held_out = [one for one in questions if one.split in TEST_SPLITS]
    return {**tables, **left, "kernels": kernels, "questions": public_questions, "events": events}, held_out


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Ledger:
    """Counts and costs of an assembled corpus; `kbench data info` shows what its tables say."""

    runs: int
    problems: int
    kernels: int
    """Distinct ones, on however many GPUs they were measured."""
    ok: int
    """Those that are correct on the GPU of the logs."""
    by_gpu: Mapping[str, int]
    """Rows."""
    questions: int
    gpu_seconds: float
    """Verifying and timing, on other GPUs too."""
    build_cpu_seconds: float
    tokens: int
    by_model: Mapping[str, int]
    """Replies of language models, those without a kernel included."""

    def text(self) -> str:
        """The ledger as lines of text."""
        rows = ", ".join(f"{gpu} {count}" for gpu, count in self.by_gpu.items())
        lines = [
            f"{self.kernels} kernels ({self.ok} ok) of {self.problems} problems from {self.runs} runs, "
            f"{self.questions} questions",
            f"rows: {rows}",
            f"{self.gpu_seconds:.1f} GPU seconds, {self.build_cpu_seconds:.1f} CPU seconds of building, "
            f"{self.tokens} tokens",
        ]
        if self.by_model:
            models = ", ".join(f"{name} {count}" for name, count in self.by_model.items())
            lines.append(f"replies: {models}")
        return "\n".join(lines)


def ledger_of(gathered: Gathered, moved: Sequence[Measured], rows: Sequence[Kernel], questions: int) -> Ledger:
    """The ledger of a corpus."""
    logged = rows[: len(gathered.kernels)]
    measurements = [one for row in (*gathered.kernels, *moved) for one in row.measurements]
    moved_build = [one.build_s or 0.0 for row in moved for one in row.measurements]
    proposals = [event for event in gathered.events if event.kind in ("candidate_proposed", "proposal_failed")]
    recipes = [json.loads(event.payload_json).get("recipe") or {} for event in proposals]
    return Ledger(
        runs=len(gathered.states),
        problems=len({row.problem_id for row in logged}),
        kernels=len(logged),
        ok=sum(row.status is Status.OK for row in logged),
        by_gpu=dict(Counter(str(row.gpu) for row in rows).most_common()),
        questions=questions,
        gpu_seconds=math.fsum((one.verify_s or 0.0) + (one.time_s or 0.0) for one in measurements),
        build_cpu_seconds=math.fsum((*(state.charge.build_seconds for state in gathered.states), *moved_build)),
        tokens=sum(state.charge.tokens for state in gathered.states),
        by_model=dict(Counter(recipe["model"] for recipe in recipes if "model" in recipe).most_common()),
    )
