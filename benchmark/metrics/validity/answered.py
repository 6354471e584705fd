"""Answered: how often P(valid) was given at all."""

from __future__ import annotations

import numpy as np

from kbench.benchmark.metrics.metric import Better, Ceiling, Metric
from kbench.benchmark.tracks import VALIDITY

ANSWERED = Metric(
    name="answered",
    track=VALIDITY,
    label="Answered",
    meaning="Share of kernels for which P(valid) was given; the training rate stands in for the others.",
    better=Better.HIGH,
    figure=lambda bootstrap, rows: bootstrap.mean((~np.isnan(rows.stated)).astype(np.float64)),
    ceiling=Ceiling.NONE,
)
