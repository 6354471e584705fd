"""Compile training kernels for their mix: `python -m kbench.generation.assembly.mixes [--dataset PATH] [--out FILE]`.

Starting again goes on where it stopped. Kernels are taken in the order of their ids, which is no order at all, so that
what is there after a while is a fair sample of problems and families.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import click

from kbench.benchmark.surrogates.compiler import Compiler
from kbench.benchmark.surrogates.static.training.mixes import MIXES_FILE, Mixes
from kbench.benchmark.tasks.build import TRAIN_SPLITS, Tables
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
    """Complete the table, a batch at a time; yields how many kernels are done and how many there are.

    Args:
        corpus: whose training kernels are compiled.
        out: the table, completed where it exists.
        capability: compute capability they are compiled for.
        compiler: who compiles.
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


@click.command()
@click.option("--dataset", help="Corpus folder; the shipped dataset by default.")
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), help="Table; the shipped one by default.")
@click.option("--capability", default="9.0", show_default=True, help="Compute capability to compile for.")
@click.option("--minutes", type=float, help="Start no batch after this long; all kernels by default.")
def main(dataset: str | None, out: Path | None, capability: str, minutes: float | None) -> None:
    """Compile the training kernels and keep their instruction mixes; what is there already is not done again."""
    from kbench.loaders.corpus.corpus import Corpus

    path, began = out or MIXES_FILE, time.monotonic()
    for done, of in compile_mixes(Corpus.open(dataset), path, capability):
        click.echo(f"{done:,} of {of:,} kernels", err=True)
        if minutes is not None and time.monotonic() - began > 60 * minutes:
            break
    click.echo(f"wrote {os.fspath(path)}: {len(Mixes.load(path)):,} mixes", err=True)


if __name__ == "__main__":
    main()
