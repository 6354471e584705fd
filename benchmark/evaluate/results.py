"""Results of one evaluation: everything that results.json and the report say, and the table people read.

Where a surrogate stands is one line per track, beside what others reach on the same questions. Their figures are in
standings.json, made by docs/evidence/scripts/benchmark.py for one dataset, on validation by what learned from train
alone. Beside answers to other questions they would mean nothing, so they are shown for that dataset alone.
"""

from __future__ import annotations

import dataclasses
import functools
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from kbench import __version__
from kbench.benchmark.evaluate.below_zero import why_below_zero
from kbench.benchmark.evaluate.evaluate import MOST_UNANSWERED, Evaluation
from kbench.benchmark.llm.batch import RECORDED_ERROR
from kbench.benchmark.llm.chat import OVER_BUDGET
from kbench.benchmark.metrics.bootstrap import Figure
from kbench.benchmark.metrics.metric import Better, Metric, Shown
from kbench.benchmark.metrics.registry import METRICS, headline, of_track
from kbench.benchmark.questions.build import VALIDATION
from kbench.benchmark.scoring.compare import BesideProbes, beside_probes
from kbench.benchmark.scoring.score import Scored, finite
from kbench.benchmark.surrogates.resolve import BUILT_IN, locate
from kbench.benchmark.tracks import OVERALL
from kbench.schemas import Score

if TYPE_CHECKING:
    from kbench.benchmark.metrics.metric import Metric
    from kbench.benchmark.questions import Questions

SCHEMA_VERSION = "1.0.0"
MOST_REASONS = 20
SHOWN_REASONS = 5
STANDINGS = Path(__file__).with_name("standings.json")
FIRST, LANGUAGE_MODEL = "first model", "language model"
ASKED_MODEL = "claude zero-shot"
"""The entry whose figures stand for a language model; `docs/evaluate.md` says where its answers are."""
WHOLE, CORE, CORE_SHOTS, VALIDATION_CORE = "test", "core", "core-8-shots", "validation-core"
FEWEST = 300
"""Queries from which figures of a part that a user chose are called headlines."""
HEADLINE, REACHED = "*", "~"
MARKS = {
    HEADLINE: "headline of its track",
    REACHED: "no headline here: the probe beside it, which understands nothing, comes as far within the interval",
}


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
    """The most frequent ones, errors that a file of responses records before all others."""
    kinds: int = 0
    """How many reasons there are."""

    @classmethod
    def of(cls, evaluation: Evaluation) -> Failures:
        """What went wrong, most frequent first."""
        counted: Counter[str] = Counter()
        for reason, count in (dict(evaluation.run.failures) or dict(evaluation.table.reasons)).items():
            # Each says what is left of the budget, which is another sum for each.
            counted[OVER_BUDGET if reason.startswith(OVER_BUDGET) else reason] += count
        # What a provider says of some requests is news; that others have no answer is often known.
        reasons = sorted(counted.items(), key=lambda item: (not item[0].startswith(RECORDED_ERROR), -item[1]))
        return cls(int(evaluation.table.failed.sum()), dict(reasons[:MOST_REASONS]), len(reasons))


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationResults:
    """The whole result; docs/ describes the fields."""

    schema_version: str = SCHEMA_VERSION
    kbench_version: str = __version__
    warning: str | None
    """Why the figures are not the surrogate's own; None where they are."""
    surrogate: str
    entry: str | None
    """The name of stored forecasts as a leaderboard entry."""
    model: str | None
    """The language model that was asked, where the surrogate names one."""
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
    learned_from: tuple[str, ...] | None
    """Splits that the surrogate learned from; None where kbench cannot know."""
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
    below_zero: str | None
    """Why the skill is below zero, where that is known; None where it is not below."""
    too_few: str | None
    """What is said in place of headlines where --limit or --problem left few questions."""
    failures: Failures
    among_answered: Mapping[str, float] | None
    """By track, the headline over the answered queries alone, where many have no answer."""
    stray_answers: int
    cost: EvaluationCost

    @classmethod
    def of(cls, evaluation: Evaluation, probes: Mapping[str, Scored] | None = None) -> EvaluationResults:
        """The results of an evaluation, beside what probes score on the same questions."""
        scored, questions, options = evaluation.scored, evaluation.questions, evaluation.options
        bounds = (scored.ceilings, scored.floors)
        return cls(
            warning=warning_of(evaluation),
            surrogate=evaluation.name,
            entry=evaluation.target.entry,
            model=evaluation.model,
            found_at=evaluation.target.found_at,
            arguments=options.recorded_arguments,
            inputs=evaluation.inputs,
            dataset=questions.dataset,
            split=questions.split,
            subset=questions.subset,
            shots=questions.shots,
            gpu=questions.gpu,
            questions=questions.fingerprint,
            learned_from=evaluation.learned_from,
            queries=len(questions.queries),
            limited=questions.limited,
            repeats=evaluation.table.repeats,
            seed=options.seed,
            resamples=options.resamples,
            headlines={track: headline(track).name for track in questions.tracks},
            lower_is_better=tuple(sorted({metric.name for metric in METRICS if metric.better is Better.LOW})),
            overall=None
            if scored.overall is None or _too_few(questions, options.limit)
            else MetricResult.of(scored.overall, 1.0, 0.0),
            probes=beside_probes(scored, probes or {}),
            tracks={
                track: {
                    name: MetricResult.of(figure, *(b.get(track, {}).get(name) for b in bounds))
                    for name, figure in figures.items()
                }
                for track, figures in scored.figures.items()
            },
            slices=scored.slices,
            below_zero=why_below_zero(evaluation),
            too_few=_too_few(questions, options.limit),
            failures=Failures.of(evaluation),
            among_answered=evaluation.among_answered,
            stray_answers=evaluation.run.stray,
            cost=EvaluationCost.of(evaluation),
        )

    def to_json(self) -> dict[str, Any]:
        """As plain JSON values."""
        return dataclasses.asdict(self) | {"note": seen_before(self)}

    @property
    def title(self) -> str:
        """The name as an entry, or the surrogate with the language model that it asked."""
        return self.entry or " ".join(filter(None, (self.surrogate, self.model)))


