"""Family: a parametrised kernel. Genes choose its structure and its numbers; rendering gives the source text."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable, Mapping

from kbench.schemas import Backend

Value = int | str | bool
Genome = Mapping[str, Value]
"""Gene values by gene name."""


@dataclasses.dataclass(frozen=True, slots=True)
class Gene:
    """One choice. Structural genes change the shape of the code; the others only its numbers."""

    name: str
    choices: tuple[Value, ...]
    structural: bool = False


def always_valid(problem_id: str, genome: Genome) -> str | None:
    """Every combination of genes is allowed."""
    return None


@dataclasses.dataclass(frozen=True, slots=True)
class Family:
    """A parametrised kernel for one backend and one or more problems."""

    name: str
    backend: Backend
    problems: tuple[str, ...]
    """Ids of the problems it can solve."""
    genes: Callable[[str], tuple[Gene, ...]]
    """The genes for a problem; their order is fixed."""
    render: Callable[[str, Genome], str]
    """Kernel source for a problem and a valid genome; pure, so equal genomes give equal text."""
    invalid: Callable[[str, Genome], str | None] = always_valid
    """Why a combination cannot work (shared memory, tile shapes, …); None when it can."""


def sample(family: Family, problem_id: str, rng: random.Random, tries: int = 1000) -> dict[str, Value]:
    """A random valid genome."""
    genes = family.genes(problem_id)
    for _ in range(tries):
        genome = {gene.name: rng.choice(gene.choices) for gene in genes}
        if family.invalid(problem_id, genome) is None:
            return genome
    raise ValueError(f"family {family.name!r} found no valid genome for {problem_id!r} in {tries} tries")


def mutate(family: Family, problem_id: str, genome: Genome, rng: random.Random, tries: int = 200) -> dict[str, Value]:
    """A valid genome that differs from `genome` in one gene, sometimes two."""
    genes = [gene for gene in family.genes(problem_id) if len(gene.choices) > 1]
    for _ in range(tries):
        child = dict(genome)
        for gene in rng.sample(genes, k=min(len(genes), 2 if rng.random() < 0.25 else 1)):
            child[gene.name] = rng.choice([choice for choice in gene.choices if choice != genome[gene.name]])
        if family.invalid(problem_id, child) is None:
            return child
    return sample(family, problem_id, rng)


def cross(family: Family, problem_id: str, one: Genome, other: Genome, rng: random.Random) -> dict[str, Value]:
    """A valid genome that takes each gene from one of two parents; falls back to a mutation of the first."""
    for _ in range(50):
        child = {name: rng.choice((one[name], other[name])) for name in one}
        if family.invalid(problem_id, child) is None and child not in (dict(one), dict(other)):
            return child
    return mutate(family, problem_id, one, rng)
