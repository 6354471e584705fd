"""Building without a GPU, and what machine code says about itself."""

import dataclasses
import math
import re
import signal
import struct
import subprocess
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from honest_kernels import CUDA, TRITON, gelu

from kbench.benchmark.problems import problem
from kbench.benchmark.work.table import read_work
from kbench.harness.cuda import CudaModule
from kbench.harness.device.target import Target
from kbench.harness.isolate.limits import verdict_on_death
from kbench.harness.plan.accept import KEPT_BYTES, _refuse_state
from kbench.harness.plan.cache import Build, BuildCache
from kbench.harness.plan.planner import Planned
from kbench.harness.plan.resources import (
    CLASSES,
    TOTAL,
    count_instructions,
    kept_bytes,
    read_resources,
    read_variables,
    stack_bytes,
    uses_heap,
)
from kbench.schemas import DataError, Status, UnknownNameError

SPILLING = r"""
extern "C" __global__ void __launch_bounds__(1024, 2) spill(float* x, int n) {
    __shared__ float tile[512];
    float v[96];
    for (int k = 0; k < 96; ++k) v[k] = x[k * n + threadIdx.x];
    for (int r = 0; r < n; ++r) for (int k = 0; k < 96; ++k) v[k] = v[k] * v[(k + r) % 96] + v[(k * 7 + 1) % 96];
    for (int k = 0; k < 96; ++k) x[k * n + threadIdx.x] = v[k] + tile[threadIdx.x % 512];
}
"""
Builder = Callable[..., tuple[Build, dict[str, bytes]]]


@pytest.mark.parametrize("target", ["sm_80", "sm_89", "sm_90", "sm_100"])
@pytest.mark.parametrize("path", [TRITON, CUDA], ids=["triton", "cuda"])
def test_both_backends_build_for_every_target_without_a_gpu(path: Path, target: str, build: Builder) -> None:
    made, cubins = build(gelu(path), Target.named(target))
    assert made.error is None
    assert set(made.code) == set(cubins)
    assert 8 <= made.registers <= 64
    assert made.cubin_sha


@pytest.mark.parametrize(
    ("path", "old", "new"), [(CUDA, "tanhf", "tanhq"), (TRITON, "tl.exp(", "tl.no_such_function(")]
)
def test_a_compile_error_says_what_the_compiler_said(path: Path, old: str, new: str, build: Builder) -> None:
    made, cubins = build(gelu(path, old, new))
    assert made.status == Status.COMPILE_ERROR
    assert new.strip("(").removeprefix("tl.") in made.error
    assert not made.unplannable
    assert not cubins


def test_device_variables_are_counted_and_named_and_too_large_ones_refused(build: Builder) -> None:
    head = 'extern "C" __global__'
    kernel = gelu(CUDA, head, f"__device__ int kept[2048];\n__constant__ float half[1];\n{head}")
    small = dataclasses.replace(kernel, source=kernel.source.replace("y[i] =", "kept[i % 2048] = i; y[i] = half[0] +"))
    made, cubins = build(small)
    assert made.error is None
    (cubin,) = cubins.values()
    assert kept_bytes(cubin) == 8192
    assert {variable.name: variable.nbytes for variable in read_variables(cubin)} == {"kept": 8192, "half": 4}
    large, nothing = build(dataclasses.replace(small, source=small.source.replace("2048", "(20 << 20)")))
    assert large.status == Status.REJECTED
    assert str(large.error).startswith(f"has {80 << 20} bytes of device variables, at most {KEPT_BYTES} are allowed")
    assert not nothing


def test_machine_code_that_allocates_on_the_heap_is_refused(build: Builder) -> None:
    made, _ = build(gelu(CUDA, "y[i] =", "int* p = new int[4]; p[i & 3] = i; y[i] = p[1] * 0 +"))
    assert made.status == Status.REJECTED
    assert "heap" in str(made.error)


