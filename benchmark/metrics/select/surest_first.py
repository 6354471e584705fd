"""Answers from the surest on, in the data and in every draw: made once, read by every metric of the track select."""

from __future__ import annotations

import dataclasses
import functools

import numpy as np

from kbench.benchmark.metrics.arrays import Booleans, Floats
from kbench.benchmark.metrics.bootstrap import Bootstrap, Levels
from kbench.benchmark.metrics.forecast.accuracy import correct
from kbench.benchmark.metrics.rows import PairRows


@dataclasses.dataclass(frozen=True)
class SurestFirst:
    """Losses by level of confidence; running sums are [1 + resamples, levels], the data first."""

    loss: Floats
    confidence: Floats
    failed: Booleans
    """Where there is no answer."""
    levels: Levels

    @classmethod
    def of(cls, bootstrap: Bootstrap, loss: Floats, confidence: Floats, failed: Booleans | None = None) -> SurestFirst:
        """Order rows; without `failed` all are answers."""
        failed = np.zeros(len(loss), dtype=np.bool_) if failed is None else failed
        return cls(loss, confidence, failed, bootstrap.levels(confidence))

    @functools.cached_property
    def rows(self) -> Floats:
        """Running number of rows."""
        return self.levels.running(np.ones_like(self.loss))

    @functools.cached_property
    def losses(self) -> Floats:
        """Running sum of losses."""
        return self.levels.running(self.loss)

    @functools.cached_property
    def answered_rows(self) -> Floats:
        """Running number of rows without those that failed."""
        return self.levels.running(np.where(self.failed, 0.0, 1.0)) if self.failed.any() else self.rows

    @functools.cached_property
    def answered_losses(self) -> Floats:
        """Running sum of losses without those that failed."""
        return self.levels.running(np.where(self.failed, 0.0, self.loss)) if self.failed.any() else self.losses

    @functools.cached_property
    def areas(self) -> Floats:
        """Area under risk over coverage of the data and of every draw, losses spread evenly within a level."""
        before, lost = np.zeros_like(self.rows), np.zeros_like(self.losses)
        before[:, 1:], lost[:, 1:] = self.rows[:, :-1], self.losses[:, :-1]
        rows = self.rows - before
        rate = np.divide(self.losses - lost, rows, out=np.zeros_like(rows), where=rows > 0)
        growth = np.divide(self.rows, before, out=np.ones_like(rows), where=before > 0)
        # ∫ (lost + (c − before)·rate)/c dc from `before` to `rows`.
        parts = rate * rows + (lost - before * rate) * np.log(growth)
        result: Floats = parts.sum(axis=1) / self.rows[:, -1]
        return result


def bins_surest_first(bootstrap: Bootstrap, rows: PairRows) -> SurestFirst:
    """An answer is wrong unless its bin is the correct one."""
    return SurestFirst.of(bootstrap, 1.0 - correct(rows.probabilities, rows.bins), rows.confidence, rows.failed)


def signs_surest_first(bootstrap: Bootstrap, rows: PairRows) -> SurestFirst:
    """The answer is 'faster' or 'slower'."""
    return SurestFirst.of(bootstrap, rows.sign_loss, rows.sign_confidence, rows.failed)
