"""Rounding: the one rule by which a figure is published, so that every machine publishes the same one.

Logarithms, exponentials and products of matrices differ in their last bits from processor to processor. A figure is
rounded to twelve decimals and the outcome to six. The first step takes those bits away. Figures that lie exactly
between two sixth decimals, as a share of 128 rows can, would otherwise fall to either side; after it they fall to one.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from kbench.leaderboard.scoring.results import Results
from kbench.schemas import Score

DECIMALS = 6
SAFE_DECIMALS = 12
"""Above the bits processors differ in, far below what is published."""


def rounded_figure(value: float) -> float:
    """A figure as it is published."""
    # Adding zero makes a negative zero positive, so that both are written alike.
    return round(round(float(value), SAFE_DECIMALS), DECIMALS) + 0.0


def rounded(exact: Results) -> Results:
    """Results as they are published."""
    return dataclasses.replace(
        exact,
        answered_share=rounded_figure(exact.answered_share),
        cost=_costs(exact.cost),
        scores=[_score(score) for score in exact.scores],
        draws={track: [rounded_figure(draw) for draw in draws] for track, draws in exact.draws.items()},
        curves={
            name: [[rounded_figure(value) for value in point] for point in points]
            for name, points in exact.curves.items()
        },
    )


def _known(value: float | None) -> float | None:
    return None if value is None else rounded_figure(value)


def _costs(cost: Mapping[str, float | None]) -> dict[str, float | None]:
    return {name: _known(value) for name, value in cost.items()}


def _score(score: Score) -> Score:
    return dataclasses.replace(
        score, value=_known(score.value), low=_known(score.low), high=_known(score.high), ceiling=_known(score.ceiling)
    )
