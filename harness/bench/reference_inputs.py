"""Reference inputs: one draw of a problem's inputs, which no kernel can reach, and on demand its answer."""

from __future__ import annotations

import contextlib
import dataclasses
import secrets
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from kbench.benchmark.problems import ProblemDefinition, Size
from kbench.benchmark.problems.definition import Tolerance, as_tuple

if TYPE_CHECKING:
    from torch import Tensor

    from kbench.harness.device.device import Device


Sums = Callable[[Sequence["Tensor"]], list[int]]
"""A number for each tensor's bytes."""
TorchSettings = Callable[[], contextlib.AbstractContextManager[None]]
"""Sets torch as the harness set it, for a while."""


@dataclasses.dataclass(frozen=True, slots=True)
class Drawing:
    """Which inputs of a problem and size: a seed, and the adversarial case they are drawn for, if any."""

    seed: int
    case: str | None = None

    def inputs(self, definition: ProblemDefinition, size: Size, device: str) -> tuple[Any, ...]:
        """The inputs; equal drawings give equal inputs in every process on the same device."""
        if self.case is None:
            return definition.draw(size, self.seed, device)
        return definition.draw_case(definition.case(self.case), size, self.seed, device)

    def tolerance(self, definition: ProblemDefinition) -> Tolerance:
        """The tolerance of an answer on these inputs."""
        return definition.tolerance if self.case is None else definition.tolerance_of(definition.case(self.case))


class ReferenceInputs:
    """Inputs, and on demand their answer."""

    def __init__(
        self,
        definition: ProblemDefinition,
        size: Size,
        drawing: Drawing,
        device: str,
        *,
        sums: Sums | None = None,
        settings: TorchSettings = contextlib.nullcontext,
    ) -> None:
        """Draw inputs.

        Args:
            definition: the problem.
            size: the workload.
            drawing: which inputs.
            device: where they are kept.
            sums: sums over the bytes of tensors, to be remembered so that damage done by a kernel is noticed.
            settings: how torch is to be set while inputs are drawn and the answer is computed.
        """
        self.drawing = drawing
        self._definition, self._sum, self._settings = definition, sums, settings
        with settings():
            self.inputs = drawing.inputs(definition, size, device)
        self._answer: tuple[Tensor, ...] | None = None
        self._sums = {} if sums is None else {"inputs": sums(tensors(self.inputs))}
        self._input_bytes = nbytes(self.inputs)
        self._nonces: list[int] = []
        """Of what masks the inputs, while they are hidden."""

    @property
    def hidden(self) -> bool:
        """Whether the inputs are unreadable."""
        return bool(self._nonces)

    def hide(self, device: Device) -> None:
        """Queue making the inputs unreadable where they lie."""
        before = tensors(self.inputs)
        self.inputs = tuple(v.contiguous() if hasattr(v, "data_ptr") else v for v in self.inputs)
        used = {tensor.untyped_storage().data_ptr() for tensor in tensors(self.inputs)}
        for old in before:
            if old.untyped_storage().data_ptr() not in used:
                device.erase(old)
        self._nonces = [secrets.randbits(64) for _ in before]
        device.mask(tensors(self.inputs), self._nonces)

    def reveal(self, device: Device) -> None:
        """Queue making hidden inputs readable."""
        nonces, self._nonces = self._nonces, []
        if nonces:
            device.mask(tensors(self.inputs), nonces)

    def expected(self) -> tuple[Tensor, ...]:
        """The answer, computed on first use and kept."""
        if self._answer is None:
            import torch

            with self._settings(), torch.no_grad():
                self._answer = as_tuple(self._definition.expected(self.inputs))
            if self._sum is not None:
                self._sums["answer"] = self._sum(tensors(self._answer))
        return self._answer

    @property
    def sealed_parts(self) -> list[tuple[str, Sequence[Any], list[int]]]:
        """Each part whose bytes are watched: its name, its values, and the sums over their bytes when it was made."""
        parts = {"inputs": self.inputs, "answer": self._answer or ()}
        return [(name, parts[name], before) for name, before in self._sums.items()]

    @property
    def nbytes(self) -> int:
        """Device memory held."""
        return self._input_bytes + nbytes(self._answer or ())


def damaged(references: Sequence[ReferenceInputs], sums: Sums) -> str | None:
    """Which part of which inputs no longer has the bytes it was made with; None when all do.

    Args:
        references: the inputs.
        sums: those they were made with.
    """
    parts = [(at, *part) for at, reference in enumerate(references) for part in reference.sealed_parts]
    sums_now = iter(sums([tensor for _, _, values, _ in parts for tensor in tensors(values)]))
    for at, name, _, before in parts:
        if [next(sums_now) for _ in before] != before:
            return f"{name} of reference inputs {at}"
    return None


def tensors(values: Sequence[Any]) -> list[Tensor]:
    """The tensors among some values."""
    return [value for value in values if hasattr(value, "data_ptr")]


def nbytes(values: Sequence[Any]) -> int:
    """Device memory of the tensors among some values."""
    return int(sum(tensor.numel() * tensor.element_size() for tensor in tensors(values)))
