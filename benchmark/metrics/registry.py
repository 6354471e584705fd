"""The list of metrics. A metric that is not here does not exist."""

from __future__ import annotations

from typing import Any

from kbench.benchmark.metrics.bootstrap import Bootstrap, Figure
from kbench.benchmark.metrics.forecast.accuracy import ACCURACY, SIGN_ACCURACY, WITHIN_ONE
from kbench.benchmark.metrics.forecast.brier import BRIER
from kbench.benchmark.metrics.forecast.ece import ECE, ECE_ADAPTIVE, ECE_PER_PROBLEM
from kbench.benchmark.metrics.forecast.log_score import LOG_SCORE
from kbench.benchmark.metrics.forecast.rps import LEVEL_SKILL, RPS, SKILL
from kbench.benchmark.metrics.forecast.sharpness import SHARPNESS
from kbench.benchmark.metrics.metric import Metric
from kbench.benchmark.metrics.rank.order import KENDALL, NDCG, SPEARMAN, TOP_10_RECALL
from kbench.benchmark.metrics.rank.regret import (
    CAPPED_REGRET,
    MEDIAN_REGRET,
    OTHER_REGRETS,
    REGRET,
    WITHIN_05,
    WITHIN_20,
)
from kbench.benchmark.metrics.search import ATTAINED, BEST_FOUND, GAINS
from kbench.benchmark.metrics.select.aurc import AURC, EXCESS_AURC, SIGN_AURC
from kbench.benchmark.metrics.select.coverage_at_risk import (
    COVERAGE_AT_RISK,
    GPU_SECONDS_PER_DECISION,
    SIGN_COVERAGE_AT_RISK,
    SIGN_GPU_SECONDS_PER_DECISION,
)
from kbench.benchmark.metrics.validity import ANSWERED, AUROC, AUROC_WITHIN_PROPOSER, LOG_SKILL, VALIDITY_LOG_SCORE

METRICS: tuple[Metric, ...] = (
    SKILL, LEVEL_SKILL, RPS, ACCURACY, WITHIN_ONE, SIGN_ACCURACY, LOG_SCORE, BRIER,
    ECE, ECE_PER_PROBLEM, ECE_ADAPTIVE, SHARPNESS,
    AURC, EXCESS_AURC, *COVERAGE_AT_RISK, SIGN_AURC, *SIGN_COVERAGE_AT_RISK,
    GPU_SECONDS_PER_DECISION, SIGN_GPU_SECONDS_PER_DECISION,
    WITHIN_05, MEDIAN_REGRET, CAPPED_REGRET, REGRET, WITHIN_20, SPEARMAN, KENDALL, NDCG, TOP_10_RECALL, *OTHER_REGRETS,
    *(metric for at_budget in zip(ATTAINED, GAINS, BEST_FOUND, strict=True) for metric in at_budget),
    AUROC_WITHIN_PROPOSER, AUROC, VALIDITY_LOG_SCORE, LOG_SKILL, ANSWERED,
)  # fmt: skip
"""In the order of every table; a track's headline comes first."""

BY_NAME = {(metric.track.name, metric.name): metric for metric in METRICS}


def of_track(track: str) -> tuple[Metric, ...]:
    """The metrics of one track."""
    return tuple(metric for metric in METRICS if metric.track.name == track)


def headline(track: str) -> Metric:
    """The metric a track is ranked by."""
    return next(metric for metric in of_track(track) if metric.headline)


def markdown_table() -> str:
    """Every metric as a Markdown table, for the docs."""
    lines = ["| track | metric | better | meaning |", "|---|---|---|---|"]
    for metric in METRICS:
        name = f"**`{metric.name}`**" if metric.headline else f"`{metric.name}`"
        lines.append(f"| {metric.track.name} | {name} | {metric.better} | {metric.meaning} |")
    return "\n".join(lines)


def figures(track: str, bootstrap: Bootstrap, rows: Any) -> dict[str, Figure]:
    """Every metric of a track that these rows can say, by name."""
    found = {metric.name: metric.figure(bootstrap, rows) for metric in of_track(track)}
    return {name: figure for name, figure in found.items() if figure is not None}
