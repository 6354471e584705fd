"""What a compiler can say of an unmeasured kernel, and who is asked: the benchmark compiles nothing itself.

Compiling runs a stranger's text, so it belongs to the harness, which has the sandbox. Whoever may import both (the
command does) says how kernels are compiled; without that, surrogates that look at compiler output say what is missing.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence

from kbench.schemas import KernelSource, UserError


@dataclasses.dataclass(frozen=True, slots=True)
class CompilerFacts:
    """Figures of a compiled kernel: the largest over its device functions."""

    registers: int
    shared_bytes: int
    spill_bytes: int
    instructions: Mapping[str, int] | None = None
    """Counts of PTX instructions by class, `total` among them; None where there is no PTX."""


Compiler = Callable[[Sequence[KernelSource], str], Sequence[CompilerFacts | None]]
"""Facts of each kernel for a compute capability such as 9.0; None where it does not compile."""

_known: list[Callable[[], Compiler]] = []


def provide(make: Callable[[], Compiler]) -> None:
    """Say how kernels are compiled from now on.

    Args:
        make: called once a compiler is needed, so that saying so costs nothing.
    """
    _known[:] = [make]


def provided() -> Compiler:
    """The compiler.

    Raises:
        UserError: nobody said how kernels are compiled.
    """
    if not _known:
        raise UserError(
            "no compiler is known to the surrogate; run it through the kbench command, or name one with "
            "kbench.benchmark.surrogates.compiler.provide"
        )
    return _known[0]()
