"""CampaignSpec: which searches a campaign runs, read from a JSON file."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from kbench.generation.budget import Budget
from kbench.generation.methods.method import method
from kbench.generation.proposers.genome.registry import families_for
from kbench.generation.settings import FilterSettings, Settings, check
from kbench.schemas import Backend, DataError, UserError

SUFFIX = "+surrogate"
EVERY = "*"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class CampaignSpec:
    """One search for every problem, backend, method and seed; `overrides` changes settings of single problems."""

    label: str = ""
    problems: Sequence[str] = (EVERY,)
    """Problem ids, or `*` for all."""
    backends: Sequence[str] = ("triton", "cuda")
    methods: Sequence[str] = ("random", "hill_climb", "evolve", "puct", "puct+surrogate")
    """Methods; `+surrogate` puts the filter in front."""
    proposer: str = "genome+rewrite"
    random_seeds: Sequence[int] = (0,)
    seeds: int = 4
    batch: int = 4
    budget: Mapping[str, float] = dataclasses.field(default_factory=lambda: {"measurements": 12})
    surrogate: str = "online"
    draw: int = 3
    unsure_share: float = 0.25
    confidence: float = 0.5
    settings: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    """Further settings of every run, such as patience or islands."""
    overrides: Mapping[str, Mapping[str, Any]] = dataclasses.field(default_factory=dict)


def read_spec(path: Path) -> CampaignSpec:
    """Read a campaign file.

    Raises:
        DataError: names the field that is wrong.
    """
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UserError(f"campaign file {str(path)!r} does not exist") from None
    except ValueError as error:
        raise DataError(f"{path.name}: not JSON: {error}") from None
    if not isinstance(data, dict):
        raise DataError(f"{path.name}: a campaign is a JSON object, not {type(data).__name__}")
    known = {field.name for field in dataclasses.fields(CampaignSpec)}
    unknown = sorted(set(data) - known)
    if unknown:
        raise DataError(f"{path.name}: unknown field {unknown[0]!r}; known: {', '.join(sorted(known))}")
    return CampaignSpec(**data)


def runs_of(spec: CampaignSpec) -> tuple[list[Settings], list[str]]:
    """The campaign's runs, and the cells left out because no genome family covers them."""
    runs: list[Settings] = []
    uncovered: list[str] = []
    for problem_id in _problem_ids(spec):
        for backend in map(_backend, spec.backends):
            if not families_for(problem_id, backend):
                uncovered.append(f"{problem_id}/{backend.value}")
                continue
            runs.extend(_cell(spec, problem_id, backend))
    return runs, uncovered


def _backend(name: str) -> Backend:
    if name not in ("triton", "cuda"):
        raise DataError(f"campaign names backend {name!r}; it must be triton or cuda")
    return Backend(name)


def _problem_ids(spec: CampaignSpec) -> list[str]:
    from kbench.benchmark.problems.registry import listed, problems

    if EVERY in spec.problems:
        return list(problems())
    return [listed(problem_id).id for problem_id in spec.problems]


def _cell(spec: CampaignSpec, problem_id: str, backend: Backend) -> Iterator[Settings]:
    extra = {**spec.settings, **spec.overrides.get(problem_id, {})}
    budget = Budget(**{**spec.budget, **extra.pop("budget", {})})
    known = {field.name for field in dataclasses.fields(Settings)}
    unknown = sorted(set(extra) - known)
    if unknown:
        raise DataError(f"campaign sets unknown setting {unknown[0]!r}; known: {', '.join(sorted(known))}")
    for name in spec.methods:
        plain = name.removesuffix(SUFFIX)
        method(plain)
        chosen = _filter(spec) if name.endswith(SUFFIX) else None
        for seed in spec.random_seeds:
            values = {
                "proposer": spec.proposer, "seeds": spec.seeds, "batch": spec.batch, "label": spec.label, **extra,
            }  # fmt: skip
            settings = Settings(
                problem_id=problem_id, backend=backend, method=plain, seed=seed, filter=chosen, budget=budget, **values
            )
            check(settings)
            yield settings


def _filter(spec: CampaignSpec) -> FilterSettings:
    return FilterSettings(
        surrogate=spec.surrogate, draw=spec.draw, unsure_share=spec.unsure_share, confidence=spec.confidence
    )
