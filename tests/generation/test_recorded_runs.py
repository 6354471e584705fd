from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from kbench.generation.campaign.spec import read_spec, runs_of
from kbench.generation.log import read_log
from kbench.generation.search.action import StartStep, next_action
from kbench.generation.search.reducer import reduce, start
from kbench.generation.search.settings import refuse_changes
from kbench.generation.search.state import ProposalRequest, RunState

RUNS = Path(__file__).parents[2] / "docs" / "evidence" / "runs"


@pytest.mark.parametrize("name", ["hard-1", "hard-2"])
def test_every_recorded_step_of_the_language_models_searches_follows_from_the_log_before_it(name: str) -> None:
    states: dict[str, RunState] = {}
    planned: dict[tuple[str, int], tuple[object, tuple[ProposalRequest, ...]]] = {}
    for entry in read_log(RUNS / name):
        state = states.get(entry.run_id)
        states[entry.run_id] = after = start(entry) if state is None else reduce(state, entry)
        if state is not None and entry.kind == "step_started":
            # A step that is planned again, before anybody answered, counts as it was planned last.
            todo = next_action(dataclasses.replace(state, requests=()))
            planned[entry.run_id, entry.step] = todo, after.requests
    for place, (todo, requests) in planned.items():
        assert todo == StartStep(requests), place
    runs, _ = runs_of(read_spec(RUNS / name / "campaign.json"))
    assert len(runs) == len(states)
    for settings, state in zip(runs, states.values(), strict=True):
        refuse_changes(state.settings, settings)
