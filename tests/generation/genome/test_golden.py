"""The families still render the kernels that recorded recipes refer to."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

from kbench.generation.proposers.genome.family import sample
from kbench.generation.proposers.genome.registry import families
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
