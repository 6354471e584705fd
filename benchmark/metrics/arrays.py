"""What every metric is given: checked arrays of probabilities, bins, confidences and scores."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from kbench.schemas import bins
from kbench.schemas.errors import UserError

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

CHUNK = 4096
"""Rows worked on at a time: they stay in cache."""
SUM_TOLERANCE = 1e-6
"""How far a row's probabilities may be from one: past any float32 rounding, short of any mistake."""


def as_probabilities(probabilities: npt.ArrayLike) -> Floats:
    """Rows of eight probabilities.

    Raises:
        UserError: wrong shape, a value that is negative or not finite, or a row that does not sum to one.
    """
    values = np.asarray(probabilities, dtype=np.float64)
    if values.ndim != 2 or values.shape[1] != bins.COUNT:
        raise UserError(f"probabilities have shape {values.shape}; they must be [n, {bins.COUNT}]")
    values = np.ascontiguousarray(values)
    for start in range(0, len(values), CHUNK):
        _check_rows(values[start : start + CHUNK], start)
    return values


def _check_rows(values: Floats, start: int) -> None:
    sums = np.einsum("ij->i", values)
    # NaN and infinity make the sum fail the comparisons, so three reductions check four things.
    if values.min() >= 0.0 and sums.min() >= 1.0 - SUM_TOLERANCE and sums.max() <= 1.0 + SUM_TOLERANCE:
        return
    wrong = ~(np.abs(sums - 1.0) <= SUM_TOLERANCE) | (values < 0.0).any(axis=1)
    if wrong.any():
        row = int(np.argmax(wrong))
        raise UserError(
            f"probabilities[{start + row}] is {values[row].tolist()}; it must hold eight numbers ≥ 0 that sum to one"
        )


def as_bins(numbers: npt.ArrayLike, rows: int) -> Ints:
    """Bins 1 to 8, one a row."""
    values = np.asarray(numbers)
    if values.shape != (rows,):
        raise UserError(f"bins have shape {values.shape}; they must be [{rows}], one for each forecast")
    if values.size and (values.dtype.kind not in "iu" or values.min() < 1 or values.max() > bins.COUNT):
        raise UserError(f"bins must be whole numbers from 1 to {bins.COUNT}, got {np.unique(values)[:10].tolist()}")
    return values.astype(np.int64)


def check(probabilities: npt.ArrayLike, numbers: npt.ArrayLike) -> tuple[Floats, Ints]:
    """Both arguments of a forecast metric."""
    values = as_probabilities(probabilities)
    return values, as_bins(numbers, len(values))


def as_vectors(*vectors: npt.ArrayLike) -> tuple[Floats, ...]:
    """One-dimensional arrays of one length, as float64."""
    arrays = tuple(np.asarray(vector, dtype=np.float64) for vector in vectors)
    if any(a.ndim != 1 or a.shape != arrays[0].shape for a in arrays):
        raise UserError(f"arrays have shapes {[a.shape for a in arrays]}; they must be vectors of one length")
    return arrays


def row_max(values: Floats) -> Floats:
    """Largest value of every row."""
    return _folded(np.maximum, values)


def row_sum(values: Floats) -> Floats:
    """Sum of every row, added in one order on every machine."""
    return _folded(np.add, values)


def _folded(pairwise: np.ufunc, values: Floats) -> Floats:
    """Rows of eight, neighbours joined three times over: long strides, several times faster than short rows."""
    left = values.reshape(-1)
    for _ in range(3):
        left = pairwise(left[0::2], left[1::2])
    return left


def given_to(values: Floats, numbers: Ints) -> Floats:
    """The probability each row gives to its bin."""
    return values.reshape(-1).take(np.arange(-1, values.size - 1, bins.COUNT) + numbers)


def by_chunks(rows: Callable[[Floats, Ints], Floats], values: Floats, numbers: Ints) -> Floats:
    """A function of rows over chunks that fit in cache."""
    result = np.empty(len(values))
    for start in range(0, len(values), CHUNK):
        part = slice(start, start + CHUNK)
        result[part] = rows(values[part], numbers[part])
    return result


def encode(names: npt.NDArray[Any]) -> tuple[list[str], Ints]:
    """Distinct values in ascending order, and the position of each row's among them."""
    if names.dtype != object:
        distinct, index = np.unique(names, return_inverse=True)
        return [str(name) for name in distinct], index.astype(np.int64)
    import pyarrow as pa

    # Sorting a million Python strings takes seconds; sorting the few distinct ones does not.
    encoded = pa.array(names, pa.string()).dictionary_encode()
    found = encoded.dictionary.to_pylist()
    order = sorted(range(len(found)), key=found.__getitem__)
    rank = np.empty(len(found), dtype=np.int64)
    rank[order] = np.arange(len(found))
    return [found[i] for i in order], rank[encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)]


def mean(values: Floats) -> float:
    """The mean; NaN, without a warning, when there is nothing to average."""
    return float(values.mean()) if values.size else float("nan")
