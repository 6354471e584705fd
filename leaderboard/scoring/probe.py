"""Probe: what a set of queries gives away before any source is read.

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


def probe(questions: Questions) -> list[Finding]:
    """What the queries of all tracks tell of the order of pools; `leaks` marks a finding that fails.

    Each feature is taken in its better direction; after them come the models of all of them.
    """
    ids = [questions.queries[at].query_id for at in questions.pools.query.tolist()]
    features = KernelFeatures(queries_by_track(questions), dict(zip(ids, questions.pools.pool.tolist(), strict=True)))
    row_of = {query.query_id: row for row, query in enumerate(features.asked)}
    correct = questions.pools.valid & ~np.isnan(questions.pools.runtime_us)
    pools, rows = questions.pools.take(correct), np.array([row_of[key] for key in ids], dtype=np.int64)[correct]
    strata = np.array([features.stratum[row] for row in rows], dtype=object)
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
    table, figures = features.standard(rows), {}
    for name, column in zip(features.columns, table.T, strict=True):
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


class KernelFeatures:
    """What the query files of all tracks say of each kernel that is asked against the reference.

    Sources serve as names only: which queries are about the same kernel is what anyone can see.
    """

    def __init__(self, files: Mapping[str, Sequence[Query]], pools: Mapping[str, str]) -> None:
        """Look at each track's queries, in the order of its file.

        Args:
            files: the queries of each track.
            pools: of each query about a kernel of a pool.
        """
        self._files = files
        self._queries = {query.query_id: query for of_track in files.values() for query in of_track}
        self._index: dict[tuple[str, str], int] = {}
        for query in self._queries.values():
            self._index.setdefault((query.gpu, query.candidate_source), len(self._index))
            if query.kind is not PairKind.REFERENCE:
                self._index.setdefault((query.gpu, query.anchor_source), len(self._index))
        self.asked = [query for query in self._queries.values() if query.query_id in pools]
        self.stratum = [pools[query.query_id] for query in self.asked]
        """The pool: problem, GPU, backend and author class are constant within."""
        columns = self._graph_columns() | self._text_columns() | self._file_columns() | self._shot_columns()
        rows = np.array([self._candidate(query) for query in self.asked], dtype=np.int64)
        self.columns = {name: column[rows] for name, column in columns.items()}

    def standard(self, rows: Ints) -> Floats:
        """Every feature relative to its stratum's mean: what tells strata apart is stated in the query anyway."""
        table = np.stack([column[rows] for column in self.columns.values()], axis=1)
        strata = np.unique([self.stratum[row] for row in rows], return_inverse=True)[1]
        count = np.maximum(np.bincount(strata), 1)[:, None]
        sums = np.zeros((len(count), table.shape[1]))
        np.add.at(sums, strata, table)
        centred = table - (sums / count)[strata]
        scale = centred.std(axis=0)
        # A feature that is constant up to rounding tells nothing.
        result: Floats = np.where(scale > 1e-9, centred / np.maximum(scale, 1e-9), 0.0)
        return np.round(result, 9)

    def _candidate(self, query: Query) -> int:
        return self._index[query.gpu, query.candidate_source]

    def _graph_columns(self) -> dict[str, Floats]:
        """Degree, sides, neighbours, and the least squares fit of 'the candidate is the faster one'."""
        count = len(self._index)
        ends = [
            (self._index[query.gpu, query.anchor_source], self._candidate(query))
            for query in self._queries.values()
            if query.kind is not PairKind.REFERENCE
        ]
        graph = np.array(ends, dtype=np.int64).reshape(-1, 2)
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

    def _text_columns(self) -> dict[str, Floats]:
        """Ids, kinds, and lengths of the lists that travel with a query."""
        ids, edits, lists, degree = (np.zeros(len(self._index)) for _ in range(4))
        for query in self._queries.values():
            at = self._candidate(query)
            if query.kind is PairKind.REFERENCE:
                ids[at] = int(query.query_id[:12], 16)
                lists[at] = len(json.loads(query.workloads_json)) + len(getattr(query, "known", None) or ())
                continue
            for end in (at, self._index[query.gpu, query.anchor_source]):
                degree[end] += 1
                edits[end] += query.kind is PairKind.PARENT_EDIT
        return {"id": ids, "kind": edits / np.maximum(degree, 1.0), "lists": lists}

    def _file_columns(self) -> dict[str, Floats]:
        """Which files hold a kernel, and where in them."""
        held, place = np.zeros(len(self._index)), np.zeros(len(self._index))
        for of_track in self._files.values():
            for position, query in enumerate(of_track):
                at = self._candidate(query)
                held[at] += 1
                place[at] += position / len(of_track)
        return {"files": held, "order": place / np.maximum(held, 1.0)}

    def _shot_columns(self) -> dict[str, Floats]:
        """A measured kernel that one query shows is an answer if another query asks about it."""
        shown: defaultdict[int, list[float]] = defaultdict(list)
        for query in self._queries.values():
            for shot in getattr(query, "known", None) or ():
                at = self._index.get((query.gpu, shot.source))
                if at is not None:
                    shown[at].append(shot.speedup)
        column = np.zeros(len(self._index))
        for at, speedups in shown.items():
            column[at] = float(np.mean(speedups))
        return {"shown elsewhere": column}


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
