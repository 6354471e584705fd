"""Why a skill is below zero: the order of the forecasts, their level, or their confidence.

Each is judged after the ones before it are put right, so that a reversed model is not called too sure as well.
"""

from __future__ import annotations

import math

import numpy as np

from kbench.benchmark.evaluate.evaluate import MOST_UNANSWERED, Evaluation
from kbench.benchmark.metrics.arrays import LOG2_CENTERS, Floats, Ints
from kbench.benchmark.metrics.edit import auroc
from kbench.benchmark.metrics.forecast import SKILL, rps
from kbench.benchmark.metrics.rank import spearman
from kbench.benchmark.questions.build import VALIDATION
from kbench.benchmark.scoring.rows import expected_log2_speedup, pair_rows
from kbench.schemas import bins

REVERSED = -0.1
"""Spearman correlation below which an order is called reversed; near 0 there is none."""
LEAST_SHIFT, OF_SPREAD = 0.25, 0.6
"""Mean error of log2 S from which a level is called shifted: octaves, and a share of the spread that is stated."""
POWERS = (0.25, 0.35, 0.5, 0.7, 1.0, 1.4, 2.0, 2.8, 4.0)
"""Exponents of probabilities: below 1 they become flatter, above 1 sharper."""
LEAST_GAIN = 0.02
"""Share of the RPS that another exponent must save before confidence is named."""
LEAST_UNSURE = 0.01
"""How far below 0 a skill is explained whose interval holds 0."""
LEAST_GAP = 0.05
"""Share of the RPS by which it differs from the expected one, from which that is named for a skill that may be 0."""
LEAST_SHARE = 1e-3
"""Added to each probability first: no exponent moves a certain forecast."""


def why_below_zero(evaluation: Evaluation) -> str | None:
    """What is wrong with forecasts that are worse than the training frequencies; None where they are not.

    Where the interval holds zero, only what is plain is named; None where nothing is.
    """
    skill = evaluation.scored.figures.get(SKILL.track.name, {}).get(SKILL.name)
    if skill is None:
        return None
    surely = not skill.high >= 0
    below = round(skill.value, SKILL.decimals) < 0 if surely else skill.value <= -LEAST_UNSURE
    # What queries without an answer do to the skill says nothing of the forecasts.
    if evaluation.unanswered_share > MOST_UNANSWERED or not below:
        return None
    every = pair_rows(evaluation.questions.over_all_workloads(), evaluation.table)
    rows = every.take(np.flatnonzero(~every.level))
    probabilities, causes = rows.probabilities, []
    expected = expected_log2_speedup(probabilities)
    order, area = spearman(expected, rows.speedup), auroc(expected, (rows.speedup > 1.0).astype(np.float64))
    if order < REVERSED and area < 0.5:
        causes.append(
            f"the order is reversed (over all pairs AUROC {area:.2f}, Spearman {order:.2f}; "
            "S is anchor time / candidate time)"
        )
        probabilities = min((_inverted(probabilities), probabilities[:, ::-1]), key=lambda p: rps(p, rows.bins))
    bias = float((probabilities @ LOG2_CENTERS - LOG2_CENTERS[rows.bins - 1]).mean())
    spread = float(
        np.sqrt(np.maximum(probabilities @ LOG2_CENTERS**2 - (probabilities @ LOG2_CENTERS) ** 2, 0.0)).mean()
    )
    if abs(bias) > max(LEAST_SHIFT, OF_SPREAD * spread):
        side = "high" if bias > 0 else "low"
        causes.append(f"the level is shifted (S is forecast {2.0 ** abs(bias):.2f} times too {side} on average)")
        back = range(-1, -bins.COUNT, -1) if bias > 0 else range(1, bins.COUNT)
        probabilities = min((_shifted(probabilities, count) for count in back), key=lambda p: rps(p, rows.bins))
    least_gap = math.inf if causes else 0.0 if surely else LEAST_GAP
    if confidence := _confidence(probabilities, rows.bins, least_gap):
        on_validation = ", by validation problems: its gain shows on test only"
        fix = on_validation if evaluation.questions.split == VALIDATION else ""
        # Parts are what is calibrated already, or stacked.
        remedy = "" if evaluation.target.parts else f"; --surrogate calibrated:NAME corrects them{fix}"
        causes.append(f"{confidence}{remedy}")
    if not causes:
        return None
    return f"skill is below 0{'' if surely else ', though not surely,'} because {' and '.join(causes)}"


def _confidence(probabilities: Floats, truth: Ints, least_gap: float) -> str | None:
    """Whether probabilities are too sharp or too flat, by the score of the same forecasts to another power.

    Where no power helps, as for equal shares: bins drawn from the forecasts themselves would have a higher RPS than
    they have if they are too flat. `least_gap` is the share of the RPS from which that is worth a word.
    """
    losses = {power: rps(_tempered(probabilities, power), truth) for power in POWERS}
    best = min(POWERS, key=losses.__getitem__)
    if losses[best] < (1 - LEAST_GAIN) * losses[1.0]:
        side, change = ("sharp", "flatter") if best < 1 else ("flat", "sharper")
        return (
            f"probabilities are too {side} ({change}, to the power {best:g}, they would have an RPS over all pairs of "
            f"{losses[best]:.3f}, not {losses[1.0]:.3f})"
        )
    below, made = probabilities.cumsum(axis=1)[:, :-1], rps(probabilities, truth)
    stated = float((below * (1 - below)).mean())
    if abs(stated - made) < least_gap * made:
        return None
    return (
        f"probabilities are too {'flat' if stated > made else 'sharp'} (they expect an RPS of {stated:.3f} and have "
        f"{made:.3f})"
    )


def _tempered(probabilities: Floats, power: float) -> Floats:
    raised = (probabilities + LEAST_SHARE) ** power
    tempered: Floats = raised / raised.sum(axis=1, keepdims=True)
    return tempered


def _inverted(probabilities: Floats) -> Floats:
    """The forecasts of 1 / S. The slowest bin reaches over the three fastest."""
    inverted = np.zeros_like(probabilities)
    inverted[:, 0] = probabilities[:, 5:].sum(axis=1)
    inverted[:, 1:5] = probabilities[:, 4:0:-1]
    inverted[:, 5:] = probabilities[:, :1] / 3
    return inverted


def _shifted(probabilities: Floats, count: int) -> Floats:
    """The forecasts moved by whole bins; what would leave stays in the last."""
    moved = np.zeros_like(probabilities)
    np.add.at(moved.T, np.clip(np.arange(bins.COUNT) + count, 0, bins.COUNT - 1), probabilities.T)
    return moved
