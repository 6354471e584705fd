"""Instruction mixes of training kernels, for surrogates that look at compiler output without compiling.

Kernels are compiled in the order of their ids, which are hashes, so that a table cut short is a fair sample of problems
and families.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from kbench.benchmark.surrogates.protocol import Compiler
from kbench.benchmark.surrogates.static.training.mixes import Mixes
from kbench.benchmark.tasks.asked import Tables
from kbench.benchmark.tasks.build import TRAIN_SPLITS
from kbench.generation.executors.compiler import compiler_facts
from kbench.schemas import Backend, KernelSource

BATCH = 400
"""Kernels compiled between two writes of the table."""
COLUMNS = ["kernel_id", "problem_id", "backend", "source"]


def training_sources(corpus: Tables) -> list[KernelSource]:
    """Kernels of the training splits, each once, by id."""
    rows = [row for split in TRAIN_SPLITS for row in corpus.table("kernels", split=split, columns=COLUMNS).to_pylist()]
    found = {row["kernel_id"]: row for row in rows}
    return [KernelSource(row["problem_id"], Backend(row["backend"]), row["source"]) for _, row in sorted(found.items())]


def compile_mixes(
    corpus: Tables, out: Path, capability: str, compiler: Compiler = compiler_facts, batch: int = BATCH
) -> Iterator[tuple[int, int]]:
    """Complete the table batch by batch; yields how many kernels are done and how many there are.

    Args:
        corpus: its training kernels are compiled.
        out: the table, completed where it exists.
        capability: compute capability they are compiled for.
        compiler: what compiles.
        batch: kernels between two writes.
    """
    mixes, kernels = Mixes.load(out), training_sources(corpus)
    missing = [kernel for kernel in kernels if (kernel.kernel_id, capability) not in mixes]
    yield len(kernels) - len(missing), len(kernels)
    for start in range(0, len(missing), batch):
        chosen = missing[start : start + batch]
        for kernel, facts in zip(chosen, compiler(chosen, capability), strict=True):
            mixes.put(kernel.kernel_id, capability, facts.instructions if facts else None)
        mixes.save(out)
        yield len(kernels) - len(missing) + start + len(chosen), len(kernels)
