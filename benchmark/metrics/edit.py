"""Track edit: is this edit faster than the kernel it was made from? Asked of edits that change something."""

from __future__ import annotations

import numpy as np

from kbench.benchmark.metrics.arrays import Booleans, Floats
from kbench.benchmark.metrics.bootstrap import Bootstrap, Figure
from kbench.benchmark.metrics.metric import Better, Ceiling, Metric, Shown
from kbench.benchmark.metrics.rows import FASTER, PairRows
from kbench.benchmark.metrics.validity import auroc
from kbench.benchmark.tracks import EDIT

DECIDED = 0.02
"""Least distance of the speedup from one: below it, which is faster is noise."""


def decided(rows: PairRows) -> Booleans:
    """Which rows are edits whose kernels differ in speed."""
    result: Booleans = rows.edit & (np.abs(rows.speedup - 1.0) > DECIDED)
    return result


def _auroc(bootstrap: Bootstrap, rows: PairRows) -> Figure:
    """Within each problem, then over problems: a problem whose edits all help, or all hurt, says nothing."""
    kept = decided(rows)
    faster = (rows.speedup > 1.0).astype(np.float64)
    areas = [
        auroc(rows.score[at], faster[at]) for at in ((bootstrap.index == n) & kept for n in range(bootstrap.count))
    ]
    return bootstrap.mean_of_clusters(np.array(areas, dtype=np.float64))


AUROC = Metric(
    name="auroc", track=EDIT, label="AUROC",
    meaning="Chance that, of two edits of one problem, the one that made its kernel faster is rated above the one that "
    "made it slower: ½ is a coin.",
    figure=_auroc, better=Better.HIGH, headline=True, shown=Shown.BOARD, ceiling=Ceiling.BINDING,
)  # fmt: skip


def _brier_skill(bootstrap: Bootstrap, rows: PairRows) -> Figure:
    kept = decided(rows)
    faster = (rows.speedup > 1.0).astype(np.float64)

    def losses(p_faster: Floats) -> Floats:
        return np.where(kept, (p_faster - faster) ** 2, np.nan)

    return bootstrap.skill_of_clusters(losses(rows.p_faster), losses(rows.kind_prior[:, FASTER:].sum(axis=1)))


BRIER_SKILL = Metric(
    name="brier_skill", track=EDIT, label="Brier skill",
    meaning="Share of the training prior's squared error that P(faster) removes: 0 is no better, 1 is perfect.",
    figure=_brier_skill, better=Better.HIGH, bounds=(None, 1.0), shown=Shown.BOARD,
)  # fmt: skip

METRICS: tuple[Metric, ...] = (AUROC, BRIER_SKILL)
"""In the order of every table, the headline first."""
