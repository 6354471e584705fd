"""Tune: the best of a kernel's own configurations at each of a list of shapes, by verified measurements.

All configurations are measured at the smallest and the largest shape, and at any shape unlike those measured so far; at
the others the few that did well at shapes like it. A file's configurations are those of its one `@triton.autotune`.
"""

from __future__ import annotations

import ast
import base64
import dataclasses
import itertools
import json
import math
import re
import zlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from kbench.benchmark.problems import ProblemDefinition, Size
from kbench.benchmark.problems.registry import known, named, unlisted
from kbench.benchmark.tuning.choose import Known, choose
from kbench.harness.harness import Harness
from kbench.loaders.storage.atomic import write_atomically
from kbench.schemas import KernelSource, Measurement, Status, UserError

SHARE, FEWEST = 0.1, 4
"""Configurations that are measured at a shape like known ones: a share of all, and at least so many."""
MOST_SHAPES, MOST_CONFIGS = 256, 4096
SAID = re.compile(r"configurations ([A-Za-z0-9+/=]+) end")
PROBE = """
import base64 as _b, json as _j, zlib as _z
raise RuntimeError("configurations " + _b.b64encode(_z.compress(_j.dumps(
    [config.all_kwargs() for config in {name}.configs]).encode(), 9)).decode() + " end")
"""
PROBLEM = """
import dataclasses
from kbench.benchmark.problems import Size
from kbench.benchmark.problems.{place}
PROBLEM = dataclasses.replace(base, id={id!r}, aliases=(), sizes=tuple(Size(*one) for one in {sizes!r}))
"""
MODULE = '''"""Best configurations by {names} on {gpu}, measured by kbench."""

import math

import triton

CONFIGS = {{
{lines}}}


def config_for(*numbers):
    """The configuration of the nearest shape."""

    def distance(key):
        return sum(math.log(a / b) ** 2 for a, b in zip(key, numbers))

    return CONFIGS[min(CONFIGS, key=distance)]
'''


@dataclasses.dataclass(slots=True)
class Tuned:
    """The measurements of all configurations that were tried, by shape."""

    configs: list[dict[str, Any]]
    sizes: tuple[Size, ...]
    gpu: str = ""
    rows: list[tuple[int, Measurement]] = dataclasses.field(default_factory=list)
    """The number of a configuration, and its measurement at a shape."""

    def times_us(self, shape: str) -> dict[int, float]:
        """Times by configuration at a shape; infinite where it failed."""
        return {n: m.runtime_us or math.inf for n, m in self.rows if m.workload == shape}

    def best(self, shape: str) -> int | None:
        """The fastest configuration at a shape; None where all failed."""
        times = self.times_us(shape)
        return min(times, key=times.__getitem__) if times and min(times.values()) < math.inf else None


def parse_shapes(text: str, definition: ProblemDefinition) -> tuple[Size, ...]:
    """Sizes from `m=1,2,4 n=4096`: every combination; what is not named is the first size's.

    Raises:
        UserError: a parameter that the problem does not have, or a value that is no positive number.
    """
    base, lists = dict(definition.sizes[0].params), {}
    for part in text.split():
        name, _, values = part.partition("=")
        if name not in base:
            raise UserError(f"--tune names {name!r}; {definition.id} has {', '.join(base)}")
        try:
            lists[name] = [int(value) for value in values.split(",")]
        except ValueError:
            raise UserError(f"--tune has {part!r}; write whole numbers, such as {name}=1,2,4") from None
        if min(lists[name]) < 1:
            raise UserError(f"--tune has {part!r}; every number must be at least 1")
    combinations = [dict(zip(lists, values, strict=True)) for values in itertools.product(*lists.values())]
    if not lists or len(combinations) > MOST_SHAPES:
        raise UserError(f"--tune {text!r} makes {len(combinations) if lists else 0} shapes; 1 to {MOST_SHAPES} can be")
    unique = {"_".join(f"{name}{value}" for name, value in one.items()): base | one for one in combinations}
    return tuple(Size(name, params) for name, params in unique.items())


def at_shapes(problem_name: str, sizes: Sequence[Size], folder: Path) -> ProblemDefinition:
    """The problem at other sizes, as a file that every process can load."""
    base = named(problem_name)
    ours = base.id in known() or base.id in unlisted()
    place = f"registry import problem\nbase = problem({base.id!r})"
    if not ours:
        place = (
            f"foreign.user import load_user_problem\nbase = load_user_problem({str(Path(problem_name).resolve())!r})"
        )
    path = folder / "shapes.py"
    plain = [(size.name, dict(size.params)) for size in sizes]
    path.write_text(PROBLEM.format(place=place, id=f"{base.id}_tuned_here", sizes=plain))
    return named(str(path))


def autotuned(source: str) -> str:
    """The name of the file's one autotuned function.

    Raises:
        UserError: there is none, or more than one.
    """
    names = [
        node.name
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.FunctionDef) and any("autotune" in ast.unparse(one) for one in node.decorator_list)
    ]
    if len(names) != 1:
        raise UserError(f"--tune needs a file with one @triton.autotune; this one has {len(names)} {names or ''}")
    return names[0]


