"""Slices: where a surrogate is good. Rows by family, backend, kind, bin, runtime decade, seen or unseen, and origin."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from kbench.benchmark.metrics.arrays import Ints
from kbench.benchmark.tasks.labels import PairLabels, Strings, strings

FACETS = ("family", "backend", "kind", "bin", "runtime", "seen", "origin")


def _decade(runtime_us: float) -> str:
    if np.isnan(runtime_us):
        return "unknown"
    exponent = int(np.floor(np.log10(runtime_us)))
    return f"{10.0**exponent:g}-{10.0 ** (exponent + 1):g} us"


def facet(labels: PairLabels, name: str) -> Strings:
    """The value of one facet for every row."""
    if name == "bin":
        return strings([str(number) for number in labels.bin])
    if name == "runtime":
        return strings([_decade(runtime) for runtime in labels.runtime_us])
    if name == "seen":
        return strings(["seen" if split in ("test_seen", "validation") else "unseen" for split in labels.split])
    values: Strings = getattr(labels, name)
    return values


def slices(labels: PairLabels) -> Iterator[tuple[str, Ints]]:
    """Every slice as facet=value with its row positions."""
    for name in FACETS:
        values = facet(labels, name).astype(str)
        for value in np.unique(values):
            yield f"{name}={value}", np.flatnonzero(values == value)
