"""Subject: a kernel on one problem and size, ready to be called, however it is run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kbench.harness.bench.context import ProblemContext
from kbench.harness.bench.reference_inputs import Drawing
from kbench.harness.device.kernels.same_bytes import Claim


class Subject:
    """A kernel as verification and timing call it; where its memory is not the harness's, most methods do nothing."""

    owned = False
    """Whether the harness owns all memory a call uses: then every call is prepared, and outputs stay in place."""
    form: object = None
    """How much is prepared for a call: that takes as long for kernels of one form."""
    plan_id: str | None = None
    """The plan that calls carry out; None where host code runs."""

    @property
    def not_restored(self) -> list[str]:
        """Memory that a call may find as the last one left it, although it was prepared."""
        raise NotImplementedError

    def prepare(self, set_number: int, *, poison: bool = False, restore: bool = True) -> None:
        """Queue taking away what earlier calls left where the next one, on this set of inputs, may find it.

        Where the harness does not own the memory, it can only poison it.

        Args:
            set_number: number of the set of buffers it will be called on.
            poison: fill memory with the same byte each time, instead of another from call to call.
            restore: reset the variables of its machine code.
        """
        raise NotImplementedError

    def erase(self) -> None:
        """Queue overwriting what the last call left, where the harness owns it."""

    def call(self, set_number: int) -> Any:
        """Call the kernel on a set of input buffers; what it returns."""
        raise NotImplementedError

    def idle(self, set_number: int) -> None:
        """Queue an empty kernel in place of a call, with the same to be prepared after it."""
        raise NotImplementedError

    def claims(self) -> list[tuple[str, Claim]]:
        """Claims that hold if the last call wrote only where it may, each with what is wrong otherwise."""
        return []

    def fingerprints(self) -> list[tuple[Drawing, int]]:
        """A number for the outputs of each call since the last time, and its inputs, where the harness takes them.

        It overwrites what the last call left.
        """
        return []

    def damaged(self) -> str | None:
        """Memory of the harness's own for this kernel that was overwritten; None when none was."""
        return None


class ProcessSubject(Subject):
    """A kernel whose host code runs in this process; the memory is whatever it allocates."""

    def __init__(self, run: Callable[..., Any], context: ProblemContext) -> None:
        """Call `run` on the buffers of a context."""
        self._run, self._context = run, context

    @property
    def not_restored(self) -> list[str]:
        return ["memory and state of its own process"]

    def prepare(self, set_number: int, *, poison: bool = False, restore: bool = True) -> None:
        for nbytes in self._context.output_bytes:
            self._context.device.poison(nbytes)

    def call(self, set_number: int) -> Any:
        return self._run(*self._context.sets[set_number].inputs)

    def idle(self, set_number: int) -> None:
        self._context.device.nothing()
