"""The metrics of all tracks. Each track's module lists its own; a metric that is in no list does not exist."""

from __future__ import annotations

from typing import Any

from kbench.benchmark.metrics import edit, forecast, rank, select
from kbench.benchmark.metrics.bootstrap import Bootstrap, Figure
from kbench.benchmark.metrics.metric import Metric
from kbench.benchmark.tracks import OVERALL

METRICS: tuple[Metric, ...] = (*forecast.METRICS, *edit.METRICS, *rank.METRICS, *select.METRICS)
"""In the order of every table; a track's headline comes first."""

BY_NAME = {(metric.track.name, metric.name): metric for metric in METRICS}


def of_track(track: str) -> tuple[Metric, ...]:
    """The metrics of one track."""
    return tuple(metric for metric in METRICS if metric.track.name == track)


def headline(track: str) -> Metric:
    """The metric a track is ranked by."""
    return next(metric for metric in of_track(track) if metric.headline)


def sign_of(track: str) -> float:
    """Times this, a higher headline of the track, or overall, is always the better one."""
    return 1.0 if track == OVERALL else headline(track).sign


def markdown_table() -> str:
    """Every metric as a Markdown table, for the docs."""
    lines = ["| track | metric | better | meaning |", "|---|---|---|---|"]
    for metric in METRICS:
        name = f"**`{metric.name}`**" if metric.headline else f"`{metric.name}`"
        lines.append(f"| {metric.track.name} | {name} | {metric.better} | {metric.meaning} |")
    return "\n".join(lines)


def figures(track: str, bootstrap: Bootstrap, rows: Any, headline_alone: bool = False) -> dict[str, Figure]:
    """Every metric of a track that these rows can say, or its headline alone, by name."""
    metrics = (headline(track),) if headline_alone else of_track(track)
    measured = {metric.name: metric.measured(bootstrap, rows) for metric in metrics}
    return {name: figure for name, figure in measured.items() if figure is not None}
