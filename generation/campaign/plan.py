"""Plan: what the options of `kbench generate` ask for: the runs, and who measures for them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kbench.generation.campaign.options import mode_of
from kbench.schemas import UserError

if TYPE_CHECKING:
    from kbench.generation.executors.executor import Executor
    from kbench.generation.search.proposal import Proposer
    from kbench.generation.search.settings import FilterSettings, RunSettings

Options = Mapping[str, Any]
Runs = tuple["list[RunSettings]", "Callable[[RunSettings], Proposer] | None"]
"""Runs, and who proposes for them where their settings do not say."""

WITHOUT_GPU = "`kbench generate study CORPUS --out FOLDER` replays every method on measurements made before"


def planned_runs(options: Options) -> Runs:
    """The runs that the options describe.

    Raises:
        UserError: names the option or field that is missing or wrong.
    """
    mode = mode_of(options)
    if mode == "campaign":
        return _campaign(options["campaign"]), None
    if mode == "from_folder":
        from kbench.generation.proposers.folder import folder_runs

        writer, variants = options["proposer"] or "human", options["variants"]
        return folder_runs(options["from_folder"], writer, options["method"], variants)
    return [_single(options)], None


def _campaign(path: Path) -> list[RunSettings]:
    from kbench.generation.campaign.spec import read_spec, runs_of

    runs, uncovered = runs_of(read_spec(path))
    if uncovered:
        click.echo(f"no genome family for {len(uncovered)} cells, left out: {', '.join(uncovered)}", err=True)
    if not runs:
        raise UserError("the campaign has no runs; name problems that a genome family covers, methods and random_seeds")
    return runs


def _single(options: Options) -> RunSettings:
    from kbench.benchmark.problems.registry import listed
    from kbench.generation.search.budget import parse_budget
    from kbench.generation.search.methods.registry import search_method
    from kbench.generation.search.settings import RunSettings, check
    from kbench.schemas import Backend

    for name in ("backend", "budget"):
        if options[name] is None:
            raise UserError(f"--{name} is missing; a search needs it")
    settings = RunSettings(
        problem_id=listed(options["problem_id"]).id, backend=Backend(options["backend"]),
        method=search_method(options["method"]).name, proposer=options["proposer"] or "genome", seed=options["seed"],
        seeds=options["seeds"], batch=options["batch"], filter=_filter(options), budget=parse_budget(options["budget"]),
    )  # fmt: skip
    check(settings)
    return settings


def _filter(options: Options) -> FilterSettings | None:
    from kbench.generation.search.settings import FilterSettings

    if options["surrogate"] is None:
        return None
    return FilterSettings(
        surrogate=options["surrogate"], draw=_draw(options["draw"]), unsure_share=options["unsure_share"],
        confidence=options["confidence"],
    )  # fmt: skip


def _draw(text: str) -> int:
    digits = text.removesuffix("x")
    if not digits.isdecimal():
        raise UserError(f"draw is {text!r}; write a multiple such as 4x")
    return int(digits)


def chosen_executor(options: Options) -> Executor:
    """Who measures.

    Raises:
        UserError: there is no such recording or GPU.
        InfrastructureError: this machine has no GPU.
    """
    if options["executor"] == "replay":
        return _replay(options["recorded"])
    if options["executor"] == "ray":
        from kbench.generation.executors.ray import RayExecutor, harness_maker

        return RayExecutor(harness_maker(options["half_width"]))
    return _local(options["gpu"], options["half_width"])


def _local(gpu: int, half_width: float) -> Executor:
    from kbench.generation.executors.local import LocalExecutor, open_harness, workload_count
    from kbench.harness.device.doctor import require_gpus

    require_gpus([gpu], WITHOUT_GPU)
    return LocalExecutor(lambda: open_harness(gpu, half_width), workload_count)


def _replay(recorded: Path | None) -> Executor:
    from kbench.generation.executors.replay import ReplayExecutor, recorded_environments, recorded_measurements

    if recorded is None:
        raise UserError("--executor replay needs --recorded: a run folder or a corpus with measurements")
    return ReplayExecutor(recorded_measurements(recorded), recorded_environments(recorded))
