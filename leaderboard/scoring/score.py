"""Score a submission: everything is recomputed from its forecasts against labels it never held."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Mapping

import numpy as np

from kbench import __version__
from kbench.benchmark.metrics.arrays import Ints
from kbench.benchmark.metrics.bootstrap import Figure
from kbench.benchmark.metrics.forecast import correct, reliability_curve
from kbench.benchmark.metrics.metric import Shown
from kbench.benchmark.metrics.registry import of_track
from kbench.benchmark.metrics.select import risk_coverage_curve
from kbench.benchmark.questions.questions import Questions
from kbench.benchmark.scoring.rows import pair_rows, pool_scores, regret_curve
from kbench.benchmark.scoring.score import BootstrapSettings, Bounds, Scored, score
from kbench.benchmark.surrogates.forecasts import ForecastTable
from kbench.benchmark.tracks import OVERALL, pairs_only
from kbench.leaderboard.scoring.results import Results
from kbench.schemas import Submission

PAGE_RESAMPLES = 400
"""Draws of what is no headline, and inside slices: enough for two digits of a 95 % interval."""
CURVE_POINTS = 41
PAGE_FACETS = ("family", "backend", "gpu")
"""What the page filters by, in the order a slice's key joins them."""


def score_submission(
    submission: Submission,
    table: ForecastTable,
    questions: Questions,
    settings: BootstrapSettings | None = None,
    limits: dict[str, Bounds] | None = None,
    sliced: bool = True,
) -> Results:
    """Score checked forecasts.

    Args:
        submission: its metadata.
        table: its forecasts, aligned with the questions.
        questions: the frozen questions and their labels.
        settings: resamples and seed; the same for every entry that is to be compared.
        limits: bounds of these questions and their slices, filled as they are needed and shared by entries.
        sliced: whether to score each slice as well; otherwise there are figures over all queries alone.

    Returns:
        The same to the bit for the same inputs on any machine.
    """
    settings = settings or BootstrapSettings()
    limits = {} if limits is None else limits

    def bounds(key: str, part: Questions) -> Bounds:
        """Bounds of a slice, whichever of its tracks an entry answers."""
        if key not in limits:
            limits[key] = Bounds.of(dataclasses.replace(part, tracks=questions.tracks), settings)
        return limits[key]

    failed = table.failed[:, asked_queries(submission, questions)]
    entered = dataclasses.replace(questions, tracks=tuple(t for t in questions.tracks if t in submission.tracks))
    scored = score(entered, table, settings, sliced=sliced, bounds=bounds("all", entered))
    # The page's own slices hold every metric.
    scores = [one for one in scored.scores() if one.slice.split("=", 1)[0] not in PAGE_FACETS]
    core_draws = {}
    if sliced:
        smaller = dataclasses.replace(settings, resamples=min(settings.resamples, PAGE_RESAMPLES))
        for key, of_pairs, of_pools in slice_masks(entered):
            pairs, pools = entered.pairs.take(of_pairs), entered.pools.take(of_pools)
            part = dataclasses.replace(entered, pairs=pairs, pools=pools)
            on_part = score(part, table, smaller, sliced=False, bounds=bounds(key, part))
            scores += [dataclasses.replace(one, slice=key) for one in on_part.scores()]
        if questions.subset is None and (questions.pairs.core.any() or questions.pools.core.any()):
            core = entered.core()
            on_core = score(core, table, settings, sliced=False, bounds=bounds("core", core))
            scores += [dataclasses.replace(one, slice="core") for one in on_core.scores()]
            core_draws = headline_draws(on_core)
    # What the page shows: headlines and overall, and every other metric as track.metric.
    shown = {
        f"{track}.{metric.name}": figures.get(metric.name)
        for track, figures in scored.figures.items()
        for metric in of_track(track)
        if metric.shown is Shown.BOARD and not metric.headline
    }
    exact = Results(
        submission=submission,
        dataset_fingerprint=questions.dataset,
        kbench=__version__,
        seed=settings.seed,
        resamples=settings.resamples,
        answered_share=float(1.0 - failed.mean()),
        cost=_cost(submission, table, failed.size),
        scores=scores,
        draws=headline_draws(scored) | _kept_draws(shown, PAGE_RESAMPLES),
        core_draws=core_draws,
        curves=_curves(entered, table),
    )
    # The last bits of a figure are the processor's own.
    return exact.rounded()


