"""Metrics: plain functions of arrays, and one frozen `Metric` for each figure; `registry.py` lists them all."""

from kbench.benchmark.metrics.edit import auroc as auroc
from kbench.benchmark.metrics.forecast import accuracy as accuracy
from kbench.benchmark.metrics.forecast import brier as brier
from kbench.benchmark.metrics.forecast import ece as ece
from kbench.benchmark.metrics.forecast import ece_adaptive as ece_adaptive
from kbench.benchmark.metrics.forecast import log_score as log_score
from kbench.benchmark.metrics.forecast import reliability_curve as reliability_curve
from kbench.benchmark.metrics.forecast import rps as rps
from kbench.benchmark.metrics.forecast import sharpness as sharpness
from kbench.benchmark.metrics.forecast import within_one as within_one
from kbench.benchmark.metrics.metric import Metric as Metric
from kbench.benchmark.metrics.rank import kendall as kendall
from kbench.benchmark.metrics.rank import ndcg as ndcg
from kbench.benchmark.metrics.rank import regret_at as regret_at
from kbench.benchmark.metrics.rank import spearman as spearman
from kbench.benchmark.metrics.rank import top_k_recall as top_k_recall
from kbench.benchmark.metrics.registry import METRICS as METRICS
from kbench.benchmark.metrics.select import aurc as aurc
from kbench.benchmark.metrics.select import coverage_at_risk as coverage_at_risk
from kbench.benchmark.metrics.select import excess_aurc as excess_aurc
from kbench.benchmark.metrics.select import risk_coverage_curve as risk_coverage_curve
