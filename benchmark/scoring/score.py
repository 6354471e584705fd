"""Scores of one surrogate on one set of questions: every track, every slice, with interval and ceiling."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping

import numpy as np

from kbench.benchmark.metrics.arrays import Floats
from kbench.benchmark.metrics.bootstrap import RESAMPLES, Bootstrap, Figure
from kbench.benchmark.metrics.forecast.distribution import expected_log2_speedup
from kbench.benchmark.scoring import rank, search
from kbench.benchmark.scoring.ceiling import oracle_forecasts, remeasured
from kbench.benchmark.scoring.forecast import PairForecasts, forecast_figures
from kbench.benchmark.scoring.select import select_figures
from kbench.benchmark.scoring.slices import slices
from kbench.benchmark.scoring.validity import validity_figures
from kbench.benchmark.surrogates.forecasts.table import ForecastTable
from kbench.benchmark.tasks.labels import PoolLabels, Strings
from kbench.benchmark.tasks.task import PAIR_TRACKS, Questions
from kbench.schemas import Score

Figures = Mapping[str, Figure]

HEADLINES = {
    "forecast": "rps_skill",
    "select": "aurc",
    "rank": "regret_at_10",
    "search": "gain_at_10",
    "validity": "auroc",
}
LOWER_IS_BETTER = frozenset(
    {"rps", "log_score", "brier", "ece", "ece_adaptive", "aurc", "excess_aurc", "sign_aurc",
     "gpu_seconds_per_decision", "sign_gpu_seconds_per_decision"}
)  # fmt: skip
SCORE_DECIMALS = 9
"""Forecasts closer than a billionth of an octave count as equal."""
SLICE_METRICS = ("rps_skill", "rps", "accuracy", "within_one", "ece")


def lower_is_better(metric: str) -> bool:
    """Whether a small figure is a good one."""
    return metric in LOWER_IS_BETTER or metric.startswith("regret_at_")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How figures are made sure of."""

    resamples: int = RESAMPLES
    seed: int = 0


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Scored:
    """Every figure of one surrogate, draws included, so that two surrogates can be compared pair by pair."""

    figures: Mapping[str, Figures]
    """By track, then metric."""
    ceilings: Mapping[str, Mapping[str, float]]
    """By track, then metric; absent where the idea does not apply."""
    slices: tuple[Score, ...]
    rows: Mapping[str, int]
    """Queries behind each track."""

    def scores(self) -> tuple[Score, ...]:
        """As records, slices included."""
        made = [
            _score(track, metric, "all", figure, self.ceilings.get(track, {}).get(metric), self.rows[track])
            for track, figures in self.figures.items()
            for metric, figure in figures.items()
        ]
        return (*made, *self.slices)


def score(
    questions: Questions, table: ForecastTable, settings: Settings | None = None, *, sliced: bool = True
) -> Scored:
    """Score forecasts on every track the questions ask.

    Args:
        questions: what was asked, with the answers.
        table: forecasts, aligned with the questions' queries.
        settings: resamples and seed.
        sliced: whether to score each slice as well.
    """
    settings = settings or Settings()
    figures: dict[str, Figures] = {}
    ceilings: dict[str, Mapping[str, float]] = {}
    parts: tuple[Score, ...] = ()
    if any(track in questions.tracks for track in PAIR_TRACKS) and len(questions.pairs):
        rows = pair_forecasts(questions, table)
        clusters = clusters_of(questions.pairs.problem, questions.pairs.candidate)
        found = _pair_figures(questions, rows, Bootstrap(np.tile(clusters, table.repeats), **_kwargs(settings)))
        figures |= found
        # Without intervals nobody knows what a second measurement would score.
        if not np.isnan(questions.pairs.speedup_low).all():
            best = _pair_figures(questions, _oracle_rows(questions, settings.seed), Bootstrap(clusters, 0))
            ceilings |= {track: {name: f.value for name, f in values.items()} for track, values in best.items()}
        if sliced and "forecast" in questions.tracks:
            parts = _slices(questions, rows, settings)
    if len(questions.pools):
        pooled, best_ranks = _pool_figures(questions, table, settings)
        figures |= pooled
        ceilings |= {"rank": best_ranks}
    rows_by_track = {track: len(questions.pairs if track in PAIR_TRACKS else questions.pools) for track in figures}
    return Scored(figures=figures, ceilings=ceilings, slices=parts, rows=rows_by_track)


def pair_forecasts(questions: Questions, table: ForecastTable) -> PairForecasts:
    """Forecast rows of the pairs, repeats below one another."""
    at = questions.pairs.query
    return PairForecasts(
        table.probabilities[:, at].reshape(-1, table.probabilities.shape[-1]),
        table.confidence[:, at].reshape(-1),
        np.tile(questions.pairs.bin, table.repeats),
        table.failed[:, at].reshape(-1),
    )


