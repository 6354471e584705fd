"""The timed kernels of a corpus as plain arrays: what coverage, peaks and plots are computed from."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

import numpy
import numpy.typing as npt
import pyarrow.compute as pc

from kbench.loaders.corpus.corpus import Corpus

WORDS = ("problem_id", "family", "backend", "gpu", "search_method", "proposer", "kernel_id", "run_id")
FIGURES = ("runtime_us", "runtime_low_us", "runtime_high_us", "speedup", "step")
WRITERS = ("llm", "human")
"""Proposers that write whole kernels freely, not from a family of templates."""


@dataclasses.dataclass(frozen=True, slots=True)
class Timed:
    """Kernels with status ok and a runtime, one position each in every array; text columns are numbered words."""

    words: dict[str, list[str]]
    """For each text column its distinct values."""
    codes: dict[str, npt.NDArray[numpy.int64]]
    """For each text column the position of each kernel's value in its words."""
    figures: dict[str, npt.NDArray[numpy.float64]]
    structures: npt.NDArray[numpy.uint64]
    """Half of each structure id, which tells them apart in a tenth of the memory."""

    def __len__(self) -> int:
        return len(self.structures)

    def text(self, column: str, position: int) -> str:
        """A kernel's value in a text column."""
        return self.words[column][int(self.codes[column][position])]

    def groups(self, *columns: str) -> Iterator[tuple[tuple[str, ...], npt.NDArray[numpy.int64]]]:
        """Kernels with equal values in the columns: the values and their positions, in the order of the values."""
        if not len(self):
            return
        keys = numpy.stack([self.codes[column] for column in columns], axis=1)
        found, inverse = numpy.unique(keys, axis=0, return_inverse=True)
        order = numpy.argsort(inverse.reshape(-1), kind="stable")
        parts = numpy.split(order, numpy.cumsum(numpy.bincount(inverse.reshape(-1)))[:-1])
        named = (tuple(self.words[name][code] for name, code in zip(columns, key, strict=True)) for key in found)
        yield from sorted(zip(named, parts, strict=True), key=lambda item: item[0])


def timed(corpus: Corpus, gpu: str | None = None) -> Timed:
    """The timed kernels of a corpus on one GPU or on all, read a batch at a time and without their sources.

    A kernel measured on several GPUs has a position for each: runtimes of all of them are no distribution of anything.
    """
    words: dict[str, dict[str, int]] = {name: {} for name in WORDS}
    codes: dict[str, list[npt.NDArray[numpy.int64]]] = {name: [] for name in WORDS}
    figures: dict[str, list[npt.NDArray[numpy.float64]]] = {name: [] for name in FIGURES}
    structures: list[npt.NDArray[numpy.uint64]] = []
    columns = [*WORDS, *FIGURES, "structure_id", "status"]
    for batch in corpus.select("kernels", columns=columns, where=_TIMED, gpu=gpu).batches():
        for name in WORDS:
            found = pc.fill_null(batch.column(name), "").dictionary_encode()
            known = words[name]
            numbers = [known.setdefault(word, len(known)) for word in found.dictionary.to_pylist()]
            codes[name].append(numpy.asarray(numbers, numpy.int64)[found.indices.to_numpy(zero_copy_only=False)])
        for name in FIGURES:
            figures[name].append(pc.cast(batch.column(name), "double").to_numpy(zero_copy_only=False))
        structures.append(
            numpy.array([int(text[:16], 16) for text in batch.column("structure_id").to_pylist()], numpy.uint64)
        )
    return Timed(
        {name: list(known) for name, known in words.items()},
        {name: _joined(parts, numpy.int64) for name, parts in codes.items()},
        {name: _joined(parts, numpy.float64) for name, parts in figures.items()},
        _joined(structures, numpy.uint64),
    )


_TIMED = (pc.field("status") == "ok") & (pc.field("runtime_us") > 0) & (pc.field("speedup") > 0)
# A damaged corpus is described as well: what is wrong with it is said by validation, not by a crash here.
_TIMED = _TIMED & pc.is_finite(pc.field("runtime_us")) & pc.is_finite(pc.field("speedup"))


def _joined(parts: Sequence[npt.NDArray[Any]], kind: type[numpy.generic]) -> npt.NDArray[Any]:
    return numpy.concatenate(parts) if parts else numpy.empty(0, kind)
