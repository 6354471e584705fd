"""Coverage at a risk: the share of queries that can be answered, and what measuring the others costs."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from kbench.benchmark.metrics.bootstrap import Bootstrap, Figure
from kbench.benchmark.metrics.metric import Better, Metric, Shown, percent
from kbench.benchmark.metrics.rows import PairRows
from kbench.benchmark.metrics.select.risk_coverage import risk_coverage_curve
from kbench.benchmark.metrics.select.surest_first import SurestFirst, bins_surest_first, signs_surest_first
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


def coverage_figure(answers: SurestFirst, risk: float) -> Figure:
    """Coverage of all rows with draws over levels of confidence; a failure to answer is never covered."""
    counts, losses = answers.answered_rows, answers.answered_losses
    covered = np.where(losses <= (risk + SLACK) * counts, counts, 0.0).max(axis=1)
    exact = coverage_at_risk(answers.loss, np.where(answers.failed, np.nan, answers.confidence), risk)
    return Figure(exact, (covered / answers.rows[:, -1])[1:])


def _metric(risk: float, sign: bool) -> Metric:
    ordered, share = (signs_surest_first if sign else bins_surest_first), f"{100 * risk:.0f} %"
    answers = "answers to 'faster or slower'" if sign else "bins"
    shown = Shown.TERMINAL if sign and risk == 0.1 else Shown.BOARD if not sign and risk > 0.05 else Shown.FILES
    return Metric(
        name=f"{'sign_' if sign else ''}coverage_at_risk_{percent(risk)}",
        track=SELECT,
        label=f"{'Sign coverage' if sign else 'Coverage'} at {share} risk",
        meaning=f"Largest share of pairs that can be answered with at most {share} wrong {answers}.",
        better=Better.HIGH,
        figure=lambda bootstrap, rows: coverage_figure(bootstrap.once(ordered, rows), risk),
        shown=shown,
    )


COVERAGE_AT_RISK = tuple(_metric(risk, sign=False) for risk in RISKS)
SIGN_COVERAGE_AT_RISK = tuple(_metric(risk, sign=True) for risk in RISKS)


def _seconds(
    ordered: Callable[[Bootstrap, PairRows], SurestFirst],
) -> Callable[[Bootstrap, PairRows], Figure | None]:
    def figure(bootstrap: Bootstrap, rows: PairRows) -> Figure | None:
        seconds = rows.measure_seconds
        if seconds is None:
            return None
        covered = coverage_figure(bootstrap.once(ordered, rows), PRICED_RISK)
        return Figure((1.0 - covered.value) * seconds, (1.0 - covered.draws) * seconds)

    return figure


GPU_SECONDS_PER_DECISION = Metric(
    name="gpu_seconds_per_decision", track=SELECT, label="GPU-seconds per decision",
    meaning="GPU-seconds per query when everything beyond 10 % risk is measured instead.",
    figure=_seconds(bins_surest_first), better=Better.LOW, bounds=(0.0, None), shown=Shown.TERMINAL,
)  # fmt: skip
SIGN_GPU_SECONDS_PER_DECISION = Metric(
    name="sign_gpu_seconds_per_decision", track=SELECT, label="GPU-seconds per sign",
    meaning="The same cost when only 'faster or slower than the anchor' has to be decided.",
    figure=_seconds(signs_surest_first), better=Better.LOW, bounds=(0.0, None),
)  # fmt: skip
