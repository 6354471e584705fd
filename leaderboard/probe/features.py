"""Everything a set of queries says of a kernel other than by its source: how often, where, beside whom it is asked."""

from __future__ import annotations

import dataclasses
import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from kbench.benchmark.metrics.arrays import Floats, Ints
from kbench.schemas import PairKind, Query

RIDGE = 1e-3
"""Keeps the least squares on the graph solvable where the graph falls into parts."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class KernelFeatures:
    """One row per kernel that is asked against the reference."""

    query_ids: Sequence[str]
    """Of the query against the reference."""
    stratum: Sequence[str]
    """Problem, GPU and backend: a query states them, and they are constant within."""
    columns: Mapping[str, Floats]
    """By name."""


def kernel_features(files: Mapping[str, Sequence[Query]]) -> KernelFeatures:
    """Features of every kernel, from the query files of all tracks.

    Sources serve as names only: which queries are about the same kernel is what anyone can see.

    Args:
        files: each track's queries, in the order of its file.
    """
    queries = {query.query_id: query for asked in files.values() for query in asked}
    index: dict[tuple[str, str], int] = {}
    for query in queries.values():
        index.setdefault((query.gpu, query.candidate_source), len(index))
        if query.kind is not PairKind.REFERENCE:
            index.setdefault((query.gpu, query.anchor_source), len(index))
    ends = [
        (index[query.gpu, query.anchor_source], index[query.gpu, query.candidate_source])
        for query in queries.values()
        if query.kind is not PairKind.REFERENCE
    ]
    graph = np.array(ends, dtype=np.int64).reshape(-1, 2)
    columns = _graph_columns(graph, len(index))
    columns |= _text_columns(queries, index, columns["occurrences"])
    columns |= _file_columns(files, index)
    columns |= _shot_columns(queries, index)
    asked = [query for query in queries.values() if query.kind is PairKind.REFERENCE]
    rows = np.array([index[query.gpu, query.candidate_source] for query in asked], dtype=np.int64)
    return KernelFeatures(
        query_ids=[query.query_id for query in asked],
        stratum=[f"{query.problem_id} on {query.gpu} in {query.backend.value}" for query in asked],
        columns={name: column[rows] for name, column in columns.items()},
    )


def _graph_columns(graph: Ints, count: int) -> dict[str, Floats]:
    """Degree, sides, neighbours, and the least squares fit of 'the candidate is the faster one'."""
    as_anchor = np.bincount(graph[:, 0], minlength=count).astype(np.float64)
    as_candidate = np.bincount(graph[:, 1], minlength=count).astype(np.float64)
    degree = as_anchor + as_candidate
    beside = np.zeros(count)
    np.add.at(beside, graph[:, 0], degree[graph[:, 1]])
    np.add.at(beside, graph[:, 1], degree[graph[:, 0]])
    return {
        "occurrences": degree,
        "as anchor": as_anchor,
        "side": as_candidate - as_anchor,
        "neighbours": beside / np.maximum(degree, 1.0),
        "graph fit": _potential(graph, count),
    }


def _potential(graph: Ints, count: int) -> Floats:
    from scipy.sparse import coo_matrix, identity
    from scipy.sparse.linalg import spsolve

    rows = np.arange(len(graph))
    ones = np.ones(len(graph))
    shape = (len(graph), count)
    change: Any = coo_matrix((ones, (rows, graph[:, 1])), shape) - coo_matrix((ones, (rows, graph[:, 0])), shape)
    normal = (change.T @ change + RIDGE * identity(count)).tocsc()
    result: Floats = spsolve(normal, change.T @ ones)
    return result


def _text_columns(queries: Mapping[str, Query], index: Mapping[Any, int], degree: Floats) -> dict[str, Floats]:
    """Ids, kinds, and lengths of the lists that travel with a query."""
    ids, edits, lists = np.zeros(len(index)), np.zeros(len(index)), np.zeros(len(index))
    for query in queries.values():
        at = index[query.gpu, query.candidate_source]
        if query.kind is PairKind.REFERENCE:
            ids[at] = int(query.query_id[:12], 16)
            lists[at] = len(json.loads(query.workloads_json)) + len(getattr(query, "known", None) or ())
        elif query.kind is PairKind.PARENT_EDIT:
            edits[at] += 1
            edits[index[query.gpu, query.anchor_source]] += 1
    return {"id": ids, "kind": edits / np.maximum(degree, 1.0), "lists": lists}


def _file_columns(files: Mapping[str, Sequence[Query]], index: Mapping[Any, int]) -> dict[str, Floats]:
    """Which files hold a kernel, and where in them."""
    held, place = np.zeros(len(index)), np.zeros(len(index))
    for asked in files.values():
        for position, query in enumerate(asked):
            at = index[query.gpu, query.candidate_source]
            held[at] += 1
            place[at] += position / len(asked)
    return {"files": held, "order": place / np.maximum(held, 1.0)}


def _shot_columns(queries: Mapping[str, Query], index: Mapping[Any, int]) -> dict[str, Floats]:
    """A measured kernel that one query shows is an answer if another query asks about it."""
    shown: defaultdict[int, list[float]] = defaultdict(list)
    for query in queries.values():
        for shot in getattr(query, "known", None) or ():
            at = index.get((query.gpu, shot.source))
            if at is not None:
                shown[at].append(shot.speedup)
    column = np.zeros(len(index))
    for at, speedups in shown.items():
        column[at] = float(np.mean(speedups))
    return {"shown elsewhere": column}