def configurations(kernel: KernelSource, name: str, harness: Harness) -> list[dict[str, Any]]:
    """The configurations of an autotuned kernel; its code runs where kernels are planned, never here.

    Raises:
        UserError: the file does not load.
    """
    probe = dataclasses.replace(kernel, source=kernel.source + PROBE.format(name=name))
    (row,) = harness.compile([probe])
    listed = SAID.search(row.error or "")
    if listed is None:
        raise UserError(f"the file's configurations cannot be read: {row.error}")
    text = zlib.decompressobj().decompress(base64.b64decode(listed[1]), 1 << 20)
    configs = json.loads(text)
    if not isinstance(configs, list) or not 1 <= len(configs) <= MOST_CONFIGS:
        raise UserError(f"the file has {len(configs)} configurations; 1 to {MOST_CONFIGS} can be tuned")
    return [dict(config) for config in configs]


def tune(
    kernel: KernelSource, sizes: Sequence[Size], harness: Harness, show: Callable[[str], None] = lambda line: None
) -> Tuned:
    """Measure a kernel's configurations over shapes of its problem, few of them where others say enough.

    Args:
        kernel: an autotuned kernel, of a problem that has these sizes.
        sizes: the shapes.
        harness: measures.
        show: told of every shape.
    """
    name = autotuned(kernel.source)
    tuned = Tuned(configurations(kernel, name, harness), tuple(sizes))
    alone = [
        dataclasses.replace(kernel, source=f"{kernel.source}\n{name}.configs = [{name}.configs[{number}]]\n")
        for number in range(len(tuned.configs))
    ]
    numbers = {one.kernel_id: number for number, one in enumerate(alone)}
    few = max(FEWEST, math.ceil(SHARE * len(alone)))
    labels = [json.dumps(config, sort_keys=True, default=str) for config in tuned.configs]
    for size in ends_first(sizes):
        known_shapes = [
            Known(other.params, {labels[n]: time for n, time in tuned.times_us(other.name).items()})
            for other in sizes
            if tuned.times_us(other.name)
        ]
        places = choose(known_shapes, size.params, labels, few)
        chosen = alone if places is None else [alone[place] for place in places]
        # One that the machine fails has no row; the others are worth a table.
        for row in harness.measure(chosen, workloads=(size.name,), on_lost=lambda *_: None):
            tuned.gpu = row.gpu
            tuned.rows.append((numbers[row.kernel_id], row))
        best = tuned.best(size.name)
        fastest = (
            "none works" if best is None else f"{tuned.times_us(size.name)[best]:.2f} us with {tuned.configs[best]}"
        )
        show(f"{size.name}  {len(chosen)} of {len(alone)} measured  {fastest}")
    return tuned


def ends_first(sizes: Sequence[Size]) -> list[Size]:
    """Shapes in the order of measurement: the smallest and the largest, then those between."""
    ordered = sorted(sizes, key=lambda size: math.prod(size.params.values()))
    return ordered if len(ordered) < 3 else [ordered[0], ordered[-1], *ordered[1:-1]]


def write(tuned: Tuned, folder: Path) -> list[Path]:
    """The table for Triton, in the JSON form of vLLM's expert layers where one number varies, and all rows."""
    folder.mkdir(parents=True, exist_ok=True)
    varying = [name for name in tuned.sizes[0].params if len({size.params[name] for size in tuned.sizes}) > 1]
    varying = varying or list(tuned.sizes[0].params)[:1]
    best = {
        tuple(size.params[name] for name in varying): tuned.configs[number]
        for size in tuned.sizes
        if (number := tuned.best(size.name)) is not None
    }
    files = {"configs.py": as_python(best, varying, tuned.gpu)}
    if len(varying) == 1:
        files["configs.json"] = json.dumps({str(key[0]): config for key, config in sorted(best.items())}, indent=4)
    rows = [
        {"config": tuned.configs[number], "workload": row.workload, "status": row.status.value, "error": row.error}
        | {name: getattr(row, name) for name in ("runtime_us", "runtime_low_us", "runtime_high_us")}
        for number, row in tuned.rows
    ]
    files["times.jsonl"] = "".join(json.dumps(row) + "\n" for row in rows)
    for name, text in files.items():
        write_atomically(folder / name, text)
    return [folder / name for name in files]


def as_python(best: Mapping[tuple[int, ...], Mapping[str, Any]], names: Sequence[str], gpu: str) -> str:
    """The table as a module: a `triton.Config` by the numbers that vary, and the nearest of them for any others."""
    own = ("num_warps", "num_stages", "num_ctas", "maxnreg")
    lines = []
    for key, config in sorted(best.items()):
        options = "".join(f", {name}={config[name]!r}" for name in own if config.get(name) is not None)
        kwargs = {name: value for name, value in config.items() if name not in own}
        lines.append(f"    {key!r}: triton.Config({kwargs!r}{options}),\n")
    return MODULE.format(names=", ".join(names), gpu=gpu, lines="".join(lines))


def failures(tuned: Tuned) -> list[str]:
    """Shapes at which no configuration works, each with the first reason."""
    reasons: dict[str, str] = {}
    for _, row in tuned.rows:
        if row.status is not Status.OK:
            reasons.setdefault(row.workload, f"{row.workload}: {row.status} {row.error}")
    return [reason for name, reason in reasons.items() if tuned.best(name) is None]
