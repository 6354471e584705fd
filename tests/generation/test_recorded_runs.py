from __future__ import annotations

from pathlib import Path

import pytest

from kbench.generation.campaign.spec import read_spec, runs_of
from kbench.generation.log import read_log
from kbench.generation.search.action import StartStep, next_action
from kbench.generation.search.reducer import reduce, start
from kbench.generation.search.settings import refuse_changes
from kbench.generation.search.state import RunState

RUNS = Path(__file__).parents[2] / "docs" / "evidence" / "runs"


@pytest.mark.parametrize("name", ["hard-1", "hard-2"])
def test_every_recorded_step_of_the_language_models_searches_follows_from_the_log_before_it(name: str) -> None:
    states: dict[str, RunState] = {}
    for entry in read_log(RUNS / name):
        state = states.get(entry.run_id)
        todo = next_action(state) if state is not None and entry.kind == "step_started" else None
        states[entry.run_id] = after = start(entry) if state is None else reduce(state, entry)
        if todo is not None:
            assert todo == StartStep(after.requests), f"{entry.run_id} step {entry.step}"
    runs, _ = runs_of(read_spec(RUNS / name / "campaign.json"))
    assert len(runs) == len(states)
    for settings, state in zip(runs, states.values(), strict=True):
        refuse_changes(state.settings, settings)
