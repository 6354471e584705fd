"""The sample of genomes behind `golden_kernel_ids.txt`: which kernels the families rendered when it was written."""

from __future__ import annotations

import random
from collections.abc import Iterator

from kbench.generation.proposers.genome.family import sample
from kbench.generation.proposers.genome.registry import families
from kbench.schemas import KernelSource

COUNT = 2_000


def golden_kernels() -> Iterator[tuple[str, str, str]]:
    """Family, problem and kernel id of each genome; every family takes turns on each of its problems."""
    pairs = [(family, problem_id) for _, family in sorted(families().items()) for problem_id in family.problems]
    for number in range(COUNT):
        family, problem_id = pairs[number % len(pairs)]
        genome = sample(family, problem_id, random.Random(number))
        source = family.render(problem_id, genome)
        yield family.name, problem_id, KernelSource(problem_id, family.backend, source).kernel_id
