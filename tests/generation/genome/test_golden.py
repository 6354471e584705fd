"""The families still render the kernels that recorded recipes refer to, and searches still draw the same genomes."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Iterator
from pathlib import Path

from kbench.generation.proposers.genome.family import cross, mutate, sample
from kbench.generation.proposers.genome.registry import families, families_for
from kbench.loaders.corpus.corpus import load
from kbench.schemas import Backend, KernelSource

COUNT = 2_000
CHAINS = "efd53d2617d0f41b462f0cb7c2e0b757b758353abd2702e75af2079627a2e036"
"""Digest of `chains` when the shipped searches were recorded."""


RECORDED = tuple((Path(__file__).parent / "golden_kernel_ids.txt").read_text().splitlines())
FAMILIES = {line.split()[0] for line in RECORDED}
"""Families that recorded searches drew from; later ones serve problems of their own."""


def golden_kernels() -> Iterator[str]:
    """Family, problem and kernel id of each genome; every family takes turns on each of its problems."""
    known = sorted((name, family) for name, family in families().items() if name in FAMILIES)
    pairs = [(family, problem_id) for _, family in known for problem_id in family.problems]
    for number in range(COUNT):
        family, problem_id = pairs[number % len(pairs)]
        source = family.render(problem_id, sample(family, problem_id, random.Random(number)))
        yield f"{family.name} {problem_id} {KernelSource(problem_id, family.backend, source).kernel_id}"


def chains() -> Iterator[str]:
    """For each cell, its families in the order in which they are drawn, and genomes of a seeded walk through each."""
    known = [families()[name] for name in FAMILIES]
    cells = {(problem_id, family.backend.value) for family in known for problem_id in family.problems}
    for problem_id, backend in sorted(cells):
        for family in families_for(problem_id, Backend(backend)):
            rng = random.Random(f"{family.name} {problem_id}")
            genome, other = sample(family, problem_id, rng), sample(family, problem_id, rng)
            for _ in range(3):
                genome = mutate(family, problem_id, genome, rng)
                other = cross(family, problem_id, other, genome, rng)
                yield f"{family.name} {problem_id} {json.dumps([genome, other])}\n"


def test_every_sampled_genome_gives_the_recorded_kernel() -> None:
    assert [line for line, before in zip(golden_kernels(), RECORDED, strict=True) if line != before] == []


def test_draws_mutations_and_crossings_follow_the_recorded_order() -> None:
    assert hashlib.sha256("".join(chains()).encode()).hexdigest() == CHAINS


def test_the_recipe_of_every_shipped_live_kernel_gives_its_source() -> None:
    rows = load(
        config="live", columns=["problem_id", "kernel_id", "source", "recipe_json"], proposer="genome"
    ).to_arrow()
    distinct = {row["kernel_id"]: row for row in rows.to_pylist()}
    assert len(distinct) > 10_000
    known = families()
    for row in distinct.values():
        recipe = json.loads(row["recipe_json"])
        assert known[recipe["family"]].render(row["problem_id"], recipe["genome"]) == row["source"]
