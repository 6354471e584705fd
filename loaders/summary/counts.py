"""What a corpus holds, counted: the figures of `kbench data info`, of the card and of the metadata."""

from __future__ import annotations

import dataclasses
import hashlib
from array import array
from collections import Counter
from collections.abc import Mapping

import numpy
import pyarrow.compute as pc

from kbench.loaders.corpus.corpus import Corpus

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
    facets: dict[str, Counter[str]] = {name: Counter() for name in FACETS}
    # Half of each id: 64 bits tell ten million kernels apart and take a tenth of the memory their texts would.
    ids, problems = array("Q"), array("Q")
    for batch in corpus.select("kernels", columns=["kernel_id", "problem_id", *FACETS]).batches():
        for name, values in facets.items():
            for item in pc.value_counts(pc.fill_null(batch.column(name), UNMEASURED)).to_pylist():
                values[item["values"]] += item["counts"]
        ids.extend(int(text[:16], 16) for text in batch.column("kernel_id").to_pylist())
        # An imported table may name a problem per row, and names are longer than ids.
        names = pc.unique(batch.column("problem_id")).drop_null().to_pylist()
        problems.extend(int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest()) for name in names)
    spans = [
        pc.min_max(batch.column(0)).as_py() for batch in corpus.select("measurements", columns=["started_at"]).batches()
    ]
    with_kernels = distinct(problems)
    return Counts(
        rows={name: corpus.rows(name) for name in corpus.configs},
        distinct_kernels=distinct(ids),
        facets={
            name: dict(sorted(values.items(), key=lambda item: (-item[1], item[0]))) for name, values in facets.items()
        },
        problems_with_kernels=with_kernels,
        problems=max(corpus.rows("problems"), with_kernels),
        first_measured=min((span["min"] for span in spans if span["min"]), default=None),
        last_measured=max((span["max"] for span in spans if span["max"]), default=None),
    )


def distinct(values: array[int]) -> int:
    """How many different numbers an array of 64-bit numbers holds; it is sorted where it lies."""
    # Not numpy.unique, whose hash table takes ten times the memory.
    ordered = numpy.frombuffer(values, numpy.uint64)
    ordered.sort()
    return int((ordered[1:] != ordered[:-1]).sum()) + (len(ordered) > 0)
