"""Places: figures on shared questions decide the rank, paired differences its interval and what is told apart."""

import dataclasses
import math
import tracemalloc

import numpy as np
import pytest

from kbench.benchmark.metrics.bootstrap import Figure
from kbench.benchmark.scoring.compare import Power
from kbench.leaderboard.scoring.rank import Contest, Headline, Place


def whole(value: float, draws: list[float] | np.ndarray) -> Headline:
    return Headline(Figure(value, np.asarray(draws, dtype=np.float64)), None)


def places(**headlines: Headline) -> list[Place]:
    return Contest(headlines).places()


def test_entries_with_equal_figures_share_a_rank_and_the_next_rank_is_left_out() -> None:
    found = places(
        **{name: whole(value, [value] * 4) for name, value in zip("abcd", (0.5, 0.5, 0.4, 0.9), strict=True)}
    )
    assert [(place.entry_id, place.rank) for place in found] == [("d", 1), ("a", 2), ("b", 2), ("c", 4)]


@pytest.mark.parametrize(("shared", "ranges"), [(True, [(1, 1), (2, 2)]), (False, [(1, 2), (1, 2)])])
def test_paired_differences_decide_how_far_a_rank_is_open(shared: bool, ranges: list[tuple[int, int]]) -> None:
    """The same noise cancels; independent noise of the same size leaves both ranks open."""
    generator = np.random.default_rng(0)
    noise = generator.normal(size=200)
    other = noise + generator.normal(size=200) * 1e-3 if shared else generator.normal(size=200)
    found = places(a=whole(1.0, 1.0 + noise), b=whole(0.9, 0.9 + other))
    assert [(place.entry_id, place.rank) for place in found] == [("a", 1), ("b", 2)]
    assert [(place.rank_low, place.rank_high) for place in found] == ranges


def test_an_entry_on_core_is_compared_on_core_and_one_with_neither_is_left_out() -> None:
    """On all questions b is ahead of c; on core it is behind."""
    flat = np.zeros(50)
    found = places(
        a=Headline(Figure(0.9, flat + 0.9), Figure(0.8, flat + 0.8)),
        b=Headline(Figure(0.5, flat + 0.5), Figure(0.1, flat + 0.1)),
        c=Headline(None, Figure(0.3, flat + 0.3)),
        d=Headline(None, None),
    )
    assert [(place.entry_id, place.rank, place.figure) for place in found] == [
        ("a", 1, 0.9),
        ("c", 2, 0.3),
        ("b", 3, 0.5),
    ]


def test_power_is_what_simulated_samples_decide() -> None:
    """Entries whose true difference is the least one are told apart in about four of five samples of problems."""
    generator = np.random.default_rng(3)
    problems, sigma = 40, 0.3
    gaps = generator.normal(0.0, sigma, problems)
    draws = generator.multinomial(problems, np.full(problems, 1 / problems), 2000) @ gaps / problems
    power = Contest({"a": whole(gaps.mean(), draws), "b": whole(0.0, np.zeros(2000))}).power()
    assert (power.pairs, power.decided) == (1, 0)
    estimates = generator.normal(power.least_difference, sigma / math.sqrt(problems), 4000)
    assert np.mean(np.abs(estimates) > 1.96 * sigma / math.sqrt(problems)) == pytest.approx(0.8, abs=0.12)
    assert Contest({}).power().least_difference is None


def test_power_counts_entries_that_answer_alike_once() -> None:
    """Three constants are one rival; an entry on core is no twin of those that it shares nothing with."""
    draws = np.random.default_rng(0).normal(0.0, 0.01, 400)
    constants = {name: Headline(Figure(0.5, np.full(400, 0.5)), Figure(0.5, np.full(400, 0.5))) for name in "abc"}
    sure = Headline(Figure(0.8, 0.8 + draws), Figure(0.8, 0.8 + draws))
    on_core = Headline(None, Figure(0.9, 0.9 + 2.0 * draws))
    power = Contest(constants | {"d": sure, "e": on_core, "f": Headline(Figure(0.7, 0.7 + draws[::-1]), None)}).power()
    assert (power.pairs, power.decided) == (5, 5)
    assert dataclasses.astuple(Power.among([one.core for one in (*constants.values(), sure)]))[:2] == (1, 1)


def test_thousands_of_entries_that_answer_alike_take_no_memory_for_each_pair() -> None:
    alike = Headline(Figure(0.5, np.zeros(400)), None)
    tracemalloc.start()
    try:
        power = Contest({str(number): alike for number in range(1500)}).power()
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert (power.pairs, power.decided, power.least_difference) == (0, 0, None)
    assert peak < 100e6, "a difference for each of the million pairs would be gigabytes"
