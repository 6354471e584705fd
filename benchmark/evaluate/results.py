"""Results of one evaluation: everything that results.json and the report say, and the table people read.

Where a surrogate stands is one line per track, beside what others reach on the same questions. Their figures are in
standings.json, made by docs/evidence/scripts/benchmark.py for one dataset. Beside answers to other questions they would
mean nothing, so they are shown for that dataset alone.
"""

from __future__ import annotations

import dataclasses
import functools
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from kbench import __version__
from kbench.benchmark.evaluate.evaluate import Evaluation
from kbench.benchmark.metrics.bootstrap import Figure
from kbench.benchmark.metrics.metric import Better, Metric, Shown
from kbench.benchmark.metrics.registry import METRICS, headline, of_track
from kbench.benchmark.scoring.compare import BesideProbes, beside_probes
from kbench.benchmark.scoring.score import Scored, finite
from kbench.benchmark.tracks import OVERALL
from kbench.schemas import Score

if TYPE_CHECKING:
    from kbench.benchmark.metrics.metric import Metric

SCHEMA_VERSION = "1.0.0"
MOST_REASONS = 20
SHOWN_REASONS = 5
STANDINGS = Path(__file__).with_name("standings.json")
FIRST, LANGUAGE_MODEL = "first model", "language model"
WHOLE, CORE = "test", "core"


@dataclasses.dataclass(frozen=True, slots=True)
class MetricResult:
    """One metric over all queries; None where it is not defined."""

    value: float | None
    low: float | None
    high: float | None
    ceiling: float | None
    """What a second measurement scores."""
    floor: float | None
    """What the training frequencies, or a random order, score."""

    @classmethod
    def of(cls, figure: Figure, ceiling: float | None, floor: float | None) -> MetricResult:
        """From a figure with its draws."""
        ends = [None if end is None else finite(end) for end in (ceiling, floor)]
        return cls(finite(figure.value), finite(figure.low), finite(figure.high), *ends)


@dataclasses.dataclass(frozen=True, slots=True)
class EvaluationCost:
    """Seconds and tokens, in all and per forecast."""

    forecasts: int
    reused: int
    wall_s: float
    forecasts_per_s: float | None
    total_s: float
    total_tokens: int | None
    tokens_per_forecast: float | None

    @classmethod
    def of(cls, evaluation: Evaluation) -> EvaluationCost:
        """What the forecasts cost."""
        table, wall_s = evaluation.table, evaluation.run.seconds
        made, reused = int(table.failed.size), evaluation.run.reused * table.repeats
        tokens = int(np.nansum(table.tokens)) if np.any(~np.isnan(table.tokens)) else None
        return cls(
            forecasts=made,
            reused=reused,
            wall_s=wall_s,
            forecasts_per_s=(made - reused) / wall_s if made > reused and wall_s > 0 else None,
            total_s=float(np.nansum(table.elapsed_s)),
            total_tokens=tokens,
            tokens_per_forecast=None if tokens is None else tokens / max(made, 1),
        )


