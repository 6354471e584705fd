"""Track select: does it know when it does not know? Risk against coverage, the surest answered first.

A confidence of NaN is a failure to answer: always deferred, and still counted among all rows. Rows of equal confidence
share their mean loss, which is what drawing among them at random gives on average.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from kbench.benchmark.metrics.arrays import Booleans, Floats, Ints, as_vectors
from kbench.benchmark.metrics.bootstrap import Bootstrap, Figure, Levels, divide
from kbench.benchmark.metrics.forecast import correct
from kbench.benchmark.metrics.metric import Better, Ceiling, Metric, PairRows, Shown, percent
from kbench.benchmark.tracks import SELECT

SLACK = 1e-12
"""Keeps a risk that is met exactly from being missed by a rounded sum."""


@dataclasses.dataclass(frozen=True, slots=True)
class RiskCoverageCurve:
    """Risk after each answered row, surest first; empty when nothing was answered."""

    coverage: Floats
    """Answered rows over all rows."""
    risk: Floats
    """Mean loss among the answered."""

    @classmethod
    def of(cls, loss: Floats, place: Ints, rows: int) -> RiskCoverageCurve:
        """The answers' losses by place, the first being the surest, among so many rows; tied rows share their mean."""
        tied = np.bincount(place)
        ordered = np.repeat(np.bincount(place, loss) / np.maximum(tied, 1), tied)
        count = np.arange(1, len(ordered) + 1)
        return cls(count / max(rows, 1), np.cumsum(ordered) / count)

    @property
    def area(self) -> float:
        """Trapezoid area, level before the first row; rows that were never answered add nothing."""
        if not len(self.risk):
            return 0.0
        return float((self.risk[0] + np.sum((self.risk[1:] + self.risk[:-1]) / 2)) * self.coverage[0])

    def coverage_at(self, risk: float) -> float:
        """Largest share of rows that can be answered with at most this risk; 0 when there is none."""
        allowed = np.flatnonzero(self.risk <= risk + SLACK)
        return float(self.coverage[allowed[-1]]) if len(allowed) else 0.0


def risk_coverage_curve(loss: npt.ArrayLike, confidence: npt.ArrayLike) -> RiskCoverageCurve:
    """The curve of rows in any order; a confidence of NaN is a failure."""
    losses, confidences = as_vectors(loss, confidence)
    answered = ~np.isnan(confidences)
    _, place = np.unique(-confidences[answered], return_inverse=True)
    return RiskCoverageCurve.of(losses[answered], place, len(losses))


@dataclasses.dataclass(frozen=True)
class SurestFirst:
    """Losses by level of confidence; running sums are [1 + resamples, levels], the data first."""

    loss: Floats
    failed: Booleans
    """Where there is no answer."""
    levels: Levels
    weight: Floats
    """How much each row counts."""

    @classmethod
    def of(cls, bootstrap: Bootstrap, loss: Floats, confidence: Floats, failed: Booleans | None = None) -> SurestFirst:
        """Order rows, which count alike; without `failed` all are answers."""
        failed = np.zeros(len(loss), dtype=np.bool_) if failed is None else failed
        return cls(loss, failed, bootstrap.levels(confidence), np.ones_like(loss))

    @functools.cached_property
    def rows(self) -> Floats:
        """Running weight of rows: their number, where they count alike."""
        return self.levels.running(self.weight)

    @functools.cached_property
    def losses(self) -> Floats:
        """Running sum of losses."""
        return self.levels.running(self.weight * self.loss)

    @functools.cached_property
    def areas(self) -> Floats:
        """Area under risk over coverage of the data and of every draw, losses spread evenly within a level."""
        return areas(self.rows, self.losses)

    @functools.cached_property
    def curve(self) -> RiskCoverageCurve:
        """Risk over coverage of the data, failures included."""
        return RiskCoverageCurve.of(self.loss, self.levels.place, len(self.loss))

    @functools.cached_property
    def answered(self) -> SurestFirst:
        """The same with failures that count nothing."""
        return dataclasses.replace(self, weight=np.where(self.failed, 0.0, 1.0)) if self.failed.any() else self

    @functools.cached_property
    def curve_of_answers(self) -> RiskCoverageCurve:
        """Risk over coverage of the data; failures are never covered."""
        kept = ~self.failed
        return self.curve if kept.all() else RiskCoverageCurve.of(self.loss[kept], self.levels.place[kept], len(kept))


def bins_surest_first(bootstrap: Bootstrap, rows: PairRows) -> SurestFirst:
    """An answer is wrong unless its bin is the correct one."""
    return SurestFirst.of(bootstrap, 1.0 - rows.column(correct), rows.confidence, rows.failed)


def signs_surest_first(bootstrap: Bootstrap, rows: PairRows) -> SurestFirst:
    """The answer is 'faster' or 'slower'."""
    return SurestFirst.of(bootstrap, rows.sign_loss, rows.sign_confidence, rows.failed)


def aurc_figure(answers: SurestFirst) -> Figure:
    """AURC with draws over levels of confidence, moved so that they belong to the exact value."""
    return Figure.of(answers.areas).moved_to(answers.curve.area)


AURC = Metric(
    name="aurc", track=SELECT, label="AURC of bins, every pair alike",
    meaning="Share of wrong bins, averaged as more and more pairs are answered, surest first.",
    figure=lambda bootstrap, rows: aurc_figure(bootstrap.once(bins_surest_first, rows)), better=Better.LOW,
    shown=Shown.BOARD, ceiling=Ceiling.BINDING,
)  # fmt: skip


