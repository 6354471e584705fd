"""Area under the risk–coverage curve: the share wrong, averaged as more and more rows are answered."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from kbench.benchmark.metrics.arrays import Floats, as_vectors
from kbench.benchmark.metrics.bootstrap import Bootstrap, Figure
from kbench.benchmark.metrics.metric import Better, Ceiling, Metric, Shown
from kbench.benchmark.metrics.rows import PairRows
from kbench.benchmark.metrics.select.risk_coverage import shared_losses
from kbench.benchmark.metrics.select.surest_first import SurestFirst, bins_surest_first, signs_surest_first
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


def aurc_figure(answers: SurestFirst) -> Figure:
    """AURC with draws over levels of confidence, moved so that they belong to the exact value."""
    return Figure.of(answers.areas).moved_to(aurc(answers.loss, answers.confidence))


AURC = Metric(
    name="aurc", track=SELECT, label="AURC",
    meaning="Share of wrong bins, averaged as more and more pairs are answered, surest first.",
    figure=lambda bootstrap, rows: aurc_figure(bootstrap.once(bins_surest_first, rows)), better=Better.LOW,
    headline=True, shown=Shown.BOARD, ceiling=Ceiling.BINDING,
)  # fmt: skip
SIGN_AURC = Metric(
    name="sign_aurc", track=SELECT, label="Sign AURC",
    meaning="The same area for answers to 'faster or slower than the anchor'.",
    figure=lambda bootstrap, rows: aurc_figure(bootstrap.once(signs_surest_first, rows)), better=Better.LOW,
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
    answers = bootstrap.once(bins_surest_first, rows)
    excess = answers.areas - _least_areas(answers.rows, answers.losses)
    return Figure.of(excess).moved_to(excess_aurc(answers.loss, answers.confidence))


EXCESS_AURC = Metric(
    name="excess_aurc", track=SELECT, label="Excess AURC",
    meaning="AURC minus that of the best order of the same answers: 0 when confidence knows every miss.",
    figure=_excess, better=Better.LOW, shown=Shown.BOARD,
)  # fmt: skip
