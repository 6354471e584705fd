"""Leftovers: overwritten, held, and never the inputs."""

from __future__ import annotations

import torch

from kbench.harness.context import Stage
from kbench.harness.device import POISON_BYTE, CpuDevice
from kbench.harness.timing.batch import Sampler, Slot
from kbench.harness.timing.leftovers import HELD, HELD_BYTES, Leftovers


def stage() -> Stage:
    made = Stage((torch.ones(64),))
    made.fill(0, (torch.ones(64),))
    return made


def is_poison(tensor: torch.Tensor) -> bool:
    return bool((tensor.view(-1).view(torch.uint8) == POISON_BYTE).all())


def test_outputs_are_overwritten_and_inputs_are_not() -> None:
    leftovers, inputs = Leftovers(CpuDevice()), stage()
    outputs = (torch.zeros(5), torch.zeros(3, 3, dtype=torch.int64), torch.zeros((), dtype=torch.bool))
    (passed_through,) = inputs.inputs
    leftovers.take((*outputs, passed_through), inputs)
    assert all(map(is_poison, outputs))
    assert inputs.changed((torch.ones(64),)) is None


def test_whatever_else_a_kernel_returns_is_left_alone() -> None:
    class Odd(torch.Tensor):
        pass

    leftovers, gaps, odd = Leftovers(CpuDevice()), torch.zeros(4, 4)[:, ::2], torch.zeros(4).as_subclass(Odd)
    for returned in (None, 7, "text", (gaps, odd, None)):
        leftovers.take(returned, stage())
    assert not gaps.any()
    assert not odd.any()


def test_the_outputs_of_the_latest_calls_lie_in_different_places() -> None:
    leftovers, inputs = Leftovers(CpuDevice()), stage()
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
    leftovers.take(output, stage())
    assert is_poison(output)
    assert len(leftovers._held) == 0


def test_a_sampler_overwrites_what_each_call_returned_behind_its_copies() -> None:
    device, inputs, outputs = CpuDevice(), stage(), [torch.ones(8) for _ in range(4)]
    slots = [Slot("k", 0, lambda o=o: o, after=lambda o: o.clone(), stage=inputs) for o in outputs]
    samples = Sampler(device).run(slots)
    assert all(bool((sample.kept == 1.0).all()) for sample in samples)
    assert all(map(is_poison, outputs))
