"""Excess AURC: the part of AURC that better confidences could remove."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from kbench.benchmark.metrics.arrays import Floats, as_vectors
from kbench.benchmark.metrics.bootstrap import Bootstrap, Figure
from kbench.benchmark.metrics.forecast.accuracy import correct
from kbench.benchmark.metrics.metric import Better, Metric, Shown
from kbench.benchmark.metrics.rows import PairRows
from kbench.benchmark.metrics.select.aurc import area, aurc, level_areas
from kbench.benchmark.tracks import SELECT


def excess_aurc(loss: npt.ArrayLike, confidence: npt.ArrayLike) -> float:
    """AURC minus that of the best possible order of the same answers: 0 when confidence knows every miss."""
    losses, confidences = as_vectors(loss, confidence)
    ideal = np.sort(losses[~np.isnan(confidences)])
    return aurc(losses, confidences) - area(ideal, len(losses))


def _least_areas(counts: Floats, losses: Floats) -> Floats:
    """Least area for the same total of 0/1 losses: every correct answer first."""
    risk = losses[:, -1] / counts[:, -1]
    result: Floats = risk + (1 - risk) * np.log(np.maximum(1 - risk, 1e-300))
    return result


def _figure(bootstrap: Bootstrap, rows: PairRows) -> Figure:
    loss = 1.0 - correct(rows.probabilities, rows.bins)
    levels = bootstrap.levels(rows.confidence)
    counts, losses = levels.running(np.ones_like(loss)), levels.running(loss)
    excess = level_areas(counts, losses) - _least_areas(counts, losses)
    return Figure.of(excess).moved_to(excess_aurc(loss, rows.confidence))


EXCESS_AURC = Metric(
    name="excess_aurc",
    track=SELECT,
    label="Excess AURC",
    meaning="AURC minus that of the best order of the same answers: 0 when confidence knows every miss.",
    better=Better.LOW,
    figure=_figure,
    shown=Shown.BOARD,
)