def _too_few(questions: Questions, limit: int | None) -> str | None:
    """What is said in place of headlines where --limit cut the questions, or --problem left few.

    What a limit leaves may hold two edits that can be compared: a score of 1 with an interval of no width.
    """
    asked = len(questions.queries)
    if not questions.limited or (limit is None and asked >= FEWEST):
        return None
    if limit is not None:
        return (
            f"{asked:,} of the questions make no headline, only a check that it runs; to compare models: --subset core"
        )
    named = f"{asked:,} {'question is' if asked == 1 else 'questions are'}"
    return f"{named} too few for headlines, from {FEWEST} on: this is only a check that it runs"


def warning_of(evaluation: Evaluation) -> str | None:
    """One line where so many queries have no answer that the figures are hardly the surrogate's."""
    if evaluation.unanswered_share <= MOST_UNANSWERED:
        return None
    failed, made = int(evaluation.table.failed.sum()), evaluation.table.failed.size
    fix = "; the answers are exactly those to core: add --subset core" if evaluation.answers_core_alone else ""
    return (
        f"warning: {failed:,} of {made:,} forecasts of {evaluation.name} ({failed / made:.0%}) have no answer and "
        f"count as the uniform forecast, so these figures are not its own{fix}"
    )


def terminal(results: EvaluationResults, others: Sequence[EvaluationResults] = (), brief: bool = False) -> str:
    """The results of one surrogate, with the values of others beside it; first what must not be overlooked.

    In brief it is the headlines alone, without most of the legend.
    """
    probe = ["probe"] if results.probes else []
    shown = [each.entry or each.surrogate for each in (results, *others)]
    if len(set(shown)) < len(shown):
        shown = [each.surrogate for each in (results, *others)]
    head = ["", shown[0], "95 % interval", "floor", *probe, "ceiling", *shown[1:]]
    rows = [head]
    for track, metrics in results.tracks.items():
        rows += [] if brief else [[track.upper(), *[""] * (len(head) - 1)]]
        for metric in of_track(track):
            if metric.shown >= Shown.TERMINAL and metric.name in metrics and (metric.headline or not brief):
                beside = results.probes.get(track) if metric.headline else None
                cells = _row(metric, metrics[metric.name], others, beside, results.too_few is None)
                rows.append(cells if results.probes else cells[:4] + cells[5:])
    lead = [*_aligned(standing_rows(results)), *standing_notes(results)]
    if results.too_few:
        lead = [results.too_few, *filter(None, [results.below_zero])]
    warnings = filter(None, (each.warning for each in (results, *others)))
    return "\n".join([*warnings, _title(results), "", *lead, "", *_aligned(rows), "", *_notes(results, brief)])


