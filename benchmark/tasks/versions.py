"""A corpus as the benchmark asks it: split by lineage, with pairs drawn so that the set of questions tells nothing.

kbench.loaders.splits.lineage has the rule for splits, kbench.benchmark.tasks.sample the one for pairs.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kbench.benchmark.tasks.asked import Tables
from kbench.benchmark.tasks.fixed.edition import keep_edition
from kbench.benchmark.tasks.sample import sampled_pairs
from kbench.loaders.corpus.corpus import EVERY_GPU, Corpus, resolve
from kbench.loaders.splits.lineage import kernel_splits, known_splits
from kbench.schemas import Pair, UserError, arrow_schema

if TYPE_CHECKING:
    import pyarrow as pa

VERSION = 2
"""The version of the benchmark: whoever compares two figures must find the same one beside both."""
SAMPLED = [
    "kernel_id", "problem_id", "family", "backend", "gpu", "status", "parent_id", "runtime_us", "runtime_low_us",
    "runtime_high_us", "speedup", "speedup_low", "speedup_high", "origin", "split",
]  # fmt: skip


class LineageCorpus:
    """A corpus split by lineage, with pairs drawn anew, without held-out kernels that came after its edition."""

    benchmark = VERSION

    def __init__(self, corpus: Corpus, splits: Mapping[str, str], gpu: str | None = None) -> None:
        """Look at a corpus.

        Args:
            corpus: the corpus.
            splits: each problem's split by lineage.
            gpu: the GPU that questions are about, by its name or as `load` takes it, or EVERY_GPU; by default the one
                with the most kernels. Surrogates learn from all of them.

        Raises:
            UnknownNameError: the corpus has no such GPU.
        """
        self.stated = corpus
        """The corpus with the splits and pairs it states itself."""
        self.splits = splits
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

    def table(self, name: str, *, columns: Sequence[str] | None = None, **filters: Any) -> pa.Table:
        """One table, filtered; `split` means the split by lineage."""
        import pyarrow.compute as pc

        if name not in ("kernels", "pairs"):
            return self.stated.table(name, columns=columns, **filters)
        wanted = filters.pop("split", None)
        table = self._pairs if name == "pairs" else self._kernels(columns, filters)
        if wanted is not None:
            table = table.filter(pc.field("split").isin([wanted] if isinstance(wanted, str) else list(wanted)))
        return table if columns is None else table.select(list(columns))

    def _kernels(self, columns: Sequence[str] | None, filters: Mapping[str, Any]) -> pa.Table:
        import pyarrow as pa

        # Which clusters are held out depends on all kernels, so a filter comes after.
        whole = self.stated.table("kernels", columns=["kernel_id", "problem_id", "cluster_id"])
        # One entry per kernel, on however many GPUs it was measured.
        known = {key: place for key, *place in zip(*(column.to_pylist() for column in whole.columns), strict=True)}
        problems, clusters = zip(*known.values(), strict=True) if known else ((), ())
        splits = keep_edition(
            dict(zip(known, kernel_splits(problems, clusters, self.splits), strict=True)),
            dict(zip(known, clusters, strict=True)),
        )
        needed = None if columns is None else [*dict.fromkeys((*columns, "kernel_id", "split"))]
        table = self.stated.table("kernels", columns=needed, **filters)
        own = pa.array([splits.get(kernel) for kernel in table.column("kernel_id").to_pylist()], pa.string())
        return table.set_column(table.schema.get_field_index("split"), "split", own).filter(own.is_valid())

    @functools.cached_property
    def _pairs(self) -> pa.Table:
        import pyarrow as pa

        rows = list(sampled_pairs(self._kernels(SAMPLED, {}).to_pylist()))
        schema = pa.schema([*(field.with_nullable(True) for field in arrow_schema(Pair)), ("relation", pa.string())])
        return pa.Table.from_pylist(rows, schema=schema)


def benchmark_of(corpus: Tables, gpu: str | None = None) -> Tables:
    """The corpus as the benchmark asks it.

    Args:
        corpus: an opened corpus. Where neither it nor kbench's record states splits by lineage, as for an imported one,
            its own pairs are asked as they stand.
        gpu: the GPU that is asked about (LineageCorpus).

    Raises:
        UserError: there is no such GPU, or the corpus's own pairs are asked, which are about all of them.
    """
    if not isinstance(corpus, Corpus):
        # A view, such as one without a GPU, was made of a corpus that this function has seen.
        return corpus
    splits = known_splits(corpus)
    if splits is not None:
        return LineageCorpus(corpus, splits, gpu)
    if gpu is not None:
        raise UserError(f"--gpu is {gpu!r}, and the pairs that this corpus states are about every GPU; leave it out")
    return corpus
