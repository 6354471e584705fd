"""The plan of the tuning table: which configurations of the tuned kernels are measured at which shapes, in which order.

A run may end anywhere. A few kernels at a time get all their shapes, in turns, before the next few do: compiling a
configuration takes as long as measuring it at several shapes, and goes on meanwhile. A shape gets all configurations of
a block at once, because they share its inputs and answers.
"""

from __future__ import annotations

import dataclasses
import itertools
import random
from collections.abc import Iterator, Mapping, Sequence

from kbench.benchmark.problems import ProblemDefinition, problem
from kbench.benchmark.problems.tuned import PREFIX
from kbench.generation.proposers.genome.family import Family, Value, sample
from kbench.generation.proposers.genome.registry import families
from kbench.harness.queue.sweep import Part
from kbench.harness.workloads import device_bytes
from kbench.schemas import KernelSource

SUFFIX = "_tuned"
"""End of the names of families that are tuned shape by shape."""
SHAPES, CONFIGS, BLOCK, WAVE = 12, 48, 24, 6
"""Shapes of a kernel, its configurations, how many of them are measured before those of other kernels, and how many
kernels take turns."""
TOGETHER, TOGETHER_BYTES = 3, 24 << 30
"""Shapes whose inputs stay on the GPU while a block is measured: its small size is verified once for all of them."""
DRAWS = 100
"""Draws per configuration before a space counts as exhausted."""


@dataclasses.dataclass(frozen=True, slots=True)
class Configured:
    """A tuned kernel in one of its configurations."""

    family: str
    problem_id: str
    """The problem of the benchmark that it solves."""
    config: Mapping[str, Value]
    kernel: KernelSource


def tuned_families() -> tuple[Family, ...]:
    """The families that are tuned shape by shape."""
    return tuple(family for family in families().values() if family.name.endswith(SUFFIX))


def draw(family: Family, count: int) -> list[Configured]:
    """The first configurations of a family, at random from its space; more of them begin with the same ones."""
    (problem_id,), rng = family.problems, random.Random(f"tuning {family.name}")
    configs: list[dict[str, Value]] = []
    for _ in range(DRAWS * count):
        config = sample(family, problem_id, rng)
        if config not in configs:
            configs.append(config)
        if len(configs) == count:
            break
    return [
        Configured(
            family.name,
            problem_id,
            config,
            KernelSource(PREFIX + problem_id, family.backend, family.render(problem_id, config)),
        )
        for config in configs
    ]


def parts(
    configured: Mapping[str, Sequence[Configured]], shapes: int = SHAPES, block: int = BLOCK, wave: int = WAVE
) -> Iterator[Part]:
    """The parts of the table in the order of measurement.

    Args:
        configured: the configurations by family.
        shapes: how many of each kernel.
        block: configurations that are measured together.
        wave: kernels that take turns.
    """
    groups = {name: shape_groups(problem(several[0].kernel.problem_id), shapes) for name, several in configured.items()}
    names, longest = list(configured), max(map(len, configured.values()), default=0)
    for start, first in itertools.product(range(0, longest, block), range(0, len(names), wave)):
        together = names[first : first + wave]
        for turn, name in itertools.product(range(max(len(groups[name]) for name in together)), together):
            kernels = tuple(one.kernel for one in configured[name][start : start + block])
            if kernels and turn < len(groups[name]):
                yield Part(kernels, groups[name][turn])


def shape_groups(definition: ProblemDefinition, count: int) -> list[tuple[str, ...]]:
    """Shapes that are measured together, far apart in the list of all first."""
    sizes = [definition.sizes[place] for place in spread(len(definition.sizes))[:count]]
    groups: list[list[str]] = [[]]
    held_bytes = 0
    for size in sizes:
        need_bytes = device_bytes(definition, size)
        if groups[-1] and (len(groups[-1]) == TOGETHER or held_bytes + need_bytes > TOGETHER_BYTES):
            groups.append([])
            held_bytes = 0
        groups[-1].append(size.name)
        held_bytes += need_bytes
    return [tuple(group) for group in groups]


def spread(count: int) -> list[int]:
    """The numbers below `count`, each far from those before it: in the order of their reversed bits."""
    bits = max(1, (count - 1).bit_length())
    return [n for n in (int(f"{i:0{bits}b}"[::-1], 2) for i in range(1 << bits)) if n < count]
