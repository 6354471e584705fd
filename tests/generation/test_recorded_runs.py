"""A campaign that is under way goes on as it began, whatever happens to the methods."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from kbench.generation.assembly.figures import Samples
from kbench.generation.campaign.spec import read_spec, runs_of
from kbench.generation.log import read_log
from kbench.generation.search.action import StartStep, next_action
from kbench.generation.search.reducer import reduce, start
from kbench.generation.search.state import RunState

ROOT = Path(__file__).parents[2]
LLM = ROOT / "docs" / "evidence" / "runs" / "llm"


def test_every_recorded_step_of_the_language_models_searches_follows_from_the_log_before_it() -> None:
    states: dict[str, RunState] = {}
    checked: Counter[str] = Counter()
    for entry in map(Samples(ROOT / "benchmark" / "dataset").entry, read_log(LLM)):
        state = states.get(entry.run_id)
        if state is not None and entry.kind == "step_started":
            todo = next_action(state)
            assert isinstance(todo, StartStep)
            assert [request.to_json() for request in todo.requests] == entry.payload["requests"], entry.run_id
            checked[state.settings.method] += entry.step > 0
        states[entry.run_id] = start(entry) if state is None else reduce(state, entry)
    assert checked["evolve"] > 200
    runs, _ = runs_of(read_spec(LLM / "campaign.json"))
    # Problems that joined the benchmark since have runs in the campaign and none in the log.
    assert set(states) <= {settings.run_id for settings in runs}
