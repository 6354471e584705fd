"""Families of tuned kernels: what may be tuned, how large the spaces are, and the shapes they are tuned for."""

from __future__ import annotations

import itertools

import pytest

from kbench.benchmark.problems.registry import known, problem
from kbench.benchmark.problems.tuned import PREFIX, SHAPES
from kbench.generation.proposers.genome.family import Family
from kbench.generation.proposers.genome.registry import families

TUNED = [family for family in families().values() if family.name.endswith("_tuned")]


def test_each_problem_has_one_family_and_shapes() -> None:
    assert sorted(name for family in TUNED for name in family.problems) == sorted(SHAPES)


@pytest.mark.parametrize("family", TUNED, ids=lambda family: family.name)
def test_a_family_has_numeric_genes_and_at_least_two_hundred_configurations(family: Family) -> None:
    problem_id = family.problems[0]
    genes = family.genes(problem_id)
    assert all(type(choice) is int and not gene.structural for gene in genes for choice in gene.choices)
    names = [gene.name for gene in genes]
    every = (dict(zip(names, values, strict=True)) for values in itertools.product(*(gene.choices for gene in genes)))
    valid = sum(family.invalid(problem_id, genome) is None for genome in every)
    assert valid >= 200


@pytest.mark.parametrize("problem_id", SHAPES)
def test_a_problem_is_tuned_at_a_dozen_shapes_that_leave_all_else_as_it_was(problem_id: str) -> None:
    one, other = problem(PREFIX + problem_id), known()[problem_id]
    assert len({size.name for size in one.sizes}) == len(one.sizes) >= 12
    assert all(set(size.params) >= set(other.tiny.params) - {"full"} for size in one.sizes)
    assert (one.reference, one.tolerance, one.cases, one.tiny) == (
        other.reference,
        other.tolerance,
        other.cases,
        other.tiny,
    )
    assert len({size.params[SHAPES[problem_id].batch] for size in one.sizes}) >= 9
