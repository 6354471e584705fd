"""The config `live` of the dataset: add the kernels of a study from its logs; run a study again against its rows.

    python docs/evidence/scripts/live_kernels.py add NAME RUN
    python docs/evidence/scripts/live_kernels.py check docs/evidence/runs/live-2*.json

A search is a function of what it measured (docs/results/search-live-2.md), so one that is told the recorded speedups
must ask for exactly the recorded kernels in the recorded steps. Where a surrogate had chosen, the recorded choice is
taken. A kernel's id is the hash of its problem, backend and source: an equal id is an equal text.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import click

from kbench.benchmark.problems import problem
from kbench.generation.assembly.kernels import LICENSE, Measured, ancestors
from kbench.generation.campaign.plan import read_spec, runs_of
from kbench.generation.executors.executor import Result
from kbench.generation.log import by_run, read_log
from kbench.generation.proposers.mixed import proposer
from kbench.generation.proposers.pool import live_measurements
from kbench.generation.search import action
from kbench.generation.search.methods.method import available, operator_of
from kbench.generation.search.reducer import replay as replay_log
from kbench.generation.search.search import Search
from kbench.generation.search.settings import HASHES, RunSettings
from kbench.generation.search.state import outcome_of
from kbench.loaders.corpus.corpus import Corpus
from kbench.loaders.corpus.writer import DENSE_LEVEL, CorpusWriter
from kbench.schemas import LiveKernel, Measurement, from_dict
from kbench.schemas.ids import content_hash

DATASET = Path("benchmark/dataset")
Row = Mapping[str, Any]
"""A row of the config."""


def logged(folder: Path, study: str, splits: Mapping[str, str]) -> Iterator[LiveKernel]:
    """The kernels that the searches of a log measured, search by search."""
    for run_id, entries in by_run(read_log(folder)).items():
        state = replay_log(entries)
        assert state is not None
        settings, known = state.settings, available(state.settings.proposer)
        measured = [entry for entry in entries if entry.kind == "kernel_measured"]
        for number, entry in enumerate(measured):
            rows = tuple(from_dict(Measurement, row) for row in entry.payload["measurements"])
            node = state.nodes[entry.payload["kernel_id"]]
            one = Measured(run_id, settings, node, rows, tuple(ancestors(state, node)))
            outcome = outcome_of(rows)
            yield LiveKernel(
                study=study, run_id=run_id, number=number, step=node.step, problem_id=settings.problem_id,
                family=problem(settings.problem_id).family, backend=settings.backend, gpu=one.gpu,
                split=splits[settings.problem_id],
                search_method=one.search_method, proposer=node.proposer, model=one.model,
                operator=operator_of(node, known).value, parent_id=node.parent_id, other_id=node.other_id,
                lineage=one.lineage, recipe_json=json.dumps(node.recipe, sort_keys=True) if one.lineage else None,
                kernel_id=node.kernel_id, source=node.source, license=LICENSE, status=outcome.status,
                speedup=outcome.speedup,
                workloads=tuple(row.workload for row in rows), speedups=tuple(row.speedup for row in rows),
                gpu_seconds=entry.payload["gpu_seconds"], measured_at=entry.at,
            )  # fmt: skip


class Recorded(RunSettings):
    """Settings that the study ran with: a search draws by its id, which two settings since retired are part of.

    Searches of a cell did not share their first kernels, and no surrogate forecast against parents.
    """

    @property
    def run_id(self) -> str:
        """The id on record."""
        data = {name: value for name, value in self.to_json().items() if name not in ("budget", "first", *HASHES)}
        if self.filter is not None:
            data["filter"].pop("against_parent")
        digest = content_hash(repr(sorted((data | {"islands": 1, "migrate_every": 4}).items())))[:8]
        return f"{super().run_id.rpartition('-')[0]}-{digest}"


class Replayed(Search):
    """A search whose surrogate chooses what is on record."""

    def __init__(self, settings: RunSettings, steps: Mapping[int, Collection[str]], at: str) -> None:
        super().__init__(settings, proposer(settings.proposer), lambda: at)
        self._steps = steps

    def resume(self) -> None:
        """Go on after steps that found nothing new, as every further call of the study did."""
        self._record("run_resumed")

    def _filter(self, todo: action.Filter) -> None:
        chosen = self._steps[self.state.step]
        decisions = [
            {"kernel_id": key, "measure": key in chosen, "forecast": {"probabilities": None}} for key in todo.kernel_ids
        ]
        self._record("candidates_filtered", surrogate="recorded", decisions=decisions)


def replay(settings: RunSettings, rows: Sequence[Row]) -> None:
    """Run a search again, as far as its rows go.

    Raises:
        ValueError: it asks for other kernels than the recorded ones, or one has another source or genome.
    """
    steps: defaultdict[int, dict[str, Row]] = defaultdict(dict)
    for row in rows:
        steps[row["step"]][row["kernel_id"]] = row
    search = Replayed(settings, steps, min(row["measured_at"] for row in rows))
    left = {row["kernel_id"] for row in rows}
    while left:
        asked = {kernel.kernel_id: kernel for kernel in search.advance()}
        step = search.state.step
        if search.done and step <= max(steps):
            search.resume()
            continue
        if not asked or asked.keys() != steps[step].keys():
            odd = sorted(asked.keys() ^ steps[step].keys())
            raise ValueError(f"run {settings.run_id!r} step {step}: asked for and recorded differ in {odd}")
        for key, row in steps[step].items():
            node = search.state.nodes[key]
            if (node.source, node.recipe) != (row["source"], json.loads(row["recipe_json"])):
                raise ValueError(f"run {settings.run_id!r}: kernel {key} has another source or genome")
            search.receive(Result(key, live_measurements(row)))
            left.remove(key)


@click.group()
def main() -> None:
    """Kernels of the live studies."""


@main.command()
@click.argument("study")
@click.argument("runs", type=click.Path(exists=True, path_type=Path))
@click.option("--dataset", type=click.Path(exists=True, path_type=Path), default=DATASET)
def add(study: str, runs: Path, dataset: Path) -> None:
    """Add a study's kernels from its logs, in place of what the dataset had of it."""
    corpus = Corpus.open(dataset)
    known = corpus.table("live").to_pylist() if "live" in corpus.configs else []
    others = [from_dict(LiveKernel, row) for row in known if row["study"] != study]
    splits = dict(zip(*corpus.table("kernels", columns=["problem_id", "split"]).to_pydict().values(), strict=True))
    found = list(logged(runs, study, splits))
    with CorpusWriter(dataset, DENSE_LEVEL) as writer:
        writer.replace("live", [*others, *found])
    click.echo(f"{len(found):,} kernels of {study}, {len(others):,} of other studies")


@main.command()
@click.argument("campaigns", type=click.Path(exists=True, path_type=Path), nargs=-1, required=True)
@click.option("--dataset", type=click.Path(exists=True, path_type=Path), default=DATASET)
def check(campaigns: Sequence[Path], dataset: Path) -> None:
    """Run the searches of some campaigns again."""
    by_run: defaultdict[str, list[Row]] = defaultdict(list)
    for row in Corpus.open(dataset).table("live").to_pylist():
        by_run[row["run_id"]].append(row)
    runs = [one for path in campaigns for one in runs_of(read_spec(path))[0]]
    planned = [
        Recorded(**{field.name: getattr(one, field.name) for field in fields(one)} | {"first": ""}) for one in runs
    ]
    ran = [one for one in planned if one.run_id in by_run]
    if not ran:
        raise click.ClickException(f"none of these {len(planned)} searches is on record in {str(dataset)!r}")
    for one in ran:
        replay(one, by_run[one.run_id])
    kernels = sum(len(by_run[one.run_id]) for one in ran)
    click.echo(f"{len(ran)} searches of {len(planned)} ran, and ask for exactly the {kernels:,} kernels on record")


if __name__ == "__main__":
    main()
