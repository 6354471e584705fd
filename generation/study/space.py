"""Recorded parameter spaces, such as Kernel Tuner's, as genome families: every configuration was measured.

They are larger than pools of kernels, and methods change genes as they do on a GPU instead of choosing neighbours.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping

from kbench.generation.proposers.genome.family import Family, Gene, Genome, Value
from kbench.generation.proposers.genome.proposer import GenomeProposer
from kbench.schemas import Backend


def space_proposer(problem_id: str, sources: Iterable[str]) -> GenomeProposer:
    """Proposes only recorded configurations: one family whose genes are the parameters that vary.

    Args:
        problem_id: what was tuned.
        sources: the configurations, as the importers write them: JSON objects with sorted keys.
    """
    known = {source: json.loads(source) for source in sources}
    genes = tuple(_gene(name, known.values()) for name in next(iter(known.values())))

    def text(problem: str, genome: Genome) -> str:
        return json.dumps(dict(genome), sort_keys=True, ensure_ascii=True)

    def missing(problem: str, genome: Genome) -> str | None:
        return None if text(problem, genome) in known else "not recorded"

    family = Family("recorded", Backend.CONFIG, (problem_id,), lambda problem: genes, text, missing)
    return GenomeProposer({family.name: family})


def _gene(name: str, configurations: Iterable[Mapping[str, Value]]) -> Gene:
    values = {configuration[name] for configuration in configurations}
    return Gene(name, tuple(sorted(values, key=lambda value: (str(type(value)), value))))
