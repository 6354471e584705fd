"""Errata: kernels that a release calls correct and that were found wrong since; the next one corrects them.

Questions of the benchmark are made from a release, so its rows stay as they are until then.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from kbench.loaders.corpus.corpus import Corpus
from kbench.schemas import Status

ERRATA: Mapping[str, str] = {
    "491a77d0cd4d22b38dbff72983ff5c09": "overflows where the sum of a chunk's steps is large (case `large_steps`)",
    "58969e35c1fb6fd3747605832b6ed116": "divides by probabilities that fast math flushes to zero (case `peaked`)",
    "9632a1bf76098be9ccdefcc2dbf914bc": "overflows where the sum of a chunk's steps is large (case `large_steps`)",
}
"""What is wrong, by kernel id."""


@dataclasses.dataclass(frozen=True, slots=True)
class Erratum:
    """A kernel that is recorded as correct and is not."""

    kernel_id: str
    problem_id: str
    wrong: str


def errata_of(corpus: Corpus) -> tuple[Erratum, ...]:
    """The errata that a corpus has, in the order of their problems."""
    rows = corpus.table("kernels", columns=["kernel_id", "problem_id"], kernel_id=list(ERRATA), status=Status.OK.value)
    found = {Erratum(row["kernel_id"], row["problem_id"], ERRATA[row["kernel_id"]]) for row in rows.to_pylist()}
    return tuple(sorted(found, key=lambda one: (one.problem_id, one.kernel_id)))
