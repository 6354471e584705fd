"""Metrics of an order: selective prediction, ranking a pool, telling valid from invalid."""

import itertools
import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kbench.benchmark.metrics import edit, rank, select
from kbench.schemas.errors import UserError

FAILED = math.nan


def test_right_then_wrong_then_failure_have_the_published_aurc() -> None:
    loss, confidence = [0, 1, 1], [0.9, 0.2, FAILED]
    assert select.risk_coverage_curve(loss, confidence).area == pytest.approx(1 / 12)


def test_all_failures_answer_nothing() -> None:
    curve = select.risk_coverage_curve([1, 1], [FAILED, FAILED])
    assert curve.area == 0.0
    assert curve.coverage_at(0.5) == 0.0


def test_excess_is_zero_when_confidence_knows_every_miss() -> None:
    loss, confidence = np.array([0.0, 0.0, 1.0, 1.0]), np.array([0.9, 0.8, 0.2, 0.1])
    assert select.excess_area(select.risk_coverage_curve(loss, confidence), loss) == pytest.approx(0.0)
    assert select.excess_area(select.risk_coverage_curve(loss, -confidence), loss) > 0.3


def test_coverage_at_risk_is_the_largest_that_keeps_the_risk() -> None:
    curve = select.risk_coverage_curve([0, 1, 0, 0, 1], [0.9, 0.8, 0.7, 0.6, 0.5])
    assert curve.coverage_at(0.25) == pytest.approx(0.8)
    assert curve.coverage_at(0.1) == pytest.approx(0.2)


def test_tied_confidences_give_the_mean_over_all_orders() -> None:
    loss, confidence = [0, 1, 1, 0], [0.9, 0.5, 0.5, 0.5]
    curves = (select.risk_coverage_curve([0, *tail], [0.9, 0.5, 0.4, 0.3]) for tail in itertools.permutations(loss[1:]))
    area = select.risk_coverage_curve(loss, confidence).area
    assert area == pytest.approx(np.mean([curve.area for curve in curves]))


def test_perfect_order_has_perfect_rank_metrics() -> None:
    speeds = np.array([1.0, 2.0, 3.0, 4.0])
    assert rank.spearman(speeds**3, speeds) == pytest.approx(1.0)
    assert rank.kendall(speeds**3, speeds) == pytest.approx(1.0)
    assert rank.ndcg(speeds, speeds) == pytest.approx(1.0)
    assert rank.top_k_recall(speeds, speeds, 2) == 1.0
    assert rank.spearman(-speeds, speeds) == pytest.approx(-1.0)


def test_constant_scores_order_nothing() -> None:
    speeds = [1.0, 2.0, 4.0]
    assert rank.spearman([1, 1, 1], speeds) == 0.0
    assert rank.kendall([1, 1, 1], speeds) == 0.0
    assert rank.top_k_recall([1, 1, 1], speeds, 1) == pytest.approx(1 / 3)


@pytest.mark.parametrize("metric", [rank.spearman, rank.kendall, rank.ndcg])
def test_one_row_has_no_order(metric: Callable[..., float]) -> None:
    assert math.isnan(metric([1.0], [1.0]))


def test_regret_is_how_much_slower_the_best_found_is() -> None:
    runtimes = [10.0, 12.0, 20.0, 40.0]
    assert rank.regret_at([1, 4, 3, 2], runtimes, 0.25) == pytest.approx(0.2)
    assert rank.regret_at([4, 3, 2, 1], runtimes, 0.25) == 0.0
    assert rank.regret_at([1, 2, 3, 4], runtimes, 1.0) == 0.0


def test_a_tenth_of_thirty_kernels_is_three() -> None:
    runtimes = np.arange(1.0, 31.0)
    assert rank.regret_at(runtimes, runtimes, 0.1) == pytest.approx(27.0)


@given(scores=st.lists(st.integers(0, 2), min_size=2, max_size=6), fraction=st.sampled_from([0.2, 0.4, 0.5, 0.8]))
@settings(max_examples=60, deadline=None)
def test_tied_scores_give_the_mean_regret_over_all_orders(scores: list[int], fraction: float) -> None:
    runtimes = np.array([7.0, 3.0, 9.0, 4.0, 8.0, 5.0])[: len(scores)]
    count = max(1, math.ceil(fraction * len(scores) - 1e-9))
    regrets = []
    for order in itertools.permutations(range(len(scores))):
        ranked = sorted(order, key=lambda i: -scores[i])
        regrets.append(runtimes[ranked[:count]].min() / runtimes.min() - 1)
    assert rank.regret_at(scores, runtimes, fraction) == pytest.approx(np.mean(regrets))


def test_impossible_shares_of_a_pool_and_vectors_of_different_length_are_refused() -> None:
    for fraction in (0.0, -1.0, 1.1):
        with pytest.raises(UserError, match="fraction"):
            rank.regret_at([1.0], [1.0], fraction)
    with pytest.raises(UserError, match="one length"):
        rank.spearman([1.0, 2.0], [1.0])


def test_auroc_counts_ties_one_half_and_needs_both_outcomes() -> None:
    assert edit.auroc([0.9, 0.1, 0.5], [1, 0, 1]) == 1.0
    assert edit.auroc([0.5, 0.5], [1, 0]) == 0.5
    assert math.isnan(edit.auroc([0.5, 0.6], [1, 1]))
