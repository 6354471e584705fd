"""Log skill: the share of the training rate's log score that P(valid) removes."""

from __future__ import annotations

import numpy as np

from kbench.benchmark.metrics.bootstrap import Bootstrap, Figure
from kbench.benchmark.metrics.metric import Better, Ceiling, Metric, Shown
from kbench.benchmark.metrics.rows import ValidityRows
from kbench.benchmark.metrics.validity.log_score import binary_log_score_rows
from kbench.benchmark.tracks import VALIDITY


def _figure(bootstrap: Bootstrap, rows: ValidityRows) -> Figure:
    baseline = binary_log_score_rows(np.full_like(rows.stated, rows.valid_rate), rows.valid)
    return bootstrap.skill(binary_log_score_rows(rows.p_valid, rows.valid), baseline)


LOG_SKILL = Metric(
    name="log_skill",
    track=VALIDITY,
    label="Log skill",
    meaning="Share of the training rate's log score that P(valid) removes: 0 is no better, 1 is perfect.",
    better=Better.HIGH,
    bounds=(None, 1.0),
    figure=_figure,
    shown=Shown.TERMINAL,
    ceiling=Ceiling.NONE,
)
