"""Complete the table of instruction mixes that the `static` surrogate learns from. Usage: instruction_mixes.py [TABLE]

Compiles the training kernels of the shipped dataset for compute capability 9.0, 400 between two writes of the table.
Their order is that of their ids, which are hashes: a table cut short is a fair sample. Kernels that the table has are
not compiled again.
"""

from __future__ import annotations

import sys
from pathlib import Path

from kbench.benchmark.surrogates.static.training.mixes import MIXES_FILE, Mixes
from kbench.generation.executors.compiler import compiler_facts
from kbench.loaders.corpus.corpus import Corpus
from kbench.schemas import Backend, KernelSource

BATCH = 400
CAPABILITY = "9.0"


def main() -> None:
    table = Path(sys.argv[1]) if len(sys.argv) > 1 else MIXES_FILE
    mixes, corpus = Mixes.load(table), Corpus.open()
    columns = ["kernel_id", "problem_id", "backend", "source"]
    splits = [corpus.table("kernels", split=name, columns=columns) for name in ("train", "validation")]
    rows = {row["kernel_id"]: row for split in splits for row in split.to_pylist()}
    missing = [
        KernelSource(row["problem_id"], Backend(row["backend"]), row["source"])
        for key, row in sorted(rows.items())
        if (key, CAPABILITY) not in mixes
    ]
    for start in range(0, len(missing), BATCH):
        kernels = missing[start : start + BATCH]
        for kernel, facts in zip(kernels, compiler_facts(kernels, CAPABILITY), strict=True):
            mixes.put(kernel.kernel_id, CAPABILITY, facts.instructions if facts else None)
        mixes.save(table)
        sys.stdout.write(f"{len(rows) - len(missing) + start + len(kernels):,} of {len(rows):,} kernels\n")


if __name__ == "__main__":
    main()
