"""Genome families of the attention, routing, indexing, sorting, scan, GPU MODE and scientific problems."""

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
import torch

from kbench.benchmark.problems import (
    attention,
    gpu_mode,
    indexing,
    mixture_of_experts,
    scientific,
    sorting,
    state_space,
)
from kbench.benchmark.problems.definition import ProblemDefinition, Size, as_tuple
from kbench.benchmark.problems.inputs import ScalarSpec
from kbench.benchmark.problems.registry import problem
from kbench.generation.proposers.genome.family import cross, mutate, sample
from kbench.generation.proposers.genome.registry import families_for
from kbench.harness.build.target import Target
from kbench.harness.build.triton_target import compile_only
from kbench.harness.screen import screen
from kbench.schemas import Backend
from kbench.schemas.ids import structure_id

EMULATION = Path(__file__).parent / "emulation"
GROUPS = (gpu_mode, attention, mixture_of_experts, indexing, sorting, state_space, scientific)
PROBLEMS = [p.id for group in GROUPS for p in group.PROBLEMS]
BACKENDS = (Backend.TRITON, Backend.CUDA)
TARGETS = ("sm_80", "sm_90", "sm_100")


def sources(problem_id: str, backend: Backend, count: int, seed: int) -> list[str]:
    """Sampled kernels, families in turn."""
    rng = random.Random(f"{problem_id} {seed}")
    found = families_for(problem_id, backend)
    drawn = [found[index % len(found)] for index in range(count)]
    return [family.render(problem_id, sample(family, problem_id, rng)) for family in drawn]


