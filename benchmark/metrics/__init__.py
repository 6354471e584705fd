"""Metrics: arrays in, numbers out. One file each; `intervals` and `ceiling` say how sure a figure is."""

from collections.abc import Callable

from kbench.benchmark.metrics.accuracy import accuracy
from kbench.benchmark.metrics.aurc import aurc, excess_aurc
from kbench.benchmark.metrics.auroc import auroc
from kbench.benchmark.metrics.brier import brier
from kbench.benchmark.metrics.ece import ece, ece_adaptive
from kbench.benchmark.metrics.kendall import kendall
from kbench.benchmark.metrics.log_score import log_score
from kbench.benchmark.metrics.ndcg import ndcg
from kbench.benchmark.metrics.regret import regret_at, regret_curve
from kbench.benchmark.metrics.reliability import reliability_curve
from kbench.benchmark.metrics.risk_coverage import coverage_at_risk, risk_at_coverage, risk_coverage_curve
from kbench.benchmark.metrics.rps import rps, rps_skill
from kbench.benchmark.metrics.sharpness import sharpness
from kbench.benchmark.metrics.spearman import spearman
from kbench.benchmark.metrics.top_k_recall import top_k_recall
from kbench.benchmark.metrics.within_one import within_one

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
