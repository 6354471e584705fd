"""Counting instructions in the PTX that real compilers write."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from kbench.benchmark.problems import problem
from kbench.benchmark.work.table import read_work
from kbench.harness.cuda import CudaModule
from kbench.harness.kernel.sources import read_kernel
from kbench.harness.plan.cache import Build, BuildCache
from kbench.harness.plan.instructions import CLASSES, TOTAL, largest_counts, read_instructions
from kbench.harness.plan.planner import Planned
from kbench.harness.plan.triton_calls import Machinery, ptx_kept

KERNELS = Path(__file__).parent / "kernels"
SOURCE = r"""
#include <mma.h>
using namespace nvcuda;

extern "C" __global__ void rows(const float4* x, float4* y, const int* at, int* seen, int n) {
    __shared__ float kept[256];
    int i = blockIdx.x * 256 + threadIdx.x;
    if (i >= n) return;
    float4 v = x[at[i]];
    kept[threadIdx.x] = v.x;
    __syncthreads();
    v.y = rsqrtf(v.y) * v.z + kept[255 - threadIdx.x];
    v.z = __shfl_xor_sync(0xffffffffu, v.z, 16);
    v.w = v.w > 0.0f ? (float)i : v.w + 1.5f;
    atomicAdd(seen, 1);
    y[i] = v;
}

extern "C" __global__ void product(const half* a, const half* b, float* c) {
    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> left;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> right;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> sum;
    wmma::fill_fragment(sum, 0.0f);
    wmma::load_matrix_sync(left, a, 16);
    wmma::load_matrix_sync(right, b, 16);
    wmma::mma_sync(sum, left, right, sum);
    wmma::store_matrix_sync(c, sum, 16, wmma::mem_row_major);
}

extern "C" __global__ void copies(const float* x, float* y) {
    extern __shared__ float tile[];
    unsigned int to = (unsigned int)__cvta_generic_to_shared(tile + threadIdx.x * 4);
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;\n" :: "r"(to), "l"(x + threadIdx.x * 4));
    asm volatile("{ cp.async.commit_group; cp.async.wait_group 0; }\n" ::: "memory");
    __syncthreads();
    y[threadIdx.x] = tile[threadIdx.x];
}
"""


@pytest.fixture(scope="module")
def cuda() -> dict[str, dict[str, int]]:
    return read_instructions(CudaModule(SOURCE).compile_with_ptx("sm_90a")[1])


def test_a_cuda_kernels_instructions_are_counted_by_class(cuda: dict[str, dict[str, int]]) -> None:
    assert list(cuda) == ["rows", "product", "copies"]
    found = cuda["rows"]
    assert set(found) == set(CLASSES)
    expected = {
        "global_loads": 2, "vector_loads": 1, "global_stores": 1, "vector_stores": 1, "shared_loads": 1,
        "shared_stores": 1, "fused": 1, "special": 1, "shuffles": 1, "barriers": 1, "atomics": 1, "conversions": 1,
        "branches": 1, "matrix": 0, "async_copies": 0, "float": 1,
    }  # fmt: skip
    assert {name: found[name] for name in expected} == expected
    assert found["comparisons"] >= 3
    assert found[TOTAL] > sum(expected.values())


def test_matrix_fragments_are_loads_stores_and_a_product(cuda: dict[str, dict[str, int]]) -> None:
    found = cuda["product"]
    assert (found["global_loads"], found["matrix"], found["global_stores"]) == (2, 1, 1)


def test_copies_in_inline_assembly_are_told_from_waiting_for_them(cuda: dict[str, dict[str, int]]) -> None:
    found = cuda["copies"]
    assert (found["async_copies"], found["barriers"]) == (1, 3)
    assert (found["shared_loads"], found["global_stores"]) == (1, 1)


def test_a_triton_kernels_instructions_are_those_of_its_text(plan: Callable[..., Planned], tmp_path: Path) -> None:
    kernel = read_kernel(KERNELS / "gelu_triton.py", "gelu_tanh")
    machinery = Machinery()
    with ptx_kept(machinery):
        assert plan(kernel, cache=tmp_path).error is None
    # The function for sizes that are multiples of sixteen has wide loads.
    text = max(machinery.ptx.values(), key=lambda one: len(re.findall(r"\bld\.global\.v4", one)))
    (found,) = read_instructions(text).values()
    assert found["global_loads"] == len(re.findall(r"\bld\.global", text))
    assert found["vector_loads"] == len(re.findall(r"\bld\.global\.v[24]", text)) > 0
    assert found["vector_stores"] == len(re.findall(r"\bst\.global\.v[24]", text)) > 0
    assert found["special"] == len(re.findall(r"\b(?:ex2|div)\.", text)) > 0
    assert found["fused"] == len(re.findall(r"\bfma\.", text))
    statements = [line for line in text.splitlines() if re.match(r"\s*(?:@!?%p\d+ )?[a-z][\w.:]+ ?[^:]*;", line)]
    assert found[TOTAL] == len(statements)


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {%f1, %f2}, %rd1, %rd2, p, 1, 1, 0, 0;", "matrix"),
        ("wgmma.wait_group.sync.aligned 0;", "barriers"),
        ("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f1}, {%r1}, {%r2}, {%f1};", "matrix"),
        ("@!%p3 bra $L__BB0_4;", "branches"),
        ("$L__BB0_2: mad.lo.s32 %r1, %r2, %r3, %r4;", "integer"),
        ("max.NaN.f32 %f1, %f2, %f3;", "float"),
        ("fma.rn.bf16x2 %r1, %r2, %r3, %r4;", "fused"),
        ("ld.volatile.shared::cta.v4.f32 {%f1, %f2, %f3, %f4}, [%r1];", "shared_loads"),
        ("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%rd1], [%r2];",
         "async_copies"),
        ("red.global.add.f32 [%rd1], %f1;", "atomics"),
    ],
)  # fmt: skip
def test_an_instruction_is_of_its_class_alone(line: str, kind: str) -> None:
    (found,) = read_instructions(
        f".visible .entry k(\n.param .u64 p\n)\n{{\n\t.loc 1 2 3\n\t{line} // why\n}}"
    ).values()
    assert {name for name, count in found.items() if count} == {kind, TOTAL}


def test_declarations_calls_and_debugging_sections_are_no_instructions() -> None:
    text = """
