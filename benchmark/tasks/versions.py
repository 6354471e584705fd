"""A corpus as the benchmark asks it: by the questions that it states, or, for release 2, by pairs drawn from it.

Benchmark 3 reads config `questions`. Benchmark 2 (LineageCorpus, with `sample`, `few_shot` and `fixed`) draws pairs of
a corpus that has none, and is deleted when its last figures are in the archive.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kbench.benchmark.tasks.asked import KINDS, Tables
from kbench.benchmark.tasks.fixed.edition import keep_edition
from kbench.benchmark.tasks.sample import sampled_pairs
from kbench.loaders.corpus.corpus import EVERY_GPU, Corpus, resolve
from kbench.loaders.splits.lineage import kernel_splits, known_splits
from kbench.schemas import Pair, UserError, arrow_schema

if TYPE_CHECKING:
    import pyarrow as pa

VERSION = 2
"""The version that draws: whoever compares two figures must find the same one beside both."""
SPLITS = ("test", "test_near", "test_seen", "train", "validation")
SAMPLED = [
    "kernel_id", "problem_id", "family", "backend", "gpu", "status", "parent_id", "runtime_us", "runtime_low_us",
    "runtime_high_us", "speedup", "speedup_low", "speedup_high", "origin", "split",
]  # fmt: skip


class CorpusView:
    """A corpus whose questions are about one GPU."""

    benchmark: int

    def __init__(self, corpus: Corpus, gpu: str | None = None) -> None:
        """Look at a corpus.

        Args:
            corpus: the corpus.
            gpu: the GPU that questions are about, by its name or as `load` takes it, or EVERY_GPU; by default the one
                with the most kernels. Surrogates learn from all of them.

        Raises:
            UnknownNameError: the corpus has no such GPU.
        """
        self.stated = corpus
        """The corpus as it is."""
        self._wanted = None if gpu is None else resolve("gpu", gpu, [*corpus.gpus(), EVERY_GPU])

    @functools.cached_property
    def gpu(self) -> str | None:
        """The GPU that questions are about; None for every GPU."""
        return None if self._wanted == EVERY_GPU else self._wanted or next(iter(self.stated.gpus()), None)

    @property
    def fingerprint(self) -> str:
        """Content fingerprint of the corpus."""
        return self.stated.fingerprint

    @property
    def configs(self) -> Sequence[str]:
        """Names of the tables it holds."""
        return self.stated.configs

    @property
    def folders(self) -> Sequence[Path]:
        """The folders that hold the answers."""
        return self.stated.folders


class StatedCorpus(CorpusView):
    """A corpus that states the benchmark's questions; those about all workloads are its pairs, too."""

    benchmark = 3

    def table(self, name: str, *, columns: Sequence[str] | None = None, **filters: Any) -> pa.Table:
        """One table, filtered."""
        import pyarrow as pa
        import pyarrow.compute as pc

        if name != "pairs":
            return self.stated.table(name, columns=columns, **filters)
        table = self.stated.table("questions", **filters)
        table = table.filter(pc.field("workload").is_null())
        kinds = pa.array([KINDS[kind] for kind in table.column("kind").to_pylist()], pa.string())
        table = table.set_column(table.schema.get_field_index("kind"), "kind", kinds)
        table = table.append_column("pair_id", table.column("question_id")).append_column("relation", kinds)
        table = table.append_column("origin", pa.array(["kbench"] * len(kinds), pa.string()))
        return table if columns is None else table.select(list(columns))


class LineageCorpus(CorpusView):
    """A corpus split by lineage, with pairs drawn anew, without held-out kernels that came after its edition."""

    benchmark = VERSION

    def __init__(self, corpus: Corpus, splits: Mapping[str, str], gpu: str | None = None) -> None:
        """Look at a corpus with each problem's split by lineage; CorpusView says the rest."""
        super().__init__(corpus, gpu)
        self.splits = splits
        self._drawn: dict[tuple[str, str | None], pa.Table] = {}

    def table(self, name: str, *, columns: Sequence[str] | None = None, **filters: Any) -> pa.Table:
        """One table, filtered; `split` means the split by lineage."""
        import pyarrow as pa
        import pyarrow.compute as pc

        if name not in ("kernels", "pairs"):
            return self.stated.table(name, columns=columns, **filters)
        split = filters.pop("split", None)
        splits = [split] if isinstance(split, str) else list(split or SPLITS)
        if name == "pairs":
            table = pa.concat_tables(self._pairs(one, filters.get("gpu")) for one in splits)
        else:
            needed = None if columns is None else [*dict.fromkeys((*columns, "kernel_id", "split"))]
            table = self.stated.table("kernels", columns=needed, **filters)
            own = pa.array(map(self._kernel_splits.get, table.column("kernel_id").to_pylist()), pa.string())
            table = table.set_column(table.schema.get_field_index("split"), "split", own)
            table = table.filter(pc.field("split").isin(splits))
        return table if columns is None else table.select(list(columns))

    @functools.cached_property
    def _kernel_splits(self) -> dict[str, str]:
        """The split of every kernel of the edition, on however many GPUs it was measured."""
        whole = self.stated.table("kernels", columns=["kernel_id", "problem_id", "cluster_id"])
        known = {key: place for key, *place in zip(*(column.to_pylist() for column in whole.columns), strict=True)}
        problems, clusters = zip(*known.values(), strict=True) if known else ((), ())
        splits = dict(zip(known, kernel_splits(problems, clusters, self.splits), strict=True))
        return keep_edition(splits, dict(zip(known, clusters, strict=True)))

    def _pairs(self, split: str, gpu: str | None) -> pa.Table:
        """The pairs drawn of one split. Cells of different GPUs are drawn apart, so one GPU's can be had alone."""
        import pyarrow as pa

        if (split, gpu) not in self._drawn:
            kernels = self.table("kernels", columns=SAMPLED, split=split).to_pylist()
            rows = list(sampled_pairs(row for row in kernels if gpu is None or row["gpu"] in (gpu, None)))
            fields = (field.with_nullable(True) for field in arrow_schema(Pair))
            self._drawn[split, gpu] = pa.Table.from_pylist(rows, pa.schema([*fields, ("relation", pa.string())]))
        return self._drawn[split, gpu]


def benchmark_of(corpus: Tables, gpu: str | None = None) -> Tables:
    """The corpus as the benchmark asks it.

    Args:
        corpus: an opened corpus. Where it states no questions, and neither it nor kbench's record splits by lineage,
            as for an imported one, its own pairs are asked as they stand.
        gpu: the GPU that is asked about (CorpusView).

    Raises:
        UserError: there is no such GPU, or the corpus's own pairs are asked, which are about all of them.
    """
    if not isinstance(corpus, Corpus):
        # A view, such as one without a GPU, was made of a corpus that this function has seen.
        return corpus
    if "questions" in corpus.configs:
        return StatedCorpus(corpus, gpu)
    splits = known_splits(corpus)
    if splits is not None:
        return LineageCorpus(corpus, splits, gpu)
    if gpu is not None:
        raise UserError(f"--gpu is {gpu!r}, and the pairs that this corpus states are about every GPU; leave it out")
    return corpus
