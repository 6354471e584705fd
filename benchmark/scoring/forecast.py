"""Track forecast: how good is the distribution?"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from kbench.benchmark.metrics.arrays import Floats, Ints
from kbench.benchmark.metrics.bootstrap import Bootstrap, Figure
from kbench.benchmark.metrics.forecast.accuracy import correct, near
from kbench.benchmark.metrics.forecast.brier import brier_rows
from kbench.benchmark.metrics.forecast.distribution import confidence
from kbench.benchmark.metrics.forecast.log_score import log_score_rows
from kbench.benchmark.metrics.forecast.rps import rps_rows
from kbench.benchmark.metrics.forecast.sharpness import sharpness_rows
from kbench.schemas import bins

FASTER = bins.EDGES.index(1.0) + 1
"""Position of the first bin in which the candidate is at least as fast as the anchor."""


@dataclasses.dataclass(frozen=True, slots=True)
class PairForecasts:
    """Forecasts of pairs with their answers, row by row, repeats below one another."""

    probabilities: Floats
    confidence: Floats
    bins: Ints
    failed: npt.NDArray[np.bool_]
    """Where there is no answer and the uniform forecast stands in."""

    @classmethod
    def all_answered(cls, probabilities: Floats, truth: Ints) -> PairForecasts:
        """Forecasts without a failure, as sure as their most probable bin."""
        return cls(probabilities, probabilities.max(axis=1), truth, np.zeros(len(truth), dtype=np.bool_))

    def take(self, rows: Ints) -> PairForecasts:
        """The rows at these positions."""
        return PairForecasts(self.probabilities[rows], self.confidence[rows], self.bins[rows], self.failed[rows])

    @property
    def p_faster(self) -> Floats:
        """Probability that the candidate is at least as fast as the anchor."""
        result: Floats = self.probabilities[:, FASTER:].sum(axis=1)
        return result

    @property
    def sure_of_sign(self) -> Floats:
        """Confidence in 'faster' or in 'slower'; 0 for a failure, whose stand-in would lean to one of them."""
        return np.where(self.failed, 0.0, np.maximum(self.p_faster, 1.0 - self.p_faster))

    @property
    def sign_loss(self) -> Floats:
        """1 where 'faster or slower' is answered wrongly, ½ where it is left open."""
        faster = self.bins > FASTER
        chance = self.p_faster
        right = np.where(np.abs(chance - 0.5) < 1e-12, 0.5, (chance > 0.5) == faster)
        result: Floats = 1.0 - right
        return result


def forecast_figures(bootstrap: Bootstrap, rows: PairForecasts, prior: Floats) -> Mapping[str, Figure]:
    """Every metric of the track; the headline, skill against the training prior, comes first."""
    given, truth = rows.probabilities, rows.bins
    hits, sure, ranked = correct(given, truth), confidence(given), rps_rows(given, truth)
    baseline = rps_rows(np.tile(prior, (bins.COUNT, 1)), np.asarray(bins.NUMBERS))[truth - 1]
    return {
        "rps_skill": bootstrap.skill(ranked, baseline),
        "rps": bootstrap.mean(ranked),
        "accuracy": bootstrap.mean(hits),
        "within_one": bootstrap.mean(near(given, truth)),
        "sign_accuracy": bootstrap.mean(1.0 - rows.sign_loss),
        "log_score": bootstrap.mean(log_score_rows(given, truth)),
        "brier": bootstrap.mean(brier_rows(given, truth)),
        "ece": bootstrap.ece(sure, hits),
        "ece_adaptive": bootstrap.ece(sure, hits, adaptive=True),
        "sharpness": bootstrap.mean(sharpness_rows(given)),
    }
