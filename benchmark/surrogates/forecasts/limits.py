"""What a forecast's numbers may be: the record's own limits, and caps far above what any forecast costs."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from kbench.benchmark.metrics.arrays import Floats
from kbench.schemas import Forecast, Record, Submission
from kbench.schemas.record import Limit, field_types


def _limit(record: type[Record], name: str) -> Limit:
    return field_types(record)[name].limit or Limit()


REPEATS = int(_limit(Submission, "repeats").maximum or 1)
"""Most forecasts of one query: tables are as large as the largest repeat says, so one row must not say a million."""
CAPS = {"repeat": REPEATS - 1, "input_tokens": 1e9, "output_tokens": 1e9, "elapsed_s": 1e6}
"""Low enough that sums over any file stay finite and exact."""
NUMBERS = tuple(name for name, kind in field_types(Forecast).items() if kind.base in (int, float))
"""Fields that hold one number."""


def _largest(name: str) -> float:
    stated = _limit(Forecast, name).maximum
    return min(np.inf if stated is None else stated, CAPS.get(name, np.inf))


def allowed(name: str, values: Floats) -> npt.NDArray[np.bool_]:
    """Which values a field may hold; NaN is not one of them."""
    limit = _limit(Forecast, name)
    low = -np.inf if limit.minimum is None else limit.minimum
    floor = -np.inf if limit.exclusive_minimum is None else limit.exclusive_minimum
    with np.errstate(invalid="ignore"):
        return np.isfinite(values) & (values >= low) & (values > floor) & (values <= _largest(name))


def described(name: str) -> str:
    """The same rule in words."""
    limit, words = _limit(Forecast, name), ["must be finite"]
    if limit.minimum is not None:
        words.append(f"at least {limit.minimum:g}")
    if limit.exclusive_minimum is not None:
        words.append(f"more than {limit.exclusive_minimum:g}")
    if np.isfinite(_largest(name)):
        words.append(f"at most {_largest(name):,.0f}")
    return ", ".join(words)
