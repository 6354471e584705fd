"""The compiler offered to surrogates: real builds in the harness's processes, nothing run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from kbench.cli import cli, harness_compiler
from kbench.generation.executors.compiler import compiler_facts
from kbench.schemas import Backend, KernelSource

SOURCE = '''import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
extern "C" __global__ void relu(const float* x, float* y, int count) {
    __shared__ float kept[256];
    int i = blockIdx.x * 256 + threadIdx.x;
    kept[threadIdx.x] = i < count ? x[i] : 0.0f;
    __syncthreads();
    if (i < count) y[i] = fmaxf(kept[255 - threadIdx.x], 0.0f);
}
""")


def run(x):
    y = torch.empty_like(x)
    module.launch("relu", grid=(x.numel() + 255) // 256, block=256, args=(x, y, x.numel()))
    return y
'''


def test_resources_come_from_a_build_and_not_from_running(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KBENCH_CACHE", str(tmp_path))
    broken = SOURCE.replace("fmaxf(", "no_such_function(")
    unplannable = SOURCE.replace("return y", "return y.cpu()")
    assert unplannable != SOURCE
    kernels = [KernelSource(problem_id="relu", backend=Backend.CUDA, source=s) for s in (SOURCE, broken, unplannable)]
    built, failed, refused = compiler_facts(kernels, "9.0")
    assert built is not None
    assert built.shared_bytes >= 1024
    assert 0 < built.registers < 64
    assert failed is None
    assert refused is None


def test_commands_that_ask_surrogates_get_the_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def compiler(kernels: Sequence[KernelSource], capability: str) -> list[None]:
        asked.append(capability)
        return [None] * len(kernels)

    monkeypatch.setattr("kbench.generation.executors.compiler.compiler_facts", compiler)
    context = cli.make_context("kbench", ["evaluate"], resilient_parsing=True)
    assert context.obj is harness_compiler
    assert harness_compiler([], "9.0") == []
    assert asked == ["9.0"]
