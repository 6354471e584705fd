"""What is said of kernels that nothing is known about, and how far a problem lies from those of training.

Trees answer any question, as sure of themselves as at home. A question about a problem unlike those of training is
answered with a share of that answer, and for the rest with a broad forecast.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from kbench.benchmark.metrics.arrays import Floats, Ints
from kbench.schemas import PairKind, bins

EVEN = np.full(bins.COUNT, 1 / bins.COUNT)
EDITS = np.array([0.030, 0.057, 0.465, 0.382, 0.043, 0.013, 0.006, 0.004])
"""Frequencies of the bins among the training questions about edits: most edits change little, whoever makes them."""
BROAD: Mapping[PairKind, Floats] = {
    PairKind.REFERENCE: EVEN,
    PairKind.SIBLING: EVEN,
    PairKind.PARENT_EDIT: 0.75 * EDITS + 0.25 * EVEN,
}
"""Over the reference the even forecast is the best guess for an author that training left out. The other two were
chosen on half of the problems of the set sol-execbench-rocm: other people's pools are wider than ours."""
USUAL = 1.75
"""Strangeness that 99 of 100 training problems do not exceed when their family is left out."""
HALVING = 0.5
"""Each further step of this size halves the share that is believed."""


def strangeness(rows: npt.NDArray[np.floating], low: Floats, high: Floats) -> Floats:
    """How far outside of a box rows lie: the sum over columns, in widths of the box, of at most one width each."""
    outside = np.maximum(np.maximum(low - rows, rows - high), 0.0)
    width = high - low
    # A column that never changed in training has no width: any other value is as strange as a column can be.
    widths = np.divide(outside, width, out=np.sign(outside), where=width > 0)
    return np.minimum(widths, 1.0).sum(axis=1)


def usual_strangeness(rows: npt.NDArray[np.floating], fold: Ints) -> float:
    """How strange training problems are to those of other folds, up to one in a hundred.

    At least USUAL; of a few problems most are strange to the others, and answered well nevertheless.
    """
    folds = np.unique(fold)
    if len(folds) < 2:
        return float("inf")
    found = []
    for each in folds:
        held, others = rows[fold == each], rows[fold != each]
        found.append(strangeness(held, others.min(axis=0), others.max(axis=0)))
    return max(USUAL, float(np.quantile(np.concatenate(found), 0.99)))


def trust(strange: Floats, usual: float = USUAL) -> Floats:
    """The share of an answer that is believed: all of it about problems as strange as some of training's."""
    return 0.5 ** (np.maximum(strange - usual, 0.0) / HALVING)


def widened(given: Floats, kinds: Sequence[PairKind], share: Floats) -> Floats:
    """Forecasts of these kinds of pair [rows, 8], of which a share is believed."""
    broad = np.array([BROAD[kind] for kind in kinds])
    mixed: Floats = share[:, None] * given + (1.0 - share[:, None]) * broad
    # What is believed in full stays as it is, to the last bit.
    return np.where(share[:, None] < 1.0, mixed, given)
