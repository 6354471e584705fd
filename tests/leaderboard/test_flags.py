"""Flags tell a reader what looks wrong; they change no score and no rank."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest
from submission_copy import Rows, submission_copy

from kbench.benchmark.questions import Questions
from kbench.benchmark.scoring.score import BootstrapSettings
from kbench.benchmark.surrogates.forecasts import ForecastTable, align, to_arrow
from kbench.leaderboard.board import score_all
from kbench.leaderboard.scoring.flags import Copies, PackedForecasts, flags, same_forecasts
from kbench.leaderboard.scoring.results import Results
from kbench.leaderboard.submission.check import check
from kbench.schemas import Forecast, Score, bins

SETTINGS = BootstrapSettings(resamples=20)


def test_honest_entries_carry_no_flag(results: list[Results]) -> None:
    assert [list(result.flags) for result in results] == [[], [], []]


def test_copies_are_named_on_both_entries(submissions: dict[str, Path], questions: Questions, tmp_path: Path) -> None:
    copy = submission_copy(submissions["length"], tmp_path / "copy", name="my own work")
    first, second = score_all([submissions["length"], copy], questions, SETTINGS)
    assert first.flags == ["forecasts are nearly identical to those of my own work 1.0.0"]
    assert second.flags == ["forecasts are nearly identical to those of length 1.0.0"]
    assert first.scores == second.scores
    (alone,) = score_all([submissions["length"]], questions, SETTINGS)
    assert alone.scores == first.scores


@pytest.mark.parametrize(
    ("track", "metric", "value", "ceiling", "flagged"),
    [
        ("forecast", "rps", 0.01, 0.02, True),
        ("forecast", "rps", 0.02, 0.02, False),
        ("forecast", "rps", 0.03, 0.02, False),
        ("forecast", "accuracy", 0.98, 0.97, True),
        ("forecast", "accuracy", 0.96, 0.97, False),
        ("forecast", "accuracy", 0.98, None, False),
        ("select", "aurc", 0.0005, 0.001, True),
        ("rank", "spearman", 1.0, 0.999, True),
    ],
)
def test_figures_beyond_the_noise_ceiling_are_flagged(
    submissions: dict[str, Path], questions: Questions, track: str, metric: str, value: float, ceiling: float | None,
    flagged: bool,
) -> None:  # fmt: skip
    checked = check(submissions["prior"])
    table = align(checked.forecasts, [query.query_id for query in questions.queries])
    score = Score(track=track, metric=metric, slice="all", value=value, low=None, high=None, ceiling=ceiling, rows=9)
    found = flags(checked.submission, table, questions, [score])
    assert [flag for flag in found if "better than a second measurement" in flag] == found
    assert bool(found) is flagged


@pytest.mark.parametrize(("share", "flagged"), [(0.0, False), (0.2, True)])
def test_queries_without_a_forecast_are_flagged(
    share: float, flagged: bool, submissions: dict[str, Path], questions: Questions, tmp_path: Path
) -> None:
    def silent(rows: Rows) -> Rows:
        count = int(share * len(rows))
        return [row | {"probabilities": None, "failure": "no idea"} for row in rows[:count]] + rows[count:]

    entry = submission_copy(submissions["prior"], tmp_path / "entry", silent)
    (result,) = score_all([entry], questions, SETTINGS)
    assert any("no usable forecast" in flag for flag in result.flags) is flagged


def _pairs_alone(source: Path, to: Path, name: str, questions: Questions, tracks: list[str]) -> Path:
    """An entry for some tracks that answers the questions about pairs and no others."""
    wanted = {questions.queries[at].query_id for at in questions.pairs.query.tolist()}

    def pairs(rows: Rows) -> Rows:
        columns = ("query_id", "probabilities")
        return [{name: row[name] for name in columns} for row in rows if row["query_id"] in wanted]

    return submission_copy(source, to, pairs, name=name, tracks=tracks, total_seconds=10.0)


def test_pairs_alone_are_not_blamed(submissions: dict[str, Path], questions: Questions, tmp_path: Path) -> None:
    pairs = len(np.unique(questions.pairs.query))
    assert pairs < len(questions.queries)
    entry = _pairs_alone(submissions["prior"], tmp_path / "entry", "pairs", questions, ["forecast"])
    (result,) = score_all([entry], questions, SETTINGS)
    assert result.flags == []
    assert result.answered_share == 1.0
    assert result.cost["seconds_per_1000"] == pytest.approx(10_000 / pairs, abs=1e-6)
    checked = check(entry)
    whole = dataclasses.replace(checked.submission, tracks=["forecast", "rank"])
    table = align(checked.forecasts, [query.query_id for query in questions.queries])
    share = 1 - pairs / len(questions.queries)
    assert flags(whole, table, questions, []) == [f"gives no usable forecast for {share:.1%} of queries"]


def test_pairs_alone_are_compared_as_such(submissions: dict[str, Path], questions: Questions, tmp_path: Path) -> None:
    part = _pairs_alone(submissions["length"], tmp_path / "part", "part", questions, ["forecast"])
    first, second = score_all([submissions["length"], part], questions, SETTINGS)
    assert first.flags == ["forecasts are nearly identical to those of part 1.0.0"]
    assert second.flags == ["forecasts are nearly identical to those of length 1.0.0"]


def test_missing_repeats_are_flagged(submissions: dict[str, Path], questions: Questions) -> None:
    checked = check(submissions["prior"])
    table = align(checked.forecasts, [query.query_id for query in questions.queries])
    stated = dataclasses.replace(checked.submission, repeats=3)
    assert flags(stated, table, questions, []) == ["states 3 repeats and holds 1"]


def test_no_copy_is_missed_because_not_all_are_compared_with_all() -> None:
    rng, ids = np.random.default_rng(4), [f"{number:064x}" for number in range(60)]

    def table(values: np.ndarray, answered: np.ndarray) -> ForecastTable:
        rows = {"query_id": np.array(ids)[answered].tolist(), "probabilities": values[answered].tolist()}
        return align(
            to_arrow([Forecast(query_id=q, probabilities=tuple(p)) for q, p in zip(*rows.values(), strict=True)]), ids
        )

    given = [rng.dirichlet(np.ones(bins.COUNT), 60) for _ in range(12)]
    moved = [one + rng.uniform(0, 1e-4, one.shape) for one in given]
    tables = [table(one / one.sum(axis=1, keepdims=True), rng.random(60) > rng.choice([0.0, 0.02, 0.4]))
              for one in (*given, *moved)]  # fmt: skip
    entries = [PackedForecasts.of(str(at), str(at), one) for at, one in enumerate(tables)]
    found, skipped = Copies(entries), 0
    for place, one in enumerate(entries):
        same = [other.name for other in entries if other is not one and same_forecasts(one, other)]
        assert found.flags(place) == sorted(f"forecasts are nearly identical to those of {name}" for name in same)
        skipped += len(entries) - 1 - len(found.near(place))
    assert skipped > len(tables), "most comparisons are not made"
