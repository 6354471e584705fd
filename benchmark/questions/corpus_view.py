"""A corpus as the benchmark asks it: by the questions that it states, about one GPU."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from kbench.benchmark.questions.answers import Answers, answered
from kbench.benchmark.questions.asked import OURS, Tables
from kbench.loaders.corpus.corpus import EVERY_GPU, Corpus, resolve
from kbench.schemas import UserError

if TYPE_CHECKING:
    import pyarrow as pa


class CorpusView:
    """A corpus whose questions are about one GPU."""

    def __init__(self, corpus: Corpus, gpu: str | None = None, answers: Answers | None = None) -> None:
        """Ask about a GPU, by its name or as `load` takes it, or EVERY_GPU; a private edition has `answers` apart.

        By default the GPU is the one with the most kernels, and every one of an imported corpus. Surrogates learn from
        all of them.
        """
        self.stated = corpus
        """The corpus as it is."""
        self.fingerprint, self.configs, self.folders = corpus.fingerprint, corpus.configs, corpus.folders
        self._wanted = None if gpu is None else resolve("gpu", gpu, [*corpus.gpus(), EVERY_GPU])
        self._answers = answers

    @functools.cached_property
    def gpu(self) -> str | None:
        """The GPU that questions are about; None for every GPU, as by default where no kernel was measured here."""
        if self._wanted is not None:
            return None if self._wanted == EVERY_GPU else self._wanted
        origins = (part.column("origin").unique() for part in self.stated.batches("kernels", columns=["origin"]))
        ours = any(OURS in part.to_pylist() for part in origins)
        return next(iter(self.stated.gpus()), None) if ours else None

    def table(self, name: str, *, columns: Sequence[str] | None = None, **filters: Any) -> pa.Table:
        """One table, filtered."""
        self._check(name)
        if name != "questions" or self._answers is None:
            return self.stated.table(name, columns=columns, **filters)
        table = answered(self.stated.table(name, **filters), self._answers)
        return table if columns is None else table.select(list(columns))

    def batches(self, name: str, *, columns: Sequence[str], **filters: Any) -> Iterator[pa.Table]:
        """Columns of a table, in parts."""
        self._check(name)
        yield from self.stated.batches(name, columns=columns, **filters)

    def _check(self, name: str) -> None:
        if name == "questions" and name not in self.configs:
            raise UserError(
                "the corpus states no questions: no two of its kernels compare, or an earlier kbench made it; make it "
                "again with kbench data import or kbench data assemble"
            )


def benchmark_of(corpus: Tables, gpu: str | None = None, answers: Answers | None = None) -> Tables:
    """The corpus as the benchmark asks it; a view of one stays what it is."""
    return CorpusView(corpus, gpu, answers) if isinstance(corpus, Corpus) else corpus
