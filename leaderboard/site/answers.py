"""What single forecasts say of an entry: problem by problem, how far it can be trusted, where it missed most."""

from __future__ import annotations

import functools
import json
import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

import numpy as np

from kbench.benchmark.metrics.forecast import ACCURACY, LEVEL_SKILL, SKILL, reliability_curve, rps_rows
from kbench.benchmark.metrics.metric import Metric
from kbench.benchmark.metrics.rank import CAPPED_REGRET, SPEARMAN
from kbench.benchmark.questions.questions import Questions
from kbench.benchmark.scoring.by_problem import of_problems
from kbench.benchmark.scoring.rows import pair_rows
from kbench.benchmark.surrogates.forecasts import ForecastTable
from kbench.leaderboard.board import Entry
from kbench.leaderboard.scoring.flags import PackedForecasts
from kbench.leaderboard.site.kernels import SHORT_ID
from kbench.leaderboard.site.shards import compact, shortened

if TYPE_CHECKING:
    from kbench.benchmark.questions.asked import Tables

MISSES = 20
PAIR_METRICS: tuple[Metric, ...] = (SKILL, LEVEL_SKILL, ACCURACY)
POOL_METRICS: tuple[Metric, ...] = (SPEARMAN, CAPPED_REGRET)
PER_MILLE = 1000
MOST_SHOWN = 50
"""Entries whose forecasts the pages of problems and kernels show."""


class Answers:
    """What entries forecast beside the questions; an entry's table is looked at once and given up."""

    def __init__(self, questions: Questions, anchors: Mapping[str, str | None]) -> None:
        """Nothing has been looked at yet.

        Args:
            questions: what was asked.
            anchors: the anchor of each pair's query; None for the PyTorch reference.
        """
        self.questions = questions
        self._anchors = anchors
        self._details: dict[str, str] = {}
        self._forecasts: dict[str, PackedForecasts] = {}

    def look(self, entry: Entry, packed: PackedForecasts) -> None:
        """Keep an entry's drill-down, and its forecasts in packed form."""
        self._forecasts[packed.entry_id] = packed
        if len(self.questions.pairs):
            self._details[packed.entry_id] = compact({
                "problem_metrics": [metric.name for metric in (*PAIR_METRICS, *POOL_METRICS)],
                # Of every problem its name, pairs, kernels of the pool and figures.
                "problems": [
                    [one.problem, one.pairs, one.pool, *map(shortened, one.figures)]
                    for one in of_problems(self.questions, entry.table, PAIR_METRICS, POOL_METRICS)
                ],
                "reliability": _reliability(self.questions, entry.table),
                "misses": self._misses(entry.table),
            })  # fmt: skip

    def of_entry(self, entry_id: str) -> dict[str, Any]:
        """One entry's drill-down; empty where its forecasts are not known."""
        details: dict[str, Any] = json.loads(self._details.get(entry_id, "{}"))
        return details

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
        anchor = self._anchors.get(self.questions.queries[int(pairs.query[row])].query_id)
        return {
            "problem": pairs.problem[row], "candidate": pairs.candidate[row][:SHORT_ID],
            "anchor": anchor and anchor[:SHORT_ID], "bin": int(pairs.bin[row]),
            "speedup": shortened(float(pairs.speedup[row])),
        }  # fmt: skip

    def by_problem(self, entry_ids: Sequence[str]) -> dict[str, Callable[[], dict[str, Any]]]:
        """For each problem that was asked about, what makes the forecasts of its pairs by these entries, in per mille.

        Args:
            entry_ids: best first; of a board of thousands the page shows no more than the first ones.
        """
        rows_of: dict[str, list[int]] = defaultdict(list)
        for row, problem in enumerate(self.questions.pairs.problem.tolist()):
            rows_of[problem].append(row)
        shown = [self._forecasts[entry] for entry in entry_ids if entry in self._forecasts][:MOST_SHOWN]
        return {problem: functools.partial(self._of_rows, rows, shown) for problem, rows in sorted(rows_of.items())}

    def _of_rows(self, rows: list[int], shown: Sequence[PackedForecasts]) -> dict[str, Any]:
        asked, at = [self._asked(row) for row in rows], self.questions.pairs.query[rows]
        forecasts = {one.entry_id: np.rint(PER_MILLE * one.probabilities[at]).astype(int).tolist() for one in shown}
        return {
            "columns": ["candidate", "anchor", "bin", "speedup"],
            "pairs": [[one["candidate"], one["anchor"], one["bin"], one["speedup"]] for one in asked],
            "forecasts": forecasts,
        }


def answers_of(questions: Questions, corpus: Tables | None) -> Answers | None:
    """A place for the forecasts of entries; None where labels are private, which single answers would tell."""
    if corpus is None:
        return None
    asked = corpus.table("questions", columns=["question_id", "anchor_id"], split=questions.split)
    anchors = dict(zip(*(column.to_pylist() for column in asked.columns), strict=True))
    return Answers(questions, anchors)


def _reliability(questions: Questions, table: ForecastTable) -> list[list[Any]]:
    """[confidence, accuracy, low, high, rows] of each bucket; the interval is Wilson's."""
    rows = pair_rows(questions, table)
    curve = reliability_curve(rows.probabilities, rows.bins)
    buckets = []
    for confidence, accuracy, count in zip(
        curve.confidence.tolist(), curve.accuracy.tolist(), curve.rows.tolist(), strict=True
    ):
        buckets.append([*map(shortened, (confidence, accuracy, *_wilson(accuracy, count))), count])
    return buckets


def _wilson(share: float, count: int) -> tuple[float, float]:
    """Wilson's 95 % interval of a share; scipy.stats has it too, and takes seconds to import."""
    spread = NormalDist().inv_cdf(0.975) ** 2 / count
    middle, half = share + spread / 2, math.sqrt(spread * (share * (1 - share) + spread / 4))
    return max((middle - half) / (1 + spread), 0.0), min((middle + half) / (1 + spread), 1.0)