def state(body: str, target: str = "sm_90a") -> bytearray:
    """Machine code with some device variables."""
    module = CudaModule(f'{body} extern "C" __global__ void f(int* y) {{ one[0] = ++two + *y; }}')
    return bytearray(module.compiled(target).cubin)


@pytest.mark.parametrize("target", ["sm_80", "sm_90a", "sm_100a", "sm_120a"])
def test_variables_that_compilers_describe_are_not_hidden_on_any_target(target: str) -> None:
    code = bytes(state("__device__ int one[3] = {1, 2, 3}, two; __device__ __align__(256) char three;", target))
    _refuse_state({"": code})
    assert {variable.name for variable in read_variables(code)} >= {"one", "two"}


def test_an_unknown_target_is_refused_with_the_nearest_names() -> None:
    with pytest.raises(UnknownNameError, match="sm_90"):
        Target.named("sm_91")
    with pytest.raises(UnknownNameError, match="did you mean 'H100'"):
        Target.named("H1000")


def test_a_target_may_be_named_by_its_gpu() -> None:
    assert [str(Target.named(name)) for name in ("H100", "NVIDIA A100", "B200", "sm_90a")] == [
        "sm_90", "sm_80", "sm_100", "sm_90"
    ]  # fmt: skip


def test_machine_code_states_the_sizes_of_parameters() -> None:
    module = CudaModule(
        "struct S { char bytes[128]; }; template <int N> __global__ void plain(double a) {}"
        'extern "C" __global__ void none() {} '
        'extern "C" __global__ void mixed(const float* x, int n, char c, const __grid_constant__ S s) {}',
        names=("plain<3>",),
    )
    for architecture in ("sm_80", "sm_90a", "sm_100a", "sm_120a"):
        found = read_resources(bytes(module.compile(architecture).code))
        sizes = {name: each.parameters for name, each in found.items()}
        assert sizes.pop("none") == ()
        assert sizes.pop("mixed") == (8, 4, 1, 128)
        assert list(sizes.values()) == [(8,)]


@pytest.mark.parametrize("target", ["sm_80", "sm_90a", "sm_100a"])
def test_shared_memory_of_a_function_is_told_from_what_the_gpu_reserves(target: str) -> None:
    module = CudaModule(r"""extern "C" __global__ void turn(float* x) {
        __shared__ float held[512];
        held[threadIdx.x] = x[threadIdx.x]; __syncthreads(); x[threadIdx.x] = held[511 - threadIdx.x]; }""")
    found = read_resources(module.compiled(target).cubin)["turn"]
    assert found.shared_bytes - found.reserved_bytes == 512 * 4
    assert found.reserved_bytes == (0 if target == "sm_80" else 1024)


def test_a_death_in_verification_says_what_it_probably_was() -> None:
    said = verdict_on_death(-signal.SIGSEGV, "verify tiny")
    assert said[0] is Status.LAUNCH_ERROR
    assert said[1].endswith("reads or writes outside a tensor: a missing mask?")
    assert "mask" not in verdict_on_death(-signal.SIGSEGV, "planning")[1]


@pytest.mark.parametrize("cubin", [b"", b"\x7fELF", b"PK\x03\x04", b"\x7fELF\x01" + bytes(100)])
def test_what_is_no_cubin_is_said_to_be_none(cubin: bytes) -> None:
    for read in (read_resources, read_variables, kept_bytes, uses_heap):
        with pytest.raises(DataError, match="expected a 64-bit ELF file"):
            read(cubin)


