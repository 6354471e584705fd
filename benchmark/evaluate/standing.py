"""Where a surrogate stands: one line per track, beside what others reach on the same questions.

The others' figures are in standings.json, made by docs/evidence/scripts/benchmark.py for one dataset. Beside answers to
other questions they would mean nothing, so they are shown for that dataset alone.
"""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kbench.benchmark.metrics.registry import headline

if TYPE_CHECKING:
    from kbench.benchmark.evaluate.results import EvaluationResults
    from kbench.benchmark.metrics.metric import Metric

STANDINGS = Path(__file__).with_name("standings.json")
FIRST, LANGUAGE_MODEL = "first model", "language model"
WHOLE, CORE = "test", "core"


@functools.cache
def _standings() -> Any:
    return json.loads(STANDINGS.read_text(encoding="utf-8"))


def rows(found: EvaluationResults) -> list[list[str]]:
    """A row per track: yours, the prior, a first model, the best built-in, a language model, the ceiling."""
    others = _comparable(found)
    head = ["", found.surrogate, "prior", *([FIRST, "best built-in", LANGUAGE_MODEL] if others else []), "ceiling"]
    table = [head]
    for track, metrics in found.tracks.items():
        metric = headline(track)
        result = metrics.get(metric.name)
        if result is None:
            continue
        beside = _beside(others, metric, CORE if found.subset == CORE else WHOLE) if others else []
        figures = [metric.text(result.value), metric.text(result.floor), *beside, metric.text(result.ceiling)]
        table.append([f"{track}: {metric.name} {metric.arrow}", *figures])
    return table


def notes(found: EvaluationResults) -> list[str]:
    """What the table needs said: what others were asked, and why a skill is below zero."""
    lines = []
    if found.limited and _comparable(found):
        lines.append("the others answered all questions of the split, this surrogate a part of them")
    why = _why_negative(found)
    return [*lines, why] if why else lines


def _comparable(found: EvaluationResults) -> dict[str, Any]:
    same = found.dataset == _standings()["dataset"] and found.split == WHOLE and not found.shots
    return dict(_standings()["entries"]) if same and found.subset in (None, CORE) else {}


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


def _why_negative(found: EvaluationResults) -> str | None:
    """What is wrong with forecasts that are worse than the training frequencies."""
    forecast = found.tracks.get("forecast", {})
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