def pool_scores(pools: PoolLabels, table: ForecastTable, weigh_validity: bool) -> Floats:
    """log2 of the forecast speedup of every pool row, [repeats, rows]: the point forecast, else the mean over bins.

    Args:
        pools: the rows.
        table: the forecasts.
        weigh_validity: add log2 P(valid) where it was given: a search pays for failures, an order of valid kernels not.
    """
    flat = table.probabilities[:, pools.query]
    means = expected_log2_speedup(flat.reshape(-1, flat.shape[-1])).reshape(flat.shape[:2])
    points = table.speedup[:, pools.query]
    scores = np.where(np.isnan(points), means, np.log2(np.where(np.isnan(points), 1.0, points)))
    if weigh_validity:
        chance = table.p_valid[:, pools.query]
        scores = scores + np.log2(np.maximum(np.where(np.isnan(chance), 1.0, chance), 1e-6))
    # Logarithms of nearly equal forecasts differ in their last bits from processor to processor; so near is a tie.
    rounded: Floats = np.round(scores, SCORE_DECIMALS).astype(np.float64, copy=False)
    return rounded


def clusters_of(problem: Strings, kernel: Strings) -> Strings:
    """Rows of one problem are drawn together; where there is one problem only, rows of one kernel are."""
    return problem if len(set(problem.tolist())) > 1 else kernel


def _kwargs(settings: Settings) -> dict[str, int]:
    return {"resamples": settings.resamples, "seed": settings.seed}


def _pair_figures(questions: Questions, rows: PairForecasts, bootstrap: Bootstrap) -> dict[str, Figures]:
    figures: dict[str, Figures] = {}
    if "forecast" in questions.tracks:
        figures["forecast"] = forecast_figures(bootstrap, rows, questions.prior)
    if "select" in questions.tracks:
        figures["select"] = select_figures(bootstrap, rows, questions.measure_seconds)
    return figures


def _oracle_rows(questions: Questions, seed: int) -> PairForecasts:
    pairs = questions.pairs
    generator = np.random.default_rng((seed, 1))
    given = oracle_forecasts(pairs.speedup, pairs.speedup_low, pairs.speedup_high, generator)
    return PairForecasts.all_answered(given, pairs.bin)


def _slices(questions: Questions, rows: PairForecasts, settings: Settings) -> tuple[Score, ...]:
    pairs, repeats = questions.pairs, len(rows.bins) // max(len(questions.pairs), 1)
    made: list[Score] = []
    for name, positions in slices(pairs):
        every = (np.arange(repeats)[:, None] * len(pairs) + positions).ravel()
        clusters = clusters_of(pairs.problem[positions], pairs.candidate[positions])
        bootstrap = Bootstrap(np.tile(clusters, repeats), **_kwargs(settings))
        figures = forecast_figures(bootstrap, rows.take(every), questions.prior)
        made += [_score("forecast", m, name, figures[m], None, len(positions)) for m in SLICE_METRICS]
    return tuple(made)


def _pool_figures(
    questions: Questions, table: ForecastTable, settings: Settings
) -> tuple[dict[str, Figures], dict[str, float]]:
    labels, figures, best = questions.pools, {}, {}
    if "rank" in questions.tracks:
        pools = [rows[labels.valid[rows]] for rows in labels.pools()]
        pools = [rows for rows in pools if len(rows) >= rank.LEAST]
        problems = [str(labels.problem[rows[0]]) for rows in pools]
        scores = pool_scores(labels, table, weigh_validity=False)
        figures["rank"] = rank.rank_figures(pools, problems, scores, labels.runtime_us, **_kwargs(settings))
        ceiling = rank.rank_figures(pools, problems, _remeasured_scores(labels, settings.seed), labels.runtime_us, 0, 0)
        best = {name: figure.value for name, figure in ceiling.items()}
    if "search" in questions.tracks:
        figures["search"] = _search_figures(labels, pool_scores(labels, table, weigh_validity=True), settings)
    if "validity" in questions.tracks:
        clusters = clusters_of(labels.problem, labels.candidate)
        bootstrap = Bootstrap(np.tile(clusters, table.repeats), **_kwargs(settings))
        given = table.p_valid[:, labels.query].reshape(-1)
        truth = np.tile(labels.valid.astype(np.float64), table.repeats)
        figures["validity"] = validity_figures(bootstrap, given, truth, questions.valid_rate)
    return figures, best


def _search_figures(labels: PoolLabels, scores: Floats, settings: Settings) -> Figures:
    enough = [rows for rows in labels.pools() if len(rows) >= search.LEAST and labels.valid[rows].any()]
    speeds = np.where(labels.valid, np.nan_to_num(labels.speedup), 0.0)
    problems = [str(labels.problem[rows[0]]) for rows in enough]
    return search.search_figures(enough, problems, scores, speeds, **_kwargs(settings))


def _remeasured_scores(labels: PoolLabels, seed: int) -> Floats:
    generator = np.random.default_rng((seed, 2))
    repeat = remeasured(labels.runtime_us, labels.runtime_low_us, labels.runtime_high_us, generator)
    result: Floats = -repeat[None, :]
    return result


def _score(track: str, metric: str, name: str, figure: Figure, ceiling: float | None, rows: int) -> Score:
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


__all__ = ["HEADLINES", "Figures", "Scored", "Settings", "lower_is_better", "pair_forecasts", "pool_scores", "score"]
