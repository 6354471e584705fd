"""Places: ties share a rank, intervals come from paired draws, a missing track counts as last."""

from __future__ import annotations

import numpy as np
import pytest

from kbench.leaderboard.scoring.rank import OVERALL_RULE, Headline, rank_overall, rank_track


def _headlines(**values: tuple[float, list[float]]) -> dict[str, Headline]:
    return {name: Headline(value, draws) for name, (value, draws) in values.items()}


def test_entries_with_equal_figures_share_a_rank_and_the_next_rank_is_left_out() -> None:
    places = rank_track(_headlines(a=(0.5, [0.5] * 4), b=(0.5, [0.5] * 4), c=(0.4, [0.4] * 4), d=(0.9, [0.9] * 4)))
    assert [(place.entry_id, place.rank) for place in places] == [("d", 1), ("a", 2), ("b", 2), ("c", 4)]


def test_an_entry_that_leads_in_every_draw_has_a_rank_without_doubt() -> None:
    rng = np.random.default_rng(0)
    noise = rng.normal(size=200)
    places = rank_track(_headlines(a=(1.0, list(1.0 + noise)), b=(0.9, list(0.9 + noise))))
    assert [(p.entry_id, p.rank_low, p.rank_high) for p in places] == [("a", 1, 1), ("b", 2, 2)]


def test_entries_that_draws_cannot_tell_apart_have_overlapping_rank_intervals() -> None:
    rng = np.random.default_rng(0)
    places = rank_track(
        _headlines(a=(1.0, list(rng.normal(1.0, 0.5, 200))), b=(0.99, list(rng.normal(0.99, 0.5, 200))))
    )
    assert [(p.entry_id, p.rank, p.rank_low, p.rank_high) for p in places] == [("a", 1, 1, 2), ("b", 2, 1, 2)]


@pytest.mark.parametrize("scale", [1.0, 1e-9])
def test_the_rank_lies_within_its_interval_even_when_the_draws_disagree(scale: float) -> None:
    draws = {"a": (1.0 * scale, [0.0] * 50), "b": (0.5 * scale, [1.0 * scale] * 50)}
    for place in rank_track(_headlines(**draws)):
        assert place.rank_low <= place.rank <= place.rank_high


def test_overall_is_the_mean_of_track_ranks_and_a_track_not_entered_counts_as_last() -> None:
    tracks = {
        "forecast": _headlines(a=(0.9, [0.9] * 3), b=(0.5, [0.5] * 3), c=(0.1, [0.1] * 3)),
        "rank": _headlines(a=(0.9, [0.9] * 3), b=(0.95, [0.95] * 3)),
    }
    places = {place.entry_id: place for place in rank_overall(tracks, ["a", "b", "c", "d"])}
    assert {name: place.figure for name, place in places.items()} == {"a": 1.5, "b": 1.5, "c": 3.5, "d": 4.0}
    assert {name: place.rank for name, place in places.items()} == {"a": 1, "b": 1, "c": 3, "d": 4}
    assert "counts as last" in OVERALL_RULE


def test_nothing_entered_ranks_nothing() -> None:
    assert rank_track({}) == []
    assert rank_overall({}, []) == []


def test_adding_a_copy_of_an_entry_does_not_reorder_the_others() -> None:
    rng = np.random.default_rng(5)
    drawn = {
        name: (float(value), list(rng.normal(value, 0.2, 100)))
        for name, value in zip("abcd", (4, 3, 2, 1), strict=True)
    }
    before = [p.entry_id for p in rank_track(_headlines(**drawn))]
    after = [p.entry_id for p in rank_track(_headlines(**drawn, e=drawn["d"])) if p.entry_id != "e"]
    assert after == before
