"""Switches: what a kernel has set for itself holds for it alone."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator

import pytest
import torch

from kbench.benchmark.problems import problem
from kbench.harness.bench import context as contexts
from kbench.harness.bench.context import ContextCache
from kbench.harness.device.device import CpuDevice
from kbench.harness.isolate.switches import Switches
from kbench.harness.timing.rounds import anchor

MATMUL, CUDNN = torch.backends.cuda.matmul, torch.backends.cudnn
CHANGES: dict[str, tuple[Callable[[], object], Callable[[], object]]] = {
    "TF32 of cuBLAS": (lambda: MATMUL.allow_tf32, lambda: setattr(MATMUL, "allow_tf32", True)),
    "TF32 by precision": (lambda: MATMUL.allow_tf32, lambda: torch.set_float32_matmul_precision("high")),
    "TF32 of cuDNN": (lambda: CUDNN.allow_tf32, lambda: setattr(CUDNN, "allow_tf32", True)),
    "cuDNN": (lambda: CUDNN.enabled, lambda: setattr(CUDNN, "enabled", False)),
    "attention": (
        torch.backends.cuda.flash_sdp_enabled, lambda: torch.backends.cuda.enable_flash_sdp(False),
    ),
    "determinism": (
        torch.are_deterministic_algorithms_enabled, lambda: torch.use_deterministic_algorithms(True),
    ),
    "default type": (torch.get_default_dtype, lambda: torch.set_default_dtype(torch.float16)),
    "gradients": (torch.is_grad_enabled, lambda: torch.set_grad_enabled(False)),
    "autocast": (lambda: torch.is_autocast_enabled("cuda"), lambda: torch.set_autocast_enabled("cuda", True)),
}  # fmt: skip


@pytest.fixture
def switches() -> Iterator[Switches]:
    """As the harness sets them; put back afterwards."""
    before = Switches()
    MATMUL.allow_tf32 = CUDNN.allow_tf32 = False
    torch.set_grad_enabled(True)  # timing references in this process turns them off
    yield Switches()
    before.restore()


@pytest.mark.parametrize("name", CHANGES)
def test_our_settings_hold_for_a_while_and_theirs_come_back(switches: Switches, name: str) -> None:
    read, change = CHANGES[name]
    ours = read()
    change()
    theirs = read()
    assert theirs != ours
    with switches.ours():
        assert read() == ours
    assert read() == theirs
    with pytest.raises(ValueError, match="broke"), switches.ours():
        raise ValueError("broke")
    assert read() == theirs


def test_references_answers_and_inputs_are_computed_with_our_settings_in_contexts_made_before_too(
    switches: Switches, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[torch.dtype] = []
    plain = problem("gelu_tanh")

    def reference(x: torch.Tensor) -> torch.Tensor:
        seen.append(torch.get_default_dtype())
        answer: torch.Tensor = plain.reference(x)
        return answer

    monkeypatch.setattr(contexts, "problem", lambda _: dataclasses.replace(plain, reference=reference))
    cache = ContextCache(CpuDevice(), 1 << 30, (1, 2))
    context = cache.get("gelu_tanh", plain.tiny)
    torch.set_default_dtype(torch.float64)
    anchor(context).call(0)
    cache.settings = switches.ours
    anchor(context).call(0)
    context.references[0].expected()
    context.held_out().expected()
    assert seen == [torch.float64, torch.float32, torch.float32, torch.float32]
    assert torch.get_default_dtype() == torch.float64
