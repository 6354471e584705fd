"""Forecast: a surrogate's answer to a query."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from kbench.schemas.record import Count, NonNegative, Positive, Probability, Record, Sha


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Forecast(Record):
    """A surrogate's answer: a distribution over the eight bins, or a failure with its reason."""

    TYPE: ClassVar[str] = "forecast"
    VERSION: ClassVar[str] = "1.0.0"

    query_id: Sha
    """The query answered."""
    repeat: Count = 0
    """Which repeat, from 0."""
    probabilities: tuple[float, ...] | None = None
    """Eight probabilities, bins 1 to 8, that sum to one; null when the surrogate failed."""
    speedup: Positive | None = None
    """Optional point forecast of S."""
    p_valid: Probability | None = None
    """Optional probability that the candidate compiles, runs and is right."""
    confidence: Probability | None = None
    """Optional own confidence for deferral; when null, the largest probability serves."""
    failure: str | None = None
    """Why there is no answer; null when there is one."""
    raw_sum: NonNegative | None = None
    """Sum of the probabilities as given, before they were normalised."""
    input_tokens: Count | None = None
    """Tokens read, for language models."""
    output_tokens: Count | None = None
    """Tokens written, for language models."""
    elapsed_s: NonNegative | None = None
    """Seconds spent on this answer."""
