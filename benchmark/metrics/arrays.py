"""Checked arrays: what every metric is given."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from kbench.schemas import bins
from kbench.schemas.errors import UserError

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Booleans = npt.NDArray[np.bool_]

LOG2_CENTERS = np.log2([bins.center(number) for number in bins.NUMBERS])
"""What each bin stands for where one number must: log2 of its speedup."""
SUM_TOLERANCE = 1e-6
"""How far a row's probabilities may be from one: beyond any float32 rounding, below any mistake."""


def check(probabilities: npt.ArrayLike, numbers: npt.ArrayLike) -> tuple[Floats, Ints]:
    """Both arguments of a forecast metric: rows of eight probabilities, and one bin from 1 to 8 per row.

    Raises:
        UserError: a wrong shape, a row that is no distribution, or a number that is no bin.
    """
    values, found = as_probabilities(probabilities), np.asarray(numbers)
    if found.shape != (len(values),):
        raise UserError(f"bins have shape {found.shape}; they must be [{len(values)}], one for each forecast")
    if found.size and (found.dtype.kind not in "iu" or found.min() < 1 or found.max() > bins.COUNT):
        raise UserError(f"bins must be whole numbers from 1 to {bins.COUNT}, got {np.unique(found)[:10].tolist()}")
    return values, found.astype(np.int64)


def as_probabilities(probabilities: npt.ArrayLike) -> Floats:
    """Rows of eight probabilities."""
    values = np.asarray(probabilities, dtype=np.float64)
    if values.ndim != 2 or values.shape[1] != bins.COUNT:
        raise UserError(f"probabilities have shape {values.shape}; they must be [n, {bins.COUNT}]")
    # NaN and infinity fail the comparison of the sum.
    wrong = ~(np.abs(values.sum(axis=1) - 1.0) <= SUM_TOLERANCE) | (values < 0.0).any(axis=1)
    if wrong.any():
        row = int(np.argmax(wrong))
        raise UserError(
            f"probabilities[{row}] is {values[row].tolist()}; it must hold eight numbers ≥ 0 that sum to one"
        )
    return values


def as_vectors(*vectors: npt.ArrayLike) -> tuple[Floats, ...]:
    """One-dimensional arrays of one length, as float64."""
    arrays = tuple(np.asarray(vector, dtype=np.float64) for vector in vectors)
    if any(a.ndim != 1 or a.shape != arrays[0].shape for a in arrays):
        raise UserError(f"arrays have shapes {[a.shape for a in arrays]}; they must be vectors of one length")
    return arrays


def given_to(values: Floats, numbers: Ints) -> Floats:
    """The probability each row gives to its bin."""
    return values[np.arange(len(values)), numbers - 1]


def encode(names: npt.ArrayLike) -> tuple[list[str], Ints]:
    """Distinct values in ascending order, and the position of each row's value among them."""
    import pyarrow as pa

    # Sorting a million Python strings takes seconds; sorting the few distinct ones does not.
    encoded = pa.array(np.asarray(names)).dictionary_encode()
    found, rank = np.unique(np.array(encoded.dictionary.to_pylist()), return_inverse=True)
    index: Ints = rank[encoded.indices.to_numpy(zero_copy_only=False)].astype(np.int64)
    return [str(name) for name in found], index


def mean(values: Floats) -> float:
    """The mean; NaN, without a warning, when there is nothing to average."""
    return float(values.mean()) if values.size else float("nan")
