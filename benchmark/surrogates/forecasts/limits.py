"""What a forecast's numbers may be: the record's own limits, and caps on what no forecast costs."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from kbench.benchmark.metrics.arrays import Floats
from kbench.schemas import Forecast, Submission
from kbench.schemas.record import Limit, field_types


def _most_repeats() -> int:
    limit = field_types(Submission)["repeats"].limit
    assert limit is not None
    assert limit.maximum is not None
    return int(limit.maximum)


REPEATS = _most_repeats()
"""Most forecasts of one query: tables are as large as the largest repeat says, so one row must not say a million."""
CAPS = {"repeat": REPEATS - 1, "input_tokens": 1e9, "output_tokens": 1e9, "elapsed_s": 1e6}
"""Far above what any forecast costs, and low enough that sums over any file stay finite and exact."""
NUMBERS = tuple(name for name, kind in field_types(Forecast).items() if kind.base in (int, float))
"""Fields that hold one number."""


def _limit(name: str) -> Limit:
    return field_types(Forecast)[name].limit or Limit()


def _largest(name: str) -> float:
    stated = _limit(name).maximum
    return min(np.inf if stated is None else stated, CAPS.get(name, np.inf))


def allowed(name: str, values: Floats) -> npt.NDArray[np.bool_]:
    """Which values a field may hold; NaN is not one of them."""
    limit = _limit(name)
    low = -np.inf if limit.minimum is None else limit.minimum
    floor = -np.inf if limit.exclusive_minimum is None else limit.exclusive_minimum
    with np.errstate(invalid="ignore"):
        return np.isfinite(values) & (values >= low) & (values > floor) & (values <= _largest(name))


def described(name: str) -> str:
    """The same rule in words."""
    limit, words = _limit(name), ["must be finite"]
    if limit.minimum is not None:
        words.append(f"at least {limit.minimum:g}")
    if limit.exclusive_minimum is not None:
        words.append(f"more than {limit.exclusive_minimum:g}")
    if np.isfinite(_largest(name)):
        words.append(f"at most {_largest(name):,.0f}")
    return ", ".join(words)
