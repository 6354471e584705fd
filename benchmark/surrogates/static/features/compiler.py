"""What compilers say about a kernel's speed: how many blocks fit on a multiprocessor, and what PTX consists of."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from kbench.benchmark.surrogates.protocol import CompilerFacts
from kbench.benchmark.surrogates.static.features.text import names_in

Rows = npt.NDArray[np.float32]

NAMES = ("registers", "shared_bytes", "spill_bytes", "threads_by_registers", "blocks_by_shared", "resident_threads")
MIX: tuple[str, ...] = names_in(
    "global_loads vector_loads global_stores vector_stores shared_loads shared_stores async_copies matrix fused float "
    "special integer conversions comparisons branches barriers shuffles atomics"
)
"""Classes of PTX instructions; a feature is their share of all."""
TOTAL = "total"
MIX_NAMES = (*MIX, TOTAL)
REGISTERS = 65536
SHARED_BYTES = 227 * 1024
THREADS = 2048
BLOCKS = 32
"""What one multiprocessor of the data-centre parts since Ampere holds; close enough on the others for a logarithm."""
UNKNOWN_THREADS = 7.0
"""log2 of a usual block, where the source does not say."""


def compiler_rows(facts: Sequence[CompilerFacts | None], log_threads: npt.NDArray[np.float32]) -> Rows:
    """Features of kernels, all −1 where there are no facts.

    Args:
        facts: of each kernel.
        log_threads: log2 of the threads in a block as the source states them, −1 where it does not.
    """
    known = np.array([fact is not None for fact in facts], dtype=np.bool_)
    values = np.array(
        [(fact.registers, fact.shared_bytes, fact.spill_bytes) if fact else (0, 0, 0) for fact in facts],
        dtype=np.float64,
    ).reshape(-1, 3)
    registers, shared, spills = np.maximum(values.T, 0.0)
    threads = 2.0 ** np.where(log_threads > 0, log_threads, UNKNOWN_THREADS).astype(np.float64)
    by_registers = np.minimum(REGISTERS / np.maximum(registers, 1.0), THREADS)
    by_shared = np.minimum(SHARED_BYTES / np.maximum(shared, 1.0), BLOCKS)
    resident = np.minimum(np.minimum(by_registers, by_shared * threads), THREADS)
    columns = [np.log2(1.0 + column) for column in (registers, shared, spills)]
    columns += [np.log2(column) for column in (by_registers, by_shared, resident)]
    return np.where(known[:, None], np.stack(columns, axis=1), -1.0).astype(np.float32)


def mix_rows(facts: Sequence[CompilerFacts | None]) -> Rows:
    """Shares of the instruction classes and log2 of how many instructions there are, all −1 where there is no mix."""
    rows = np.full((len(facts), len(MIX_NAMES)), -1.0, dtype=np.float32)
    for row, fact in zip(rows, facts, strict=True):
        if fact is not None and fact.instructions:
            total = max(fact.instructions.get(TOTAL, 0), 1)
            row[:-1] = [fact.instructions.get(name, 0) / total for name in MIX]
            row[-1] = np.log2(total)
    return rows
