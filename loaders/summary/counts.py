"""What a corpus holds, counted: the figures of `kbench data info`, of the card and of the metadata."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import polars
import pyarrow.compute as pc

from kbench.loaders.corpus.corpus import Corpus
from kbench.loaders.summary.coverage import gathered

UNMEASURED = "unmeasured"
"""Where a kernel's gpu or status is null."""


FACETS = ("split", "backend", "gpu", "status", "search_method", "proposer", "family", "origin")


@dataclasses.dataclass(frozen=True, slots=True)
class Counts:
    """What a corpus holds; a kernel has a row for each GPU it was measured on."""

    rows: Mapping[str, int]
    """By config."""
    distinct_kernels: int
    facets: Mapping[str, Mapping[str, int]]
    """For each of FACETS the rows of kernels by value, most frequent first."""
    problems: int
    """Problems that have kernels, or those listed when there are more."""
    problems_with_kernels: int
    first_measured: str | None
    last_measured: str | None

    @property
    def repeated(self) -> bool:
        """Whether kernels have rows on several GPUs, so that counted rows are more than kernels."""
        return self.rows.get("kernels", 0) > self.distinct_kernels


def count(corpus: Corpus) -> Counts:
    """Count a corpus; reads only the facet columns, a batch at a time."""
    # Numbers that stand for ids tell ten million kernels apart and take a fraction of the memory their texts would.
    identities = polars.col("kernel_id", "problem_id").hash()
    facets = polars.col(FACETS).fill_null(UNMEASURED).cast(polars.Categorical)
    kernels = gathered(corpus.select("kernels", columns=["kernel_id", "problem_id", *FACETS]), identities, facets)
    spans = [
        pc.min_max(batch.column(0)).as_py() for batch in corpus.select("measurements", columns=["started_at"]).batches()
    ]
    with_kernels = kernels["problem_id"].n_unique()
    values = {name: kernels[name].cast(polars.String).value_counts().iter_rows() for name in FACETS}
    return Counts(
        rows={name: corpus.rows(name) for name in corpus.configs},
        distinct_kernels=kernels["kernel_id"].n_unique(),
        facets={name: dict(sorted(found, key=lambda item: (-item[1], item[0]))) for name, found in values.items()},
        problems_with_kernels=with_kernels,
        problems=max(corpus.rows("problems"), with_kernels),
        first_measured=min((span["min"] for span in spans if span["min"]), default=None),
        last_measured=max((span["max"] for span in spans if span["max"]), default=None),
    )
