"""CampaignSpec: which searches a campaign runs, read from a JSON file."""

from __future__ import annotations

import dataclasses
import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

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
TWELVE = Budget(measurements=12)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class CampaignSpec(Record):
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
    parents: int | None = None
    patience: int | None = None
    exploration: float | None = None
    """Settings of the methods; by default those of the proposer."""
    budget: Budget = TWELVE
    surrogate: str = "online"
    draw: int = 3
    unsure_share: float = 0.25
    confidence: float = 0.5
    against_parent: bool = False
    order: str = ROUNDS
    """`rounds` advances all searches evenly; `problems` measures all seeds and then one problem after another."""


def read_spec(path: Path) -> CampaignSpec:
    """Read a campaign file."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UserError(f"campaign file {str(path)!r} cannot be read ({error.strerror}); name a JSON file") from None
    except ValueError as error:
        raise DataError(f"{path.name}: not JSON: {error}") from None
    return from_dict(CampaignSpec, data, "campaign")


def runs_of(spec: CampaignSpec) -> tuple[list[RunSettings], list[str]]:
    """The campaign's runs, and the cells left out because no genome family covers them.

    Raises:
        UserError: names the problem, backend, method or setting that cannot be.
    """
    runs: list[RunSettings] = []
    uncovered: list[str] = []
    problem_ids = list(problems()) if EVERY in spec.problems else [listed(one).id for one in spec.problems]
    if spec.order not in ORDERS:
        raise DataError(f"campaign.order is {spec.order!r}; it must be one of {', '.join(ORDERS)}")
    for name in spec.backends:
        if name not in ("triton", "cuda"):
            raise DataError(f"campaign names backend {name!r}; it must be triton or cuda")
    for problem_id, backend in itertools.product(problem_ids, map(Backend, spec.backends)):
        if spec.proposer == "llm" or families_for(problem_id, backend):
            runs.extend(_cell(spec, problem_id, backend))
        else:
            uncovered.append(f"{problem_id}/{backend.value}")
    return runs, uncovered


def _cell(spec: CampaignSpec, problem_id: str, backend: Backend) -> Iterator[RunSettings]:
    stated = {name: getattr(spec, name) for name in ("parents", "patience", "exploration")}
    shared = {
        "proposer": spec.proposer, "seeds": spec.seeds, "batch": spec.batch, "label": spec.label,
        "budget": to_dict(spec.budget), **defaults_for(spec.proposer),
        **{name: value for name, value in stated.items() if value is not None},
    }  # fmt: skip
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
        yield settings_from_json(shared | cell, f"campaign.{problem_id}")
