"""Track select: does it know when it does not know?"""

from __future__ import annotations

from collections.abc import Mapping

from kbench.benchmark.metrics.bootstrap import Bootstrap, Figure
from kbench.benchmark.metrics.forecast.accuracy import correct
from kbench.benchmark.metrics.ordered import aurc_figures, coverage_figures
from kbench.benchmark.scoring.forecast import PairForecasts
from kbench.benchmark.scoring.rank import percent

RISKS = (0.05, 0.1, 0.2)


def select_figures(bootstrap: Bootstrap, rows: PairForecasts, measure_seconds: float | None) -> Mapping[str, Figure]:
    """Every metric of the track.

    A failure to answer is never covered. In areas, which speak of all rows, it comes last, as the uniform forecast.
    Deferring means measuring: at 10 % risk the share not covered costs a measurement each.
    """
    loss = 1.0 - correct(rows.probabilities, rows.bins)
    area, excess = aurc_figures(bootstrap, loss, rows.confidence)
    coverage = coverage_figures(bootstrap, loss, rows.confidence, RISKS, deferred=rows.failed)
    sign_area, _ = aurc_figures(bootstrap, rows.sign_loss, rows.sure_of_sign)
    sign_coverage = coverage_figures(bootstrap, rows.sign_loss, rows.sure_of_sign, RISKS, deferred=rows.failed)
    figures = {"aurc": area, "excess_aurc": excess}
    figures |= {f"coverage_at_risk_{percent(risk)}": figure for risk, figure in coverage.items()}
    figures["sign_aurc"] = sign_area
    figures |= {f"sign_coverage_at_risk_{percent(risk)}": figure for risk, figure in sign_coverage.items()}
    if measure_seconds is not None:
        for name, covered in (("gpu_seconds_per_decision", coverage), ("sign_gpu_seconds_per_decision", sign_coverage)):
            at = covered[0.1]
            figures[name] = Figure((1.0 - at.value) * measure_seconds, (1.0 - at.draws) * measure_seconds)
    return figures
