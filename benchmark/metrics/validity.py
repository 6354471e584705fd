"""Track validity: will the kernel compile, run and give correct results?"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from kbench.benchmark.metrics.arrays import Floats, Ints, as_vectors
from kbench.benchmark.metrics.bootstrap import Bootstrap, Figure, divide
from kbench.benchmark.metrics.forecast import FLOOR
from kbench.benchmark.metrics.metric import Better, Metric, Shown
from kbench.benchmark.metrics.rank import mean_ranks
from kbench.benchmark.metrics.rows import ValidityRows
from kbench.benchmark.tracks import VALIDITY


def auroc(scores: npt.ArrayLike, happened: npt.ArrayLike) -> float:
    """AUROC, ties counting one half; NaN unless both outcomes occur."""
    predicted, truth = as_vectors(scores, happened)
    if not len(truth) or truth.min() == truth.max():
        return float("nan")
    positive = truth == truth.max()
    wins = mean_ranks(predicted)[positive].sum() - positive.sum() * (positive.sum() + 1) / 2
    return float(wins / (positive.sum() * (~positive).sum()))


def _comparisons(happened: Floats) -> float:
    return float(happened.sum() * (1.0 - happened).sum())


def auroc_within(scores: npt.ArrayLike, happened: npt.ArrayLike, group: Ints) -> float:
    """AUROC over the comparisons of rows of one group; NaN where no group holds both outcomes."""
    predicted, truth = as_vectors(scores, happened)
    parts = [(truth[rows], predicted[rows]) for rows in (group == each for each in np.unique(group))]
    counted = [(_comparisons(yes), auroc(given, yes)) for yes, given in parts if _comparisons(yes)]
    return sum(n * area for n, area in counted) / sum(n for n, _ in counted) if counted else float("nan")


def auroc_figure(bootstrap: Bootstrap, scores: Floats, happened: Floats, group: Ints) -> Figure:
    """The same with draws over levels of the score; draws without any comparison are undefined."""
    levels = bootstrap.levels(scores)
    won, comparisons = np.zeros(len(bootstrap.weights)), np.zeros(len(bootstrap.weights))
    for each in np.unique(group):
        here = group == each
        yes, no = levels.running(happened * here), levels.running((1.0 - happened) * here)
        # Each failed kernel is compared with the correct ones above its level and half of those in it.
        failed_here = np.diff(no, axis=1, prepend=0.0)
        correct_above = yes - np.diff(yes, axis=1, prepend=0.0) / 2
        won += (failed_here * correct_above).sum(axis=1)
        comparisons += yes[:, -1] * no[:, -1]
    areas = divide(won, comparisons)
    exact = auroc_within(scores, happened, group)
    return Figure(exact, areas[1:]) if math.isnan(exact) else Figure.of(areas).moved_to(exact)


AUROC_WITHIN_PROPOSER = Metric(
    name="auroc_within_proposer", track=VALIDITY, label="AUROC within proposer",
    meaning="Chance that a correct kernel is rated above a failed one of the same proposer; ½ is a coin.",
    figure=lambda bootstrap, rows: auroc_figure(bootstrap, rows.p_valid, rows.valid, rows.proposer),
    better=Better.HIGH, headline=True, shown=Shown.BOARD,
)  # fmt: skip
AUROC = Metric(
    name="auroc", track=VALIDITY, label="AUROC",
    meaning="Chance that a correct kernel is rated above a failed one, whoever proposed them, which tells much.",
    figure=lambda bootstrap, rows: auroc_figure(bootstrap, rows.p_valid, rows.valid, np.zeros_like(rows.proposer)),
    better=Better.HIGH, shown=Shown.TERMINAL,
)  # fmt: skip


def binary_log_score_rows(p_true: npt.ArrayLike, happened: npt.ArrayLike) -> Floats:
    """Log score of every yes/no forecast, in nats."""
    chances, truth = as_vectors(p_true, happened)
    result: Floats = -np.log(np.maximum(np.where(truth > 0, chances, 1.0 - chances), FLOOR))
    return result


VALIDITY_LOG_SCORE = Metric(
    name="log_score", track=VALIDITY, label="Log score",
    meaning="Negative logarithm of the probability given to what happened, in nats.",
    figure=lambda bootstrap, rows: bootstrap.mean(binary_log_score_rows(rows.p_valid, rows.valid)), better=Better.LOW,
    bounds=(0.0, float(-np.log(FLOOR))), shown=Shown.BOARD,
)  # fmt: skip


def _skill(bootstrap: Bootstrap, rows: ValidityRows) -> Figure:
    baseline = binary_log_score_rows(np.full_like(rows.stated, rows.valid_rate), rows.valid)
    return bootstrap.skill(binary_log_score_rows(rows.p_valid, rows.valid), baseline)


LOG_SKILL = Metric(
    name="log_skill", track=VALIDITY, label="Log skill",
    meaning="Share of the training rate's log score that P(valid) removes: 0 is no better, 1 is perfect.",
    figure=_skill, better=Better.HIGH, bounds=(None, 1.0), shown=Shown.TERMINAL,
)  # fmt: skip


ANSWERED = Metric(
    name="answered", track=VALIDITY, label="Answered",
    meaning="Share of kernels for which P(valid) was given; the training rate stands in for the others.",
    figure=lambda bootstrap, rows: bootstrap.mean((~np.isnan(rows.stated)).astype(np.float64)), better=Better.HIGH,
)  # fmt: skip

METRICS: tuple[Metric, ...] = (AUROC_WITHIN_PROPOSER, AUROC, VALIDITY_LOG_SCORE, LOG_SKILL, ANSWERED)
"""In the order of every table, the headline first."""
