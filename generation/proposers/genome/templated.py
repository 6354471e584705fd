"""A family whose kernels all come from one template: the genes are the template's values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from kbench.generation.proposers.genome.family import Family, Gene, Genome, Value
from kbench.generation.proposers.genome.template import render
from kbench.schemas import Backend


def pick(name: str, *choices: Value) -> Gene:
    """A gene that only changes numbers."""
    return Gene(name, choices)


def shape(name: str, *choices: Value) -> Gene:
    """A gene that changes the structure of the code."""
    return Gene(name, choices, structural=True)


def templated(
    name: str,
    backend: Backend,
    problem_ids: tuple[str, ...] | str,
    template: str,
    *genes: Gene,
    invalid: Callable[[Genome], str | None] = lambda genome: None,
    values: Callable[[str, Genome], Mapping[str, Any]] = lambda problem_id, genome: {},
    polish: Callable[[str], str] = lambda code: code,
) -> Family:
    """A family of one template.

    The template sees every gene by name, the problem's id as `problem`, and what `values` derives from them, which
    stands in for a gene of the same name.
    """

    def text(problem_id: str, genome: Genome) -> str:
        return polish(render(template, **{"problem": problem_id, **genome, **values(problem_id, genome)}))

    return Family(
        name=name,
        backend=backend,
        problems=(problem_ids,) if isinstance(problem_ids, str) else problem_ids,
        genes=lambda problem_id: genes,
        render=text,
        invalid=lambda problem_id, genome: invalid(genome),
    )
