"""All genome families, from the headers of the templates."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from types import MappingProxyType

from kbench.generation.proposers.genome.family import Family
from kbench.generation.proposers.genome.header import BACKENDS, read_file
from kbench.generation.proposers.genome.template import GENOMES
from kbench.schemas import Backend


@functools.cache
def families() -> Mapping[str, Family]:
    """Every family by name. Files are read in alphabetical order: a recorded search draws families by their place."""
    found: dict[str, Family] = {}
    for path in sorted(path for path in GENOMES.rglob("*") if path.suffix in BACKENDS):
        for family in read_file(path):
            if family.name in found:
                raise ValueError(f"genome family {family.name!r} is declared twice, again in {path.name}")
            found[family.name] = family
    return MappingProxyType(found)


def families_for(problem_id: str, backend: Backend) -> tuple[Family, ...]:
    """The families that can solve a problem in a backend."""
    return tuple(f for f in families().values() if f.backend is backend and problem_id in f.problems)
