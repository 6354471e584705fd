"""`report.html`: one self-contained page about one evaluation. Everything that comes from outside is escaped."""

from __future__ import annotations

import difflib
import functools
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from kbench.benchmark.evaluate import plots as report_plots
from kbench.benchmark.evaluate.evaluate import Evaluation
from kbench.benchmark.evaluate.results import EvaluationResults
from kbench.benchmark.metrics.forecast import rps_rows
from kbench.benchmark.metrics.registry import METRICS, headline, of_track
from kbench.benchmark.scoring.rows import pair_rows
from kbench.loaders.storage.atomic import write_atomically
from kbench.schemas import bins

if TYPE_CHECKING:
    from jinja2 import Template

WORST = 8
"""Misses shown with their sources."""
LONGEST = 200
"""Lines of a source that are shown."""
TEMPLATE = Path(__file__).with_name("report.html.j2")


@functools.cache
def _template() -> Template:
    from jinja2 import Environment, StrictUndefined

    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    return environment.from_string(TEMPLATE.read_text(encoding="utf-8"))


def write_report(evaluation: Evaluation, path: Path) -> None:
    """Write the page; it appears whole or not at all."""
    write_atomically(path, render(evaluation))


def render(evaluation: Evaluation) -> str:
    """The page as text."""
    from markupsafe import Markup

    plots = {title: (text, Markup(svg)) for title, text, svg in _plots(evaluation)}
    return _template().render(
        found=EvaluationResults.of(evaluation),
        plots=plots,
        misses=list(_misses(evaluation)),
        labels=bins.LABELS,
        headline=headline,
        of_track=of_track,
        sliced=[metric for metric in METRICS if metric.sliced],
    )


def _plots(evaluation: Evaluation) -> Iterator[tuple[str, str, str]]:
    figures = evaluation.scored.figures
    if "forecast" in figures:
        yield "Reliability", "When it says 70 %, is it correct 70 % of the time?", report_plots.reliability(evaluation)
        yield "Confusion", "Where it puts its probability, for each true bin.", report_plots.confusion(evaluation)
    if "select" in figures:
        yield (
            "Risk and coverage",
            "Answer the surest first: how many are wrong by then?",
            report_plots.risk_coverage(evaluation),
        )
    if figures.get("rank"):
        yield (
            "Regret",
            "Measure only the top share of each pool: how far from its best?",
            report_plots.regret(evaluation),
        )
    if "forecast" in figures:
        yield "Families", "Skill against the training prior, family by family.", report_plots.families(evaluation)


def _misses(evaluation: Evaluation) -> Iterator[dict[str, Any]]:
    """The costliest forecasts, at most one per problem, with both sources."""
    questions = evaluation.questions
    if not len(questions.pairs) or "forecast" not in evaluation.scored.figures:
        return
    rows = pair_rows(questions, evaluation.table)
    count = len(questions.pairs)
    losses = rps_rows(rows.probabilities[:count], rows.bins[:count])
    seen: set[str] = set()
    for row in np.argsort(-losses, kind="stable"):
        problem = str(questions.pairs.problem[row])
        if problem in seen:
            continue
        seen.add(problem)
        query = questions.queries[questions.pairs.query[row]]
        yield {
            "problem": problem,
            "kind": query.kind.value,
            "backend": query.backend.value,
            "speedup": float(questions.pairs.speedup[row]),
            "bin": int(questions.pairs.bin[row]),
            "rps": float(losses[row]),
            "bars": [round(100 * float(share), 1) for share in rows.probabilities[row]],
            "sides": _side_by_side(query.anchor_source, query.candidate_source),
        }
        if len(seen) == WORST:
            return


def _side_by_side(anchor: str, candidate: str) -> list[tuple[str, str, bool]]:
    """Lines of both sources, matched where they agree; True marks a difference."""
    left, right = anchor.splitlines()[:LONGEST], candidate.splitlines()[:LONGEST]
    lines: list[tuple[str, str, bool]] = []
    for tag, a0, a1, b0, b1 in difflib.SequenceMatcher(None, left, right, autojunk=False).get_opcodes():
        for offset in range(max(a1 - a0, b1 - b0)):
            one = left[a0 + offset] if a0 + offset < a1 else ""
            other = right[b0 + offset] if b0 + offset < b1 else ""
            lines.append((one, other, tag != "equal"))
    left_out = [max(0, len(text.splitlines()) - LONGEST) for text in (anchor, candidate)]
    notes = [f"… {count} more lines" if count else "" for count in left_out]
    return [*lines, (notes[0], notes[1], False)] if any(notes) else lines
