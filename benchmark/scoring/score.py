"""Scores of one surrogate on one set of questions: every track, every slice, with interval and ceiling."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence

import numpy as np

from kbench.benchmark.metrics.arrays import Ints
from kbench.benchmark.metrics.bootstrap import RESAMPLES, Bootstrap, Figure
from kbench.benchmark.metrics.metric import Ceiling
from kbench.benchmark.metrics.registry import BY_NAME, METRICS, figures
from kbench.benchmark.metrics.rows import PairRows
from kbench.benchmark.scoring import rows as per_track
from kbench.benchmark.scoring.rows import oracle_pair_rows, pair_rows
from kbench.benchmark.scoring.slices import slices
from kbench.benchmark.surrogates.forecasts.table import ForecastTable
from kbench.benchmark.tasks.labels import PoolLabels, Strings
from kbench.benchmark.tasks.questions import Questions
from kbench.benchmark.tracks import FORECAST, PAIR_TRACKS, RANK, SEARCH, VALIDITY
from kbench.schemas import Score

Figures = Mapping[str, Figure]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class BootstrapSettings:
    """How intervals are made."""

    resamples: int = RESAMPLES
    seed: int = 0

    def draws(self, clusters: Sequence[str] | Strings) -> Bootstrap:
        """A bootstrap over these clusters."""
        return Bootstrap(np.asarray(clusters, dtype=object), self.resamples, self.seed)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Scored:
    """Every figure of one surrogate, draws included, so that two surrogates can be compared draw by draw."""

    figures: Mapping[str, Figures]
    """By track, then metric."""
    ceilings: Mapping[str, Mapping[str, float]]
    """By track, then metric; absent where the metric has none."""
    slices: tuple[Score, ...]
    rows: Mapping[str, int]
    """Rows of each track."""

    def scores(self) -> tuple[Score, ...]:
        """As records, slices included."""
        made = [
            _record(track, name, "all", figure, self.ceilings.get(track, {}).get(name), self.rows[track])
            for track, found in self.figures.items()
            for name, figure in found.items()
        ]
        return (*made, *self.slices)


def score(
    questions: Questions, table: ForecastTable, settings: BootstrapSettings | None = None, *, sliced: bool = True
) -> Scored:
    """Score forecasts on every track the questions ask.

    Args:
        questions: what was asked, with the answers.
        table: forecasts, aligned with the questions' queries.
        settings: of the bootstrap.
        sliced: whether to score each slice as well.
    """
    settings = settings or BootstrapSettings()
    found: dict[str, Figures] = {}
    best: dict[str, Figures] = {}
    parts: tuple[Score, ...] = ()
    about_pairs = [track for track in PAIR_TRACKS if track in questions.tracks]
    if about_pairs and len(questions.pairs):
        rows = pair_rows(questions, table)
        clusters = clusters_of(questions.pairs.problem, questions.pairs.candidate)
        bootstrap = settings.draws(np.tile(clusters, table.repeats))
        found |= {track: figures(track, bootstrap, rows) for track in about_pairs}
        oracle = oracle_pair_rows(questions, settings.seed)
        if oracle is not None:
            best |= {track: figures(track, Bootstrap(clusters, 0), oracle) for track in about_pairs}
        if sliced and FORECAST.name in questions.tracks:
            parts = _slices(questions, rows, settings)
    if len(questions.pools):
        found |= _pool_figures(questions, table, settings)
        if RANK.name in found:
            scores = per_track.remeasured_scores(questions.pools, settings.seed)
            best[RANK.name] = _rank_figures(questions.pools, scores, BootstrapSettings(resamples=0))
    return Scored(
        figures=found,
        ceilings={track: _ceilings(track, values) for track, values in best.items()},
        slices=parts,
        rows={track: len(questions.pairs if track in PAIR_TRACKS else questions.pools) for track in found},
    )


def clusters_of(problem: Strings, kernel: Strings) -> Strings:
    """Rows of one problem are drawn together; where there is one problem only, rows of one kernel are."""
    return problem if len(set(problem.tolist())) > 1 else kernel


def _ceilings(track: str, best: Figures) -> dict[str, float]:
    return {name: figure.value for name, figure in best.items() if BY_NAME[track, name].ceiling is not Ceiling.NONE}


def _slices(questions: Questions, rows: PairRows, settings: BootstrapSettings) -> tuple[Score, ...]:
    pairs = questions.pairs
    repeats = len(rows.bins) // len(pairs)
    made: list[Score] = []
    for name, positions in slices(pairs):
        part = rows.take((np.arange(repeats)[:, None] * len(pairs) + positions).ravel())
        clusters = clusters_of(pairs.problem[positions], pairs.candidate[positions])
        bootstrap = settings.draws(np.tile(clusters, repeats))
        for metric in METRICS:
            if metric.sliced:
                figure = metric.figure(bootstrap, part)
                assert figure is not None
                made.append(_record(metric.track.name, metric.name, name, figure, None, len(positions)))
    return tuple(made)


def _pool_figures(questions: Questions, table: ForecastTable, settings: BootstrapSettings) -> dict[str, Figures]:
    labels, found = questions.pools, {}
    if RANK.name in questions.tracks:
        found[RANK.name] = _rank_figures(labels, per_track.pool_scores(labels, table, weigh_validity=False), settings)
    if SEARCH.name in questions.tracks:
        found[SEARCH.name] = _search_figures(
            labels, per_track.pool_scores(labels, table, weigh_validity=True), settings
        )
    if VALIDITY.name in questions.tracks:
        bootstrap = settings.draws(np.tile(clusters_of(labels.problem, labels.candidate), table.repeats))
        rows = per_track.validity_rows(labels, table, questions.valid_rate)
        found[VALIDITY.name] = figures(VALIDITY.name, bootstrap, rows)
    return found


def _rank_figures(labels: PoolLabels, scores: np.ndarray, settings: BootstrapSettings) -> Figures:
    kept = per_track.ranked_pools(labels)
    rows = per_track.rank_rows(labels, kept, scores)
    return figures(RANK.name, settings.draws(_problems(labels, kept) * len(scores)), rows) if kept else {}


def _search_figures(labels: PoolLabels, scores: np.ndarray, settings: BootstrapSettings) -> Figures:
    kept = per_track.searched_pools(labels)
    if not kept:
        return {}
    rows = per_track.search_rows(labels, kept, scores, settings.seed)
    return figures(SEARCH.name, settings.draws(_problems(labels, kept) * len(scores)), rows)


def _problems(labels: PoolLabels, kept: list[Ints]) -> list[str]:
    return [str(labels.problem[rows[0]]) for rows in kept]


def _record(track: str, metric: str, name: str, figure: Figure, ceiling: float | None, rows: int) -> Score:
    return Score(
        track=track,
        metric=metric,
        slice=name,
        value=finite(figure.value),
        low=finite(figure.low),
        high=finite(figure.high),
        ceiling=None if ceiling is None else finite(ceiling),
        rows=rows,
    )


def finite(value: float) -> float | None:
    """The number, or None where it is not defined."""
    return float(value) if math.isfinite(value) else None
