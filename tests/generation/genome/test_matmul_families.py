"""Genome families of the dense-algebra problems: coverage, variety, answers on a CPU, machine code for three GPUs."""

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

from kbench.benchmark.problems import fused_matmul, matmul, quantized_matmul
from kbench.benchmark.problems.inputs import TensorSpec
from kbench.benchmark.problems.registry import problem
from kbench.generation.proposers.genome.family import sample
from kbench.generation.proposers.genome.registry import families_for
from kbench.harness.build.target import Target
from kbench.harness.build.triton_target import compile_only
from kbench.harness.screen import screen
from kbench.schemas import Backend
from kbench.schemas.ids import structure_id

EMULATION = Path(__file__).parent / "emulation"
PROBLEMS = [p.id for group in (matmul, fused_matmul, quantized_matmul) for p in group.PROBLEMS]
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


@pytest.mark.parametrize("backend", [Backend.TRITON, Backend.CUDA])
def test_every_dense_algebra_problem_has_kernels_that_pass_the_screen(backend: Backend) -> None:
    faults = {p: screen(sources(p, backend, 1, seed=1)[0]) for p in PROBLEMS}
    assert {p: fault for p, fault in faults.items() if fault} == {}


@pytest.mark.parametrize("backend", [Backend.TRITON, Backend.CUDA])
@pytest.mark.parametrize("problem_id", ["matmul_vector", "grouped_gemm"])
def test_sampled_genomes_differ_in_structure(problem_id: str, backend: Backend) -> None:
    texts = sources(problem_id, backend, 16, seed=1)
    assert len(set(texts)) >= 15
    assert len({structure_id(text) for text in texts}) >= 8


def test_equal_genomes_give_equal_text() -> None:
    for problem_id in ("matmul_square", "int4_weight_gemm"):
        for backend in (Backend.TRITON, Backend.CUDA):
            assert sources(problem_id, backend, 3, seed=2) == sources(problem_id, backend, 3, seed=2)


def test_sampled_triton_kernels_are_right_in_the_interpreter() -> None:
    chosen = (
        "matmul_irregular", "matmul_upper_triangular", "linear_swish_sum_group_norm", "grouped_gemm",
    )  # fmt: skip
    tasks = [{"problem": p, "source": sources(p, Backend.TRITON, 1, seed=3)[0]} for p in chosen]
    done = subprocess.run(
        [sys.executable, str(EMULATION / "interpret.py")],
        input="\n".join(map(json.dumps, tasks)),
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "TRITON_INTERPRET": "1", "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert done.returncode == 0, done.stderr
    errors = dict(zip(chosen, map(json.loads, done.stdout.split()), strict=True))
    assert {name: error for name, error in errors.items() if error > 1.0} == {}


@pytest.mark.parametrize("problem_id", ["linear_gelu_softmax"])
def test_a_sampled_cuda_kernel_is_right_on_the_emulated_gpu(problem_id: str, tmp_path: Path) -> None:
    emulator = loaded(EMULATION / "emulator.py", "emulator")
    definition = problem(problem_id)
    run = emulator.load(sources(problem_id, Backend.CUDA, 1, seed=4)[0], tmp_path)
    inputs = definition.draw(definition.tiny, seed=12)
    (expected,) = definition.expected(inputs)
    out = run(*inputs)
    limit = definition.tolerance.atol + definition.tolerance.rtol * expected.abs()
    assert bool(((out.double() - expected).abs() <= limit).all())


@pytest.mark.parametrize("target", TARGETS)
def test_sampled_cuda_kernels_compile(target: str) -> None:
    from kbench.harness.cuda import CudaModule

    for problem_id in ("fp8_gemm",):
        before = len(CudaModule.declared)
        exec(compile(sources(problem_id, Backend.CUDA, 1, seed=5)[0], "<kernel>", "exec"), {})
        declared = CudaModule.declared[before:]
        assert declared
        for module in declared:
            assert len(module.compile(Target.named(target).nvrtc).code) > 1000


@pytest.mark.filterwarnings("ignore:TRITON_DEFAULT_FP_FUSION")
@pytest.mark.parametrize("target", TARGETS)
def test_a_sampled_triton_kernel_compiles(target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("TRITON_STORE_BINARY_ONLY", "1")
    definition = problem("fp8_gemm")
    path = tmp_path / "kernel.py"
    path.write_text(sources("fp8_gemm", Backend.TRITON, 1, seed=6)[0])
    specs = [spec for spec in definition.inputs(definition.sizes[0].params) if isinstance(spec, TensorSpec)]
    inputs = [torch.empty(spec.shape, dtype=getattr(torch, spec.dtype), device="meta") for spec in specs]
    module = loaded(path, f"kernel_{target}")
    with compile_only(Target.named(target), tmp_path / "cache") as compiled:
        module.run(*inputs)
    assert "product" in [kernel.metadata.name for kernel in compiled]


@pytest.mark.gpu
@pytest.mark.parametrize("backend", [Backend.TRITON, Backend.CUDA])
@pytest.mark.parametrize("problem_id", PROBLEMS)
def test_sampled_kernels_are_right_on_the_gpu(problem_id: str, backend: Backend, tmp_path: Path) -> None:
    definition = problem(problem_id)
    wrong = []
    for index, text in enumerate(sources(problem_id, backend, 6, seed=7)):
        path = tmp_path / f"kernel_{index}.py"
        path.write_text(text)
        run = loaded(path, f"{problem_id}_{backend}_{index}").run
        for size in (definition.tiny, *definition.sizes):
            inputs = definition.draw(size, seed=13, device="cuda")
            (expected,) = definition.expected(inputs)
            out = run(*inputs).double()
            limit = definition.tolerance.atol + definition.tolerance.rtol * expected.abs()
            excess = float(((out - expected).abs() / limit).nan_to_num(1e9).max())
            if not excess <= 1.0:
                wrong.append((index, size.name, excess))
    assert wrong == []
