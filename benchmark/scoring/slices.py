"""Slices: where a surrogate is good: by family, backend, kind, bin, runtime decade, seen or unseen, origin and GPU."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from kbench.benchmark.metrics.arrays import Floats, Ints, encode
from kbench.benchmark.questions.labels import PairLabels, Strings, strings

FACETS = ("family", "backend", "kind", "bin", "runtime", "seen", "origin")

LOWEST = -6
POWERS = np.array([float(f"1e{exponent}") for exponent in range(LOWEST, 16)])


def _decades(runtime_us: Floats) -> Strings:
    known = ~np.isnan(runtime_us)
    # By comparison, like the bins: a logarithm would put 1,000 us below or above its edge as the processor has it.
    exponents = np.searchsorted(POWERS, np.where(known, runtime_us, 1.0), side="right") - 1 + LOWEST
    names = {e: f"{10.0**e:g}-{10.0 ** (e + 1):g} us" for e in np.unique(exponents).tolist()}
    decades = strings([names[e] for e in exponents.tolist()])
    decades[~known] = "unknown"
    return decades


def facet(labels: PairLabels, name: str) -> Strings:
    """The value of one facet for every row."""
    if name == "bin":
        return strings([str(number) for number in labels.bin.tolist()])
    if name == "runtime":
        return _decades(labels.runtime_us)
    if name == "seen":
        return strings(["seen" if split in ("test_seen", "validation") else "unseen" for split in labels.split])
    values: Strings = getattr(labels, name)
    return values


def slices(labels: PairLabels, gpus: Strings) -> Iterator[tuple[str, Ints]]:
    """Every slice as facet=value with its row positions.

    Args:
        labels: the rows.
        gpus: the GPU of each; where all are of one, it is no slice.
    """
    facets = {name: facet(labels, name) for name in FACETS}
    if len(set(gpus.tolist())) > 1:
        facets["gpu"] = gpus
    for name, column in facets.items():
        values, index = encode(column)
        order = np.argsort(index, kind="stable")
        parts = np.split(order, np.flatnonzero(np.diff(index[order])) + 1)
        for value, rows in zip(values, parts, strict=True):
            yield f"{name}={value}", rows
