"""Area under the ROC curve: the chance that a valid kernel is rated above an invalid one."""

from __future__ import annotations

import numpy.typing as npt

from kbench.benchmark.metrics.arrays import as_vectors


def auroc(scores: npt.ArrayLike, happened: npt.ArrayLike) -> float:
    """AUROC, ties counting one half; NaN unless both outcomes occur."""
    from sklearn.metrics import roc_auc_score

    predicted, truth = as_vectors(scores, happened)
    if not len(truth) or truth.min() == truth.max():
        return float("nan")
    return float(roc_auc_score(truth, predicted))
