"""Area under the risk–coverage curve: the share wrong, averaged as more and more rows are answered."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from kbench.benchmark.metrics.arrays import Floats, as_vectors
from kbench.benchmark.metrics.bootstrap import Bootstrap, Figure
from kbench.benchmark.metrics.forecast.accuracy import correct
from kbench.benchmark.metrics.metric import Better, Ceiling, Metric, Shown
from kbench.benchmark.metrics.rows import PairRows
from kbench.benchmark.metrics.select.risk_coverage import shared_losses
from kbench.benchmark.tracks import SELECT


def area(ordered: Floats, rows: int) -> float:
    """Trapezoid area under the running mean of losses, over coverage of all `rows`; level before the first row."""
    if not rows:
        return float("nan")
    if not len(ordered):
        return 0.0
    risk = np.cumsum(ordered) / np.arange(1, len(ordered) + 1)
    return float((risk[0] + np.sum((risk[1:] + risk[:-1]) / 2)) / rows)


def aurc(loss: npt.ArrayLike, confidence: npt.ArrayLike) -> float:
    """Area under risk over coverage, unnormalised: rows that were never answered add nothing."""
    losses, confidences = as_vectors(loss, confidence)
    return area(shared_losses(losses, confidences), len(losses))


def level_areas(counts: Floats, losses: Floats) -> Floats:
    """Areas of [resamples, levels] running sums, losses spread evenly within a level."""
    before, lost = np.zeros_like(counts), np.zeros_like(losses)
    before[:, 1:], lost[:, 1:] = counts[:, :-1], losses[:, :-1]
    rows = counts - before
    rate = np.divide(losses - lost, rows, out=np.zeros_like(rows), where=rows > 0)
    growth = np.divide(counts, before, out=np.ones_like(counts), where=before > 0)
    # ∫ (lost + (c − before)·rate)/c dc from `before` to `counts`.
    parts = rate * rows + (lost - before * rate) * np.log(growth)
    result: Floats = parts.sum(axis=1) / counts[:, -1]
    return result


def aurc_figure(bootstrap: Bootstrap, loss: Floats, confidence: Floats) -> Figure:
    """AURC with draws over levels of confidence, moved so that they belong to the exact value."""
    levels = bootstrap.levels(confidence)
    areas = level_areas(levels.running(np.ones_like(loss)), levels.running(loss))
    return Figure.of(areas).moved_to(aurc(loss, confidence))


def _exact_bin(bootstrap: Bootstrap, rows: PairRows) -> Figure:
    return aurc_figure(bootstrap, 1.0 - correct(rows.probabilities, rows.bins), rows.confidence)


def _sign(bootstrap: Bootstrap, rows: PairRows) -> Figure:
    return aurc_figure(bootstrap, rows.sign_loss, rows.sign_confidence)


AURC = Metric(
    name="aurc", track=SELECT, label="AURC",
    meaning="Share of wrong bins, averaged as more and more pairs are answered, surest first.",
    figure=_exact_bin, better=Better.LOW, headline=True, shown=Shown.BOARD, ceiling=Ceiling.BINDING,
)  # fmt: skip
SIGN_AURC = Metric(
    name="sign_aurc", track=SELECT, label="Sign AURC",
    meaning="The same area for answers to 'faster or slower than the anchor'.",
    figure=_sign, better=Better.LOW,
)  # fmt: skip


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


def _excess(bootstrap: Bootstrap, rows: PairRows) -> Figure:
    loss = 1.0 - correct(rows.probabilities, rows.bins)
    levels = bootstrap.levels(rows.confidence)
    counts, losses = levels.running(np.ones_like(loss)), levels.running(loss)
    excess = level_areas(counts, losses) - _least_areas(counts, losses)
    return Figure.of(excess).moved_to(excess_aurc(loss, rows.confidence))


EXCESS_AURC = Metric(
    name="excess_aurc", track=SELECT, label="Excess AURC",
    meaning="AURC minus that of the best order of the same answers: 0 when confidence knows every miss.",
    figure=_excess, better=Better.LOW, shown=Shown.BOARD,
)  # fmt: skip
