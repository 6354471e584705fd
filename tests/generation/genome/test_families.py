"""Genome families of all problems: coverage, variety, validity, answers on a CPU, machine code for three GPUs."""

import json
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from kbench.benchmark.problems.compare import compare
from kbench.benchmark.problems.foreign.user_code import import_file
from kbench.benchmark.problems.registry import known, problem
from kbench.benchmark.problems.tuned import PREFIX, SHAPES
from kbench.generation.proposers.genome.template import Family, cross, families, families_for, mutate, sample
from kbench.harness.device.target import H200, Target
from kbench.harness.kernel.sources import advice
from kbench.harness.plan.planner import plan_kernel
from kbench.loaders.source.structure import structure_id
from kbench.schemas import Backend, KernelSource

EMULATION = Path(__file__).parent / "emulation"
BACKENDS = (Backend.TRITON, Backend.CUDA)
TARGETS = ("sm_80", "sm_90", "sm_100")
INTERPRETED = (
    "matmul_irregular", "matmul_upper_triangular", "linear_swish_sum_group_norm", "grouped_gemm", "swish", "geglu",
    "log_softmax", "mean_reduce", "masked_cumsum", "cross_entropy_loss", "layernorm_backward",
    "conv1d_dilated_strided", "transposed_conv1d", "causal_conv1d", "max_pool2d", "scatter_add", "spmv_csr",
    "tridiagonal_solve", "linear_residual_bf16", "int8_weight_swiglu", "fp8_block_decode", "moe_layer", "moe_swiglu_up",
    "paged_gqa_decode", "mla_decode", "attention_varlen_prefill", "layer_norm", "mamba2_scan", "gated_delta_decode",
    "rope_cache_write", "adamw_step",
)  # fmt: skip
"""One problem of most Triton families, of those that the interpreter runs quickly."""
EMULATED = ("linear_gelu_softmax", "transposed_conv3d_grouped", "avg_pool3d", "spmv_csr", "transpose")
"""CUDA kernels the CPU emulator can run."""
SLOW_COMPILES = frozenset({"fft_triton", "top_k_triton", "sort_triton", "trimul_triton", "prefill_triton"})


TEMPLATED = {name: one for name, one in known().items() if not one.sizes[0].model and one.family != "season"}
"""Problems that have genome families: all but the layers of named models, whose kernels are written."""


def sources(problem_id: str, backend: Backend, count: int, seed: int) -> list[str]:
    """Sampled kernels, families in turn."""
    rng = random.Random(f"{problem_id} {seed}")
    found = families_for(problem_id, backend)
    drawn = [found[index % len(found)] for index in range(count)]
    return [family.render(problem_id, sample(family, problem_id, rng)) for family in drawn]


def test_every_problem_has_a_family_in_each_backend() -> None:
    assert [(p, b) for p in TEMPLATED for b in BACKENDS if not families_for(p, b)] == []


@pytest.mark.parametrize("backend", BACKENDS)
def test_sampled_kernels_differ_take_the_problems_inputs_and_can_be_planned(backend: Backend) -> None:
    for problem_id, definition in TEMPLATED.items():
        texts = sources(problem_id, backend, 6, seed=1)
        assert len(set(texts)) >= 5, problem_id
        assert len({structure_id(text) for text in texts[:4]}) >= 2, problem_id
        assert advice(texts[0]) is None, problem_id
        signature = texts[0][texts[0].index("def run(") + len("def run(") :].split("):")[0]
        assert len(signature.split(",")) == len(definition.inputs(definition.tiny.params)), problem_id


def test_children_of_valid_genomes_are_valid_and_render_to_the_same_text_twice() -> None:
    rng = random.Random(2)
    for family in families().values():
        for problem_id in family.problems[:3]:
            one, other = sample(family, problem_id, rng), sample(family, problem_id, rng)
            for child in (mutate(family, problem_id, one, rng), cross(family, problem_id, one, other, rng)):
                assert family.invalid(problem_id, child) is None
                assert list(child) == [gene.name for gene in family.genes(problem_id)]
                assert family.render(problem_id, child) == family.render(problem_id, dict(child))


