"""Metrics of a distribution: published figures, the meaning of properness, ties and empty input."""

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scoringrules import rps_score

from kbench.benchmark.metrics import forecast
from kbench.benchmark.metrics.arrays import Floats
from kbench.benchmark.metrics.forecast import entropy
from kbench.schemas.errors import UserError

KNOWN = np.array([[0.01, 0.04, 0.05, 0.10, 0.50, 0.20, 0.05, 0.05]])
PROPER = {"brier": forecast.brier_rows, "rps": forecast.rps_rows, "log_score": forecast.log_score_rows}


def one_hot(number: int) -> Floats:
    return np.eye(8)[[number - 1]]


@st.composite
def simplex(draw: st.DrawFn, rows: int = 1) -> Floats:
    raw = draw(hnp.arrays(np.float64, (rows, 8), elements=st.floats(0.01, 1.0)))
    return raw / raw.sum(axis=1, keepdims=True)


def test_known_distribution_has_the_published_scores() -> None:
    assert forecast.brier_rows(KNOWN, [5])[0] == pytest.approx(0.1546, abs=1e-12)
    assert forecast.rps(KNOWN, [5]) == pytest.approx(0.022157142857, abs=1e-12)
    assert entropy(KNOWN)[0] == pytest.approx(1.522886257954, abs=1e-12)
    assert forecast.sharpness_rows(KNOWN)[0] == pytest.approx(0.267646515937, abs=1e-12)


@given(rows=simplex(rows=9), seed=st.integers(0, 2**32 - 1))
@settings(max_examples=20, deadline=None)
def test_rps_is_that_of_scoringrules_divided_by_seven(rows: Floats, seed: int) -> None:
    numbers = np.random.default_rng(seed).integers(1, 9, 9)
    assert forecast.rps(rows, numbers) == pytest.approx(float(np.mean(rps_score(numbers, rows))) / 7)


def test_certain_miss_is_floored_in_the_log_score() -> None:
    assert forecast.log_score(one_hot(1), [2]) == pytest.approx(-math.log(1e-12))


def test_tied_modes_share_the_credit() -> None:
    tied = np.array([[0.4, 0.4, 0.2, 0, 0, 0, 0, 0]])
    assert forecast.accuracy(tied, [2]) == pytest.approx(0.5)
    assert forecast.accuracy(tied, [3]) == 0.0
    assert forecast.near(tied, [3])[0] == pytest.approx(0.5)


def test_three_rows_at_85_percent_with_one_right_have_the_published_ece() -> None:
    rows = np.tile([0.85, 0.15, 0, 0, 0, 0, 0, 0], (3, 1))
    assert forecast.ece(rows, [1, 2, 2]) == pytest.approx(0.516666666667, abs=1e-12)
    assert forecast.ece_adaptive(rows, [1, 2, 2]) == pytest.approx(0.516666666667, abs=1e-12)


def test_certainty_falls_in_the_last_ece_bucket() -> None:
    curve = forecast.reliability_curve(one_hot(3), [3])
    assert curve.confidence.tolist() == [1.0]
    assert curve.accuracy.tolist() == [1.0]
    assert curve.rows.tolist() == [1]


def test_adaptive_ece_sees_what_equal_width_averages_away() -> None:
    low, high = np.tile([0.51] + [0.07] * 7, (50, 1)), np.tile([0.58] + [0.06] * 7, (50, 1))
    rows = np.concatenate([low, high])
    # Under-confident below, over-confident above, in one equal-width bucket: the two errors cancel there.
    bins = [1] * 50 + [2] * 45 + [1] * 5
    assert forecast.ece(rows, bins) < 0.01
    assert forecast.ece_adaptive(rows, bins) > 0.4


@pytest.mark.parametrize("name", PROPER)
@given(truth=simplex(), other=simplex())
@settings(max_examples=40, deadline=None)
def test_proper_scores_are_least_for_the_truth(name: str, truth: Floats, other: Floats) -> None:
    score = PROPER[name]
    numbers = np.arange(1, 9)

    def expected(forecast: Floats) -> float:
        return float(sum(truth[0, k - 1] * score(forecast, [k])[0] for k in numbers))

    assert expected(truth) <= expected(other) + 1e-12


@pytest.mark.parametrize("metric", [forecast.accuracy, forecast.rps, forecast.log_score, forecast.ece])
def test_no_rows_give_nan(metric: Callable[..., float]) -> None:
    assert math.isnan(metric(np.zeros((0, 8)), np.zeros(0, dtype=np.int64)))


@pytest.mark.parametrize(
    "row", [[0.5] * 8, [-0.1, 1.1, 0, 0, 0, 0, 0, 0], [math.nan] * 8, [math.inf, 0, 0, 0, 0, 0, 0, 0], [0] * 8]
)
def test_what_is_no_distribution_is_refused_with_its_row(row: list[float]) -> None:
    with pytest.raises(UserError, match=r"probabilities\[1\]"):
        forecast.rps([[1, 0, 0, 0, 0, 0, 0, 0], row], [1, 1])


def test_seven_bins_are_refused() -> None:
    with pytest.raises(UserError, match=r"must be \[n, 8\]"):
        forecast.rps(np.full((1, 7), 1 / 7), [1])


@pytest.mark.parametrize("numbers", [[0], [9], [1.5], [1, 2]])
def test_wrong_bins_are_refused(numbers: list[float]) -> None:
    with pytest.raises(UserError, match="bins"):
        forecast.accuracy(KNOWN, numbers)