.extern .func (.param .b32 out) vprintf
(
	.param .b64 a
)
;
.global .align 1 .b8 words[3] = {104, 105, 0};
.visible .entry k()
{
	call.uni (out),
	vprintf,
	(
	a
	);
	ret;
}
	.section .debug_abbrev
	{
.b8 1
	}
"""
    assert list(read_instructions(text)) == ["k"]
    assert read_instructions(text)["k"][TOTAL] == 2


def test_the_largest_of_each_count_is_kept(cuda: dict[str, dict[str, int]]) -> None:
    found = largest_counts(cuda.values())
    assert (found["matrix"], found["async_copies"], found["vector_loads"]) == (1, 1, 1)
    assert largest_counts([]) == {}


@pytest.mark.parametrize("name", ["gelu_triton.py", "gelu_cuda.py"])
def test_the_mix_is_that_of_the_timed_workloads_and_counted_when_asked_for(
    name: str, plan: Callable[..., Planned], tmp_path: Path
) -> None:
    kernel = read_kernel(KERNELS / name, "gelu_tanh")
    whole, plain = plan(kernel, mix=True, cache=tmp_path), plan(kernel)
    assert plain.instructions is None
    assert whole.instructions is not None
    assert whole.instructions[TOTAL] > 0
    assert (whole.instructions["vector_loads"] > 0) == (name == "gelu_triton.py"), "the tiny workload has narrow loads"
    assert whole.cubins == plain.cubins
    assert plain.work is None
    assert whole.work is not None
    sizes = {size.name: size for size in problem("gelu_tanh").sizes}
    assert whole.work.keys() == sizes.keys(), "the tiny workload is not timed"
    for name, (data,) in whole.work.items():
        work = read_work(data)
        assert work.errors == ()
        assert work.launches[0].registers > 0
        # Every element is read and written once.
        specs = problem("gelu_tanh").inputs(sizes[name].params)
        (nbytes,) = (math.prod(spec.shape) * getattr(torch, spec.dtype).itemsize for spec in specs)
        assert work.total.l2_bytes == pytest.approx(2 * nbytes, rel=0.05)


def test_a_stored_build_is_completed_when_its_mix_is_known(tmp_path: Path) -> None:
    cache = BuildCache(tmp_path)
    plain, whole = Build("b", code=("c",)), Build("b", code=("c",), instructions={TOTAL: 3})
    assert plain.answers(mix=False)
    assert not plain.answers(mix=True)
    for made in (plain, whole):
        cache.put(made, {"c": b"code"})
        assert cache.get("b") == made
    assert [Path(path).read_bytes() for path in cache.code_files(whole).values()] == [b"code"]
    assert not list(cache.builds.glob("tmp.*"))
    assert Build("b", "compile_error", "why").answers(mix=True), "what does not compile has no mix"


def test_a_second_build_with_other_code_leaves_no_record_without_its_code(tmp_path: Path) -> None:
    cache = BuildCache(tmp_path)
    for code, mix in (("a" * 64, None), ("b" * 64, {"mma": 1})):
        cache.put(Build("0" * 32, code=(code,), instructions=mix), {code: code.encode()})
    build = cache.get("0" * 32)
    assert build is not None
    assert build.instructions == {"mma": 1}
    assert [Path(path).read_bytes() for path in cache.code_files(build).values()] == [b"b" * 64]
