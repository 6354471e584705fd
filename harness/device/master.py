"""Master: one drawing of a problem's inputs, which no kernel ever holds, with the answer expected for it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from kbench.benchmark.problems import ProblemDefinition
from kbench.benchmark.problems.definition import as_tuple

if TYPE_CHECKING:
    from torch import Tensor


Settings = Callable[[], contextlib.AbstractContextManager[None]]
"""Has torch set as the harness set it, for a while."""


class Master:
    """Inputs, and on demand their answer."""

    def __init__(
        self,
        definition: ProblemDefinition,
        inputs: tuple[Any, ...],
        *,
        sealed: bool = False,
        settings: Settings = contextlib.nullcontext,
    ) -> None:
        """Keep inputs.

        Args:
            definition: the problem.
            inputs: drawn for it.
            sealed: remember sums over the bytes, so that damage done by a kernel is noticed.
            settings: how torch is to be set while the answer is computed.
        """
        self.inputs = inputs
        self._definition, self._sealed, self._settings = definition, sealed, settings
        self._answer: tuple[Tensor, ...] | None = None
        self._sums = {"inputs": sums(inputs)} if sealed else {}

    def expected(self) -> tuple[Tensor, ...]:
        """The answer, computed on first use and kept."""
        if self._answer is None:
            import torch

            with self._settings(), torch.no_grad():
                self._answer = as_tuple(self._definition.expected(self.inputs))
            if self._sealed:
                self._sums["answer"] = sums(self._answer)
        return self._answer

    @property
    def answered(self) -> bool:
        """Whether the answer is in memory."""
        return self._answer is not None

    def forget_answer(self) -> None:
        """Drop the answer, so that nothing in this process holds it."""
        self._answer = None
        self._sums.pop("answer", None)

    def damaged(self) -> str | None:
        """Which part no longer has the bytes it was made with, inputs or answer; None when all is well."""
        for part, before in self._sums.items():
            if sums(self.inputs if part == "inputs" else self.expected()) != before:
                return part
        return None

    @property
    def nbytes(self) -> int:
        """Device memory held."""
        return nbytes((*self.inputs, *(self._answer or ())))


def sums(tensors: Sequence[Any]) -> list[int]:
    """A cheap sum over the bytes of each tensor."""
    import torch

    found = []
    for value in tensors:
        if hasattr(value, "data_ptr"):
            flat = value.reshape(-1).view(torch.uint8)
            whole = flat.numel() // 4 * 4
            found.append(flat[:whole].view(torch.int32).sum(dtype=torch.int64) + flat[whole:].sum(dtype=torch.int64))
    return [int(value) for value in found]


def nbytes(values: Sequence[Any]) -> int:
    """Device memory of the tensors among some values."""
    return int(sum(v.numel() * v.element_size() for v in values if hasattr(v, "data_ptr")))
