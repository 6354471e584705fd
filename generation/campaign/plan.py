"""The plan: which runs the options of `kbench generate` describe, and what measures for them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import click

from kbench.benchmark.problems.registry import listed, named, users
from kbench.generation.campaign.campaign import ROUNDS
from kbench.generation.campaign.options import GenerateOptions
from kbench.generation.campaign.spec import read_spec, runs_of
from kbench.generation.executors.executor import Executor
from kbench.generation.executors.local import LocalExecutor, open_harness
from kbench.generation.executors.ray import RayExecutor, harness_maker
from kbench.generation.executors.replay import open_facts, open_recording
from kbench.generation.proposers.folder import folder_runs
from kbench.generation.search.methods.catalogue import searchable
from kbench.generation.search.proposal import Proposer
from kbench.generation.search.settings import FilterSettings, RunSettings, check, defaults_for, parse_budget
from kbench.harness.commands.doctor import require_gpus
from kbench.harness.device.gpu import Gpu
from kbench.schemas import Backend, UserError

WITHOUT_GPU = "`kbench generate study CORPUS --out FOLDER` replays every method on measurements made before"


@dataclasses.dataclass(frozen=True, slots=True)
class PlannedRuns:
    """The runs that options describe."""

    runs: list[RunSettings]
    proposer_for: Callable[[RunSettings], Proposer] | None = None
    """The proposer of each, where its settings do not name it."""
    order: str = ROUNDS
    """In which order they advance."""


def planned_runs(options: GenerateOptions) -> PlannedRuns:
    """The runs that the options describe.

    Raises:
        UserError: names the option or field that is missing or wrong.
    """
    if options.mode == "problem_id":
        return PlannedRuns([_single(options)])
    if options.from_folder is not None:
        return PlannedRuns(
            *folder_runs(options.from_folder, options.proposer or "human", options.method, options.variants)
        )
    assert options.campaign is not None
    spec = read_spec(options.campaign)
    runs, uncovered = runs_of(spec)
    if uncovered:
        click.echo(f"no genome family for {len(uncovered)} cells, left out: {', '.join(uncovered)}", err=True)
    if not runs:
        raise UserError("the campaign has no runs; name problems that a genome family covers, methods and random_seeds")
    return PlannedRuns(runs, order=spec.order)


def _single(options: GenerateOptions) -> RunSettings:
    if options.backend is None:
        raise UserError("--backend is missing; a search needs it")
    if options.budget is None:
        raise UserError("--budget is missing; a search needs it")
    proposer = options.proposer or "genome"
    settings = RunSettings(
        problem_id=listed(named(options.problem_id or "").id).id, backend=Backend(options.backend),
        method=searchable(options.method), proposer=proposer, seed=options.seed,
        filter=None if options.surrogate is None else FilterSettings(surrogate=options.surrogate),
        budget=parse_budget(options.budget), **defaults_for(proposer),
    )  # fmt: skip
    check(settings)
    return settings


def chosen_executor(options: GenerateOptions) -> Executor:
    """What measures.

    Raises:
        UserError: there is no such recording or GPU.
        InfrastructureError: this machine has no GPU.
    """
    if options.executor == "ray":
        if users():
            raise UserError("--executor ray searches problems of the benchmark; other machines do not have your file")
        return RayExecutor(harness_maker(options.half_width))
    if options.executor == "local":
        gpu = Gpu.parse(options.gpu)
        require_gpus([gpu], WITHOUT_GPU)
        return LocalExecutor(lambda: open_harness(gpu, options.half_width))
    if options.recorded is None:
        raise UserError(f"--executor {options.executor} needs --recorded: a run folder or a corpus with measurements")
    return open_recording(options.recorded) if options.executor == "replay" else open_facts(options.recorded)
