"""Workloads: which sizes of a problem are measured, and how much memory of the GPU that takes."""

from __future__ import annotations

import re
from collections.abc import Sequence

from kbench.benchmark.problems import ProblemDefinition, Size
from kbench.harness.bench.context import device_bytes
from kbench.schemas import UserError

LARGE_BYTES, CPU_BYTES = 1 << 27, 2 << 30
"""Memory of a workload that takes a CPU more than a few seconds to check, and the most that may be checked there."""
UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
AMOUNT = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGT]?)(?:i?B)?", re.IGNORECASE)


def chosen_sizes(definition: ProblemDefinition, names: Sequence[str] | None) -> list[Size]:
    """The timed sizes, or those named, among which `tiny` may be for a dry run."""
    if names is None:
        return list(definition.sizes)
    return [size for size in (*definition.sizes, definition.tiny) if size.name in names]


def left_out(definition: ProblemDefinition, limit_bytes: int | None) -> list[str]:
    """A line for every workload that does not fit into so much memory; none without a limit, or where none fits."""
    needed = {size.name: device_bytes(definition, size) for size in definition.sizes}
    large = {name: amount for name, amount in needed.items() if limit_bytes is not None and amount > limit_bytes}
    if len(large) == len(needed):
        # That is an error, which names the smallest.
        return []
    return [f"left out: workload {name!r} takes about {gigabytes(amount)} of memory" for name, amount in large.items()]


def fitting(definition: ProblemDefinition, sizes: Sequence[Size], limit_bytes: int) -> list[Size]:
    """The sizes among some that can be measured within so much memory.

    Raises:
        UserError: none can.
    """
    needed = {size.name: device_bytes(definition, size) for size in sizes}
    fit = [size for size in sizes if needed[size.name] <= limit_bytes]
    if sizes and not fit:
        name = min(needed, key=needed.__getitem__)
        raise UserError(
            f"no workload of {definition.id!r} fits into {gigabytes(limit_bytes)}: {name!r} alone takes about"
            f" {gigabytes(needed[name])}; give a larger --max-memory, or a problem file with a smaller workload"
        )
    return fit


def refuse_too_large(definition: ProblemDefinition, sizes: Sequence[Size], total_bytes: int) -> None:
    """Refuse workloads that do not fit into a GPU's memory; nothing where its size is not known, as on a CPU.

    Raises:
        UserError: names the first that does not fit.
    """
    for size in sizes if total_bytes else ():
        if device_bytes(definition, size) > total_bytes:
            need, have = gigabytes(device_bytes(definition, size)), gigabytes(total_bytes)
            raise UserError(
                f"workload {size.name!r} of {definition.id!r} takes about {need} and the GPU has {have};"
                f" --max-memory {total_bytes >> 30}G leaves out what does not fit"
            )


def refuse_without_gpu(definition: ProblemDefinition, sizes: Sequence[Size]) -> None:
    """Refuse at once, by a UserError, what a check on the CPU would fail at after minutes."""
    for size in sizes:
        if (need := device_bytes(definition, size)) > CPU_BYTES:
            raise UserError(
                f"workload {size.name!r} of {definition.id!r} takes about {gigabytes(need)}, and a check without a GPU"
                f" has {gigabytes(CPU_BYTES)}; give a problem file with smaller shapes, or Harness workloads=('tiny',)"
            )


def gigabytes(amount: int) -> str:
    """An amount of memory for people."""
    return f"{amount / (1 << 30):.3g} GiB"


def parse_amount(text: str) -> int:
    """Bytes of an amount such as 24G or 800M; units are powers of 1,024.

    Raises:
        UserError: the text has another form.
    """
    amount = AMOUNT.fullmatch(text.strip())
    if amount is None or not float(amount[1]):
        raise UserError(f"--max-memory is {text!r}; give an amount such as 24G or 800M")
    return int(float(amount[1]) * UNITS[amount[2].upper()])


def large_without_tiny(definition: ProblemDefinition) -> str | None:
    """A warning where a problem's only workload, which is no small one, is checked without a GPU."""
    needed = device_bytes(definition, definition.tiny)
    if definition.tiny not in definition.sizes or needed < LARGE_BYTES:
        return None
    return (
        f"{definition.id} has no small workload: {definition.tiny.name} takes about {gigabytes(needed)} and a minute or"
        " more on the CPU; a copy of the problem's file with smaller shapes is checked in seconds"
    )
