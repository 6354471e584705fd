"""Writers killed at random moments leave what was there or what was to be there."""

from __future__ import annotations

from pathlib import Path

from kbench.benchmark.problems.foreign.user_code import import_file

SCRIPT = Path(__file__).parents[2] / "tests/support/faults/kills.py"


def test_a_killed_writer_leaves_the_state_before_or_after() -> None:
    found = import_file(SCRIPT).attack(0.08)
    assert {name: one["wrong"] for name, one in found.items()} == {"together": 0, "swapped": 0, "appended": 0}
    assert {one.get("left", 0) for one in found.values()} == {0}
    assert sum(one["cut_short"] for one in found.values()) > 0
