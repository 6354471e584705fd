"""Track edit: is this edit faster than the kernel it was made from? Asked of edits that change something."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from kbench.benchmark.metrics.arrays import Floats, as_vectors
from kbench.benchmark.metrics.bootstrap import Bootstrap, Figure, divide
from kbench.benchmark.metrics.metric import FASTER, Better, Ceiling, Metric, PairRows, Shown
from kbench.benchmark.metrics.rank import mean_ranks
from kbench.benchmark.tracks import EDIT

FULL = 3.0
"""Of n faster and m slower edits, n·m / (n + m) from which a problem counts fully: the variance falls with it."""


def auroc(scores: npt.ArrayLike, happened: npt.ArrayLike) -> float:
    """AUROC, ties counting one half; NaN unless both outcomes occur."""
    predicted, truth = as_vectors(scores, happened)
    if not len(truth) or truth.min() == truth.max():
        return float("nan")
    positive = truth == truth.max()
    wins = mean_ranks(predicted)[positive].sum() - positive.sum() * (positive.sum() + 1) / 2
    return float(wins / (positive.sum() * (~positive).sum()))


def _auroc(bootstrap: Bootstrap, rows: PairRows) -> Figure:
    """Within author class and backend, then over problems; edits that all help, or all hurt, say nothing."""
    kept = np.flatnonzero(rows.edit & rows.decided)
    faster = (rows.speedup > 1.0).astype(np.float64)
    _, group = np.unique(np.stack([bootstrap.index[kept], rows.cell[kept]]), axis=1, return_inverse=True)
    order = np.argsort(group, kind="stable")
    informed, areas = np.zeros(bootstrap.count), np.zeros(bootstrap.count)
    for at in np.split(kept[order], np.flatnonzero(np.diff(group[order])) + 1):
        helped, edits = faster[at].sum(), len(at)
        if 0 < helped < edits:
            weight = helped * (edits - helped) / edits / rows.repeats
            informed[bootstrap.index[at[0]]] += weight
            areas[bootstrap.index[at[0]]] += weight * auroc(rows.score[at], faster[at])
    return bootstrap.mean_of_clusters(divide(areas, informed), np.minimum(informed, FULL))


AUROC = Metric(
    name="auroc", track=EDIT, label="AUROC",
    meaning="Chance that, of two edits of one problem, author class and backend, the one that made its kernel faster "
    "is rated above the one that made it slower: ½ is a coin.",
    figure=_auroc, better=Better.HIGH, headline=True, shown=Shown.BOARD, ceiling=Ceiling.BINDING,
)  # fmt: skip


def _brier_skill(bootstrap: Bootstrap, rows: PairRows) -> Figure:
    kept = rows.edit & rows.decided
    faster = (rows.speedup > 1.0).astype(np.float64)

    def losses(p_faster: Floats) -> Floats:
        return np.where(kept, (p_faster - faster) ** 2, np.nan)

    losses_of_prior = losses(rows.kind_prior[:, FASTER:].sum(axis=1))
    return bootstrap.skill_of_clusters(losses(rows.p_faster), losses_of_prior, rows.problem_counts(bootstrap, kept))


BRIER_SKILL = Metric(
    name="brier_skill", track=EDIT, label="Brier skill",
    meaning="Share of the training prior's squared error that P(faster) removes: 0 is no better, 1 is perfect.",
    figure=_brier_skill, better=Better.HIGH, bounds=(None, 1.0), shown=Shown.BOARD,
)  # fmt: skip

METRICS: tuple[Metric, ...] = (AUROC, BRIER_SKILL)
"""In the order of every table, the headline first."""
