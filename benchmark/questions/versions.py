"""A corpus as the benchmark asks it: by the questions that it states, or, for release 2, by pairs drawn from it.

Benchmark 3 reads config `questions`. Benchmark 2 (folder `benchmark_2`) draws pairs of a corpus that has none, and is
deleted when its last figures are in the archive.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from kbench.benchmark.questions.answers import Answers, answered
from kbench.benchmark.questions.asked import KINDS, Tables
from kbench.benchmark.questions.corpus_view import CorpusView
from kbench.loaders.corpus.corpus import Corpus
from kbench.loaders.splits.lineage import known_splits
from kbench.schemas import UserError

if TYPE_CHECKING:
    import pyarrow as pa

MADE = ("pair_id", "relation", "origin")
"""Columns of pairs that questions do not have."""


class StatedCorpus(CorpusView):
    """A corpus that states the benchmark's questions; those about all workloads are its pairs, too."""

    benchmark = 3

    def __init__(self, corpus: Corpus, gpu: str | None = None, answers: Answers | None = None) -> None:
        """Look at a corpus; CorpusView says the rest.

        Args:
            corpus: the corpus.
            gpu: the GPU that questions are about.
            answers: of a private edition, which states none itself.
        """
        super().__init__(corpus, gpu)
        self._answers = answers

    def table(self, name: str, *, columns: Sequence[str] | None = None, **filters: Any) -> pa.Table:
        """One table, filtered."""
        if name == "questions" and self._answers is not None:
            table = answered(self.stated.table(name, **filters), self._answers)
            return table if columns is None else table.select(list(columns))
        if name != "pairs":
            return self.stated.table(name, columns=columns, **filters)
        return self._pairs(self.table("questions", **filters), columns)

    def batches(self, name: str, *, columns: Sequence[str], **filters: Any) -> Iterator[pa.Table]:
        """Columns of a table, in parts."""
        if name != "pairs":
            yield from super().batches(name, columns=columns, **filters)
            return
        read = [*dict.fromkeys(("question_id", "workload", "kind", *(set(columns) - set(MADE))))]
        for part in self.stated.batches("questions", columns=read, **filters):
            yield self._pairs(part, columns)

    def _pairs(self, table: pa.Table, columns: Sequence[str] | None) -> pa.Table:
        """Questions about all workloads as pairs."""
        import pyarrow as pa
        import pyarrow.compute as pc

        table = table.filter(pc.field("workload").is_null())
        kinds = pa.array([KINDS[kind] for kind in table.column("kind").to_pylist()], pa.string())
        table = table.set_column(table.schema.get_field_index("kind"), "kind", kinds)
        table = table.append_column("pair_id", table.column("question_id")).append_column("relation", kinds)
        table = table.append_column("origin", pa.array(["kbench"] * len(kinds), pa.string()))
        return table if columns is None else table.select(list(columns))


def benchmark_of(corpus: Tables, gpu: str | None = None, answers: Answers | None = None) -> Tables:
    """The corpus as the benchmark asks it.

    Args:
        corpus: an opened corpus. Where it states no questions, and neither it nor kbench's record splits by lineage,
            as for an imported one, its own pairs are asked as they stand.
        gpu: the GPU that is asked about (CorpusView).
        answers: of a private edition.

    Raises:
        UserError: there is no such GPU, the corpus's own pairs are asked, which are about all of them, or there are
            answers and no questions.
    """
    if not isinstance(corpus, Corpus):
        # A view, such as one without a GPU, was made of a corpus that this function has seen.
        return corpus
    if "questions" in corpus.configs:
        return StatedCorpus(corpus, gpu, answers)
    if answers is not None:
        raise UserError("these answers are to questions, and the corpus states none; name their edition with --dataset")
    splits = known_splits(corpus)
    if splits is not None:
        from kbench.benchmark.questions.benchmark_2.lineage_corpus import LineageCorpus

        return LineageCorpus(corpus, splits, gpu)
    if gpu is not None:
        raise UserError(f"--gpu is {gpu!r}, and the pairs that this corpus states are about every GPU; leave it out")
    return corpus
