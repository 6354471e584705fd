"""What the page shows of each track: its question, its headline and the metrics beside it."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True, slots=True)
class MetricView:
    """How a metric is shown."""

    name: str
    label: str
    better: str
    """high or low."""


@dataclasses.dataclass(frozen=True, slots=True)
class TrackView:
    """How a track is shown; the first metric is the headline it is ranked by."""

    id: str
    title: str
    question: str
    metrics: tuple[MetricView, ...]

    @property
    def headline(self) -> MetricView:
        """The metric the track is ranked by."""
        return self.metrics[0]


TRACKS: tuple[TrackView, ...] = (
    TrackView(
        "forecast",
        "Forecast",
        "How good is the forecast distribution? Skill is against the training prior: 0 is no better, 1 is perfect.",
        (
            MetricView("rps_skill", "RPS skill", "high"),
            MetricView("accuracy", "Accuracy", "high"),
            MetricView("within_one", "Within one bin", "high"),
            MetricView("log_score", "Log score", "low"),
            MetricView("brier", "Brier", "low"),
            MetricView("ece", "ECE", "low"),
        ),
    ),
    TrackView(
        "select",
        "Select",
        "Does it know when it does not know? The share wrong, averaged as more and more queries are answered.",
        (
            MetricView("aurc", "AURC", "low"),
            MetricView("excess_aurc", "Excess AURC", "low"),
            MetricView("coverage_at_risk_10", "Coverage at 10 % risk", "high"),
            MetricView("coverage_at_risk_20", "Coverage at 20 % risk", "high"),
        ),
    ),
    TrackView(
        "rank",
        "Rank",
        "Does it order a pool? How much slower than the pool's best is the fastest kernel in its top tenth.",
        (
            MetricView("regret_at_10", "Regret at 10 %", "low"),
            MetricView("spearman", "Spearman", "high"),
            MetricView("kendall", "Kendall", "high"),
            MetricView("ndcg", "NDCG", "high"),
        ),
    ),
    TrackView(
        "search",
        "Search",
        "Does search find more at an equal GPU budget? Best speedup found, relative to search without the surrogate.",
        (
            MetricView("gain_at_10", "Gain at 10 % budget", "high"),
            MetricView("best_at_10", "Best found at 10 %", "high"),
        ),
    ),
    TrackView(
        "validity",
        "Validity",
        "Will it compile, run and be right?",
        (MetricView("auroc", "AUROC", "high"), MetricView("log_score", "Log score", "low")),
    ),
)
