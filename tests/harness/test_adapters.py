"""Kernels in other suites' forms."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from kbench.harness.adapters import adapter_for
from kbench.harness.harness import Harness
from kbench.harness.loading import LoadedKernel
from kbench.schemas import Backend, KernelSource, Status

MODEL = """
import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(width))

    def forward(self, x):
        return x * self.weight


def get_init_inputs():
    return [4]
"""
CUSTOM = """
import torch


def custom_kernel(data):
    (x,) = data
    return torch.nn.functional.gelu(x, approximate="tanh")
"""


def test_forms_are_told_apart() -> None:
    assert adapter_for(MODEL) == "ModelNew"
    assert adapter_for(CUSTOM) == "custom_kernel"
    assert adapter_for(CUSTOM + "\ndef run(x):\n    return x\n") is None
    assert adapter_for("def run(x:") is None


def test_a_models_parameters_are_the_inputs_it_does_not_take() -> None:
    loaded = LoadedKernel(KernelSource("any", Backend.CUDA, MODEL))
    x, weight = torch.ones(3, 4), torch.arange(4.0)
    with torch.no_grad():
        assert torch.equal(loaded.run(x, weight), x * weight)
        assert torch.equal(loaded.run(x, weight + 1), x * (weight + 1))
    loaded.unload()


@pytest.mark.timeout(120)
def test_a_foreign_kernel_runs_alone_without_being_allowed_explicitly(tmp_path: Path) -> None:
    kernel = KernelSource("gelu_tanh", Backend.CUDA, CUSTOM)
    with Harness(gpu=None, cache=tmp_path, workloads=("tiny",), builders=1) as harness:
        (row,) = harness.measure([kernel])
    assert row.status is Status.OK
    assert row.runtime_us is not None
