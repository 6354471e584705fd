"""Building without a GPU, and what machine code says about itself."""

from __future__ import annotations

import dataclasses
import re
import struct
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from kbench.harness.cuda import CudaModule
from kbench.harness.device.target import Target
from kbench.harness.kernel.sources import read_kernel
from kbench.harness.plan.accept import KEPT_BYTES, _refuse_state
from kbench.harness.plan.cache import Build
from kbench.harness.plan.check import PlanError
from kbench.harness.plan.resources import (
    HiddenMemory,
    hidden_memory,
    kept_bytes,
    read_resources,
    read_variables,
    uses_heap,
)
from kbench.schemas import DataError, KernelSource, Status, UnknownNameError

KERNELS = Path(__file__).parent / "kernels"
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


def changed(name: str, old: str, new: str) -> KernelSource:
    """A kernel with a change that must apply."""
    kernel = read_kernel(KERNELS / name, "gelu_tanh")
    assert old in kernel.source
    return dataclasses.replace(kernel, source=kernel.source.replace(old, new))


@pytest.mark.parametrize("target", ["sm_80", "sm_89", "sm_90", "sm_100"])
@pytest.mark.parametrize("name", ["gelu_triton.py", "gelu_cuda.py"])
def test_both_backends_build_for_every_target_without_a_gpu(name: str, target: str, build: Builder) -> None:
    made, cubins = build(read_kernel(KERNELS / name, "gelu_tanh"), Target.named(target))
    assert made.error is None
    assert set(made.code) == set(cubins)
    assert made.registers is not None
    assert 8 <= made.registers <= 64
    assert made.cubin_sha


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [("gelu_cuda.py", "tanhf", "tanhq"), ("gelu_triton.py", "tl.exp(", "tl.no_such_function(")],
)
def test_a_compile_error_says_what_the_compiler_said(name: str, old: str, new: str, build: Builder) -> None:
    made, cubins = build(changed(name, old, new))
    assert made.status == Status.COMPILE_ERROR
    assert made.error is not None
    assert new.strip("(").removeprefix("tl.") in made.error
    assert not made.unplannable
    assert not cubins


def test_device_variables_are_counted_and_named_and_too_large_ones_refused(build: Builder) -> None:
    head = 'extern "C" __global__'
    kernel = changed("gelu_cuda.py", head, f"__device__ int kept[2048];\n__constant__ float half[1];\n{head}")
    small = dataclasses.replace(kernel, source=kernel.source.replace("y[i] =", "kept[i % 2048] = i; y[i] = half[0] +"))
    made, cubins = build(small)
    assert made.error is None
    (cubin,) = cubins.values()
    assert kept_bytes(cubin) == 8192
    assert {variable.name: variable.nbytes for variable in read_variables(cubin)} == {"kept": 8192, "half": 4}
    large, nothing = build(dataclasses.replace(small, source=small.source.replace("2048", "(20 << 20)")))
    assert large.status == Status.REJECTED
    assert large.error is not None
    assert large.error.startswith(f"has {80 << 20} bytes of device variables, at most {KEPT_BYTES} are allowed")
    assert not nothing


def test_machine_code_that_allocates_on_the_heap_is_refused(build: Builder) -> None:
    made, _ = build(changed("gelu_cuda.py", "y[i] =", "int* p = new int[4]; p[i & 3] = i; y[i] = p[1] * 0 +"))
    assert made.status == Status.REJECTED
    assert made.error is not None
    assert "heap" in made.error


def symbols_of(cubin: bytes) -> dict[str, tuple[int, int]]:
    """Where each symbol's entry lies, and where its name begins in the table of names."""
    table, _, count, _ = struct.unpack_from("<Q", cubin, 0x28) + struct.unpack_from("<HHH", cubin, 0x3A)
    headers = [struct.unpack_from("<IIQQQQIIQQ", cubin, table + 64 * at) for at in range(count)]
    (symbols,) = (header for header in headers if header[1] == 2)
    strings, found = headers[symbols[6]][4], {}
    for at in range(symbols[4], symbols[4] + symbols[5], 24):
        (name,) = struct.unpack_from("<I", cubin, at)
        found[cubin[strings + name : cubin.index(0, strings + name)].decode()] = (at, name)
    return found


def state(body: str, target: str = "sm_90a") -> bytearray:
    """Machine code with some device variables."""
    module = CudaModule(f'{body} extern "C" __global__ void f(int* y) {{ one[0] = ++two + *y; }}')
    return bytearray(module.compiled(target).cubin)


@pytest.mark.parametrize("target", ["sm_80", "sm_90a", "sm_100a", "sm_120a"])
def test_variables_that_compilers_describe_are_not_hidden_on_any_target(target: str) -> None:
    code = bytes(state("__device__ int one[3] = {1, 2, 3}, two; __device__ __align__(256) char three;", target))
    _refuse_state({"": code})
    assert {variable.name for variable in read_variables(code)} >= {"one", "two"}


def test_variables_that_no_symbol_describes_are_refused_however_few() -> None:
    code = state("__device__ int one[4], two;")
    _refuse_state({"": bytes(code)})
    assert hidden_memory(bytes(code)) == []
    for name in ("one", "two"):
        at, _ = symbols_of(code)[name]
        code[at + 4] &= 0xF0
    assert hidden_memory(bytes(code)) == [HiddenMemory(20, beside_variables=False)]
    with pytest.raises(PlanError, match="has 20 bytes of device variables that no symbol names"):
        _refuse_state({"": bytes(code)})


def test_two_variables_of_one_name_are_refused() -> None:
    code = state("__device__ int one[4], two;")
    found = symbols_of(code)
    struct.pack_into("<I", code, found["one"][0], found["two"][1])
    with pytest.raises(PlanError, match="two device variables of one name"):
        _refuse_state({"": bytes(code)})


def test_machine_code_with_a_second_symbol_table_is_refused() -> None:
    code = state("__device__ int one[4], two;")
    table, _, count, _ = struct.unpack_from("<Q", code, 0x28) + struct.unpack_from("<HHH", code, 0x3A)
    kinds = [struct.unpack_from("<I", code, table + 64 * at + 4)[0] for at in range(count)]
    struct.pack_into("<I", code, table + 64 * next(at for at, kind in enumerate(kinds) if kind not in (0, 2)) + 4, 2)
    with pytest.raises(DataError, match="more than one symbol table"):
        uses_heap(bytes(code))


def test_an_unknown_target_is_refused_with_the_nearest_names() -> None:
    with pytest.raises(UnknownNameError, match="sm_90"):
        Target.named("sm_91")


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
