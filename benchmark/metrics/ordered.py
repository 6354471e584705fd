"""Intervals for metrics of an order: AURC, excess AURC, coverage at risk, AUROC.

Resamples are taken over at most 1,024 levels of confidence instead of single rows; each interval is then moved by the
difference between the exact value and the value over levels, so that it belongs to the exact one.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from kbench.benchmark.metrics.arrays import Floats
from kbench.benchmark.metrics.bootstrap import Bootstrap, Figure
from kbench.benchmark.metrics.select.aurc import aurc, excess_aurc
from kbench.benchmark.metrics.select.risk_coverage import coverage_at_risk
from kbench.benchmark.metrics.validity.auroc import auroc


def _area(count: Floats, loss: Floats) -> Floats:
    """Area under risk over coverage of [resamples, levels] running sums, losses spread evenly within a level."""
    before, lost = np.zeros_like(count), np.zeros_like(loss)
    before[:, 1:], lost[:, 1:] = count[:, :-1], loss[:, :-1]
    rows = count - before
    rate = np.divide(loss - lost, rows, out=np.zeros_like(rows), where=rows > 0)
    growth = np.divide(count, before, out=np.ones_like(count), where=before > 0)
    # ∫ (lost + (c − before)·rate)/c dc from `before` to `count`.
    parts = rate * rows + (lost - before * rate) * np.log(growth)
    total: Floats = parts.sum(axis=1) / count[:, -1]
    return total


def _ideal(count: Floats, loss: Floats) -> Floats:
    """Least area for the same total loss of 0/1 losses: every right answer first."""
    risk = loss[:, -1] / count[:, -1]
    result: Floats = risk + (1 - risk) * np.log(np.maximum(1 - risk, 1e-300))
    return result


def _moved(exact: float, grouped: float, draws: Floats) -> Figure:
    return Figure(exact, draws + (exact - grouped))


def aurc_figures(bootstrap: Bootstrap, loss: Floats, confidence: Floats) -> tuple[Figure, Figure]:
    """AURC and excess AURC; every row must have a confidence."""
    order = bootstrap.ordered(confidence)
    counts, losses = order.cumulative(np.ones_like(loss)), order.cumulative(loss)
    value, draws = _area(counts[0][None], losses[0][None])[0], _area(counts[1], losses[1])
    least, least_draws = _ideal(counts[0][None], losses[0][None])[0], _ideal(counts[1], losses[1])
    return (
        _moved(aurc(loss, confidence), float(value), draws),
        _moved(excess_aurc(loss, confidence), float(value - least), draws - least_draws),
    )


def coverage_figures(
    bootstrap: Bootstrap,
    loss: Floats,
    confidence: Floats,
    risks: tuple[float, ...],
    deferred: npt.NDArray[np.bool_] | None = None,
) -> dict[float, Figure]:
    """Coverage of all rows at each risk; rows that are deferred whatever the risk are never covered."""
    order = bootstrap.ordered(confidence)
    deferred = np.zeros(len(loss), dtype=np.bool_) if deferred is None else deferred
    given = np.where(deferred, 0.0, 1.0)
    rows = order.cumulative(np.ones_like(loss))[1][:, -1]
    counts, losses = order.cumulative(given)[1], order.cumulative(loss * given)[1]
    known = np.where(deferred, np.nan, confidence)
    figures = {}
    for risk in risks:
        allowed = np.where(losses <= (risk + 1e-12) * counts, counts, 0.0)
        draws = allowed.max(axis=1, initial=0.0) / rows
        figures[risk] = Figure(coverage_at_risk(loss, known, risk), draws)
    return figures


def auroc_figure(bootstrap: Bootstrap, scores: Floats, happened: Floats) -> Figure:
    """AUROC; resamples in which only one outcome occurs are left out."""
    order = bootstrap.ordered(scores)
    value, draws = (
        _auroc(yes, no) for yes, no in zip(order.cumulative(happened), order.cumulative(1.0 - happened), strict=True)
    )
    exact = auroc(scores, happened)
    return Figure(exact, draws) if math.isnan(exact) else _moved(exact, float(value[0]), draws)


def _auroc(yes: Floats, no: Floats) -> Floats:
    yes, no = np.atleast_2d(yes), np.atleast_2d(no)
    gained = np.diff(no, axis=1, prepend=0.0)
    middle = yes - np.diff(yes, axis=1, prepend=0.0) / 2
    total = yes[:, -1] * no[:, -1]
    result: Floats = np.divide((gained * middle).sum(axis=1), total, out=np.full(len(yes), np.nan), where=total > 0)
    return result
