"""Track validity: will it compile, run and be right?"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from kbench.benchmark.metrics.arrays import Floats
from kbench.benchmark.metrics.bootstrap import Bootstrap, Figure
from kbench.benchmark.metrics.forecast.log_score import binary_log_score_rows
from kbench.benchmark.metrics.ordered import auroc_figure


def validity_figures(bootstrap: Bootstrap, p_valid: Floats, valid: Floats, valid_rate: float) -> Mapping[str, Figure]:
    """AUROC, log score, and skill over the training rate; where no P(valid) was given, that rate stands in."""
    given = np.where(np.isnan(p_valid), valid_rate, p_valid)
    scores = binary_log_score_rows(given, valid)
    return {
        "auroc": auroc_figure(bootstrap, given, valid),
        "log_score": bootstrap.mean(scores),
        "log_skill": bootstrap.skill(scores, binary_log_score_rows(np.full_like(given, valid_rate), valid)),
        "answered": bootstrap.mean((~np.isnan(p_valid)).astype(np.float64)),
    }
