"""The whole path on a real GPU."""

from __future__ import annotations

from pathlib import Path

import pytest

from kbench.harness.harness import Harness
from kbench.harness.sources import read_kernel
from kbench.schemas import KernelSource, Status

KERNELS = Path(__file__).parent / "kernels"
pytestmark = pytest.mark.gpu


def wrong_kernel() -> KernelSource:
    source = (KERNELS / "gelu_triton.py").read_text().replace("0.044715", "0.05")
    return KernelSource("gelu_tanh", read_kernel(KERNELS / "gelu_triton.py", "gelu_tanh").backend, source)


def out_of_bounds_kernel() -> KernelSource:
    source = (KERNELS / "gelu_cuda.py").read_text().replace("y[i] =", "y[i + (1ll << 40)] =")
    return KernelSource("gelu_tanh", read_kernel(KERNELS / "gelu_cuda.py", "gelu_tanh").backend, source)


def test_honest_kernels_around_a_wrong_and_a_crashing_one_are_measured(tmp_path: Path) -> None:
    honest = [read_kernel(KERNELS / name, "gelu_tanh") for name in ("gelu_triton.py", "gelu_cuda.py")]
    kernels = [honest[0], wrong_kernel(), out_of_bounds_kernel(), honest[1]]
    with Harness(gpu=0, cache=tmp_path) as harness:
        found = {m.kernel_id: m for m in harness.measure(kernels)}
    statuses = [found[k.kernel_id].status for k in kernels]
    assert statuses == [Status.OK, Status.INCORRECT, Status.LAUNCH_ERROR, Status.OK]
    for kernel in honest:
        row = found[kernel.kernel_id]
        assert row.runtime_us is not None
        assert row.floor_us is not None
        assert row.runtime_us > row.floor_us
        assert row.registers
