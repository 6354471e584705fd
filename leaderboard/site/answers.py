"""What single forecasts say of an entry: problem by problem, how far it can be trusted, where it missed most."""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from kbench.benchmark.metrics.arrays import Ints
from kbench.benchmark.metrics.bootstrap import Bootstrap
from kbench.benchmark.metrics.forecast import ACCURACY, LEVEL_SKILL, SKILL, reliability_curve, rps_rows
from kbench.benchmark.metrics.metric import Metric
from kbench.benchmark.metrics.rank import CAPPED_REGRET, SPEARMAN
from kbench.benchmark.questions.questions import Questions
from kbench.benchmark.questions.versions import benchmark_of
from kbench.benchmark.scoring.rows import pair_rows, pool_scores, rank_rows, ranked_pools
from kbench.benchmark.surrogates.forecasts import ForecastTable
from kbench.benchmark.tracks import pairs_only
from kbench.leaderboard.board import Entry
from kbench.leaderboard.scoring.results import entry_id
from kbench.leaderboard.site.kernels import SHORT_ID
from kbench.leaderboard.site.shards import shortened

if TYPE_CHECKING:
    from kbench.benchmark.questions.asked import Tables

MISSES = 20
PAIR_METRICS: tuple[Metric, ...] = (SKILL, LEVEL_SKILL, ACCURACY)
POOL_METRICS: tuple[Metric, ...] = (SPEARMAN, CAPPED_REGRET)
PER_MILLE = 1000


@dataclasses.dataclass(frozen=True, slots=True)
class Answers:
    """Forecasts of every entry beside the questions."""

    questions: Questions
    tables: Mapping[str, ForecastTable]
    """By entry id."""
    anchors: Mapping[str, str | None]
    """The anchor of each pair's query; None for the PyTorch reference."""

    def of_entry(self, entry_id: str) -> dict[str, Any]:
        """One entry's drill-down; empty where its forecasts are not known."""
        table = self.tables.get(entry_id)
        if table is None or not len(self.questions.pairs):
            return {}
        return {
            "problem_metrics": [metric.name for metric in (*PAIR_METRICS, *POOL_METRICS)],
            "problems": _problems(self.questions, table),
            "reliability": _reliability(self.questions, table),
            "misses": self._misses(table),
        }

    def _misses(self, table: ForecastTable) -> list[dict[str, Any]]:
        """The pairs with the largest RPS, averaged over repeats."""
        pairs = self.questions.pairs
        rows = pair_rows(self.questions, table)
        costs = rps_rows(rows.probabilities, rows.bins).reshape(table.repeats, -1).mean(axis=0)
        means = rows.probabilities.reshape(table.repeats, len(pairs), -1).mean(axis=0)
        worst = np.argsort(-costs, kind="stable")[:MISSES].tolist()
        return [
            {**self._asked(row), "rps": shortened(float(costs[row])), "said": int(means[row].argmax()) + 1,
             "sure": shortened(float(means[row].max())), "given": shortened(float(means[row][pairs.bin[row] - 1]))}
            for row in worst
        ]  # fmt: skip

    def _asked(self, row: int) -> dict[str, Any]:
        pairs = self.questions.pairs
        anchor = self.anchors.get(self.questions.queries[int(pairs.query[row])].query_id)
        return {
            "problem": pairs.problem[row], "candidate": pairs.candidate[row][:SHORT_ID],
            "anchor": anchor and anchor[:SHORT_ID], "bin": int(pairs.bin[row]),
            "speedup": shortened(float(pairs.speedup[row])),
        }  # fmt: skip

    def by_problem(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """For each problem that was asked about, every entry's forecasts of its pairs in per mille."""
        pairs = self.questions.pairs
        rows_of: dict[str, list[int]] = defaultdict(list)
        for row, problem in enumerate(pairs.problem.tolist()):
            rows_of[problem].append(row)
        means = {entry: table.probabilities.mean(axis=0) for entry, table in self.tables.items()}
        for problem, rows in sorted(rows_of.items()):
            asked = [self._asked(row) for row in rows]
            at = pairs.query[rows]
            yield (
                problem,
                {
                    "columns": ["candidate", "anchor", "bin", "speedup"],
                    "pairs": [[one["candidate"], one["anchor"], one["bin"], one["speedup"]] for one in asked],
                    "forecasts": {
                        entry: np.rint(PER_MILLE * mean[at]).astype(int).tolist() for entry, mean in means.items()
                    },
                },
            )


def answers_of(entries: Sequence[Entry], questions: Questions, corpus: Tables | None) -> Answers | None:
    """The forecasts of entries; None where labels are private, which single answers would tell."""
    if corpus is None:
        return None
    asked = benchmark_of(corpus).table("pairs", columns=["pair_id", "anchor_id"])
    anchors = dict(zip(*(asked.column(name).to_pylist() for name in ("pair_id", "anchor_id")), strict=True))
    return Answers(questions, {entry_id(entry.submission): entry.table for entry in entries}, anchors)


def _problems(questions: Questions, table: ForecastTable) -> list[list[Any]]:
    """[problem, pairs, kernels of the pool, *metrics] of every problem."""
    rows, pairs, pools = pair_rows(questions, table), questions.pairs, questions.pools
    ranks = not pairs_only(questions.tracks) and len(pools) > 0
    scores = pool_scores(pools, table, weigh_validity=False) if ranks else None
    orders = {str(pools.problem[pool[0]]): pool for pool in ranked_pools(pools)} if ranks else {}
    rows_of_problems = []
    for problem in sorted(set(pairs.problem.tolist()) | set(orders)):
        at = np.flatnonzero(np.tile(pairs.problem == problem, table.repeats))
        values = [_value(metric, rows.take(at), len(at)) for metric in PAIR_METRICS]
        order: Ints | None = orders.get(problem)
        part = None if order is None or scores is None else rank_rows(pools, [order], scores)
        values += [None if part is None else _value(metric, part, table.repeats) for metric in POOL_METRICS]
        asked = int((pairs.problem == problem).sum())
        rows_of_problems.append([problem, asked, 0 if order is None else len(order), *values])
    return rows_of_problems


def _value(metric: Metric, rows: Any, count: int) -> float | int | None:
    figure = metric.figure(Bootstrap(np.zeros(count, dtype=np.int64), 0), rows) if count else None
    return None if figure is None or not np.isfinite(figure.value) else shortened(figure.value)


def _reliability(questions: Questions, table: ForecastTable) -> list[list[Any]]:
    """[confidence, accuracy, low, high, rows] of each bucket; the interval is Wilson's."""
    from scipy.stats import binomtest

    rows = pair_rows(questions, table)
    curve = reliability_curve(rows.probabilities, rows.bins)
    buckets = []
    for confidence, accuracy, count in zip(
        curve.confidence.tolist(), curve.accuracy.tolist(), curve.rows.tolist(), strict=True
    ):
        interval = binomtest(round(accuracy * count), count).proportion_ci(method="wilson")
        buckets.append([*map(shortened, (confidence, accuracy, interval.low, interval.high)), count])
    return buckets
