"""Genome families of the activation, norm, reduction, scan, loss and fused elementwise problems."""

from __future__ import annotations

import importlib.util
import json
import os
import random
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from kbench.benchmark.problems import activation, fused_elementwise, loss, norm, problem, reduction, scan
from kbench.benchmark.problems.compare import compare
from kbench.benchmark.problems.definition import Size
from kbench.generation.proposers.genome.family import Family, cross, mutate, sample
from kbench.generation.proposers.genome.registry import families_for
from kbench.harness.build.builder import build
from kbench.harness.build.cache import BuildCache
from kbench.harness.build.target import Target
from kbench.harness.screen import screen
from kbench.schemas import Backend, KernelSource
from kbench.schemas.ids import structure_id

GROUPS = (activation, norm, reduction, scan, loss, fused_elementwise)
PROBLEMS = [p.id for group in GROUPS for p in group.PROBLEMS]
BACKENDS = (Backend.TRITON, Backend.CUDA)
INTERPRETED = (
    "swish",
    "geglu",
    "log_softmax",
    "mean_reduce",
    "masked_cumsum",
    "cross_entropy_loss",
    "layernorm_backward",
)
"""One problem of most Triton families, of those that the interpreter runs quickly."""


def sources(problem_id: str, backend: Backend, count: int, seed: int) -> list[str]:
    """Sampled kernels, families in turn."""
    rng = random.Random(f"{problem_id} {seed}")
    found = families_for(problem_id, backend)
    drawn = [found[index % len(found)] for index in range(count)]
    return [family.render(problem_id, sample(family, problem_id, rng)) for family in drawn]


def loaded(source: str, path: Path) -> ModuleType:
    path.write_text(source)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def structures(family: Family, problem_id: str, rng: random.Random) -> set[tuple[object, ...]]:
    names = [gene.name for gene in family.genes(problem_id) if gene.structural]
    drawn = (sample(family, problem_id, rng) for _ in range(80))
    return {tuple(genome[name] for name in names) for genome in drawn}


def test_there_are_36_problems_and_every_one_has_a_family_in_each_backend() -> None:
    assert len(PROBLEMS) == 36
    assert [(p, b) for p in PROBLEMS for b in BACKENDS if not families_for(p, b)] == []


@pytest.mark.parametrize("backend", BACKENDS)
def test_every_problem_has_sixty_genomes_and_eight_structures(backend: Backend) -> None:
    for problem_id in PROBLEMS:
        rng = random.Random(problem_id)
        found = families_for(problem_id, backend)
        genomes = {(f.name, *sample(f, problem_id, rng).values()) for f in found for _ in range(80)}
        assert len(genomes) >= 60, problem_id
        assert sum(len(structures(f, problem_id, rng)) for f in found) >= 8, problem_id


@pytest.mark.parametrize("backend", BACKENDS)
def test_sampled_kernels_differ_in_text_and_structure_and_pass_the_screen(backend: Backend) -> None:
    for problem_id in PROBLEMS:
        texts = sources(problem_id, backend, 8, seed=1)
        assert len(set(texts)) >= 7, problem_id
        assert len({structure_id(text) for text in texts[:5]}) >= 3, problem_id
        assert [screen(text) for text in texts[:3]] == [None, None, None], problem_id


def test_children_of_valid_genomes_are_valid_and_render() -> None:
    rng = random.Random(2)
    for problem_id in PROBLEMS:
        for backend in BACKENDS:
            for family in families_for(problem_id, backend):
                one, other = sample(family, problem_id, rng), sample(family, problem_id, rng)
                for child in (mutate(family, problem_id, one, rng), cross(family, problem_id, one, other, rng)):
                    assert family.invalid(problem_id, child) is None
                    assert "def run(" in family.render(problem_id, child)


def test_rendering_is_pure() -> None:
    for problem_id in PROBLEMS:
        for backend in BACKENDS:
            assert sources(problem_id, backend, 1, seed=3) == sources(problem_id, backend, 1, seed=3)


def test_sampled_triton_kernels_are_right_in_the_interpreter() -> None:
    tasks = [{"problem": name, "source": sources(name, Backend.TRITON, 1, seed=4)[0]} for name in INTERPRETED]
    done = subprocess.run(
        [sys.executable, str(Path(__file__).parent / "emulation" / "interpret.py")],
        input="\n".join(map(json.dumps, tasks)),
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "TRITON_INTERPRET": "1", "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert done.returncode == 0, done.stderr
    errors = list(map(json.loads, done.stdout.split()))
    assert [(task["problem"], error) for task, error in zip(tasks, errors, strict=True) if error > 1.0] == []


@pytest.mark.parametrize(
    ("problem_id", "target"),
    [
        ("tanh", "sm_80"), ("rope", "sm_100"), ("softmax", "sm_90"), ("rmsnorm_residual", "sm_80"),
        ("batch_norm", "sm_100"), ("argmax", "sm_90"), ("cumsum_reverse", "sm_80"), ("prefix_sum", "sm_100"),
        ("kl_div_loss", "sm_90"), ("triplet_margin_loss", "sm_80"), ("layernorm_backward", "sm_100"),
    ],
)  # fmt: skip
def test_a_sampled_cuda_kernel_compiles_without_a_gpu(problem_id: str, target: str, tmp_path: Path) -> None:
    text = sources(problem_id, Backend.CUDA, 1, seed=6)[0]
    kernel = KernelSource(problem_id=problem_id, backend=Backend.CUDA, source=text)
    made = build(kernel, Target.named(target), BuildCache(tmp_path))
    assert made.error is None
    assert made.registers


@pytest.mark.filterwarnings("ignore:TRITON_DEFAULT_FP_FUSION")
@pytest.mark.parametrize(("problem_id", "target"), [("relu", "sm_80"), ("sum_reduce", "sm_90"), ("swiglu", "sm_100")])
def test_a_sampled_triton_kernel_compiles_without_a_gpu(problem_id: str, target: str, tmp_path: Path) -> None:
    text = sources(problem_id, Backend.TRITON, 1, seed=7)[0]
    kernel = KernelSource(problem_id=problem_id, backend=Backend.TRITON, source=text)
    made = build(kernel, Target.named(target), BuildCache(tmp_path))
    assert made.error is None
    assert made.ahead_of_time


def is_right(problem_id: str, module: ModuleType, size: Size) -> bool:
    definition = problem(problem_id)
    inputs = definition.draw(size, seed=13, device="cuda")
    outputs = module.run(*inputs)
    return compare(outputs, definition.expected(inputs), definition.tolerance, definition.outputs(size.params)).ok


@pytest.mark.gpu
@pytest.mark.parametrize("backend", BACKENDS)
def test_nine_in_ten_sampled_kernels_are_right_on_a_gpu(backend: Backend, tmp_path: Path) -> None:
    wrong, count = [], 0
    for problem_id in PROBLEMS:
        definition = problem(problem_id)
        for number, text in enumerate(sources(problem_id, backend, 4, seed=8)):
            module = loaded(text, tmp_path / f"{problem_id}_{number}.py")
            count += 1
            if not all(is_right(problem_id, module, size) for size in (definition.tiny, *definition.sizes)):
                wrong.append(f"{problem_id} {number}")
    assert len(wrong) <= 0.1 * count, wrong
