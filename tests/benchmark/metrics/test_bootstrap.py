"""Intervals: weights over clusters give what resampling rows would give."""

import math

import numpy as np
import pytest

from kbench.benchmark.metrics import forecast, select
from kbench.benchmark.metrics.arrays import Floats, Ints
from kbench.benchmark.metrics.bootstrap import Bootstrap, interval_level
from kbench.benchmark.metrics.forecast import ECE, correct, rps_rows
from kbench.benchmark.metrics.metric import PairRows
from kbench.benchmark.metrics.select import EXCESS_AURC, SurestFirst, aurc_figure, coverage_figure


def drawn(rows: int = 300, clusters: int = 12) -> tuple[Floats, Ints, Ints]:
    generator = np.random.default_rng(5)
    return generator.dirichlet(np.ones(8), rows), generator.integers(1, 9, rows), generator.integers(0, clusters, rows)


def resampled_rows(bootstrap: Bootstrap, draw: int) -> Ints:
    """The rows of one draw, each repeated as often as its cluster was drawn."""
    weights = bootstrap.weights[1 + draw].astype(int)
    return np.repeat(np.arange(len(bootstrap.index)), weights[bootstrap.index])


def test_draws_equal_metrics_of_resampled_rows() -> None:
    probabilities, numbers, clusters = drawn()
    bootstrap = Bootstrap(clusters, resamples=7, seed=1)
    mean = bootstrap.mean(rps_rows(probabilities, numbers))
    for draw in range(7):
        rows = resampled_rows(bootstrap, draw)
        assert mean.draws[draw] == pytest.approx(forecast.rps(probabilities[rows], numbers[rows]))


def test_ece_draws_are_those_of_resampled_rows_moved_to_the_value() -> None:
    probabilities, numbers, clusters = drawn()
    bootstrap = Bootstrap(clusters, resamples=40, seed=1)
    figure = ECE.figure(bootstrap, PairRows.all_answered(probabilities, numbers, np.full(8, 1 / 8)))
    raw = [forecast.ece(probabilities[r], numbers[r]) for r in (resampled_rows(bootstrap, i) for i in range(40))]
    assert figure.value == pytest.approx(forecast.ece(probabilities, numbers))
    assert figure.draws == pytest.approx(np.array(raw) - np.mean(raw) + figure.value)
    assert figure.low < figure.value < figure.high


def test_order_metrics_draws_are_close_to_those_of_resampled_rows() -> None:
    probabilities, numbers, clusters = drawn(3000)
    bootstrap = Bootstrap(clusters, resamples=5, seed=1)
    loss, sure = 1 - correct(probabilities, numbers), probabilities.max(axis=1)
    answers = SurestFirst.of(bootstrap, loss, sure)
    area, coverage = aurc_figure(answers), coverage_figure(answers, 0.8)
    excess = EXCESS_AURC.figure(bootstrap, PairRows.all_answered(probabilities, numbers, np.full(8, 1 / 8)))
    for draw in range(5):
        rows = resampled_rows(bootstrap, draw)
        curve = select.risk_coverage_curve(loss[rows], sure[rows])
        assert area.draws[draw] == pytest.approx(curve.area, abs=5e-3)
        assert excess.draws[draw] == pytest.approx(select.excess_area(curve, loss[rows]), abs=5e-3)
        assert coverage.draws[draw] == pytest.approx(curve.coverage_at(0.8), abs=0.02)


def test_same_seed_gives_the_same_interval_and_another_seed_another() -> None:
    probabilities, numbers, clusters = drawn()
    rows = rps_rows(probabilities, numbers)
    one, same, other = (Bootstrap(clusters, 200, seed).mean(rows) for seed in (1, 1, 2))
    assert (one.low, one.high) == (same.low, same.high)
    assert one.low != other.low
    assert one.low < one.value < one.high


def test_interval_covers_the_truth_about_as_often_as_it_says() -> None:
    generator = np.random.default_rng(11)
    clusters, covered = np.repeat(np.arange(40), 5), 0
    for trial in range(100):
        values = np.repeat(generator.normal(size=40), 5) + generator.normal(size=200)
        figure = Bootstrap(clusters, 300, trial).mean(values)
        covered += figure.low <= 0.0 <= figure.high
    assert covered >= 87


