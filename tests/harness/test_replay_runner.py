"""Planned kernels on a full device: memory kept for other kernels is given up before one is blamed."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch

from kbench.harness.device.device import CudaDevice
from kbench.harness.worker import replay_runner
from kbench.harness.worker.replay_runner import PlannedKernel


class Full:
    """Stands for contexts on a device that is full until they are given up."""

    def __init__(self, *, enough: bool) -> None:
        self.free, self.enough, self.asked = False, enough, 0

    def keep_only(self, context: Any) -> None:
        self.free, self.asked = self.enough, self.asked + 1


def planned(contexts: Full, monkeypatch: pytest.MonkeyPatch) -> object:
    """The subject of a kernel with one plan."""

    def replay(*given: Any) -> str:
        if not contexts.free:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return "replay"

    monkeypatch.setattr(replay_runner, "Replay", replay)
    kernel = PlannedKernel.__new__(PlannedKernel)
    kernel._plans, kernel._code = {"large": [cast("Any", None)]}, cast("Any", None)
    bench = SimpleNamespace(device=CudaDevice.__new__(CudaDevice), contexts=contexts)
    context = SimpleNamespace(size=SimpleNamespace(name="large"), stages=[])
    return kernel.subject(cast("Any", context), cast("Any", bench))


def test_a_full_device_gives_up_what_is_kept_for_other_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    contexts = Full(enough=True)
    assert planned(contexts, monkeypatch) == "replay"
    assert contexts.asked == 1


def test_a_kernel_larger_than_the_device_fails_for_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(torch.OutOfMemoryError):
        planned(Full(enough=False), monkeypatch)
