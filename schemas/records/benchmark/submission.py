"""Submission: who made the forecasts and how. Data only, never code."""

from __future__ import annotations

import dataclasses
from typing import Annotated, ClassVar

from kbench.schemas.record import Count, Limit, NonNegative, Record, Sha

Text = Annotated[str, Limit(pattern=r"^[^\x00-\x08\x0b-\x1f\x7f‪-‮⁦-⁩]{1,2000}$")]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Submission(Record):
    """Metadata of a leaderboard entry, stored as submission.json beside its forecasts."""

    TYPE: ClassVar[str] = "submission"
    VERSION: ClassVar[str] = "1.0.0"

    schema_version: str
    """Version of this schema."""
    name: Annotated[str, Limit(pattern=r"^[A-Za-z0-9][A-Za-z0-9 ._+-]{0,63}$")]
    """The surrogate's name."""
    version: Annotated[str, Limit(pattern=r"^[A-Za-z0-9][A-Za-z0-9._+-]{0,31}$")]
    """The surrogate's version."""
    authors: tuple[Text, ...]
    """Who made it."""
    organisation: Text | None
    """Where."""
    license: Text
    """Licence of the surrogate, SPDX where one fits."""
    links: tuple[Annotated[str, Limit(pattern=r"^https://[^\s<>\"']{1,500}$")], ...]
    """Paper, code, model; https only."""
    kind: Annotated[str, Limit(pattern="^(baseline|statistical|language_model|hybrid|human)$")]
    """baseline, statistical, language_model, hybrid or human."""
    open_weights: bool
    """Whether anyone can run it."""
    inputs: Annotated[str, Limit(pattern="^(source|source\\+compiler)$")]
    """What it looks at: source, or source+compiler (registers, spills, PTX)."""
    hardware: Text
    """What it ran on."""
    training_data: Text
    """What it was trained on."""
    contamination: Text
    """Could it have seen the test kernels or problems? Say so."""
    total_seconds: NonNegative | None
    """Wall seconds for all forecasts."""
    total_tokens: Count | None
    """Tokens for all forecasts."""
    dataset_fingerprint: Sha
    """The dataset forecast."""
    tracks: tuple[Annotated[str, Limit(pattern="^(forecast|select|rank|search|validity)$")], ...]
    """Tracks the forecasts are for."""
    repeats: Annotated[int, Limit(minimum=1, maximum=100)]
    """How many repeats the forecasts hold."""
    created_at: str
    """ISO 8601 date."""