def _aligned(rows: list[list[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]).rstrip()
        for row in rows
    ]  # fmt: skip


def _row(
    metric: Metric, result: MetricResult, others: Sequence[EvaluationResults], probe: BesideProbes | None, many: bool
) -> list[str]:
    mark = _mark(probe) if metric.headline and many else " "
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


def _mark(probe: BesideProbes | None) -> str:
    """The mark of a headline, by the probe that is printed beside it."""
    return REACHED if probe is not None and probe.reached else HEADLINE


def _title(results: EvaluationResults) -> str:
    limited = (f", {results.shots} shots" if results.shots else "") + (", limited" if results.limited else "")
    splits = results.learned_from
    learned = "not known" if splits is None else " and ".join(splits) or "nothing"
    title = (
        f"{results.title} on {results.split} of dataset {results.dataset[:12]}: "
        f"{results.queries:,} queries{limited}, inputs: {results.inputs}, learned from: {learned}"
    )
    warning = seen_before(results)
    return f"{title}\n{warning}" if warning else title


def seen_before(results: EvaluationResults) -> str | None:
    """A warning where a surrogate is, or may be, asked about problems that it has learned from."""
    if results.split != VALIDATION:
        return None
    if results.learned_from is None:
        return (
            f"note: kbench cannot know what {results.surrogate} learned from; if it saw the validation problems, these "
            "figures flatter it"
        )
    if VALIDATION not in results.learned_from:
        return None
    retrained = (
        "; a run of its own with --surrogate-arg retrain=true trains it on train alone, in minutes, and --compare "
        "takes that run's folder"
    )
    fix = retrained if results.surrogate == "static" else ""
    return f"warning: {results.surrogate} has learned from the validation problems, so these figures flatter it{fix}"


def _notes(results: EvaluationResults, brief: bool) -> list[str]:
    cost, failures = results.cost, results.failures
    speed = "" if cost.forecasts_per_s is None else f", {cost.forecasts_per_s:,.0f} forecasts/s"
    tokens = "" if cost.total_tokens is None else f", {cost.total_tokens:,} tokens"
    notes = [f"{cost.forecasts:,} forecasts ({cost.reused:,} reused) in {cost.wall_s:.1f} s{speed}{tokens}"]
    overall = None if results.too_few else results.overall
    if overall is not None and overall.value is not None and overall.low is not None and overall.high is not None:
        probe = results.probes.get(OVERALL)
        beside = "" if probe is None else f"; probe {probe.probe} {probe.value:.3f}"
        interval = f"[{overall.low:.3f}, {overall.high:.3f}]{beside}"
        notes.insert(0, f"overall {overall.value:.3f} {interval}: mean of the headlines, 0 the floor and 1 the ceiling")
    if failures.count:
        notes.append(f"{failures.count:,} without an answer, scored as the uniform forecast and a forced deferral:")
        shown = list(failures.reasons.items())[:SHOWN_REASONS]
        notes += [f"  {count:,} × {reason}" for reason, count in shown]
        if failures.kinds > len(shown):
            notes.append(f"  and {failures.kinds - len(shown):,} other reasons, in results.json")
    if results.among_answered:
        figures = (f"{track} {headline(track).text(value)}" for track, value in results.among_answered.items())
        notes.append(f"headlines among the answered queries alone, which are no random part: {', '.join(figures)}")
    if results.stray_answers:
        notes.append(f"{results.stray_answers:,} answers to queries that were not asked were ignored")
    marks = set() if results.too_few else {_mark(results.probes.get(track)) for track in results.tracks}
    notes += [f"{mark} {meaning}" for mark, meaning in MARKS.items() if mark in marks]
    notes.append("floor: training frequencies or a random order; ceiling: a second measurement of the same kernels")
    if brief:
        return notes
    if results.probes:
        notes.append("probe: the strongest that sees layout, names or author alone, or no source at all")
    if any(metric.value is None for of in results.tracks.values() for metric in of.values()):
        notes.append("– what these questions do not ask, or too few of them to score")
    notes.append("↑ higher is better, ↓ lower is better")
    return notes


