"""The list of metrics: complete, consistent, and true to what each metric states about itself."""

import dataclasses
import importlib
import pkgutil
from pathlib import Path

import numpy as np
import pytest

from kbench.benchmark import metrics
from kbench.benchmark.metrics.bootstrap import Bootstrap
from kbench.benchmark.metrics.metric import Metric, PairRows, Pool, PoolRows, Shown
from kbench.benchmark.metrics.registry import BY_NAME, METRICS, figures, headline, markdown_table, of_track
from kbench.benchmark.tracks import TRACK_NAMES


def test_every_declared_metric_is_listed_once() -> None:
    declared: set[int] = set()
    for module in pkgutil.walk_packages(metrics.__path__, f"{metrics.__name__}."):
        for value in vars(importlib.import_module(module.name)).values():
            every = value if isinstance(value, tuple) else (value,)
            declared |= {id(one) for one in every if isinstance(one, Metric)}
    assert {id(metric) for metric in METRICS} == declared
    assert len(BY_NAME) == len(METRICS)


@pytest.mark.parametrize("track", TRACK_NAMES)
def test_every_track_has_one_headline_which_comes_first_and_is_shown_everywhere(track: str) -> None:
    assert [metric for metric in of_track(track) if metric.headline] == [of_track(track)[0]]
    assert headline(track).shown is Shown.BOARD


def test_the_docs_hold_the_table_of_metrics() -> None:
    text = (Path(__file__).parents[3] / "docs" / "scoring.md").read_text("utf-8")
    written = text.partition("markdown_table() -->\n")[2].partition("\n<!-- /metrics -->")[0]
    assert written == markdown_table(), "put the output of markdown_table() between the markers of docs/scoring.md"
    assert len(written.splitlines()) == 2 + len(METRICS)


@pytest.mark.parametrize("track", TRACK_NAMES)
def test_figures_stay_within_the_bounds_a_metric_states(track: str) -> None:
    generator = np.random.default_rng(4)
    pairs = PairRows.all_answered(
        generator.dirichlet(np.ones(8), 30), generator.integers(1, 9, 30), np.full(8, 1 / 8), 2.0
    )
    rows = {
        "forecast": dataclasses.replace(
            pairs, level=np.arange(30) % 2 == 0, edit=np.arange(30) % 4 != 3, one_workload=np.arange(30) % 4 == 3
        ),
        "rank": PoolRows(tuple(Pool(generator.random(20), generator.random(20) + 0.1) for _ in range(30))),
    }
    found = figures(track, Bootstrap(np.arange(30) % 7, 50), rows.get(track, rows["forecast"]))
    assert set(found) == {metric.name for metric in of_track(track)}
    for metric in of_track(track):
        low, high = metric.bounds
        value = found[metric.name].value
        assert low is None or value >= low
        assert high is None or value <= high
