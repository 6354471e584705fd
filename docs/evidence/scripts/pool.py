"""The kernels the harness's evidence is made with: genome families, both backends, ten problems."""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path
from typing import Any

from kbench.benchmark.problems import problem
from kbench.generation.proposers.genome.template import families, families_for, sample
from kbench.harness.harness import Harness
from kbench.harness.timing.rounds import TimingSettings
from kbench.schemas import Backend, KernelSource

GPU = "NVIDIA H200"
"""The GPU whose rows of the dataset scripts read: kernels have a row for each of several."""


def problems_with_both_backends() -> list[str]:
    """Ids that have a family in Triton and in CUDA, in registry order."""
    found = dict.fromkeys(p for family in families().values() for p in family.problems)
    return [p for p in found if all(families_for(p, backend) for backend in (Backend.TRITON, Backend.CUDA))]


def choose_problems(count: int) -> list[str]:
    """Problems from as many problem families as possible."""
    by_family: dict[str, list[str]] = {}
    for name in problems_with_both_backends():
        by_family.setdefault(problem(name).family, []).append(name)
    chosen: list[str] = []
    while len(chosen) < count and any(by_family.values()):
        for names in by_family.values():
            if names and len(chosen) < count:
                chosen.append(names.pop(0))
    return chosen


def kernels(problem_id: str, backend: Backend, count: int, seed: int = 0) -> list[KernelSource]:
    """Distinct random kernels of a problem."""
    rng = random.Random(f"{problem_id} {backend} {seed}")
    options = families_for(problem_id, backend)
    found: dict[str, KernelSource] = {}
    for _ in range(20 * count):
        if len(found) == count:
            break
        family = rng.choice(options)
        kernel = KernelSource(problem_id, backend, family.render(problem_id, sample(family, problem_id, rng)))
        found[kernel.kernel_id] = kernel
    return list(found.values())


DRY = "--dry-run" in sys.argv
"""Try a script without a GPU: a few Triton kernels through the interpreter on the CPU, tiny workloads."""


TIMING = TimingSettings()


def make_harness(gpu: str = "0", **settings: Any) -> Harness:
    """The harness on GPU 0 or a partition of it, or on the CPU for a dry run."""
    settings.setdefault("timing", TIMING)
    if DRY:
        return Harness(gpu=None, workloads=("tiny",), builders=1, timeout_s=60.0, **settings)
    return Harness(gpu=gpu, **settings)


def pool(problem_count: int = 10, each: int = 17) -> list[KernelSource]:
    """`each` kernels of each backend for each problem, problem by problem."""
    if DRY:
        return [k for name in choose_problems(2) for k in kernels(name, Backend.TRITON, 2)]
    return [
        kernel
        for name in choose_problems(problem_count)
        for backend in (Backend.TRITON, Backend.CUDA)
        for kernel in kernels(name, backend, each)
    ]


def out_folder() -> Path:
    """The folder named on the command line, made if missing."""
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def write(folder: Path, name: str, content: dict[str, Any]) -> None:
    """Write a result whole or not at all."""
    aside = folder / f".{name}.part"
    aside.write_text(json.dumps(content, indent=1))
    aside.rename(folder / name)


def say(text: str) -> None:
    """A line for whoever watches."""
    sys.stderr.write(text + "\n")
