"""Coverage at a risk: the share of queries that can be answered, and what measuring the others costs."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from kbench.benchmark.metrics.arrays import Booleans, Floats
from kbench.benchmark.metrics.bootstrap import Bootstrap, Figure
from kbench.benchmark.metrics.forecast.accuracy import correct
from kbench.benchmark.metrics.metric import Better, Metric, Shown, percent
from kbench.benchmark.metrics.rows import PairRows
from kbench.benchmark.metrics.select.risk_coverage import risk_coverage_curve
from kbench.benchmark.tracks import SELECT

RISKS = (0.05, 0.1, 0.2)
PRICED_RISK = 0.1
"""The risk beyond which a query is measured instead, where deferring is priced in GPU-seconds."""
SLACK = 1e-12
"""Keeps a risk that is met exactly from being missed by a rounded sum."""


def coverage_at_risk(loss: npt.ArrayLike, confidence: npt.ArrayLike, risk: float) -> float:
    """Largest share of rows that can be answered with at most this risk; 0 when there is none."""
    curve = risk_coverage_curve(loss, confidence)
    allowed = np.flatnonzero(curve.risk <= risk + SLACK)
    return float(curve.coverage[allowed[-1]]) if len(allowed) else 0.0


def coverage_figure(
    bootstrap: Bootstrap, loss: Floats, confidence: Floats, risk: float, failed: Booleans | None = None
) -> Figure:
    """Coverage of all rows with draws over levels of confidence; a failure to answer is never covered."""
    failed = np.zeros(len(loss), dtype=np.bool_) if failed is None else failed
    answered = np.where(failed, 0.0, 1.0)
    levels = bootstrap.levels(confidence)
    rows = levels.running(np.ones_like(loss))[:, -1]
    counts, losses = levels.running(answered), levels.running(loss * answered)
    covered = np.where(losses <= (risk + SLACK) * counts, counts, 0.0).max(axis=1)
    exact = coverage_at_risk(loss, np.where(failed, np.nan, confidence), risk)
    return Figure(exact, (covered / rows)[1:])


def exact_bin_coverage(bootstrap: Bootstrap, rows: PairRows, risk: float) -> Figure:
    """Coverage when an answer is wrong unless its bin is the correct one."""
    loss = 1.0 - correct(rows.probabilities, rows.bins)
    return coverage_figure(bootstrap, loss, rows.confidence, risk, rows.failed)


def sign_coverage(bootstrap: Bootstrap, rows: PairRows, risk: float) -> Figure:
    """Coverage when the answer is 'faster' or 'slower'."""
    return coverage_figure(bootstrap, rows.sign_loss, rows.sign_confidence, risk, rows.failed)


def _metric(risk: float, sign: bool) -> Metric:
    coverage, share = (sign_coverage if sign else exact_bin_coverage), f"{100 * risk:.0f} %"
    answers = "answers to 'faster or slower'" if sign else "bins"
    shown = Shown.TERMINAL if sign and risk == 0.1 else Shown.BOARD if not sign and risk > 0.05 else Shown.FILES
    return Metric(
        name=f"{'sign_' if sign else ''}coverage_at_risk_{percent(risk)}",
        track=SELECT,
        label=f"{'Sign coverage' if sign else 'Coverage'} at {share} risk",
        meaning=f"Largest share of pairs that can be answered with at most {share} wrong {answers}.",
        better=Better.HIGH,
        figure=lambda bootstrap, rows: coverage(bootstrap, rows, risk),
        shown=shown,
    )


COVERAGE_AT_RISK = tuple(_metric(risk, sign=False) for risk in RISKS)
SIGN_COVERAGE_AT_RISK = tuple(_metric(risk, sign=True) for risk in RISKS)


def _seconds(
    coverage: Callable[[Bootstrap, PairRows, float], Figure],
) -> Callable[[Bootstrap, PairRows], Figure | None]:
    def figure(bootstrap: Bootstrap, rows: PairRows) -> Figure | None:
        seconds = rows.measure_seconds
        if seconds is None:
            return None
        covered = coverage(bootstrap, rows, PRICED_RISK)
        return Figure((1.0 - covered.value) * seconds, (1.0 - covered.draws) * seconds)

    return figure


GPU_SECONDS_PER_DECISION = Metric(
    name="gpu_seconds_per_decision", track=SELECT, label="GPU-seconds per decision",
    meaning="GPU-seconds per query when everything beyond 10 % risk is measured instead.",
    figure=_seconds(exact_bin_coverage), better=Better.LOW, bounds=(0.0, None), shown=Shown.TERMINAL,
)  # fmt: skip
SIGN_GPU_SECONDS_PER_DECISION = Metric(
    name="sign_gpu_seconds_per_decision", track=SELECT, label="GPU-seconds per sign",
    meaning="The same cost when only 'faster or slower than the anchor' has to be decided.",
    figure=_seconds(sign_coverage), better=Better.LOW, bounds=(0.0, None),
)  # fmt: skip
