"""Counting instructions in machine code, held against NVIDIA's own disassembler."""

from __future__ import annotations

import math
import re
import subprocess
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from kbench.benchmark.problems import problem
from kbench.benchmark.work.table import read_work
from kbench.harness.cuda import CudaModule
from kbench.harness.kernel.sources import read_kernel
from kbench.harness.plan.cache import Build, BuildCache
from kbench.harness.plan.instructions import CLASSES, TOTAL, count_instructions, largest_counts, stack_bytes
from kbench.harness.plan.planner import Planned
from kbench.harness.plan.resources import Resources, read_resources

KERNELS = Path(__file__).parent / "kernels"
SOURCE = r"""
#include <mma.h>
#include <cuda_fp16.h>
using namespace nvcuda;

extern "C" __global__ void rows(const float4* x, float4* y, const int* at, int* seen, double* d, int n) {
    __shared__ float kept[256];
    __shared__ int found;
    int i = blockIdx.x * 256 + threadIdx.x;
    if (i >= n) return;
    float4 v = x[at[i]];
    kept[threadIdx.x] = v.x;
    atomicAdd(&found, 1);
    __syncthreads();
    v.y = rsqrtf(v.y) * v.z + kept[255 - threadIdx.x];
    v.z = __shfl_xor_sync(0xffffffffu, v.z, 16);
    v.w = v.w > 0.0f ? (float)i : v.w + 1.5f;
    d[i] = fma(d[i], d[i + 1], d[i + 2]);
    y[i] = v;
    if (__any_sync(0xffffffffu, i & 1)) atomicAdd(seen, found);
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

extern "C" __device__ __noinline__ float summed(float x, int n) {
    float v[32], sum = 0;
    for (int k = 0; k < 32; ++k) v[k] = x * k;
    for (int k = 0; k < n; ++k) sum += v[(k * 7) % 32];
    return sum;
}
extern "C" __global__ void stack(float* f, int n) { f[threadIdx.x] = summed(f[threadIdx.x], n) + summed(f[1], n + 1); }
"""
NAMES = {
    "global_loads": "LDG LD", "global_stores": "STG ST", "shared_loads": "LDS LDSM", "shared_stores": "STS STSM",
    "async_copies": "LDGSTS", "matrix": "HMMA", "fused": "FFMA DFMA HFMA2", "special": "MUFU",
    "conversions": "I2F I2FP F2F", "shuffles": "SHFL VOTE VOTEU", "atomics": "ATOMS ATOMG REDG RED ATOM",
    "branches": "BRA CALL RET", "float": "FADD FMUL FMNMX DADD DMUL",
    "barriers": "BAR DEPBAR LDGDEPBAR WARPSYNC MEMBAR",
}  # fmt: skip
"""What the disassembler calls the instructions of a class that occur here."""


@pytest.fixture(scope="module", params=["sm_80", "sm_90a", "sm_100a"])
def cubin(request: pytest.FixtureRequest) -> bytes:
    return CudaModule(SOURCE).compiled(request.param).cubin


def disassembled(cubin: bytes, folder: Path) -> dict[str, list[str]]:
    """Opcodes of every function, with their dotted parts."""
    triton = pytest.importorskip("triton")
    (folder / "code.cubin").write_bytes(cubin)
    tool = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "nvdisasm"
    command = [str(tool), "-c", str(folder / "code.cubin")]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    parts = re.split(r"^\.text\.([\w$]+):", text, flags=re.MULTILINE)
    line = re.compile(r"/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+\s+)?([A-Z][\w.]*)")
    return {name: line.findall(body) for name, body in zip(parts[1::2], parts[2::2], strict=True)}


def test_counts_are_those_of_the_disassembler(cubin: bytes, tmp_path: Path) -> None:
    functions = read_resources(cubin)
    for name, opcodes in disassembled(cubin, tmp_path).items():
        counts = count_instructions(functions[name].code)
        assert set(counts) == set(CLASSES)
        first = Counter(opcode.partition(".")[0] for opcode in opcodes)
        for kind, words in NAMES.items():
            assert counts[kind] == sum(first[word] for word in words.split()), (name, kind)
        wide = [one for one in opcodes if re.match(r"LDG?\b.*\.(64|128)\b", one)]
        assert counts["vector_loads"] == len(wide), name
        assert counts[TOTAL] == len(opcodes) - first["NOP"]


def test_the_stack_that_code_uses_is_at_most_what_it_declares(cubin: bytes) -> None:
    functions = read_resources(cubin)
    used = {name: stack_bytes(function.code) for name, function in functions.items()}
    assert used["rows"] == used["copies"] == 0
    assert 0 < used["stack"] <= functions["stack"].spill_bytes
    assert used["stack"] >= 128


def test_the_largest_of_each_count_is_kept(cubin: bytes) -> None:
    functions: dict[str, Resources] = read_resources(cubin)
    found = largest_counts(count_instructions(function.code) for function in functions.values())
    assert found["matrix"] > 0
    assert found["async_copies"] == 1
    assert largest_counts([]) == {}


@pytest.mark.parametrize("name", ["gelu_triton.py", "gelu_cuda.py"])
def test_the_work_is_that_of_the_timed_workloads_and_counted_when_asked_for(
    name: str, plan: Callable[..., Planned], tmp_path: Path
) -> None:
    kernel = read_kernel(KERNELS / name, "gelu_tanh")
    whole, plain = plan(kernel, mix=True, cache=tmp_path), plan(kernel)
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


def test_a_stored_build_is_completed_when_its_work_is_known(tmp_path: Path) -> None:
    cache = BuildCache(tmp_path)
    plain, whole = Build("b", code=("c",)), Build("b", code=("c",), work={})
    assert plain.answers(mix=False)
    assert not plain.answers(mix=True)
    for made in (plain, whole):
        cache.put(made, {"c": b"code"})
        assert cache.get("b") == made
    assert Build("b", "compile_error", "why").answers(mix=True), "what does not compile does no work"


def test_a_second_build_with_other_code_leaves_no_record_without_its_code(tmp_path: Path) -> None:
    cache = BuildCache(tmp_path)
    for code, counts in (("a" * 64, None), ("b" * 64, {"matrix": 1})):
        cache.put(Build("0" * 32, code=(code,), instructions=counts), {code: code.encode()})
    build = cache.get("0" * 32)
    assert build is not None
    assert build.instructions == {"matrix": 1}
    assert [Path(path).read_bytes() for path in cache.code_files(build).values()] == [b"b" * 64]
    assert not list(cache.builds.glob("tmp.*"))