@dataclasses.dataclass(frozen=True, slots=True)
class Failures:
    """Forecasts without an answer."""

    count: int
    reasons: Mapping[str, int]
    """The most frequent ones."""

    @classmethod
    def of(cls, evaluation: Evaluation) -> Failures:
        """What went wrong, most frequent first."""
        reasons_counted = dict(evaluation.run.failures) or dict(evaluation.table.reasons)
        reasons = sorted(reasons_counted.items(), key=lambda item: -item[1])[:MOST_REASONS]
        return cls(int(evaluation.table.failed.sum()), dict(reasons))


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationResults:
    """The whole result; docs/ describes the fields."""

    schema_version: str = SCHEMA_VERSION
    kbench_version: str = __version__
    surrogate: str
    found_at: str
    arguments: Mapping[str, Any]
    inputs: str
    dataset: str
    split: str
    subset: str | None
    """`core` where a fixed part of the split was asked."""
    shots: int
    """Most measured kernels that a query names."""
    gpu: str | None
    """The GPU asked about; None for every GPU of the dataset."""
    questions: str
    """Fingerprint of the questions."""
    queries: int
    limited: bool
    repeats: int
    seed: int
    resamples: int
    headlines: Mapping[str, str]
    lower_is_better: tuple[str, ...]
    overall: MetricResult | None
    """Mean of the tracks' headlines, each on a scale from its floor (0) to its ceiling (1)."""
    probes: Mapping[str, BesideProbes]
    """By track, and overall: the strongest probe, which understands nothing of a kernel; empty where none was asked."""
    tracks: Mapping[str, Mapping[str, MetricResult]]
    slices: tuple[Score, ...]
    failures: Failures
    stray_answers: int
    cost: EvaluationCost

    @classmethod
    def of(cls, evaluation: Evaluation, probes: Mapping[str, Scored] | None = None) -> EvaluationResults:
        """The results of an evaluation, beside what probes score on the same questions."""
        scored, questions, options = evaluation.scored, evaluation.questions, evaluation.options
        bounds = (scored.ceilings, scored.floors)
        return cls(
            surrogate=evaluation.name,
            found_at=evaluation.target.found_at,
            arguments=options.recorded_arguments,
            inputs=evaluation.inputs,
            dataset=questions.dataset,
            split=questions.split,
            subset=questions.subset,
            shots=questions.shots,
            gpu=questions.gpu,
            questions=questions.fingerprint,
            queries=len(questions.queries),
            limited=questions.limited,
            repeats=evaluation.table.repeats,
            seed=options.seed,
            resamples=options.resamples,
            headlines={track: headline(track).name for track in questions.tracks},
            lower_is_better=tuple(sorted({metric.name for metric in METRICS if metric.better is Better.LOW})),
            overall=None if scored.overall is None else MetricResult.of(scored.overall, 1.0, 0.0),
            probes=beside_probes(scored, probes or {}),
            tracks={
                track: {
                    name: MetricResult.of(figure, *(b.get(track, {}).get(name) for b in bounds))
                    for name, figure in figures.items()
                }
                for track, figures in scored.figures.items()
            },
            slices=scored.slices,
            failures=Failures.of(evaluation),
            stray_answers=evaluation.run.stray,
            cost=EvaluationCost.of(evaluation),
        )

    def to_json(self) -> dict[str, Any]:
        """As plain JSON values."""
        return dataclasses.asdict(self)


def terminal(results: EvaluationResults, others: Sequence[EvaluationResults] = ()) -> str:
    """The results of one surrogate, with the values of others beside it."""
    probe = ["probe"] if results.probes else []
    head = ["", results.surrogate, "95 % interval", "floor", *probe, "ceiling", *(other.surrogate for other in others)]
    rows = [head]
    for track, metrics in results.tracks.items():
        rows.append([track.upper(), *[""] * (len(head) - 1)])
        for metric in of_track(track):
            if metric.shown >= Shown.TERMINAL and metric.name in metrics:
                beside = results.probes.get(track) if metric.headline else None
                cells = _row(metric, metrics[metric.name], others, beside)
                rows.append(cells if results.probes else cells[:4] + cells[5:])
    lead = [*_aligned(standing_rows(results)), *standing_notes(results)]
    return "\n".join([_title(results), "", *lead, "", *_aligned(rows), "", *_notes(results)])


def _aligned(rows: list[list[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]).rstrip()
        for row in rows
    ]  # fmt: skip


def _row(
    metric: Metric, result: MetricResult, others: Sequence[EvaluationResults], probe: BesideProbes | None
) -> list[str]:
    mark = "~" if probe is not None and probe.reached_by_layout else "*" if metric.headline else " "
    interval = "" if result.low is None else f"[{metric.text(result.low)}, {metric.text(result.high)}]"
    beside = [other.tracks.get(metric.track.name, {}).get(metric.name) for other in others]
    return [
        f" {mark} {metric.name} {metric.arrow}",
        metric.text(result.value),
        interval,
        metric.text(result.floor),
        "" if probe is None or result.value is None else f"{probe.probe} {metric.text(probe.value)}",
        metric.text(result.ceiling),
        *(metric.text(None if other is None else other.value) for other in beside),
    ]


def _title(results: EvaluationResults) -> str:
    limited = (f", {results.shots} shots" if results.shots else "") + (", limited" if results.limited else "")
    return (
        f"{results.surrogate} on {results.split} of dataset {results.dataset[:12]}: "
        f"{results.queries:,} queries{limited}, inputs: {results.inputs}"
    )


