"""A family whose kernels all come from one template: the genes are the template's values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from kbench.generation.proposers.genome.family import Family, Gene, Genome, Value, always_valid
from kbench.generation.proposers.genome.template import render
from kbench.schemas import Backend

Values = Callable[[str, Genome], Mapping[str, Any]]
"""What a template needs beside the genes, from the problem's id and the genome."""


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
    values: Values = lambda problem_id, genome: {},
    polish: Callable[[str], str] = lambda code: code,
) -> Family:
    """A family of one template whose genes are the same for all its problems."""
    return varied(
        name, backend, (problem_ids,) if isinstance(problem_ids, str) else problem_ids, template,
        lambda problem_id: genes, lambda problem_id, genome: invalid(genome), values, polish,
    )  # fmt: skip


def varied(
    name: str,
    backend: Backend,
    problem_ids: tuple[str, ...],
    template: str,
    genes: Callable[[str], tuple[Gene, ...]],
    invalid: Callable[[str, Genome], str | None] = always_valid,
    values: Values = lambda problem_id, genome: {},
    polish: Callable[[str], str] = lambda code: code,
) -> Family:
    """A family of one template whose genes depend on the problem.

    The template sees every gene by name, the problem's id as `problem`, and what `values` derives from them, which
    stands in for a gene of the same name.
    """

    def text(problem_id: str, genome: Genome) -> str:
        return polish(render(template, **{"problem": problem_id, **genome, **values(problem_id, genome)}))

    return Family(name=name, backend=backend, problems=problem_ids, genes=genes, render=text, invalid=invalid)