def test_sampled_triton_kernels_are_right_in_the_interpreter() -> None:
    tasks = [{"problem": name, "source": sources(name, Backend.TRITON, 1, seed=4)[0]} for name in INTERPRETED]
    done = subprocess.run(
        [sys.executable, str(EMULATION / "interpret.py")],
        input="\n".join(map(json.dumps, tasks)),
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "TRITON_INTERPRET": "1", "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert done.returncode == 0, done.stderr
    errors = dict(zip(INTERPRETED, map(json.loads, done.stdout.split()), strict=True))
    assert {name: error for name, error in errors.items() if error > 1.0} == {}


@pytest.mark.parametrize("problem_id", EMULATED)
def test_a_sampled_cuda_kernel_is_right_on_the_emulated_gpu(problem_id: str, tmp_path: Path) -> None:
    emulator = import_file(EMULATION / "emulator.py")
    definition = problem(problem_id)
    run = emulator.load(sources(problem_id, Backend.CUDA, 1, seed=5)[0], tmp_path)
    inputs = definition.draw(definition.tiny, seed=12)
    found = compare(
        run(*inputs), definition.expected(inputs), definition.tolerance, definition.outputs(definition.tiny.params)
    )
    assert found.ok, found.reason


def compiled(family: Family, target: str, folder: Path) -> str | None:
    """What the compiler says of one sampled kernel; None when it is content."""
    problem_id = family.problems[0]
    text = family.render(problem_id, sample(family, problem_id, random.Random(family.name)))
    return plan_kernel(KernelSource(problem_id, family.backend, text), Target.named(target), H200, folder).error


def test_sampled_cuda_families_compile_without_a_gpu(tmp_path: Path) -> None:
    """Every second family takes the three targets in turn."""
    chosen = [family for family in families().values() if family.backend is Backend.CUDA]
    errors = {f.name: compiled(f, TARGETS[i % 3], tmp_path) for i, f in enumerate(chosen[::2])}
    assert {name: error for name, error in errors.items() if error} == {}


@pytest.mark.filterwarnings("ignore:TRITON_DEFAULT_FP_FUSION")
def test_sampled_triton_families_compile_without_a_gpu(tmp_path: Path) -> None:
    """Every eighth family, those that compile for long left out, takes the three targets in turn."""
    quick = [f for f in families().values() if f.backend is Backend.TRITON and f.name not in SLOW_COMPILES]
    errors = {f.name: compiled(f, TARGETS[i % 3], tmp_path) for i, f in enumerate(quick[::8])}
    assert {name: error for name, error in errors.items() if error} == {}


@pytest.mark.gpu
@pytest.mark.parametrize("backend", BACKENDS)
def test_nine_in_ten_sampled_kernels_are_right_on_a_gpu(backend: Backend, tmp_path: Path) -> None:
    wrong, count = [], 0
    for problem_id, definition in TEMPLATED.items():
        for number, text in enumerate(sources(problem_id, backend, 3, seed=8)):
            path = tmp_path / f"{problem_id}_{number}.py"
            path.write_text(text)
            run = import_file(path).run
            for size in (definition.tiny, *definition.sizes):
                inputs = definition.draw(size, seed=13, device="cuda")
                specs = definition.outputs(size.params)
                count += 1
                if not compare(run(*inputs), definition.expected(inputs), definition.tolerance, specs).ok:
                    wrong.append(f"{problem_id} {size.name} {number}")
    assert len(wrong) <= 0.1 * count, wrong


TUNED = [family for family in families().values() if family.name.endswith("_tuned")]


def test_each_problem_has_one_family_and_shapes() -> None:
    assert sorted(name for family in TUNED for name in family.problems) == sorted(SHAPES)


@pytest.mark.parametrize("problem_id", SHAPES)
def test_a_problem_is_tuned_at_a_dozen_shapes_that_leave_all_else_as_it_was(problem_id: str) -> None:
    one, other = problem(PREFIX + problem_id), known()[problem_id]
    assert len({size.name for size in one.sizes}) == len(one.sizes) >= 12
    assert all(set(size.params) >= set(other.tiny.params) - {"full"} for size in one.sizes)
    assert (one.reference, one.tolerance, one.cases, one.tiny) == (
        other.reference,
        other.tolerance,
        other.cases,
        other.tiny,
    )
    assert len({size.params[SHAPES[problem_id].batch] for size in one.sizes}) >= 9
