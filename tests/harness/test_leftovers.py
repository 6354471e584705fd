"""Leftovers: overwritten, held, and never the inputs."""

import dataclasses
from collections.abc import Callable, Iterator
from typing import ClassVar

import pytest
import torch

from kbench.benchmark.problems import problem
from kbench.harness.bench import context as contexts
from kbench.harness.bench.context import Buffers, ContextCache, check_claims, first_failure
from kbench.harness.bench.reference_inputs import Drawing, ReferenceInputs
from kbench.harness.device.device import POISON_BYTE, CpuDevice
from kbench.harness.timing.batch import Sampler, Slot
from kbench.harness.timing.leftovers import HELD, HELD_BYTES, Leftovers
from kbench.harness.timing.rounds import anchor
from kbench.harness.worker.process_runner import Switches


def buffers() -> Buffers:
    definition = problem("relu")
    reference = ReferenceInputs(definition, definition.tiny, Drawing(1), "cpu")
    made = Buffers(reference.inputs)
    made.fill(reference)
    return made


def is_poison(tensor: torch.Tensor) -> bool:
    return bool((tensor.view(-1).view(torch.uint8) == POISON_BYTE).all())


def test_outputs_are_overwritten_and_inputs_are_not() -> None:
    leftovers, inputs = Leftovers(CpuDevice()), buffers()
    outputs = (torch.zeros(5), torch.zeros(3, 3, dtype=torch.int64), torch.zeros((), dtype=torch.bool))
    (passed_through,) = inputs.inputs
    leftovers.take((*outputs, passed_through), inputs)
    assert all(map(is_poison, outputs))
    assert first_failure(check_claims(CpuDevice(), inputs.claims())) is None


def test_whatever_else_a_kernel_returns_is_left_alone() -> None:
    class Odd(torch.Tensor):
        pass

    leftovers, odd = Leftovers(CpuDevice()), torch.zeros(4).as_subclass(Odd)
    for returned in (None, 7, "text", (odd, None)):
        leftovers.take(returned, buffers())
    assert not odd.any()


def test_all_the_memory_behind_a_view_is_overwritten_and_counts_as_held() -> None:
    leftovers, whole = Leftovers(CpuDevice()), torch.zeros(HELD_BYTES // HELD // 4 + 1)
    leftovers.take((whole[:8], whole.view(-1)[1::2]), buffers())
    assert is_poison(whole)
    assert len(leftovers._held) == 0


def test_the_outputs_of_the_latest_calls_lie_in_different_places() -> None:
    leftovers, inputs = Leftovers(CpuDevice()), buffers()
    places = []
    for _ in range(3 * HELD):
        output = torch.zeros(1024)
        places.append(output.data_ptr())
        leftovers.take(output, inputs)
        del output
    assert all(len(set(places[at : at + HELD])) == HELD for at in range(2 * HELD))


def test_large_outputs_are_overwritten_but_not_held() -> None:
    leftovers = Leftovers(CpuDevice())
    output = torch.zeros(HELD_BYTES // HELD + 1, dtype=torch.uint8)
    leftovers.take(output, buffers())
    assert is_poison(output)
    assert len(leftovers._held) == 0


def test_places_are_made_for_every_output_of_a_call() -> None:
    class Counting(CpuDevice):
        made: ClassVar[list[tuple[int, int]]] = []

        def poison(self, nbytes: int, blocks: int = 2) -> None:
            self.made.append((nbytes, blocks))

    Leftovers(Counting()).reserve([64, 128, 64])
    Leftovers(Counting()).reserve([HELD_BYTES])
    assert Counting.made == [(64, 2 * (HELD + 1)), (128, HELD + 1), (HELD_BYTES, 2)]


def test_nothing_is_held_after_a_call_that_raised() -> None:
    def fail() -> None:
        raise RuntimeError("a kernel's own")

    sampler, inputs = Sampler(CpuDevice()), buffers()
    slots = [Slot("k", 0, lambda: torch.ones(8), buffers=inputs), Slot("k", 0, fail, buffers=inputs)]
    with pytest.raises(RuntimeError, match="own"):
        sampler.run(slots)
    assert len(sampler.leftovers._held) == 0


def test_a_sampler_overwrites_what_each_call_returned_behind_its_copies() -> None:
    device, inputs, outputs = CpuDevice(), buffers(), [torch.ones(8) for _ in range(4)]
    slots = [Slot("k", 0, lambda o=o: o, after=lambda o: o.clone(), buffers=inputs) for o in outputs]
    samples = Sampler(device).run(slots)
    assert all(bool((sample.kept == 1.0).all()) for sample in samples)
    assert all(map(is_poison, outputs))


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
