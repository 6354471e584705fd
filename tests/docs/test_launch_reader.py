"""The check of the source reader against launch plans counts what it says it counts."""

from __future__ import annotations

from pathlib import Path

import pytest

from kbench.benchmark.problems.foreign.user_code import import_file
from kbench.benchmark.surrogates.static.reader.values import Launch, Trace

SCRIPT = Path(__file__).parents[2] / "docs" / "evidence" / "scripts" / "launch_reader.py"
script = import_file(SCRIPT)

WORKLOAD = {"name": "large", "outputs": ["y: float32[4,8]", "at: int64[4]"]}
PLAN = {
    "allocated_bytes": 4 * 8 * 4 + 4 * 8 + 64,
    "fills": 0,
    "launches": [
        {"grid": [4, 2, 1], "block": [32, 4, 1], "shared_bytes": 0},
        {"grid": [16, 1, 1], "block": [256, 1, 1], "shared_bytes": 1024},
    ],
}


def trace(*launches: tuple[float | None, float | None, float], allocated: float = 52.0) -> Trace:
    return Trace([Launch(*each) for each in launches], allocated)


def test_a_trace_that_says_what_the_plan_does_is_right_in_everything() -> None:
    found = script.read(trace((8.0, 128.0, 0.0), (16.0, 256.0, 1024.0)), WORKLOAD)
    truth = script.planned(PLAN, WORKLOAD)
    assert found == truth
    tally = script.check(found, truth)
    assert {tally[name] for name in ("blocks", "threads", "shared", "launches")} == {2}
    assert {tally[name] for name in ("answered", "number", "any_scratch", "fills", "scratch")} == {1}


def test_scratch_is_what_is_allocated_beyond_outputs_of_any_width() -> None:
    assert script.outputs_of(WORKLOAD) == (36, 160)
    assert script.planned(PLAN, WORKLOAD).scratch_bytes == 64
    assert script.read(trace(allocated=44.0), WORKLOAD).scratch_bytes == 32


def test_what_is_unknown_or_twice_too_large_is_counted_apart() -> None:
    truth = script.planned(PLAN, WORKLOAD)
    tally = script.check(script.read(trace((16.0, None, 0.0), (16.0, 1024.0, 0.0)), WORKLOAD), truth)
    assert (tally["blocks"], tally["blocks_within_two"]) == (1, 2)
    assert (tally["threads"], tally["threads_within_two"]) == (0, 0)
    assert (tally["shared"], tally["shared_within_two"]) == (1, 1)


def test_no_launch_is_right_where_their_number_is_wrong_or_nothing_is_read() -> None:
    truth = script.planned(PLAN, WORKLOAD)
    for found in (None, script.read(trace((8.0, 128.0, 0.0)), WORKLOAD)):
        tally = script.check(found, truth)
        assert (tally["number"], tally["blocks"], tally["threads"], tally["launches"]) == (0, 0, 0, 2)


def test_the_best_guess_is_the_most_common_answer_of_each_launch() -> None:
    one, two = script.Launches(((8, 64, 0),), 0, False), script.Launches(((8, 128, 0), (1, 32, 0)), 64, False)
    assert script.most_common([one, two, two]) == two
    assert script.most_common([one, one, two]) == one


@pytest.mark.parametrize(("part", "whole", "text"), [(3, 3, "100"), (9999, 10000, "99.9"), (0, 0, "–")])
def test_only_all_is_shown_as_100_percent(part: int, whole: int, text: str) -> None:
    assert script.percent(part, whole) == text
