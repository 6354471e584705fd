"""`core`: a fixed part of a split for models that cost money, about 500 pair queries and eight whole pools.

Pools are taken evenly along GPU and family. Pairs are of the other problems, so that being asked in a pair tells
nothing about a kernel's place in its pool. They are taken evenly along an order by problem, backend, GPU and proposer,
the same number of each relation. Within a stratum hashes decide, so what was measured has no say.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from kbench.schemas import PairKind
from kbench.schemas.ids import content_hash

PAIRS = 500
POOLS = 8

T = TypeVar("T")


def core_pairs(
    pairs: Sequence[Mapping[str, Any]], pools: set[tuple[str, str]], proposers: Mapping[str, str]
) -> set[str]:
    """Ids of the pair queries in core.

    Args:
        pairs: rows of the pairs table with their query ids, failed candidates included.
        pools: those in core.
        proposers: of each kernel.
    """

    def place(row: Mapping[str, Any]) -> tuple[str, ...]:
        strata = (row["problem_id"], row["backend"], row["gpu"], proposers.get(row["candidate_id"], ""))
        return (*map(str, strata), content_hash("core", row["query_id"]))

    found: set[str] = set()
    whole = {problem for problem, _ in pools}
    for relation in PairKind:
        asked = [row for row in pairs if row["relation"] == relation and row["problem_id"] not in whole]
        found |= {str(row["query_id"]) for row in _evenly(asked, place, round(PAIRS / len(PairKind)))}
    return found


def core_pools(kernels: Sequence[Mapping[str, Any]]) -> set[tuple[str, str]]:
    """Problem and GPU of the pools in core.

    Args:
        kernels: rows of the kernels table.
    """
    # A third at most, which leaves problems for the pairs.
    pools = {(str(row["gpu"]), str(row["family"]), str(row["problem_id"])) for row in kernels}
    chosen = _evenly(
        sorted(pools), lambda pool: (*pool[:2], content_hash("core", *pool)), min(POOLS, -(-len(pools) // 3))
    )
    return {(problem, gpu) for gpu, _, problem in chosen}


def _evenly(items: Sequence[T], place: Callable[[T], tuple[str, ...]], count: int) -> list[T]:
    """So many of them, at equal steps along their order; all where there are no more."""
    order = sorted(items, key=place)
    if len(order) <= count:
        return order
    return [order[int((step + 0.5) * len(order) / count)] for step in range(count)]
