"""A local model's answer: nine digits, the likeliest bin and then a weight from 0 to 9 for each of the eight bins."""

from __future__ import annotations

import re

import numpy as np

from kbench.benchmark.metrics.arrays import Floats, Ints
from kbench.schemas import bins

LENGTH = 1 + bins.COUNT
LARGEST = 9
"""The largest weight that one digit states."""
ANSWER = re.compile(rf"\s*([1-{bins.COUNT}])\s*(\d{{{bins.COUNT}}})\s*")


def read(text: str) -> tuple[int, tuple[float, ...]] | None:
    """The bin and the distribution that an answer states; None for any other text."""
    found = ANSWER.fullmatch(text)
    if found is None or not int(found[2]):
        return None
    weights = [int(digit) for digit in found[2]]
    return int(found[1]), tuple(weight / sum(weights) for weight in weights)


def texts(answers: Ints) -> list[str]:
    """Answers as text, from an array [n, 9]."""
    return ["".join(map(str, row)) for row in answers.tolist()]


def distributions(answers: Ints) -> Floats:
    """The stated distributions [..., 8] of answers [..., 9]."""
    weights = answers[..., 1:].astype(np.float64)
    result: Floats = weights / weights.sum(axis=-1, keepdims=True)
    return result


def spread(numbers: Ints, widths: Floats) -> Ints:
    """Answers that name these bins with weights that fall off exponentially around them.

    Args:
        numbers: bins, [n].
        widths: distance in bins over which a weight falls by a factor of e, [n]; 0 is all weight on the bin.
    """
    distance = np.abs(np.asarray(bins.NUMBERS) - numbers[:, None])
    fall = np.where(widths[:, None] > 0, np.exp(-distance / np.maximum(widths[:, None], 1e-9)), distance == 0)
    return np.concatenate([numbers[:, None], np.rint(LARGEST * fall).astype(np.int64)], axis=1)
