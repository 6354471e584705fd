"""The plan of the tuning table: which configurations of the tuned kernels are measured at which shapes, in which order.

A run may end anywhere. A few kernels at a time get all their shapes, in turns, before the next few do: compiling a
configuration takes as long as measuring it at several shapes, and goes on meanwhile. A shape gets all configurations of
a block at once, because they share its inputs and answers.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import json
import random
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from kbench.benchmark.problems import ProblemDefinition, problem
from kbench.benchmark.problems.tuned import PREFIX
from kbench.generation.proposers.genome.header import Family, Value, families, read_file, sample
from kbench.generation.proposers.genome.template import GENOMES
from kbench.harness.workloads import device_bytes
from kbench.schemas import KernelSource, TuningTime
from kbench.schemas.record import field_types

SUFFIX = "_tuned"
"""End of the names of families that are tuned shape by shape."""
SHAPES, CONFIGS, BLOCK, WAVE = 12, 48, 24, 6
"""Shapes of a kernel, its configurations, how many of them are measured before those of other kernels, and how many
kernels take turns."""
TOGETHER, TOGETHER_BYTES = 3, 24 << 30
"""Shapes whose inputs stay on the GPU while a block is measured: its small size is verified once for all of them."""
HELD_OUT = (
    "adamw", "attention_backward", "chunk_scan", "conv1d", "grouped_wgrad", "int4", "log_probs", "lora", "mla",
    "rms_backward", "rope", "states",
)  # fmt: skip
"""Templates whose kernels nothing is fitted to. All kernels of a template lie in one split: they share their text."""
SHOWN = (1 / 6, 1 / 2, 5 / 6)
"""Where in the order of a kernel's shapes those lie whose times are shown in questions about the others. They are few:
between two neighbours of a dense list, the best of one is nearly the best of the other."""
DRAWS = 100
"""Draws per configuration before a space counts as exhausted."""


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Part:
    """Kernels of one problem that are measured one after another on some of its workloads."""

    kernels: tuple[KernelSource, ...]
    workloads: tuple[str, ...]


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
    """The parts of the table in the order of measurement."""
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


@functools.cache
def templates() -> Mapping[str, str]:
    """The template of each tuned family."""
    files = sorted((GENOMES / "tuned").glob("*.py"))
    return {family.name: path.stem for path in files for family in read_file(path)}


def table_rows(measured: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Rows of the dataset's table from what runs measured: for each kernel and GPU all configurations at all shapes.

    A run that was cut off leaves shapes that some configurations lack: those are left out.
    """
    cells: dict[tuple[str, str], dict[tuple[str, str], Mapping[str, Any]]] = defaultdict(dict)
    for row in measured:
        cells[row["kernel"], row["gpu"]][row["shape_json"], row["config_json"]] = row
    names = [name for name in field_types(TuningTime) if name not in ("split", "shown")]
    rows: list[dict[str, Any]] = []
    for (kernel, _), found in sorted(cells.items()):
        per_shape = Counter(shape for shape, _ in found)
        whole = [shape for shape, count in per_shape.items() if count >= 0.9 * max(per_shape.values())]
        shapes = sorted(whole, key=lambda text: sorted(json.loads(text).items()))
        configs = [c for c in sorted({c for _, c in found}) if all((shape, c) in found for shape in shapes)]
        shown = {shapes[int(share * len(shapes))] for share in SHOWN}
        split = "test" if templates()[kernel] in HELD_OUT else "train"
        for shape, config in itertools.product(shapes, configs):
            row = {name: found[shape, config].get(name) for name in names}
            rows.append(row | {"split": split, "shown": shape in shown})
    return rows
