"""GPU-seconds per decision: deferring means measuring, so at 10 % risk each query not covered costs a measurement."""

from __future__ import annotations

from collections.abc import Callable

from kbench.benchmark.metrics.bootstrap import Bootstrap, Figure
from kbench.benchmark.metrics.metric import Better, Metric, Shown
from kbench.benchmark.metrics.rows import PairRows
from kbench.benchmark.metrics.select.coverage_at_risk import exact_bin_coverage, sign_coverage
from kbench.benchmark.tracks import SELECT

RISK = 0.1


def _seconds(
    coverage: Callable[[Bootstrap, PairRows, float], Figure],
) -> Callable[[Bootstrap, PairRows], Figure | None]:
    def figure(bootstrap: Bootstrap, rows: PairRows) -> Figure | None:
        seconds = rows.measure_seconds
        if seconds is None:
            return None
        covered = coverage(bootstrap, rows, RISK)
        return Figure((1.0 - covered.value) * seconds, (1.0 - covered.draws) * seconds)

    return figure


GPU_SECONDS_PER_DECISION = Metric(
    name="gpu_seconds_per_decision",
    track=SELECT,
    label="GPU-seconds per decision",
    meaning="GPU-seconds per query when everything beyond 10 % risk is measured instead.",
    better=Better.LOW,
    bounds=(0.0, None),
    figure=_seconds(exact_bin_coverage),
    shown=Shown.TERMINAL,
)
SIGN_GPU_SECONDS_PER_DECISION = Metric(
    name="sign_gpu_seconds_per_decision",
    track=SELECT,
    label="GPU-seconds per sign",
    meaning="The same cost when only 'faster or slower than the anchor' has to be decided.",
    better=Better.LOW,
    bounds=(0.0, None),
    figure=_seconds(sign_coverage),
)