@functools.cache
def _standings() -> Any:
    return json.loads(STANDINGS.read_text(encoding="utf-8"))


def standing_rows(results: EvaluationResults) -> list[list[str]]:
    """A row per track: yours, the floor, a first model, the best built-in, a language model, the ceiling.

    No language model was asked about validation problems.
    """
    others, part = _comparable(results), _part(results)
    names = [FIRST, "best built-in", *([] if results.split == VALIDATION else [ASKED_MODEL])] if others else []
    head = ["", results.title, "floor", *names, "ceiling"]
    table = [head]
    for track, metrics in results.tracks.items():
        metric = headline(track)
        result = metrics.get(metric.name)
        if result is None:
            continue
        beside = _beside(others, metric, part or WHOLE)[: len(names)]
        figures = [metric.text(result.value), metric.text(result.floor), *beside, metric.text(result.ceiling)]
        table.append([f"{track}: {metric.name} {metric.arrow}", *figures])
    return table


def standing_notes(results: EvaluationResults) -> list[str]:
    """What the table needs said: where figures of others come from, and why a skill is below zero."""
    others, lines = _comparable(results), []
    if results.limited and others:
        lines.append("the others answered all questions of the split, this surrogate a part of them")
    if others:
        lines.append(
            "best built-in: the best of each track; recorded figures of others may differ from a rerun by 0.002"
        )
    if others and results.split == VALIDATION:
        lines.append("no language model was asked about validation problems")
    if not others and results.dataset == _standings()["dataset"]:
        lines.append(
            "no first model or built-in beside it: what they reach is recorded for test, validation, the core of each "
            "and core of test with eight shots alone; --compare NAME scores one"
        )
    return [*lines, results.below_zero] if results.below_zero else lines


def _comparable(results: EvaluationResults) -> dict[str, Any]:
    entries, part = dict(_standings()["entries"]), _part(results)
    same = results.dataset == _standings()["dataset"] and any(part in figures for figures in entries.values())
    itself = results.surrogate in {*BUILT_IN} & {*entries} and results.found_at == locate(results.surrogate).found_at
    if itself and not (results.arguments or results.limited or results.split == VALIDATION):
        # A built-in beside itself has one figure, not the recorded one too.
        mine = {track: {name: one.value for name, one in of.items()} for track, of in results.tracks.items()}
        entries[results.surrogate] = entries[results.surrogate] | {part: mine}
    return entries if same else {}


def _part(results: EvaluationResults) -> str | None:
    """What the recorded figures call these questions; None where nobody else was asked them."""
    asked = {(WHOLE, None, 0): WHOLE, (WHOLE, CORE, 0): CORE, (WHOLE, CORE, 8): CORE_SHOTS}
    asked |= {(VALIDATION, None, 0): VALIDATION, (VALIDATION, CORE, 0): VALIDATION_CORE}
    return asked.get((results.split, results.subset, results.shots))


def _beside(entries: dict[str, Any], metric: Metric, part: str) -> list[str]:
    """The figures of a first model, of the best built-in with its name, and of a language model."""

    def figure(name: str, asked: str) -> float | None:
        return entries.get(name, {}).get(asked, {}).get(metric.track.name, {}).get(metric.name)

    built_in = {name: figure(name, part) for name in entries if name not in (FIRST, LANGUAGE_MODEL)}
    reached = {name: metric.sign * value for name, value in built_in.items() if value is not None}
    best = max(reached, key=reached.__getitem__, default=None)
    # What saw measured kernels does not compare with what did not.
    asked = part if part == CORE_SHOTS or figure(LANGUAGE_MODEL, part) is not None else CORE
    known = figure(LANGUAGE_MODEL, asked)
    remark = "" if asked == part or known is None else f" ({asked})"
    return [
        metric.text(figure(FIRST, part)),
        "–" if best is None else f"{metric.text(built_in[best])} {best}",
        f"{metric.text(known)}{remark}",
    ]
