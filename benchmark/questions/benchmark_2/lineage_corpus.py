"""A corpus without questions as benchmark 2 asks it: split by lineage, with pairs drawn when they are asked for."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from kbench.benchmark.questions.benchmark_2.edition import keep_edition
from kbench.benchmark.questions.benchmark_2.sample import sampled_pairs
from kbench.benchmark.questions.corpus_view import CorpusView
from kbench.loaders.corpus.corpus import Corpus
from kbench.loaders.splits.lineage import kernel_splits
from kbench.schemas import Pair, arrow_schema

if TYPE_CHECKING:
    import pyarrow as pa

VERSION = 2
"""The version that draws: whoever compares two figures must find the same one beside both."""
SPLITS = ("test", "test_near", "test_seen", "train", "validation")
SAMPLED = [
    "kernel_id", "problem_id", "family", "backend", "gpu", "status", "parent_id", "runtime_us", "runtime_low_us",
    "runtime_high_us", "speedup", "speedup_low", "speedup_high", "origin", "split",
]  # fmt: skip


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

    def batches(self, name: str, *, columns: Sequence[str], **filters: Any) -> Iterator[pa.Table]:
        """Columns of a table in parts; what is split or drawn anew is in one."""
        if name in ("kernels", "pairs"):
            yield self.table(name, columns=columns, **filters)
        else:
            yield from super().batches(name, columns=columns, **filters)

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