def loaded(path: Path, name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def wrong_share(definition: ProblemDefinition, out: torch.Tensor, expected: torch.Tensor) -> float:
    """Share of elements outside the tolerance."""
    limit = definition.tolerance.atol + definition.tolerance.rtol * expected.double().abs()
    return float((~((out.double() - expected.double()).abs() <= limit)).double().mean())


def is_right(definition: ProblemDefinition, module: ModuleType, size: Size, device: str) -> bool:
    inputs = definition.draw(size, seed=13, device=device)
    pairs = zip(as_tuple(module.run(*inputs)), definition.expected(inputs), strict=True)
    return all(wrong_share(definition, out, right) <= definition.tolerance.mismatch_share for out, right in pairs)


def meta_inputs(definition: ProblemDefinition, size: Size) -> list[object]:
    return [
        spec.value
        if isinstance(spec, ScalarSpec)
        else torch.empty(spec.shape, dtype=getattr(torch, spec.dtype), device="meta")
        for spec in definition.inputs(size.params)
    ]


@pytest.mark.parametrize("backend", BACKENDS)
def test_every_problem_has_varied_kernels_that_pass_the_screen(backend: Backend) -> None:
    for problem_id in PROBLEMS:
        texts = sources(problem_id, backend, 6, seed=1)
        assert len(set(texts)) >= 5, problem_id
        assert len({structure_id(text) for text in texts}) >= 2, problem_id
        assert [screen(text) for text in texts[:2]] == [None, None], problem_id


@pytest.mark.parametrize("backend", BACKENDS)
def test_every_problem_has_forty_genomes_and_five_structures(backend: Backend) -> None:
    for problem_id in PROBLEMS:
        rng = random.Random(problem_id)
        genomes, shapes = set(), set()
        for family in families_for(problem_id, backend):
            structural = [gene.name for gene in family.genes(problem_id) if gene.structural]
            for _ in range(200):
                genome = sample(family, problem_id, rng)
                genomes.add((family.name, *genome.values()))
                shapes.add((family.name, *(genome[name] for name in structural)))
        assert len(genomes) >= 40, problem_id
        assert len(shapes) >= 5, problem_id


def test_children_of_valid_genomes_are_valid() -> None:
    rng = random.Random(2)
    for problem_id in PROBLEMS:
        for backend in BACKENDS:
            for family in families_for(problem_id, backend):
                one, other = sample(family, problem_id, rng), sample(family, problem_id, rng)
                for child in (mutate(family, problem_id, one, rng), cross(family, problem_id, one, other, rng)):
                    assert family.invalid(problem_id, child) is None
                    assert list(child) == [gene.name for gene in family.genes(problem_id)]


def test_a_kernel_takes_its_problems_inputs_in_order() -> None:
    for problem_id in PROBLEMS:
        definition = problem(problem_id)
        names = [spec.name for spec in definition.inputs(definition.tiny.params)]
        for backend in BACKENDS:
            text = sources(problem_id, backend, 1, seed=3)[0]
            signature = text[text.index("def run(") + len("def run(") :].split("):")[0]
            assert [name.strip() for name in signature.split(",")] == names


def test_sampled_triton_kernels_are_right_in_the_interpreter() -> None:
    chosen = ("scatter_add", "spmv_csr", "tridiagonal_solve")
    tasks = [{"problem": name, "source": sources(name, Backend.TRITON, 1, seed=4)[0]} for name in chosen]
    done = subprocess.run(
        [sys.executable, str(EMULATION / "interpret.py")],
        input="\n".join(map(json.dumps, tasks)),
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "TRITON_INTERPRET": "1", "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert done.returncode == 0, done.stderr
    errors = list(map(json.loads, done.stdout.split()))
    assert [(task["problem"], error) for task, error in zip(tasks, errors, strict=True) if error > 1.0] == []


@pytest.mark.parametrize("problem_id", ["spmv_csr", "transpose"])
def test_a_sampled_cuda_kernel_is_right_on_the_emulated_gpu(problem_id: str, tmp_path: Path) -> None:
    emulator = loaded(EMULATION / "emulator.py", "emulator")
    definition = problem(problem_id)
    run = emulator.load(sources(problem_id, Backend.CUDA, 1, seed=5)[0], tmp_path)
    inputs = definition.draw(definition.tiny, seed=12)
    (expected,) = definition.expected(inputs)
    assert wrong_share(definition, run(*inputs), expected) == 0.0


@pytest.mark.parametrize("target", TARGETS)
def test_sampled_cuda_kernels_compile(target: str) -> None:
    from kbench.harness.cuda import CudaModule

    for problem_id in ("histogram", "fft_butterfly"):
        before = len(CudaModule.declared)
        exec(compile(sources(problem_id, Backend.CUDA, 1, seed=6)[0], "<kernel>", "exec"), {})
        declared = CudaModule.declared[before:]
        assert declared
        for module in declared:
            assert len(module.compile(Target.named(target).nvrtc).code) > 1000


@pytest.mark.filterwarnings("ignore:TRITON_DEFAULT_FP_FUSION")
@pytest.mark.parametrize("target", TARGETS)
def test_a_sampled_triton_kernel_compiles(target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("TRITON_STORE_BINARY_ONLY", "1")
    definition = problem("embedding_gather")
    path = tmp_path / "kernel.py"
    path.write_text(sources(definition.id, Backend.TRITON, 1, seed=7)[0])
    module = loaded(path, f"kernel_{target}")
    with compile_only(Target.named(target), tmp_path / "cache") as compiled:
        module.run(*meta_inputs(definition, definition.sizes[0]))
    assert compiled


@pytest.mark.gpu
@pytest.mark.parametrize("backend", BACKENDS)
def test_nine_in_ten_sampled_kernels_are_right_on_a_gpu(backend: Backend, tmp_path: Path) -> None:
    wrong = []
    count = 0
    for problem_id in PROBLEMS:
        definition = problem(problem_id)
        for number, text in enumerate(sources(problem_id, backend, 3, seed=8)):
            path = tmp_path / f"{problem_id}_{number}.py"
            path.write_text(text)
            for size in (definition.tiny, *definition.sizes):
                count += 1
                if not is_right(definition, loaded(path, path.stem), size, "cuda"):
                    wrong.append(f"{problem_id} {size.name} {number}")
    assert len(wrong) <= 0.1 * count, wrong
