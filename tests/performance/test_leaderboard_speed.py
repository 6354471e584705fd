"""A leaderboard of 200 entries: time to build the site, its size, and time to sort it in a browser.

Run with `pytest -m performance tests/performance/test_leaderboard_speed.py`. Entries are the shipped ones under other
names with their figures moved a little, so that slices, curves and draws are as many as in truth.
"""

import dataclasses
import statistics
import time
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from kbench.benchmark.evaluate.options import Options
from kbench.benchmark.problems.foreign.user_code import import_file
from kbench.leaderboard.board import score_all, shipped
from kbench.leaderboard.cli import leaderboard
from kbench.leaderboard.scoring.results import Results
from kbench.leaderboard.site.build import build
from kbench.leaderboard.site.scope import dataset_facts
from kbench.loaders.corpus.corpus import Corpus

pytestmark = [pytest.mark.performance, pytest.mark.timeout(600)]

ENTRIES = 200
BUILD_SECONDS = 30
SORT_MS = 200
MEGABYTES = 25
ATLAS_SECONDS = 60
ATLAS_MEGABYTES = 60
PAGE_BYTES = 300_000


def _variant(result: Results, number: int) -> Results:
    rng = np.random.default_rng(number)

    def moved(value: float | None) -> float | None:
        return None if value is None else round(value + float(rng.normal(0, 0.01)), 6)

    scores = [dataclasses.replace(s, value=moved(s.value), low=moved(s.low), high=moved(s.high)) for s in result.scores]
    draws = {
        track: [round(d + float(rng.normal(0, 0.01)), 6) for d in values] for track, values in result.draws.items()
    }
    name = f"{result.submission.name} {number}"
    return dataclasses.replace(
        result, submission=dataclasses.replace(result.submission, name=name), scores=scores, draws=draws
    )


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, float]:
    """The page of the site, and the seconds that building it took."""
    questions = Options().questions(Options().corpus())
    scored = score_all(shipped(questions), questions)
    facts = dataset_facts(questions, Corpus.open(None))
    entries = [_variant(scored[number % len(scored)], number) for number in range(ENTRIES)]
    started = time.process_time()
    page = build(entries, facts, tmp_path_factory.mktemp("site"))
    return page, time.process_time() - started


def check(site: Path, seconds: float, most_seconds: float, megabytes: float) -> None:
    """A site that was built in time and is small."""
    assert seconds < most_seconds
    assert sum(path.stat().st_size for path in site.rglob("*") if path.is_file()) < megabytes * 1e6
    assert (site / "index.html").stat().st_size < PAGE_BYTES


def test_two_hundred_entries_are_built_in_time_and_stay_small(built: tuple[Path, float]) -> None:
    page, seconds = built
    check(page.parent, seconds, BUILD_SECONDS, MEGABYTES)


SORT = """(column) => new Promise((done) => {
  const button = document.querySelector(`th[data-column="${column}"] button`);
  const started = performance.now();
  button.click();
  requestAnimationFrame(() => setTimeout(() => done(performance.now() - started)));
})"""


def test_the_first_sort_of_two_hundred_entries_is_quick(built: tuple[Path, float]) -> None:
    browser = import_file(Path(__file__).parents[1] / "leaderboard" / "browser.py")
    first = []
    with browser.chromium() as running:
        for _ in range(5):
            tab = browser.Tab(running, built[0])
            page = tab.open("#/leaderboard?track=forecast")
            page.locator("tbody tr").nth(ENTRIES - 1).wait_for()
            first.append(page.evaluate(SORT, "accuracy"))
            tab.close()
            assert tab.errors == []
    assert statistics.median(first) < SORT_MS


def test_the_shipped_atlas_is_built_in_time_and_stays_small(tmp_path: Path) -> None:
    """From nothing: questions, scores of every shipped entry, problems, kernels, forecasts. In processor time."""
    started = time.process_time()
    outcome = CliRunner().invoke(
        leaderboard, ["build", "--out", str(tmp_path / "site"), "--cache", str(tmp_path / "cache"), "--json"]
    )
    assert outcome.exit_code == 0, outcome.output
    check(tmp_path / "site", time.process_time() - started, ATLAS_SECONDS, ATLAS_MEGABYTES)