def test_one_cluster_has_no_interval() -> None:
    figure = Bootstrap(np.zeros(5), 100, 0).mean(np.arange(5.0))
    assert figure.value == 2.0
    assert math.isnan(figure.low)
    assert math.isnan(figure.high)


def test_paired_difference_is_narrower_than_its_parts() -> None:
    generator = np.random.default_rng(2)
    shared = np.repeat(generator.normal(size=30), 10)
    bootstrap = Bootstrap(np.repeat(np.arange(30), 10), 500, 0)
    one, other = bootstrap.mean(shared), bootstrap.mean(shared - 0.1)
    difference = one.minus(other)
    assert difference.value == pytest.approx(0.1)
    assert difference.high - difference.low < 1e-9 < one.high - one.low


def test_rows_without_a_value_are_left_out_of_the_mean() -> None:
    bootstrap = Bootstrap(np.arange(4), 50, 0)
    assert bootstrap.mean(np.array([1.0, math.nan, 3.0, math.nan])).value == 2.0
    assert math.isnan(bootstrap.mean(np.full(4, math.nan)).value)


def test_share_is_exact_and_never_quite_sure() -> None:
    bootstrap = Bootstrap(np.arange(24), resamples=2000, seed=0)
    sure = bootstrap.share(np.ones(24))
    assert sure.value == 1.0
    assert sure.low < 0.95
    assert sure.high == 1.0
    half = bootstrap.share(np.arange(24) % 2 * 3.0, np.full(24, 3.0))
    assert half.value == 0.5
    assert (half.low + half.high) / 2 == pytest.approx(0.5, abs=0.02)
    assert len(Bootstrap(np.arange(24), 0).share(np.ones(24)).draws) == 0


def test_median_and_means_of_clusters_count_as_often_as_drawn() -> None:
    _, _, clusters = drawn()
    values = np.random.default_rng(1).normal(size=len(clusters))
    values[::7] = np.nan
    bootstrap = Bootstrap(clusters, resamples=5, seed=1)
    means = bootstrap.cluster_means(values)
    assert means == pytest.approx([np.nanmean(values[clusters == each]) for each in range(12)])
    figure = bootstrap.mean_of_clusters(means)
    known = values[~np.isnan(values)]
    middle = Bootstrap(clusters[~np.isnan(values)], resamples=5, seed=1).median(known)
    for draw in range(5):
        weights = bootstrap.weights[1 + draw]
        assert figure.draws[draw] == pytest.approx(weights @ means / weights.sum())
        rows = np.repeat(known, weights[clusters[~np.isnan(values)]].astype(int))
        assert middle.draws[draw] == np.sort(rows)[(len(rows) - 1) // 2]


def test_few_clusters_take_more_of_the_draws_and_shared_names_pair_them() -> None:
    levels = [interval_level(count) for count in (2, 5, 29, 1000)]
    assert levels == sorted(levels, reverse=True)
    assert levels[2] == pytest.approx(0.9629, abs=1e-3)
    assert levels[3] == pytest.approx(0.95, abs=1e-3)
    names = [f"p{number}" for number in range(9)]
    every, some = Bootstrap(names, 50, 0, names), Bootstrap(names[3:7], 50, 0, names)
    assert (every.weights == some.weights).all(), "the same problems, whether all have rows or not"
    assert some.level > every.level
    assert len(Bootstrap(["p1", "p1"], 50, 0, names).mean(np.ones(2)).draws) == 0, "one cluster tells no spread"


def test_clusters_count_as_much_as_they_are_given() -> None:
    bootstrap = Bootstrap(np.arange(3), 5, 0)
    assert bootstrap.mean_of_clusters(np.array([1.0, 3.0, math.nan]), np.array([3.0, 1.0, 9.0])).value == 1.5
    skill = bootstrap.skill_of_clusters(np.array([1.0, 0.0, 1.0]), np.ones(3), np.array([1.0, 0.5, 0.0]))
    assert skill.value == pytest.approx(1 / 3)
