"""Session: a run folder opened, its runs brought up to date from the log, and driven over an executor."""

from __future__ import annotations

import dataclasses
import functools
import json
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from kbench.generation.campaign import WRITE_EVERY_S, Campaign, Progress
from kbench.generation.entry import Clock, utc_now
from kbench.generation.executors.executor import Executor
from kbench.generation.filter import Surrogate
from kbench.generation.log import LogWriter, by_run, read_log
from kbench.generation.pack import ENVIRONMENTS
from kbench.generation.proposers.proposal import Proposer
from kbench.generation.proposers.registry import proposer as proposer_named
from kbench.generation.question import surrogate_named
from kbench.generation.search import Search
from kbench.generation.settings import Settings, refuse_changes
from kbench.generation.state import RunState, replay
from kbench.schemas import Environment, from_dict, to_dict


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Drive:
    """How runs are driven, the runs themselves aside."""

    executor: Executor
    deadline_s: float | None = None
    gpu_seconds: float | None = None
    clock: Clock = utc_now
    proposer_for: Callable[[Settings], Proposer] | None = None
    """Overrides the proposer a run's settings name."""
    surrogate_for: Callable[[str], Surrogate] = surrogate_named
    report: Callable[[Progress], None] = lambda progress: None
    write_every_s: float = WRITE_EVERY_S
    order: str = "rounds"


def recorded_states(folder: Path) -> dict[str, RunState]:
    """The state of every run in a folder's log; empty when there is no log yet."""
    if not any(folder.glob("events*.jsonl*")):
        return {}
    states = {run_id: replay(entries) for run_id, entries in by_run(read_log(folder)).items()}
    return {run_id: state for run_id, state in states.items() if state is not None}


def drive(folder: Path, runs: Sequence[Settings], how: Drive) -> Progress:
    """Start or resume runs: the same code, since a run is its log.

    Raises:
        UserError: a run in the folder was started with other settings; the message shows the difference.
    """
    began = time.monotonic()
    folder.mkdir(parents=True, exist_ok=True)
    with LogWriter(folder) as log:
        states = recorded_states(folder)
        _refuse_changed(states, runs)
        with how.executor as executor:
            facts = _record_environments(folder, executor)
            # Opening the log and the GPU counts: whoever sets a deadline means the whole command.
            left = None if how.deadline_s is None else how.deadline_s - (time.monotonic() - began)
            campaign = Campaign(
                executor,
                log,
                deadline_s=left,
                gpu_seconds=how.gpu_seconds,
                report=how.report,
                write_every_s=how.write_every_s,
                order=how.order,
            )
            by_key = {_key(state.settings): state for state in states.values()}
            driven = {_key(settings) for settings in runs}
            campaign.remember(state for key, state in by_key.items() if key not in driven)
            for search in _searches(runs, by_key, campaign, how, facts):
                campaign.add(search)
            try:
                return campaign.run()
            finally:
                _record_environments(folder, executor)


def _refuse_changed(states: Mapping[str, RunState], runs: Sequence[Settings]) -> None:
    if len(states) == 1 and len(runs) == 1:
        refuse_changes(next(iter(states.values())).settings, runs[0])
    recorded = {_key(state.settings): state.settings for state in states.values()}
    for settings in runs:
        if _key(settings) in recorded:
            refuse_changes(recorded[_key(settings)], settings)


Key = tuple[str, str, str, int, str]
"""What tells the runs of a folder apart."""


def _key(settings: Settings) -> Key:
    return (settings.problem_id, settings.backend.value, settings.search_method, settings.seed, settings.label)


def _searches(
    runs: Sequence[Settings],
    states: Mapping[Key, RunState],
    campaign: Campaign,
    how: Drive,
    facts: Sequence[Environment],
) -> list[Search]:
    maker = functools.cache(proposer_named)
    gpu = facts[0].gpu if facts else "unknown"
    gpu_facts = json.dumps(to_dict(facts[0]), sort_keys=True) if facts else "{}"
    return [
        Search(
            settings,
            how.proposer_for(settings) if how.proposer_for else maker(settings.proposer),
            how.clock,
            surrogate=how.surrogate_for(settings.filter.surrogate) if settings.filter else None,
            state=states.get(_key(settings)),
            seen_elsewhere=campaign.seen,
            siblings=functools.partial(campaign.siblings, settings.run_id, settings.problem_id, settings.backend),
            gpu=gpu,
            gpu_facts_json=gpu_facts,
        )
        for settings in runs
    ]


def read_environments(folder: Path) -> list[Environment]:
    """The environments a folder's measurements were made in."""
    path = folder / ENVIRONMENTS
    if not path.is_file():
        return []
    lines = path.read_text(encoding="utf-8").splitlines()
    return [from_dict(Environment, json.loads(line), f"{path} line {n}") for n, line in enumerate(lines, 1)]


def _record_environments(folder: Path, executor: Executor) -> list[Environment]:
    known = {environment.env_id for environment in read_environments(folder)}
    current = executor.environments()
    fresh = [environment for environment in current if environment.env_id not in known]
    if fresh:
        with (folder / ENVIRONMENTS).open("a", encoding="utf-8") as stream:
            stream.writelines(json.dumps(to_dict(environment), sort_keys=True) + "\n" for environment in fresh)
    return current
