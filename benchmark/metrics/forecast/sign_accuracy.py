"""Sign accuracy: how often 'faster or slower than the anchor' is answered correctly."""

from __future__ import annotations

from kbench.benchmark.metrics.metric import Better, Metric, Shown
from kbench.benchmark.tracks import FORECAST

SIGN_ACCURACY = Metric(
    name="sign_accuracy",
    track=FORECAST,
    label="Sign accuracy",
    meaning="Share of pairs for which 'faster or slower than the anchor' is answered correctly.",
    better=Better.HIGH,
    figure=lambda bootstrap, rows: bootstrap.mean(1.0 - rows.sign_loss),
    shown=Shown.TERMINAL,
)
