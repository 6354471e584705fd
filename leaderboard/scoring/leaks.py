"""Leaks: what a set of queries gives away before any source is read.

How often a kernel is asked about, on which side, beside which others, in which files and where in them: each such
feature is compared with the answers, alone in its better direction and all together in models fitted to the answers of
other problems: how well do they tell the order of a pool (mean Spearman over pools, correct kernels alone)?
"""

from __future__ import annotations

import dataclasses
import json
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from kbench.benchmark.metrics.arrays import Floats, Ints
from kbench.benchmark.metrics.bootstrap import Bootstrap, Figure
from kbench.benchmark.metrics.rank import spearman
from kbench.benchmark.questions.questions import Questions
from kbench.leaderboard.submission.labels import queries_by_track
from kbench.schemas import PairKind, Query

Features = dict[str, Floats]
"""A column by its name."""

LIMIT = 0.05
"""Spearman correlation from which a feature gives answers away."""
FOLDS = 5
RESAMPLES = 1000
LEAST_RANKED = 5
"""Fewest correct kernels of a stratum worth ordering."""
RIDGE = 1e-3
"""Keeps the least squares on the graph solvable where the graph falls into parts."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """How much one feature, or all together, tell."""

    feature: str
    value: float
    low: float
    high: float

    @property
    def leaks(self) -> bool:
        """Whether the value is above its limit, and told from chance: of a dozen features one may stand out by it."""
        return self.value > LIMIT and self.low > 0.0


def find_leaks(questions: Questions) -> list[Finding]:
    """What the queries of all tracks tell of the order of pools; `leaks` marks a finding that fails.

    Each feature is taken in its better direction; after them come the models of all of them.
    """
    ids = [questions.queries[at].query_id for at in questions.pools.query.tolist()]
    pool_of = dict(zip(ids, questions.pools.pool.tolist(), strict=True))
    asked, features = kernel_features(queries_by_track(questions), pool_of)
    row_of = {query_id: row for row, query_id in enumerate(asked)}
    correct = questions.pools.valid & ~np.isnan(questions.pools.runtime_us)
    pools, rows = questions.pools.take(correct), np.array([row_of[key] for key in ids], dtype=np.int64)[correct]
    # Problem, GPU, backend and author class are constant within a pool.
    strata = np.array([pool_of[asked[row]] for row in rows], dtype=object)
    members = [np.flatnonzero(strata == name) for name in dict.fromkeys(strata.tolist())]
    members = [stratum for stratum in members if len(stratum) >= LEAST_RANKED]
    if not members:
        return []
    speed = -pools.runtime_us
    bootstrap = Bootstrap(np.array([pools.problem[stratum[0]] for stratum in members], dtype=object), RESAMPLES)

    def figure(column: Floats) -> Figure:
        return bootstrap.mean(np.array([spearman(column[stratum], speed[stratum]) for stratum in members]))

    place = np.zeros(len(speed))
    for stratum in members:
        order = speed[stratum].argsort().argsort()
        place[stratum] = order / len(order) - 0.5
    table, figures = _standard(features, rows, strata), {}
    for name, column in zip(features, table.T, strict=True):
        one = figure(column)
        figures[name] = one if one.value >= 0.0 else figure(-column)
    for name, fitted in _fits(table, place, pools.problem):
        figures[name] = figure(np.round(fitted, 9))
    return [Finding(feature=name, value=one.value, low=one.low, high=one.high) for name, one in figures.items()]


def _fits(table: Floats, target: Floats, problem: npt.NDArray[np.object_]) -> Iterator[tuple[str, Floats]]:
    """What models of all features say of problems they were not fitted on."""
    from sklearn.ensemble import HistGradientBoostingRegressor
    from sklearn.linear_model import Ridge

    makers: dict[str, Callable[[], Any]] = {
        "all, linear": lambda: Ridge(alpha=1.0),
        "all, trees": lambda: HistGradientBoostingRegressor(max_iter=40, max_leaf_nodes=8, random_state=0),
    }
    names = sorted(set(problem.tolist()))
    fold = np.array([names.index(name) % FOLDS for name in problem.tolist()])
    for label, make in makers.items():
        predicted = np.zeros(len(target))
        for each in range(FOLDS):
            inside, outside = fold == each, fold != each
            if inside.any() and outside.any():
                model = make().fit(table[outside], target[outside])
                predicted[inside] = model.predict(table[inside]) - target[outside].mean()
        yield label, predicted


def kernel_features(files: Mapping[str, Sequence[Query]], pools: Mapping[str, str]) -> tuple[list[str], Features]:
    """What the query files of all tracks say of each kernel that is asked against the reference.

    Sources serve as names only: which queries are about the same kernel is what anyone can see.

    Args:
        files: the queries of each track, in the order of its file.
        pools: of each query about a kernel of a pool.

    Returns:
        The queries about kernels of a pool, and a column of each feature for them.
    """
    queries = {query.query_id: query for of_track in files.values() for query in of_track}
    index: dict[tuple[str, str], int] = {}
    ends: list[tuple[int, int]] = []
    for query in queries.values():
        candidate = index.setdefault((query.gpu, query.candidate_source), len(index))
        if query.kind is not PairKind.REFERENCE:
            ends.append((index.setdefault((query.gpu, query.anchor_source), len(index)), candidate))
    count, graph = len(index), np.array(ends, dtype=np.int64).reshape(-1, 2)
    ids, edits, lists, held, place = (np.zeros(count) for _ in range(5))
    shown: defaultdict[int, list[float]] = defaultdict(list)
    for query in queries.values():
        at, known = index[query.gpu, query.candidate_source], getattr(query, "known", None) or ()
        if query.kind is PairKind.REFERENCE:
            ids[at] = int(query.query_id[:12], 16)
            lists[at] = len(json.loads(query.workloads_json)) + len(known)
        elif query.kind is PairKind.PARENT_EDIT:
            edits[[at, index[query.gpu, query.anchor_source]]] += 1
        # A measured kernel that one query shows is an answer if another query asks about it.
        for shot in known:
            if (measured := index.get((query.gpu, shot.source))) is not None:
                shown[measured].append(shot.speedup)
    for of_track in files.values():
        for position, query in enumerate(of_track):
            held[index[query.gpu, query.candidate_source]] += 1
            place[index[query.gpu, query.candidate_source]] += position / len(of_track)
    as_anchor, as_candidate = (np.bincount(side, minlength=count).astype(np.float64) for side in graph.T)
    degree, beside, elsewhere = as_anchor + as_candidate, np.zeros(count), np.zeros(count)
    np.add.at(beside, graph[:, 0], degree[graph[:, 1]])
    np.add.at(beside, graph[:, 1], degree[graph[:, 0]])
    for at, speedups in shown.items():
        elsewhere[at] = float(np.mean(speedups))
    columns = {
        "occurrences": degree,
        "as anchor": as_anchor,
        "side": as_candidate - as_anchor,
        "neighbours": beside / np.maximum(degree, 1.0),
        "graph fit": _potential(graph, count),
        "id": ids,
        "kind": edits / np.maximum(degree, 1.0),
        "lists": lists,
        "files": held,
        "order": place / np.maximum(held, 1.0),
        "shown elsewhere": elsewhere,
    }
    asked = [query for query in queries.values() if query.query_id in pools]
    rows = np.array([index[query.gpu, query.candidate_source] for query in asked], dtype=np.int64)
    return [query.query_id for query in asked], {name: column[rows] for name, column in columns.items()}


def _standard(features: Features, rows: Ints, stratum: npt.NDArray[np.object_]) -> Floats:
    """Every feature relative to its stratum's mean: what tells strata apart is stated in the query anyway."""
    table = np.stack([column[rows] for column in features.values()], axis=1)
    strata = np.unique(stratum.astype(str), return_inverse=True)[1]
    count = np.maximum(np.bincount(strata), 1)[:, None]
    sums = np.zeros((len(count), table.shape[1]))
    np.add.at(sums, strata, table)
    centred = table - (sums / count)[strata]
    scale = centred.std(axis=0)
    # A feature that is constant up to rounding tells nothing.
    result: Floats = np.where(scale > 1e-9, centred / np.maximum(scale, 1e-9), 0.0)
    return np.round(result, 9)


def _potential(graph: Ints, count: int) -> Floats:
    """The least squares fit of 'the candidate is the faster one'."""
    from scipy.sparse import coo_matrix, identity
    from scipy.sparse.linalg import spsolve

    rows = np.arange(len(graph))
    ones = np.ones(len(graph))
    shape = (len(graph), count)
    change: Any = coo_matrix((ones, (rows, graph[:, 1])), shape) - coo_matrix((ones, (rows, graph[:, 0])), shape)
    normal = (change.T @ change + RIDGE * identity(count)).tocsc()
    result: Floats = spsolve(normal, change.T @ ones)
    return result