def forged(sections: int, name: int, header: int = 64, symbols: int = 0) -> bytes:
    """A file whose sections, or symbols, all have the same name of some length."""
    text = b"A" * name + b"\0"
    table = 64 + len(text)
    start = table + 64 * (sections + 1)
    rows = [struct.pack("<IIQQQQIIQQ", 0, 3, 0, 0, 64, len(text), 0, 0, 0, 0)]
    rows += [struct.pack("<IIQQQQIIQQ", 0, 2, 0, 0, start, 24 * symbols, 0, 0, 0, 0)] * min(symbols, 1)
    rows += [struct.pack("<IIQQQQIIQQ", 0, 1, 0, 0, 0, 0, 0, 0, 0, 0)] * (sections + 1 - len(rows))
    head = b"\x7fELF\x02".ljust(0x28, b"\0") + struct.pack("<Q", table)
    head = head.ljust(0x3A, b"\0") + struct.pack("<HHH", header, sections + 1, 0)
    named = [struct.pack("<IBBHQQ", 0, 1, 0, 0, 0, 8)] * symbols
    return head.ljust(64, b"\0") + text + b"".join(rows) + b"".join(named)


@pytest.mark.parametrize(
    ("cubin", "words"),
    [
        (forged(3, 10, header=0), "section headers of 0 bytes"),
        (forged(3, 70_000), "a name that does not end"),
        (forged(3000, 40_000), "names of far more than its bytes"),
        (forged(1, 40_000, symbols=3000), "names of far more than its bytes"),
    ],
    ids=["headers on one place", "a long name", "sections of one name", "symbols of one name"],
)
def test_names_that_would_fill_the_parents_memory_are_refused(cubin: bytes, words: str) -> None:
    with pytest.raises(DataError, match=words):
        uses_heap(cubin)
    assert uses_heap(forged(3, 10, symbols=2)) is False


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a", "sm_100a"])
def test_resources_read_from_a_cubin_are_what_the_toolkit_reads(arch: str, tmp_path: Path) -> None:
    import triton

    cubin = bytes(CudaModule(SPILLING).compile(arch).code)
    (tmp_path / "x.cubin").write_bytes(cubin)
    tool = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "cuobjdump"
    said = subprocess.run(
        [tool, "--dump-resource-usage", tmp_path / "x.cubin"], check=True, capture_output=True, text=True
    ).stdout
    found = {name: int(value) for name, value in re.findall(r"\b(REG|STACK|SHARED):(\d+)", said)}
    ours = read_resources(cubin)["spill"]
    assert ours.registers == found["REG"]
    assert ours.spill_bytes == found["STACK"]
    assert ours.spill_bytes > 0
    # Newer toolkits count a kilobyte that the system reserves in every block.
    assert found["SHARED"] - ours.shared_bytes in (0, 1024)


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


@pytest.mark.parametrize("path", [TRITON, CUDA], ids=["triton", "cuda"])
def test_the_work_is_that_of_the_timed_workloads_and_counted_when_asked_for(
    path: Path, plan: Callable[..., Planned], tmp_path: Path
) -> None:
    kernel = gelu(path)
    # Not from the cache of other tests, which may have compiled it under other settings.
    whole, plain = plan(kernel, count_work=True, cache=tmp_path / "whole"), plan(kernel, cache=tmp_path / "plain")
    assert whole.cubins == plain.cubins
    assert plain.work is None
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
    assert plain.answers(count_work=False)
    assert not plain.answers(count_work=True)
    for made in (plain, whole):
        cache.put(made, {"c": b"code"})
        assert cache.get("b") == made
    assert Build("b", "compile_error", "why").answers(count_work=True), "what does not compile does no work"


def test_a_second_build_with_other_code_leaves_no_record_without_its_code(tmp_path: Path) -> None:
    cache = BuildCache(tmp_path)
    for code, counts in (("a" * 64, None), ("b" * 64, {"matrix": 1})):
        cache.put(Build("0" * 32, code=(code,), instructions=counts), {code: code.encode()})
    build = cache.get("0" * 32)
    assert build.instructions == {"matrix": 1}
    assert [Path(path).read_bytes() for path in cache.code_files(build).values()] == [b"b" * 64]
    assert not list(cache.builds.glob("tmp.*"))
