"""Compiling training kernels for their mixes: a batch at a time, going on where it stopped."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from kbench.benchmark.surrogates.protocol import CompilerFacts
from kbench.benchmark.surrogates.static.training.mixes import Mixes
from kbench.generation.assembly.mixes import compile_mixes, training_sources
from kbench.schemas import Backend, KernelSource

SOURCES = {name: f"def run(x):\n    return {name}\n" for name in "abcdef"}


class Training:
    """A corpus of six kernels, one of which does not compile, one of them kept for testing."""

    fingerprint = "six"
    configs = ("kernels",)

    def __init__(self) -> None:
        self.kernels = {name: KernelSource("relu", Backend.TRITON, text) for name, text in SOURCES.items()}

    def table(self, name: str, *, columns: list[str] | None = None, **filters: Any) -> Any:
        names = {"train": "abcd", "validation": "de", "test": "f"}[filters["split"]]
        chosen = [self.kernels[each] for each in names]
        rows = [
            {"kernel_id": k.kernel_id, "problem_id": "relu", "backend": "triton", "source": k.source} for k in chosen
        ]
        return pa.Table.from_pylist(rows).select(columns or list(rows[0]))


class Counting:
    """A compiler that remembers what it was asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def __call__(self, kernels: Sequence[KernelSource], capability: str) -> list[CompilerFacts | None]:
        self.asked += [kernel.kernel_id for kernel in kernels]
        broken = SOURCES["c"]
        return [None if k.source == broken else CompilerFacts(8, 0, 0, {"total": len(k.source)}) for k in kernels]


def test_training_kernels_are_compiled_once_each_and_test_kernels_never() -> None:
    corpus = Training()
    found = [kernel.kernel_id for kernel in training_sources(corpus)]
    assert found == sorted(corpus.kernels[name].kernel_id for name in "abcde")


def test_an_interrupted_table_is_completed_without_compiling_again(tmp_path: Path) -> None:
    out, compiler, corpus = tmp_path / "mixes.parquet", Counting(), Training()
    steps = compile_mixes(corpus, out, "9.0", compiler, batch=2)
    assert next(steps) == (0, 5)
    assert next(steps) == (2, 5)
    assert len(compiler.asked) == 2
    assert list(compile_mixes(corpus, out, "9.0", compiler, batch=2)) == [(2, 5), (4, 5), (5, 5)]
    assert sorted(compiler.asked) == sorted(set(compiler.asked))
    assert list(compile_mixes(corpus, out, "9.0", compiler, batch=2)) == [(5, 5)]
    read = Mixes.load(out)
    assert len(read) == 4
    assert (corpus.kernels["c"].kernel_id, "9.0") in read
    assert read.get(corpus.kernels["a"].kernel_id, "9.0") == {"total": len(SOURCES["a"])}
