"""Genome families of the spatial problems: coverage, variety, answers on a CPU, machine code for three GPUs."""

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

from kbench.benchmark.problems import convolution, fused_convolution, pooling, stencil, transposed_convolution
from kbench.benchmark.problems.inputs import TensorSpec
from kbench.benchmark.problems.registry import problem
from kbench.generation.proposers.genome.family import cross, mutate, sample
from kbench.generation.proposers.genome.registry import families, families_for
from kbench.harness.build.target import Target
from kbench.harness.build.triton_target import compile_only
from kbench.harness.screen import screen
from kbench.schemas import Backend
from kbench.schemas.ids import structure_id

EMULATION = Path(__file__).parent / "emulation"
GROUPS = (convolution, transposed_convolution, pooling, fused_convolution, stencil)
PROBLEMS = [p.id for group in GROUPS for p in group.PROBLEMS]
TARGETS = ("sm_80", "sm_90", "sm_100")


def sources(problem_id: str, backend: Backend, count: int, seed: int) -> list[str]:
    """Sampled kernels, families in turn."""
    rng = random.Random(f"{problem_id} {seed}")
    found = families_for(problem_id, backend)
    drawn = [found[index % len(found)] for index in range(count)]
    return [family.render(problem_id, sample(family, problem_id, rng)) for family in drawn]


def source_of(family_name: str, problem_id: str, seed: int) -> str:
    """One sampled kernel of a family."""
    family = families()[family_name]
    return family.render(problem_id, sample(family, problem_id, random.Random(seed)))


def loaded(path: Path, name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("backend", [Backend.TRITON, Backend.CUDA])
def test_every_spatial_problem_has_varied_kernels_that_pass_the_screen(backend: Backend) -> None:
    for problem_id in PROBLEMS:
        texts = sources(problem_id, backend, 3, seed=1)
        assert len(set(texts)) == 3, problem_id
        assert len({structure_id(text) for text in texts}) >= 2, problem_id
        assert [screen(text) for text in texts] == [None] * len(texts), problem_id


def test_children_of_valid_genomes_are_valid() -> None:
    rng = random.Random(2)
    for problem_id in PROBLEMS:
        for backend in (Backend.TRITON, Backend.CUDA):
            for family in families_for(problem_id, backend):
                one, other = sample(family, problem_id, rng), sample(family, problem_id, rng)
                for child in (mutate(family, problem_id, one, rng), cross(family, problem_id, one, other, rng)):
                    assert family.invalid(problem_id, child) is None
                    assert list(child) == [gene.name for gene in family.genes(problem_id)]


def test_equal_genomes_give_equal_text() -> None:
    for problem_id in ("conv2d_scaling_min", "stencil_3d"):
        for backend in (Backend.TRITON, Backend.CUDA):
            assert sources(problem_id, backend, 3, seed=2) == sources(problem_id, backend, 3, seed=2)


def test_a_kernel_takes_its_problems_inputs_in_order() -> None:
    for problem_id in PROBLEMS:
        definition = problem(problem_id)
        names = ", ".join(spec.name for spec in definition.inputs(definition.tiny.params))
        for backend in (Backend.TRITON, Backend.CUDA):
            assert f"def run({names}):" in sources(problem_id, backend, 1, seed=3)[0]


def test_sampled_triton_kernels_are_right_in_the_interpreter() -> None:
    chosen = {
        "conv_gemm_triton": ("conv1d_dilated_strided", "transposed_conv1d"),
        "window_direct_triton": ("causal_conv1d",),
        "window_separable_triton": ("max_pool2d",),
    }
    tasks = [
        {"problem": problem_id, "source": source_of(name, problem_id, seed=4)}
        for name, problem_ids in chosen.items()
        for problem_id in problem_ids
    ]
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


@pytest.mark.parametrize(
    ("family_name", "problem_id"),
    [("conv_staged_cuda", "transposed_conv3d_grouped"), ("window_staged_cuda", "avg_pool3d")],
)
def test_a_sampled_cuda_kernel_is_right_on_the_emulated_gpu(family_name: str, problem_id: str, tmp_path: Path) -> None:
    emulator = loaded(EMULATION / "emulator.py", "emulator")
    definition = problem(problem_id)
    run = emulator.load(source_of(family_name, problem_id, seed=5), tmp_path)
    inputs = definition.draw(definition.tiny, seed=12)
    (expected,) = definition.expected(inputs)
    limit = definition.tolerance.atol + definition.tolerance.rtol * expected.abs()
    assert bool(((run(*inputs).double() - expected).abs() <= limit).all())


@pytest.mark.parametrize("target", TARGETS)
def test_sampled_cuda_kernels_compile(target: str) -> None:
    from kbench.harness.cuda import CudaModule

    for problem_id in ("max_pool1d", "stencil_3d"):
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
    definition = problem("conv2d_relu_hardswish")
    path = tmp_path / "kernel.py"
    path.write_text(source_of("conv_gemm_triton", definition.id, seed=7))
    specs = [spec for spec in definition.inputs(definition.sizes[0].params) if isinstance(spec, TensorSpec)]
    inputs = [torch.empty(spec.shape, dtype=getattr(torch, spec.dtype), device="meta") for spec in specs]
    module = loaded(path, f"kernel_{target}")
    with compile_only(Target.named(target), tmp_path / "cache") as compiled:
        module.run(*inputs)
    assert compiled


@pytest.mark.gpu
@pytest.mark.parametrize("backend", [Backend.TRITON, Backend.CUDA])
def test_nine_in_ten_sampled_kernels_are_right_on_a_gpu(backend: Backend, tmp_path: Path) -> None:
    wrong = []
    count = 0
    for problem_id in PROBLEMS:
        definition = problem(problem_id)
        for number, text in enumerate(sources(problem_id, backend, 3, seed=8)):
            path = tmp_path / f"{problem_id}_{number}.py"
            path.write_text(text)
            for size in (definition.tiny, *definition.sizes):
                inputs = definition.draw(size, seed=13, device="cuda")
                (expected,) = definition.expected(inputs)
                limit = definition.tolerance.atol + definition.tolerance.rtol * expected.abs()
                out = loaded(path, path.stem).run(*inputs)
                count += 1
                if not bool(((out.double() - expected).abs() <= limit).all()):
                    wrong.append(f"{problem_id} {size.name} {number}")
    assert len(wrong) <= 0.1 * count, wrong
