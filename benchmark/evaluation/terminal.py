"""The table people read: one line per metric, with interval, ceiling, and other surrogates beside it."""

from __future__ import annotations

from collections.abc import Sequence

from kbench.benchmark.evaluation.results import EvaluationResults, MetricResult
from kbench.benchmark.metrics.metric import Metric, Shown
from kbench.benchmark.metrics.registry import of_track

MOST_REASONS = 5


def terminal(found: EvaluationResults, others: Sequence[EvaluationResults] = ()) -> str:
    """The results of one surrogate, with the values of others beside it."""
    head = ["", found.surrogate, "95 % interval", "floor", "ceiling", *(other.surrogate for other in others)]
    rows = [head]
    for track, metrics in found.tracks.items():
        rows.append([track.upper(), *[""] * (len(head) - 1)])
        for metric in of_track(track):
            if metric.shown >= Shown.TERMINAL and metric.name in metrics:
                rows.append(_row(metric, metrics[metric.name], others))
    return "\n".join([_title(found), "", *_aligned(rows), "", *_notes(found)])


def _aligned(rows: list[list[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]).rstrip()
        for row in rows
    ]  # fmt: skip


def _row(metric: Metric, result: MetricResult, others: Sequence[EvaluationResults]) -> list[str]:
    mark = "*" if metric.headline else " "
    interval = "" if result.low is None else f"[{metric.text(result.low)}, {metric.text(result.high)}]"
    beside = [other.tracks.get(metric.track.name, {}).get(metric.name) for other in others]
    return [
        f" {mark} {metric.name} {metric.arrow}",
        metric.text(result.value),
        interval,
        metric.text(result.floor),
        metric.text(result.ceiling),
        *(metric.text(None if other is None else other.value) for other in beside),
    ]


def _title(found: EvaluationResults) -> str:
    limited = (f", {found.shots} shots" if found.shots else "") + (", limited" if found.limited else "")
    return (
        f"{found.surrogate} on {found.split} of dataset {found.dataset[:12]}: "
        f"{found.queries:,} queries{limited}, inputs: {found.inputs}"
    )


def _notes(found: EvaluationResults) -> list[str]:
    cost, failures = found.cost, found.failures
    speed = "" if cost.forecasts_per_s is None else f", {cost.forecasts_per_s:,.0f} forecasts/s"
    tokens = "" if cost.total_tokens is None else f", {cost.total_tokens:,} tokens"
    notes = [f"{cost.forecasts:,} forecasts ({cost.reused:,} reused) in {cost.wall_s:.1f} s{speed}{tokens}"]
    if failures.count:
        notes.append(f"{failures.count:,} without an answer, scored as the uniform forecast and a forced deferral:")
        notes += [f"  {count:,} × {reason}" for reason, count in list(failures.reasons.items())[:MOST_REASONS]]
    if found.stray_answers:
        notes.append(f"{found.stray_answers:,} answers to queries that were not asked were ignored")
    notes.append("floor: training frequencies or a random order; ceiling: a second measurement of the same kernels")
    notes.append("* headline of its track; ↑ higher is better, ↓ lower is better")
    return notes
