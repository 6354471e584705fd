"""Area under the ROC curve: the chance that a correct kernel is rated above a failed one."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from kbench.benchmark.metrics.arrays import Floats, as_vectors
from kbench.benchmark.metrics.bootstrap import Bootstrap, Figure, divide
from kbench.benchmark.metrics.metric import Better, Ceiling, Metric, Shown
from kbench.benchmark.metrics.rows import ValidityRows
from kbench.benchmark.tracks import VALIDITY


def auroc(scores: npt.ArrayLike, happened: npt.ArrayLike) -> float:
    """AUROC, ties counting one half; NaN unless both outcomes occur."""
    from sklearn.metrics import roc_auc_score

    predicted, truth = as_vectors(scores, happened)
    if not len(truth) or truth.min() == truth.max():
        return float("nan")
    return float(roc_auc_score(truth, predicted))


def auroc_figure(bootstrap: Bootstrap, scores: Floats, happened: Floats) -> Figure:
    """AUROC with draws over levels of the score; draws in which only one outcome occurs are undefined."""
    levels = bootstrap.levels(scores)
    yes, no = levels.running(happened), levels.running(1.0 - happened)
    # Each failed kernel is compared with the correct ones above its level and half of those in it.
    failed_here = np.diff(no, axis=1, prepend=0.0)
    correct_above = yes - np.diff(yes, axis=1, prepend=0.0) / 2
    areas = divide((failed_here * correct_above).sum(axis=1), yes[:, -1] * no[:, -1])
    exact = auroc(scores, happened)
    return Figure(exact, areas[1:]) if math.isnan(exact) else Figure.of(areas).moved_to(exact)


def _figure(bootstrap: Bootstrap, rows: ValidityRows) -> Figure:
    return auroc_figure(bootstrap, rows.p_valid, rows.valid)


AUROC = Metric(
    name="auroc",
    track=VALIDITY,
    label="AUROC",
    meaning="Chance that a correct kernel is rated above a failed one; ½ is a coin.",
    better=Better.HIGH,
    figure=_figure,
    headline=True,
    shown=Shown.BOARD,
    ceiling=Ceiling.NONE,
)
