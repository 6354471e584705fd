"""Building without a GPU."""

from __future__ import annotations

import dataclasses
import re
import subprocess
from pathlib import Path

import pytest
from kbench.harness.plan.builder import build

from kbench.harness.cuda import CudaModule
from kbench.harness.kernel.sources import read_kernel
from kbench.harness.plan.cache import BuildCache
from kbench.harness.plan.resources import kept_bytes, read_resources
from kbench.harness.plan.target import Target
from kbench.schemas import Status, UnknownNameError

KERNELS = Path(__file__).parent / "kernels"
HOSTILE = Path(__file__).parents[1] / "hostile" / "kernels"
SPILLING = r"""
extern "C" __global__ void __launch_bounds__(1024, 2) spill(float* x, int n) {
    __shared__ float tile[512];
    float v[96];
    for (int k = 0; k < 96; ++k) v[k] = x[k * n + threadIdx.x];
    for (int r = 0; r < n; ++r) for (int k = 0; k < 96; ++k) v[k] = v[k] * v[(k + r) % 96] + v[(k * 7 + 1) % 96];
    for (int k = 0; k < 96; ++k) x[k * n + threadIdx.x] = v[k] + tile[threadIdx.x % 512];
}
"""


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> BuildCache:
    return BuildCache(tmp_path_factory.mktemp("builds"))


@pytest.mark.parametrize("target", ["sm_80", "sm_89", "sm_90", "sm_100"])
@pytest.mark.parametrize("name", ["gelu_triton.py", "gelu_cuda.py"])
def test_both_backends_build_for_every_target_without_a_gpu(name: str, target: str, cache: BuildCache) -> None:
    made = build(read_kernel(KERNELS / name, "gelu_tanh"), Target.named(target), cache)
    assert made.error is None
    assert made.ahead_of_time
    assert made.registers is not None
    assert 8 <= made.registers <= 64
    assert made.compile_ms is not None
    assert made.cubin_sha


def test_a_second_build_comes_from_the_cache(cache: BuildCache) -> None:
    kernel = read_kernel(KERNELS / "gelu_cuda.py", "gelu_tanh")
    first = build(kernel, Target.named("sm_90"), cache)
    assert build(kernel, Target.named("sm_90"), cache) == first
    assert set(cache.prebuilt(first)) == set(first.symbols)


def test_a_compile_error_says_what_the_compiler_said(cache: BuildCache) -> None:
    kernel = read_kernel(KERNELS / "gelu_cuda.py", "gelu_tanh")
    broken = dataclasses.replace(kernel, source=kernel.source.replace("tanhf", "tanhq"))
    error = build(broken, Target.named("sm_90"), cache).error
    assert error is not None
    assert "tanhq" in error


def test_a_kernel_that_could_keep_answers_in_device_variables_is_refused_and_one_with_a_ticket_is_not(
    cache: BuildCache,
) -> None:
    kernel = read_kernel(KERNELS / "gelu_cuda.py", "gelu_tanh")
    head = 'extern "C" __global__'
    keeps, counts = (
        dataclasses.replace(
            kernel, source=kernel.source.replace(head, f"__device__ int kept[{size}];\n{head}").replace(
                "y[i] =", f"kept[i % {size}] = i; y[i] ="
            )
        )
        for size in (2048, 16)
    )  # fmt: skip
    refused, built = (build(one, Target.named("sm_90"), cache) for one in (keeps, counts))
    assert refused.status is Status.REJECTED
    assert refused.error is not None
    assert refused.error.startswith("keeps 8192 bytes of device variables between calls, at most 4096 are allowed")
    assert built.error is None
    assert kept_bytes(next(iter(cache.prebuilt(built).values())).cubin) == 64


@pytest.mark.parametrize(
    ("name", "said"),
    [("device_heap.py", "heap"), ("device_cache_by_pointer.py", "bytes of"), ("triton_variables.py", "bytes of")],
)
def test_machine_code_with_room_for_answers_is_refused_whatever_made_it(
    name: str, said: str, cache: BuildCache
) -> None:
    made = build(read_kernel(HOSTILE / name, "gelu_tanh"), Target.named("sm_90"), cache)
    assert made.status is Status.REJECTED
    assert made.error is not None
    assert said in made.error


def test_a_triton_compile_error_is_found_ahead_of_time(cache: BuildCache) -> None:
    kernel = read_kernel(KERNELS / "gelu_triton.py", "gelu_tanh")
    broken = dataclasses.replace(kernel, source=kernel.source.replace("tl.exp(", "tl.no_such_function("))
    error = build(broken, Target.named("sm_90"), cache).error
    assert error is not None
    assert "no_such_function" in error


def test_an_unknown_target_is_refused_with_the_nearest_names() -> None:
    with pytest.raises(UnknownNameError, match="sm_90"):
        Target.named("sm_91")


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