def asked_queries(submission: Submission, questions: Questions) -> Ints:
    """Positions of the queries an entry must answer: an entry for the pair tracks alone answers pairs alone."""
    if pairs_only(submission.tracks) and len(questions.pairs):
        return questions.pair_queries
    return np.arange(len(questions.queries))


def _cost(submission: Submission, table: ForecastTable, count: int) -> Mapping[str, float | None]:
    """Per 1,000 forecasts: what the rows state, else what the submission states for all `count` of them."""
    cost: dict[str, float | None] = {}
    for name, each, total in (("seconds", table.elapsed_s, submission.total_seconds),
                              ("tokens", table.tokens, submission.total_tokens)):  # fmt: skip
        mean = None if np.isnan(each).all() else float(np.nanmean(each))
        if mean is None and total is not None and count:
            mean = total / count
        cost[f"{name}_per_1000"] = None if mean is None else 1000 * mean
    return cost


def headline_draws(scored: Scored) -> dict[str, list[float]]:
    """Draws of every headline under its track's name, and of overall."""
    return _kept_draws({track: scored.headline(track) for track in (*scored.figures, OVERALL)})


def _kept_draws(figures: Mapping[str, Figure | None], most: int | None = None) -> dict[str, list[float]]:
    # An undefined draw counts as the value itself: it neither helps nor hurts the entry's rank.
    return {
        name: np.nan_to_num(figure.draws[:most], nan=figure.value).tolist()
        for name, figure in figures.items()
        if figure is not None and len(figure.draws) and np.isfinite(figure.value)
    }


def slice_masks(questions: Questions) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    """Every slice the page can filter by: each facet value, and each combination of family, backend and GPU.

    A facet with one value splits nothing and is left out.

    Yields:
        (key, mask over pairs, mask over pool rows); the key joins facets in a fixed order with `&`.
    """
    gpu = np.array([query.gpu for query in questions.queries])
    pair = _facet_columns(questions.pairs, gpu)
    pool = _facet_columns(questions.pools, gpu)
    values = {name: sorted({*pair[name].tolist(), *pool[name].tolist()}) for name in PAGE_FACETS}
    names = [name for name in PAGE_FACETS if len(values[name]) > 1]
    for count in range(1, len(names) + 1):
        for chosen in itertools.combinations(names, count):
            for picks in itertools.product(*(values[name] for name in chosen)):
                of_pairs = np.ones(len(questions.pairs), dtype=np.bool_)
                of_pools = np.ones(len(questions.pools), dtype=np.bool_)
                for name, value in zip(chosen, picks, strict=True):
                    of_pairs &= pair[name] == value
                    of_pools &= pool[name] == value
                if of_pairs.any() or of_pools.any():
                    yield "&".join(f"{n}={v}" for n, v in zip(chosen, picks, strict=True)), of_pairs, of_pools


def _facet_columns(labels: object, gpu: np.ndarray) -> dict[str, np.ndarray]:
    query = labels.query  # type: ignore[attr-defined]
    family, backend = labels.family.astype(str), labels.backend.astype(str)  # type: ignore[attr-defined]
    return {"family": family, "backend": backend, "gpu": gpu[query] if len(query) else family}


def _curves(questions: Questions, table: ForecastTable) -> dict[str, list[list[float]]]:
    """Points of the curves that belong to the tracks entered."""
    curves: dict[str, list[list[float]]] = {}
    rows = pair_rows(questions, table)
    if "forecast" in questions.tracks and len(rows.bins):
        reliable = reliability_curve(rows.probabilities, rows.bins)
        points = zip(reliable.confidence, reliable.accuracy, strict=True)
        curves["reliability"] = [[float(x), float(y)] for x, y in points]
    if "select" in questions.tracks and len(rows.bins):
        risk = risk_coverage_curve(1.0 - correct(rows.probabilities, rows.bins), rows.confidence)
        at = np.linspace(0.025, 1.0, CURVE_POINTS - 1)
        curves["risk_coverage"] = [[float(x), float(np.interp(x, risk.coverage, risk.risk))] for x in at]
    if "rank" in questions.tracks and len(questions.pools):
        scores = pool_scores(questions.pools, table)
        curves["regret"] = [[share, regret] for share, regret in regret_curve(questions.pools, scores).items()]
    return curves
