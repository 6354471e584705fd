"""What a corpus holds, counted: the figures of `kbench data info`, of the card and of the metadata."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc

from kbench.loaders.corpus import Corpus

UNMEASURED = "unmeasured"
"""Where a kernel's gpu or status is null."""


@dataclasses.dataclass(frozen=True, slots=True)
class Counts:
    """Rows by config, kernels by facet."""

    rows: Mapping[str, int]
    distinct_kernels: int
    splits: Mapping[str, int]
    backends: Mapping[str, int]
    gpus: Mapping[str, int]
    search_methods: Mapping[str, int]
    proposers: Mapping[str, int]
    statuses: Mapping[str, int]
    families: Mapping[str, int]
    origins: Mapping[str, int]
    problems: int
    """Problems that have kernels, or those listed when there are more."""
    first_measured: str | None
    last_measured: str | None


def count(corpus: Corpus) -> Counts:
    """Count a corpus; reads only the facet columns."""
    facets = ["kernel_id", "problem_id", "split", "backend", "gpu", "search_method", "proposer", "status", "family"]
    kernels = corpus.table("kernels", columns=[*facets, "origin"])
    listed = corpus.rows("problems")
    dates = corpus.table("measurements", columns=["started_at"]).column("started_at")
    span = pc.min_max(dates).as_py()
    return Counts(
        rows={name: corpus.rows(name) for name in corpus.configs},
        distinct_kernels=len(pc.unique(kernels.column("kernel_id"))),
        splits=_by_value(kernels, "split"),
        backends=_by_value(kernels, "backend"),
        gpus=_by_value(kernels, "gpu"),
        search_methods=_by_value(kernels, "search_method"),
        proposers=_by_value(kernels, "proposer"),
        statuses=_by_value(kernels, "status"),
        families=_by_value(kernels, "family"),
        origins=_by_value(kernels, "origin"),
        problems=max(listed, len(pc.unique(kernels.column("problem_id")))),
        first_measured=span["min"],
        last_measured=span["max"],
    )


def _by_value(table: pa.Table, column: str) -> dict[str, int]:
    """How often each value occurs, most frequent first."""
    found = pc.value_counts(pc.fill_null(table.column(column), UNMEASURED)).to_pylist()
    return {item["values"]: item["counts"] for item in sorted(found, key=lambda i: (-i["counts"], i["values"]))}
