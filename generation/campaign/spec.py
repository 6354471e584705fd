"""CampaignSpec: which searches a campaign runs, read from a JSON file."""

from __future__ import annotations

import dataclasses
import itertools
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar

from kbench.benchmark.problems.registry import listed, problems
from kbench.generation.campaign.campaign import ORDERS, ROUNDS
from kbench.generation.proposers.genome.header import families_for
from kbench.generation.search.methods.catalogue import searchable
from kbench.generation.search.settings import (
    SURROGATE,
    Budget,
    FilterSettings,
    RunSettings,
    defaults_for,
    settings_from_json,
)
from kbench.schemas import Backend, DataError, UserError, from_dict, to_dict
from kbench.schemas.record import Record

EVERY = "*"
OF_THE_CELL = ("problem_id", "backend", "method", "seed", "filter")
"""Settings that tell a campaign's searches apart, and so are not for `settings` and `overrides` to change."""

TWELVE = Budget(measurements=12)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Searches(Record):
    """One search for every problem, backend, method and seed."""

    TYPE: ClassVar[str] = "campaign"
    VERSION: ClassVar[str] = "1.0.0"

    label: str = ""
    independent: bool = False
    """Whether every search measures for itself, from the same first kernels as the others of its cell and seed.
    Otherwise those of a cell avoid and learn from each other's kernels."""
    problems: tuple[str, ...] = (EVERY,)
    """Problem ids, or `*` for all."""
    backends: tuple[str, ...] = ("triton", "cuda")
    methods: tuple[str, ...] = ("random", "hill_climb", "evolve", "puct", "puct+surrogate")
    """Methods; `+surrogate` adds the filter."""
    proposer: str = "genome+rewrite"
    random_seeds: tuple[int, ...] = (0,)
    seeds: int = 4
    batch: int = 4
    budget: Budget = TWELVE
    surrogate: str = "online"
    draw: int = 3
    unsure_share: float = 0.25
    confidence: float = 0.5
    against_parent: bool = False
    order: str = ROUNDS
    """`rounds` advances all searches evenly; `problems` measures all seeds and then one problem after another."""


Changes = Mapping[str, Any]
"""Settings by name."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class CampaignSpec(Searches):
    """The searches with what else is set for them: by `settings` for all, by `overrides` for single problems."""

    settings: Changes = dataclasses.field(default_factory=dict)
    """Further settings of every run, such as patience or parents."""
    overrides: Mapping[str, Changes] = dataclasses.field(default_factory=dict)


def read_spec(path: Path) -> CampaignSpec:
    """Read a campaign file."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UserError(f"campaign file {str(path)!r} cannot be read ({error.strerror}); name a JSON file") from None
    except ValueError as error:
        raise DataError(f"{path.name}: not JSON: {error}") from None
    if not isinstance(data, dict):
        raise DataError(f"{path.name}: a campaign is a JSON object, not {type(data).__name__}")
    return spec_of(data, "campaign")


def spec_of(data: dict[str, Any], where: str) -> CampaignSpec:
    """A campaign from plain values."""
    settings = _changes(data.pop("settings", {}), f"{where}.settings")
    overrides = _object(data.pop("overrides", {}), f"{where}.overrides")
    changed = {name: _changes(one, f"{where}.overrides.{name}") for name, one in overrides.items()}
    searches = from_dict(Searches, data, where)
    if searches.order not in ORDERS:
        raise DataError(f"{where}.order is {searches.order!r}; it must be one of {', '.join(ORDERS)}")
    fields = {field.name: getattr(searches, field.name) for field in dataclasses.fields(Searches)}
    return CampaignSpec(**fields, settings=settings, overrides=changed)


def _object(value: Any, where: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise DataError(f"{where} is {value!r}; it must be an object")
    return value


def _changes(value: Any, where: str) -> Changes:
    """Settings that may be changed; their values are checked with the run they make."""
    names = sorted({field.name for field in dataclasses.fields(RunSettings)} - set(OF_THE_CELL))
    unknown = sorted(set(_object(value, where)) - set(names))
    if unknown:
        raise DataError(f"{where} has unknown setting {unknown[0]!r}; known: {', '.join(names)}")
    _object(value.get("budget", {}), f"{where}.budget")
    return dict(value)


def runs_of(spec: CampaignSpec) -> tuple[list[RunSettings], list[str]]:
    """The campaign's runs, and the cells left out because no genome family covers them.

    Raises:
        UserError: names the problem, backend, method or setting that cannot be.
    """
    runs: list[RunSettings] = []
    uncovered: list[str] = []
    every = EVERY in spec.problems
    problem_ids = list(problems()) if every else [listed(problem_id).id for problem_id in spec.problems]
    for name in spec.overrides:
        if listed(name).id not in problem_ids:
            raise DataError(
                f"campaign.overrides names {name!r}, which is not among its problems; add it or leave it out"
            )
    for name in spec.backends:
        if name not in ("triton", "cuda"):
            raise DataError(f"campaign names backend {name!r}; it must be triton or cuda")
    for problem_id, backend in itertools.product(problem_ids, map(Backend, spec.backends)):
        cell = list(_cell(spec, problem_id, backend))
        if families_for(problem_id, backend) or all(settings.proposer == "llm" for settings in cell):
            runs.extend(cell)
        else:
            uncovered.append(f"{problem_id}/{backend.value}")
    return runs, uncovered


def _cell(spec: CampaignSpec, problem_id: str, backend: Backend) -> Iterator[RunSettings]:
    shared = {"proposer": spec.proposer, "seeds": spec.seeds, "batch": spec.batch, "label": spec.label}
    changes = {**spec.settings, **spec.overrides.get(problem_id, {})}
    extra = {**shared, **defaults_for(changes.get("proposer", spec.proposer)), **changes}
    extra["budget"] = to_dict(spec.budget) | extra.get("budget", {})
    forecasts = FilterSettings(
        surrogate=spec.surrogate, draw=spec.draw, unsure_share=spec.unsure_share, confidence=spec.confidence,
        against_parent=spec.against_parent,
    )  # fmt: skip
    for name, seed in itertools.product(spec.methods, spec.random_seeds):
        plain = searchable(name.removesuffix(SURROGATE))
        chosen = to_dict(forecasts) if name.endswith(SURROGATE) else None
        cell = {"problem_id": problem_id, "backend": backend.value, "method": plain, "seed": seed, "filter": chosen}
        if spec.independent:
            cell |= {"label": f"{spec.label}/{name}/{seed}", "first": f"{spec.label}/{seed}"}
        yield settings_from_json(extra | cell, f"campaign.{problem_id}")
