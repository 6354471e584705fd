"""Fit what a set of queries gives away, without reading sources, and compare it with the answers.

Two figures matter: how well validity is told (AUROC, over the kernels that the validity track asks about) and how well
the order of a pool is (mean Spearman over pools, correct kernels alone). Every feature is tried by itself, in its
better direction, and all together by models fitted to the answers of other problems.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from kbench.benchmark.metrics.arrays import Floats
from kbench.benchmark.metrics.bootstrap import Bootstrap, Figure
from kbench.benchmark.metrics.rank import spearman
from kbench.benchmark.metrics.validity import auroc_figure
from kbench.benchmark.tasks.labels import PoolLabels
from kbench.benchmark.tasks.questions import Questions
from kbench.leaderboard.probe.features import KernelFeatures, kernel_features
from kbench.schemas import Query

VALIDITY_LIMIT = 0.55
RANK_LIMIT = 0.05
CHANCE = {"validity": 0.5, "rank": 0.0}
FOLDS = 5
RESAMPLES = 1000
LEAST_RANKED = 5
"""Fewest correct kernels of a stratum worth ordering."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """How much one feature, or all together, tell."""

    about: str
    """validity (AUROC) or rank (Spearman)."""
    feature: str
    value: float
    low: float
    high: float
    leaks: bool
    """Whether the value is above its limit and chance alone does not explain it."""


@dataclasses.dataclass(frozen=True, slots=True)
class Probe:
    """Everything found about one set of queries."""

    findings: list[Finding]

    @property
    def leaks(self) -> list[Finding]:
        """What fails."""
        return [one for one in self.findings if one.leaks]

    def worst(self, about: str) -> Finding:
        """The joint fit that tells most about validity or rank."""
        joint = [one for one in self.findings if one.about == about and one.feature.startswith("all, ")]
        return max(joint, key=lambda one: one.value)


def probe(questions: Questions, files: Mapping[str, Sequence[Query]] | None = None) -> Probe:
    """Probe the queries of every track.

    Args:
        questions: the questions with their answers.
        files: each track's queries in the order of its file; as the questions give them by default.
    """
    if files is None:
        files = {name: [questions.queries[i] for i in questions.asked(name).tolist()] for name in questions.tracks}
    features = kernel_features(files)
    position = {query.query_id: at for at, query in enumerate(questions.queries)}
    row_of = {position[query_id]: row for row, query_id in enumerate(features.query_ids) if query_id in position}
    rows = np.array([row_of[at] for at in questions.pools.query.tolist()], dtype=np.int64)
    found = [*_about_validity(questions.pools, features, rows), *_about_rank(questions.pools, features, rows)]
    return Probe(found)


def _about_validity(pools: PoolLabels, features: KernelFeatures, rows: Any) -> Iterator[Finding]:
    asked = pools.asked_valid
    truth = pools.valid[asked].astype(np.float64)
    if not len(truth) or truth.min() == truth.max():
        return
    problem = pools.problem[asked]
    bootstrap = Bootstrap(problem, RESAMPLES)
    table = _standard(features, rows[asked])
    together = np.zeros(len(truth), dtype=np.int64)

    def figure(column: Floats) -> Figure:
        return auroc_figure(bootstrap, column, truth, together)

    for name, column in zip(features.columns, table.T, strict=True):
        one = figure(column)
        yield _finding("validity", name, one if one.value >= 0.5 else figure(-column))
    for name, fitted in _fits(table, truth, problem):
        yield _finding("validity", name, figure(fitted))


def _about_rank(pools: PoolLabels, features: KernelFeatures, rows: Any) -> Iterator[Finding]:
    correct = pools.valid & ~np.isnan(pools.runtime_us)
    problem = pools.problem[correct]
    strata = np.array([features.stratum[row] for row in rows[correct]], dtype=object)
    members = [np.flatnonzero(strata == name) for name in dict.fromkeys(strata.tolist())]
    members = [rows_of for rows_of in members if len(rows_of) >= LEAST_RANKED]
    if not members:
        return
    speed = -pools.runtime_us[correct]
    table = _standard(features, rows[correct])
    bootstrap = Bootstrap(np.array([problem[rows_of[0]] for rows_of in members], dtype=object), RESAMPLES)
    target = np.zeros(len(speed))
    for rows_of in members:
        order = speed[rows_of].argsort().argsort()
        target[rows_of] = order / len(order) - 0.5

    def figure(column: Floats) -> Figure:
        each = np.array([spearman(column[rows_of], speed[rows_of]) for rows_of in members])
        return bootstrap.mean(each)

    for name, column in zip(features.columns, table.T, strict=True):
        one = figure(column)
        yield _finding("rank", name, one if one.value >= 0 else figure(-column))
    for name, fitted in _fits(table, target, problem):
        yield _finding("rank", name, figure(np.round(fitted, 9)))


def _finding(about: str, feature: str, figure: Figure) -> Finding:
    limit = VALIDITY_LIMIT if about == "validity" else RANK_LIMIT
    # Of a dozen features one may stand out by chance, so a value above its limit must also be told from chance.
    leaks = figure.value > limit and figure.low > CHANCE[about]
    return Finding(about=about, feature=feature, value=figure.value, low=figure.low, high=figure.high, leaks=leaks)


def _standard(features: KernelFeatures, rows: Any) -> Floats:
    """Every feature relative to its stratum's mean: what tells strata apart is stated in the query anyway."""
    table = np.stack([column[rows] for column in features.columns.values()], axis=1)
    strata = np.unique([features.stratum[row] for row in rows], return_inverse=True)[1]
    count = np.maximum(np.bincount(strata), 1)[:, None]
    sums = np.zeros((len(count), table.shape[1]))
    np.add.at(sums, strata, table)
    centred = table - (sums / count)[strata]
    scale = centred.std(axis=0)
    # A feature that is constant up to rounding tells nothing.
    result: Floats = np.where(scale > 1e-9, centred / np.maximum(scale, 1e-9), 0.0)
    return np.round(result, 9)


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
        said = np.zeros(len(target))
        for each in range(FOLDS):
            inside, outside = fold == each, fold != each
            if inside.any() and outside.any():
                said[inside] = (
                    make().fit(table[outside], target[outside]).predict(table[inside]) - target[outside].mean()
                )
        yield label, said