def _notes(results: EvaluationResults) -> list[str]:
    cost, failures = results.cost, results.failures
    overall = results.overall
    speed = "" if cost.forecasts_per_s is None else f", {cost.forecasts_per_s:,.0f} forecasts/s"
    tokens = "" if cost.total_tokens is None else f", {cost.total_tokens:,} tokens"
    notes = [f"{cost.forecasts:,} forecasts ({cost.reused:,} reused) in {cost.wall_s:.1f} s{speed}{tokens}"]
    if overall is not None and overall.value is not None and overall.low is not None and overall.high is not None:
        probe = results.probes.get(OVERALL)
        beside = "" if probe is None else f"; probe {probe.probe} {probe.value:.3f}"
        interval = f"[{overall.low:.3f}, {overall.high:.3f}]{beside}"
        notes.insert(0, f"overall {overall.value:.3f} {interval}: mean of the headlines, 0 the floor and 1 the ceiling")
    if failures.count:
        notes.append(f"{failures.count:,} without an answer, scored as the uniform forecast and a forced deferral:")
        notes += [f"  {count:,} × {reason}" for reason, count in list(failures.reasons.items())[:SHOWN_REASONS]]
    if results.stray_answers:
        notes.append(f"{results.stray_answers:,} answers to queries that were not asked were ignored")
    notes.append("floor: training frequencies or a random order; ceiling: a second measurement of the same kernels")
    if results.probes:
        notes.append("probe: the strongest that sees layout, names or author alone, or no source at all")
        notes.append("~ no headline here: the layout of the text alone comes as far, within the interval")
    if any(metric.value is None for of in results.tracks.values() for metric in of.values()):
        notes.append("– what these questions do not ask, or too few of them to score")
    notes.append("* headline of its track; ↑ higher is better, ↓ lower is better")
    return notes


@functools.cache
def _standings() -> Any:
    return json.loads(STANDINGS.read_text(encoding="utf-8"))


def standing_rows(results: EvaluationResults) -> list[list[str]]:
    """A row per track: yours, the prior, a first model, the best built-in, a language model, the ceiling."""
    others = _comparable(results)
    head = ["", results.surrogate, "prior", *([FIRST, "best built-in", LANGUAGE_MODEL] if others else []), "ceiling"]
    table = [head]
    for track, metrics in results.tracks.items():
        metric = headline(track)
        result = metrics.get(metric.name)
        if result is None:
            continue
        beside = _beside(others, metric, CORE if results.subset == CORE else WHOLE) if others else []
        figures = [metric.text(result.value), metric.text(result.floor), *beside, metric.text(result.ceiling)]
        table.append([f"{track}: {metric.name} {metric.arrow}", *figures])
    return table


def standing_notes(results: EvaluationResults) -> list[str]:
    """What the table needs said: what others were asked, and why a skill is below zero."""
    lines = []
    if results.limited and _comparable(results):
        lines.append("the others answered all questions of the split, this surrogate a part of them")
    why = _why_negative(results)
    return [*lines, why] if why else lines


def _comparable(results: EvaluationResults) -> dict[str, Any]:
    same = results.dataset == _standings()["dataset"] and results.split == WHOLE and not results.shots
    return dict(_standings()["entries"]) if same and results.subset in (None, CORE) else {}


def _beside(entries: dict[str, Any], metric: Metric, part: str) -> list[str]:
    """The figures of a first model, of the best built-in with its name, and of a language model."""

    def figure(name: str, asked: str) -> float | None:
        value: float | None = entries.get(name, {}).get(asked, {}).get(metric.track.name, {}).get(metric.name)
        return value

    built_in = {name: figure(name, part) for name in entries if name not in (FIRST, LANGUAGE_MODEL)}
    reached = {name: metric.sign * value for name, value in built_in.items() if value is not None}
    best = max(reached, key=reached.__getitem__, default=None)
    asked = part if figure(LANGUAGE_MODEL, part) is not None else CORE
    known = figure(LANGUAGE_MODEL, asked)
    remark = "" if asked == part or known is None else f" ({asked})"
    return [
        metric.text(figure(FIRST, part)),
        "–" if best is None else f"{metric.text(built_in[best])} {best}",
        f"{metric.text(known)}{remark}",
    ]


def _why_negative(results: EvaluationResults) -> str | None:
    """What is wrong with forecasts that are worse than the training frequencies."""
    forecast = results.tracks.get("forecast", {})
    skill, sign, error = (forecast.get(name) for name in ("skill", "sign_accuracy", "ece"))
    if skill is None or sign is None or error is None or skill.value is None or skill.value >= 0:
        return None
    if sign.value is None or sign.floor is None or error.value is None:
        return None
    if sign.value < sign.floor:
        return (
            f"skill is below 0 because of the order: it says which kernel is faster rightly in {sign.value:.0%} of the"
            f" pairs, the prior in {sign.floor:.0%}"
        )
    return (
        f"skill is below 0 because of the confidence: the order is right in {sign.value:.0%} of the pairs, but"
        f" probabilities are off by {error.value:.2f} on average; --surrogate calibrated:NAME corrects them"
    )
