"""Settings: what a run is. They are its first fact and stay frozen; only the budget may change on resume."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from kbench.generation.budget import UNLIMITED, Budget
from kbench.schemas import Backend, DataError, UserError
from kbench.schemas.ids import content_hash


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class FilterSettings:
    """The surrogate filter: propose many, measure few."""

    surrogate: str
    """Name of the surrogate that forecasts."""
    draw: int = 4
    """Candidates proposed for each one measured."""
    unsure_share: float = 0.25
    """Largest share of the measured ones given to candidates the surrogate is unsure about."""
    confidence: float = 0.5
    """A forecast with less confidence than this is unsure."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Everything that decides a run's course, machine and clock aside."""

    problem_id: str
    backend: Backend
    method: str
    proposer: str = "genome"
    seed: int = 0
    seeds: int = 8
    """Fresh candidates of step 0."""
    batch: int = 8
    """Candidates measured in every later step."""
    parents: int = 2
    """Parents expanded in one step, for methods that choose parents."""
    patience: int = 3
    """Steps without improvement before hill climbing restarts."""
    islands: int = 3
    """Populations of the island method."""
    migrate_every: int = 4
    """Steps between migrations."""
    exploration: float = 1.0
    """The constant c of PUCT."""
    label: str = ""
    """Tells apart runs that are otherwise equal, such as those of two campaigns or two GPUs."""
    filter: FilterSettings | None = None
    budget: Budget = UNLIMITED

    @property
    def search_method(self) -> str:
        """The method as the corpus names it."""
        return self.method + ("+surrogate" if self.filter else "")

    @property
    def run_id(self) -> str:
        """Readable name with a hash of every frozen setting."""
        digest = content_hash(repr(sorted(_frozen(self).items())))[:8]
        return f"{self.problem_id}-{self.backend.value}-{self.search_method}-s{self.seed}-{digest}"

    def to_json(self) -> dict[str, Any]:
        """Plain values for the log."""
        data = dataclasses.asdict(self)
        data["backend"] = self.backend.value
        return data


def settings_from_json(data: Mapping[str, Any], where: str) -> Settings:
    """Read settings from the log or a campaign file.

    Raises:
        DataError: names the unknown or missing field.
    """
    known = {field.name for field in dataclasses.fields(Settings)}
    unknown = sorted(set(data) - known)
    if unknown:
        raise DataError(f"{where} has unknown setting {unknown[0]!r}; known: {', '.join(sorted(known))}")
    values = dict(data)
    try:
        values["backend"] = Backend(values["backend"])
        values["budget"] = Budget(**(values.get("budget") or {}))
        values["filter"] = FilterSettings(**values["filter"]) if values.get("filter") else None
        settings = Settings(**values)
    except KeyError as error:
        raise DataError(f"{where} lacks setting {error}; it must be set") from None
    except (TypeError, ValueError) as error:
        raise DataError(f"{where} has a setting that cannot be read: {error}") from None
    check(settings)
    return settings


def check(settings: Settings) -> None:
    """Refuse settings that cannot be run.

    Raises:
        UserError: names the setting, its value and what it must be.
    """
    for name in ("seeds", "batch", "parents", "patience", "islands", "migrate_every"):
        value = getattr(settings, name)
        if value < 1:
            raise UserError(f"{name} is {value}; it must be at least 1")
    chosen = settings.filter
    if chosen is None:
        return
    if chosen.draw < 2:
        raise UserError(f"draw is {chosen.draw}; a filter must draw at least 2 candidates for each measured one")
    for name in ("unsure_share", "confidence"):
        value = getattr(chosen, name)
        if not 0 <= value <= 1:
            raise UserError(f"{name} is {value}; it must lie between 0 and 1")


def _frozen(settings: Settings) -> dict[str, Any]:
    data = settings.to_json()
    del data["budget"]
    return data


def refuse_changes(recorded: Settings, given: Settings) -> None:
    """Refuse to resume a run under other settings than it was started with.

    Raises:
        UserError: lists every difference.
    """
    before, after = _frozen(recorded), _frozen(given)
    changed = [f"{name}: {before[name]!r} -> {after[name]!r}" for name in before if before[name] != after[name]]
    if changed:
        raise UserError(
            f"run {recorded.run_id!r} was started with other settings; changed: {'; '.join(changed)}. "
            "Give the recorded values back, or start a new run with another --out"
        )