def areas(rows: Floats, losses: Floats) -> Floats:
    """Areas under risk over coverage from running sums over levels of confidence, [curves, levels]."""
    before, lost, width = rows[:, :-1], losses[:, :-1], np.diff(rows)
    rate = np.divide(np.diff(losses), width, out=np.zeros_like(width), where=width > 0)
    growth = np.divide(rows[:, 1:], before, out=np.ones_like(width), where=before > 0)
    # ∫ (lost + (c − before)·rate)/c dc from `before` to `rows` is what a level loses, plus this.
    more = (lost - before * rate) * np.log(growth)
    return divide(losses[:, -1] + more.sum(axis=1), rows[:, -1])


def _aurc_over_problems(bootstrap: Bootstrap, rows: PairRows, answers: SurestFirst, kept: Booleans) -> Figure:
    """The area over the rows kept; those of a problem share what it counts."""
    sizes = np.bincount(bootstrap.index, kept, bootstrap.count)
    shares = rows.problem_counts(bootstrap, kept) / np.maximum(sizes, 1.0)
    weight = np.where(kept, shares[bootstrap.index], 0.0)
    by_place = (np.bincount(answers.levels.place, each, 1) for each in (weight, weight * answers.loss))
    exact = areas(*(np.cumsum(each.astype(np.float64))[None] for each in by_place))
    return Figure.of(dataclasses.replace(answers, weight=weight).areas).moved_to(float(exact[0]))


PROBLEM_SIGN_AURC = Metric(
    name="problem_sign_aurc", track=SELECT, label="AURC of signs",
    meaning="Share of wrong answers to 'which of two kernels is faster', where they differ by more than 2 %, averaged "
    "as more and more pairs are answered, surest first, over problems.",
    figure=lambda bootstrap, rows: _aurc_over_problems(
        bootstrap, rows, bootstrap.once(signs_surest_first, rows), ~rows.level & rows.decided
    ),
    better=Better.LOW, headline=True, shown=Shown.BOARD, ceiling=Ceiling.BINDING,
)  # fmt: skip
PROBLEM_AURC = Metric(
    name="problem_aurc", track=SELECT, label="AURC of bins",
    meaning="Share of wrong bins, averaged as more and more pairs of kernels are answered, over problems.",
    figure=lambda bootstrap, rows: _aurc_over_problems(
        bootstrap, rows, bootstrap.once(bins_surest_first, rows), ~rows.level
    ),
    better=Better.LOW, shown=Shown.BOARD, ceiling=Ceiling.BINDING,
)  # fmt: skip
SIGN_AURC = Metric(
    name="sign_aurc", track=SELECT, label="AURC of signs, every pair alike",
    meaning="The same area for answers to 'faster or slower than the anchor'.",
    figure=lambda bootstrap, rows: aurc_figure(bootstrap.once(signs_surest_first, rows)), better=Better.LOW,
)  # fmt: skip


def excess_area(curve: RiskCoverageCurve, loss: Floats) -> float:
    """The area minus that of the best possible order of the same losses: 0 when confidence knows every miss."""
    return curve.area - RiskCoverageCurve.of(np.sort(loss), np.arange(len(loss)), len(loss)).area


def _excess(bootstrap: Bootstrap, rows: PairRows) -> Figure:
    answers = bootstrap.once(bins_surest_first, rows)
    # Least area for the same total of 0/1 losses: every correct answer first.
    risk = divide(answers.losses[:, -1], answers.rows[:, -1])
    excess = answers.areas - (risk + (1 - risk) * np.log(np.maximum(1 - risk, 1e-300)))
    return Figure.of(excess).moved_to(excess_area(answers.curve, answers.loss))


EXCESS_AURC = Metric(
    name="excess_aurc", track=SELECT, label="Excess AURC",
    meaning="AURC minus that of the best order of the same answers: 0 when confidence knows every miss.",
    figure=_excess, better=Better.LOW, shown=Shown.BOARD,
)  # fmt: skip


RISKS = (0.05, 0.1, 0.2)
PRICED_RISK = 0.1
"""The risk beyond which a query is measured instead, where deferring is priced in GPU-seconds."""


def coverage_figure(answers: SurestFirst, risk: float) -> Figure:
    """Coverage of all rows with draws over levels of confidence; a failure to answer is never covered."""
    counts, losses = answers.answered.rows, answers.answered.losses
    covered = np.where(losses <= (risk + SLACK) * counts, counts, 0.0).max(axis=1)
    return Figure(answers.curve_of_answers.coverage_at(risk), divide(covered, answers.rows[:, -1])[1:])


def _metric(risk: float, sign: bool) -> Metric:
    ordered, share = (signs_surest_first if sign else bins_surest_first), f"{100 * risk:.0f} %"
    answers = "answers to 'faster or slower'" if sign else "bins"
    level_shown = Shown.TERMINAL if sign and risk == 0.1 else Shown.BOARD if not sign and risk > 0.05 else Shown.FILES
    return Metric(
        name=f"{'sign_' if sign else ''}coverage_at_risk_{percent(risk)}",
        track=SELECT,
        label=f"{'Sign coverage' if sign else 'Coverage'} at {share} risk",
        meaning=f"Largest share of pairs that can be answered with at most {share} wrong {answers}.",
        better=Better.HIGH,
        figure=lambda bootstrap, rows: coverage_figure(bootstrap.once(ordered, rows), risk),
        shown=level_shown,
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

METRICS: tuple[Metric, ...] = (
    PROBLEM_SIGN_AURC, PROBLEM_AURC, AURC, EXCESS_AURC, *COVERAGE_AT_RISK, SIGN_AURC, *SIGN_COVERAGE_AT_RISK,
    GPU_SECONDS_PER_DECISION, SIGN_GPU_SECONDS_PER_DECISION,
)  # fmt: skip
"""In the order of every table, the headline first."""
