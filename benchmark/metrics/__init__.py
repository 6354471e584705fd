"""Metrics: arrays in, numbers out. One file each; `intervals` and `ceiling` say how sure a figure is."""

from collections.abc import Callable

from kbench.benchmark.metrics.forecast.accuracy import accuracy
from kbench.benchmark.metrics.forecast.brier import brier
from kbench.benchmark.metrics.forecast.ece import ece, ece_adaptive
from kbench.benchmark.metrics.forecast.log_score import log_score
from kbench.benchmark.metrics.forecast.reliability import reliability_curve
from kbench.benchmark.metrics.forecast.rps import rps, rps_skill
from kbench.benchmark.metrics.forecast.sharpness import sharpness
from kbench.benchmark.metrics.forecast.within_one import within_one
from kbench.benchmark.metrics.rank.kendall import kendall
from kbench.benchmark.metrics.rank.ndcg import ndcg
from kbench.benchmark.metrics.rank.regret import regret_at, regret_curve
from kbench.benchmark.metrics.rank.spearman import spearman
from kbench.benchmark.metrics.rank.top_k_recall import top_k_recall
from kbench.benchmark.metrics.select.aurc import aurc, excess_aurc
from kbench.benchmark.metrics.select.risk_coverage import coverage_at_risk, risk_at_coverage, risk_coverage_curve
from kbench.benchmark.metrics.validity.auroc import auroc

Metric = Callable[..., float]
"""Any metric."""

__all__ = [
    "Metric",
    "accuracy",
    "aurc",
    "auroc",
    "brier",
    "coverage_at_risk",
    "ece",
    "ece_adaptive",
    "excess_aurc",
    "kendall",
    "log_score",
    "ndcg",
    "regret_at",
    "regret_curve",
    "reliability_curve",
    "risk_at_coverage",
    "risk_coverage_curve",
    "rps",
    "rps_skill",
    "sharpness",
    "spearman",
    "top_k_recall",
    "within_one",
]
