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
    answered: set[tuple[str, int]] = set()
    planned: dict[tuple[str, int], tuple[object, tuple[ProposalRequest, ...]]] = {}
    for entry in read_log(RUNS / name):
        state = states.get(entry.run_id)
        states[entry.run_id] = after = start(entry) if state is None else reduce(state, entry)
        if state is not None and entry.kind == "step_started":
            # A step that nobody has answered is planned again, maybe by other rules, and counts as it was planned last.
            todo = next_action(dataclasses.replace(state, requests=()))
            planned[entry.run_id, entry.step] = todo, after.requests
        if entry.kind == "candidate_proposed":
            answered.add((entry.run_id, entry.step))
    assert answered
    for place in answered & planned.keys():
        todo, requests = planned[place]
        assert todo == StartStep(requests), place
    runs, _ = runs_of(read_spec(RUNS / name / "campaign.json"))
    assert len(runs) == len(states)
    for settings, state in zip(runs, states.values(), strict=True):
        refuse_changes(state.settings, settings)
