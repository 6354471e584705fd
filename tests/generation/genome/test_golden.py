"""The families still render the kernels that recorded recipes refer to."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path

from kbench.generation.proposers.genome.family import sample
from kbench.generation.proposers.genome.registry import families
from kbench.loaders.corpus.corpus import load
from kbench.schemas import KernelSource

COUNT = 2_000


def golden_kernels() -> Iterator[str]:
    """Family, problem and kernel id of each genome; every family takes turns on each of its problems."""
    pairs = [(family, problem_id) for _, family in sorted(families().items()) for problem_id in family.problems]
    for number in range(COUNT):
        family, problem_id = pairs[number % len(pairs)]
        source = family.render(problem_id, sample(family, problem_id, random.Random(number)))
        yield f"{family.name} {problem_id} {KernelSource(problem_id, family.backend, source).kernel_id}"


def test_every_sampled_genome_gives_the_recorded_kernel() -> None:
    recorded = (Path(__file__).parent / "golden_kernel_ids.txt").read_text().splitlines()
    rendered = list(golden_kernels())
    assert [line for line, before in zip(rendered, recorded, strict=True) if line != before] == []


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
