"""Few-shot questions: the same queries, each naming a few measured kernels of its pool with their speedups.

What one query gives away must not answer another. So each pool sets some kernels aside, all known kernels come from
them, and no question is asked about them. A query is never shown a kernel that differs from the asked ones in
comments, names or tuning numbers alone: that would turn forecasting into looking up.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from kbench.benchmark.questions.asked import Tables
from kbench.benchmark.questions.labels import Labels
from kbench.benchmark.questions.questions import Questions
from kbench.benchmark.tracks import SHOTS
from kbench.loaders.source.strip import stripped
from kbench.schemas import Backend, KnownKernel, Query, Status, UserError
from kbench.schemas.ids import content_hash

SET_ASIDE = 16
"""Kernels of a pool that serve as known ones; at most a quarter of the pool."""
COLUMNS = ["problem_id", "gpu", "split", "status", "backend", "speedup", "structure_id", "kernel_id", "source"]

Pool = tuple[str, str]
"""Problem and GPU."""


@dataclasses.dataclass(frozen=True, slots=True)
class _Measured:
    """A correct kernel of the split."""

    kernel: KnownKernel
    structure: str


def with_shots(questions: Questions, corpus: Tables, shots: int) -> Questions:
    """The questions with up to `shots` known kernels each, without those about kernels set aside.

    Two shots are the first two of eight. Everyone is shown the same kernels: they depend on the query alone.

    Raises:
        UserError: another number of shots than there may be.
    """
    if shots not in SHOTS:
        raise UserError(f"shots is {shots}; it must be one of {', '.join(map(str, SHOTS))}")
    if not shots:
        return questions
    rows = corpus.table("kernels", columns=COLUMNS, split=questions.split).to_pylist()
    pools = _pools(rows)
    aside = {pool: _set_aside(pool, kernels) for pool, kernels in pools.items()}
    given_away = {pool: {each.kernel.source for each in kernels} for pool, kernels in aside.items()}
    structures = {(row["problem_id"], stripped(row["source"])): str(row["structure_id"]) for row in rows}
    kept = np.array([not _sources(query) & given_away.get(_pool(query), set()) for query in questions.queries])
    if not kept.any():
        raise UserError(f"split {questions.split!r} is too small to set kernels aside; ask it with --shots 0")
    queries = [
        dataclasses.replace(query, known=_known(query, aside.get(_pool(query), []), structures, shots))
        for query, keep in zip(questions.queries, kept, strict=True)
        if keep
    ]
    place = np.cumsum(kept) - 1
    return dataclasses.replace(
        questions,
        queries=tuple(queries),
        pair_queries=place[questions.pair_queries[kept[questions.pair_queries]]],
        pairs=_moved(questions.pairs, kept, place),
        pools=_moved(questions.pools, kept, place),
        shots=shots,
    )


def _pool(query: Query) -> Pool:
    return query.problem_id, query.gpu


def _sources(query: Query) -> set[str]:
    return {query.candidate_source, query.anchor_source}


def _pools(rows: Sequence[Mapping[str, Any]]) -> dict[Pool, list[_Measured]]:
    """The correct kernels of every pool."""
    found: dict[Pool, list[_Measured]] = {}
    for row in sorted(rows, key=lambda row: str(row["kernel_id"])):
        if row["status"] == Status.OK and row["speedup"]:
            kernel = KnownKernel(
                source=stripped(row["source"]), backend=Backend(row["backend"]), speedup=float(row["speedup"])
            )
            found.setdefault((row["problem_id"], row["gpu"]), []).append(_Measured(kernel, str(row["structure_id"])))
    return found


def _set_aside(pool: Pool, kernels: Sequence[_Measured]) -> list[_Measured]:
    count = min(SET_ASIDE, len(kernels) // 4)
    return [kernels[at] for at in _generator("set aside", *pool).choice(len(kernels), count, replace=False)]


def _known(
    query: Query, aside: Sequence[_Measured], structures: Mapping[tuple[str, str], str], shots: int
) -> tuple[KnownKernel, ...]:
    asked = {structures.get((query.problem_id, source)) for source in _sources(query)}
    others = [each.kernel for each in aside if each.structure not in asked]
    order = _generator("known", query.query_id).permutation(len(others))
    return tuple(others[at] for at in order[:shots])


def _generator(*names: str) -> np.random.Generator:
    return np.random.default_rng(int(content_hash("few shot", *names)[:16], 16))


def _moved(labels: Labels, kept: npt.NDArray[np.bool_], place: npt.NDArray[np.int64]) -> Labels:
    """The labels of the queries that were kept, pointing to their new places."""
    left = labels.take(kept[labels.query])
    return dataclasses.replace(left, query=place[left.query])
