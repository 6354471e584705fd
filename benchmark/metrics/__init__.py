"""Metrics: plain functions of arrays, and one frozen `Metric` for each figure; `registry.py` lists them all."""

from kbench.benchmark.metrics.forecast.accuracy import accuracy
from kbench.benchmark.metrics.forecast.brier import brier
from kbench.benchmark.metrics.forecast.ece import ece
from kbench.benchmark.metrics.forecast.ece_adaptive import ece_adaptive
from kbench.benchmark.metrics.forecast.log_score import log_score
from kbench.benchmark.metrics.forecast.reliability import reliability_curve
from kbench.benchmark.metrics.forecast.rps import rps
from kbench.benchmark.metrics.forecast.rps_skill import rps_skill
from kbench.benchmark.metrics.forecast.sharpness import sharpness
from kbench.benchmark.metrics.forecast.within_one import within_one
from kbench.benchmark.metrics.metric import Metric
from kbench.benchmark.metrics.rank.kendall import kendall
from kbench.benchmark.metrics.rank.ndcg import ndcg
from kbench.benchmark.metrics.rank.regret import regret_at
from kbench.benchmark.metrics.rank.spearman import spearman
from kbench.benchmark.metrics.rank.top_k_recall import top_k_recall
from kbench.benchmark.metrics.registry import METRICS
from kbench.benchmark.metrics.select.aurc import aurc
from kbench.benchmark.metrics.select.coverage_at_risk import coverage_at_risk
from kbench.benchmark.metrics.select.excess_aurc import excess_aurc
from kbench.benchmark.metrics.select.risk_coverage import risk_at_coverage, risk_coverage_curve
from kbench.benchmark.metrics.validity.auroc import auroc

__all__ = [
    "METRICS",
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
