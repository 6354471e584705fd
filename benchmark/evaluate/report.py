"""`report.html`: one self-contained page about one evaluation. Everything that comes from outside is escaped."""

from __future__ import annotations

import difflib
import io
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from kbench.benchmark.evaluate.evaluate import Evaluation
from kbench.benchmark.evaluate.results import EvaluationResults, standing_notes, standing_rows
from kbench.benchmark.metrics.forecast import (
    ACCURACY,
    LEVEL_SKILL,
    RPS,
    SIGN_ACCURACY,
    SKILL,
    correct,
    reliability_curve,
    rps_rows,
)
from kbench.benchmark.metrics.metric import Metric
from kbench.benchmark.metrics.rank import SPEARMAN
from kbench.benchmark.metrics.registry import METRICS, headline, of_track
from kbench.benchmark.metrics.select import risk_coverage_curve
from kbench.benchmark.questions.asked import STATED_KINDS
from kbench.benchmark.scoring.by_problem import of_problems
from kbench.benchmark.scoring.compare import Comparison
from kbench.benchmark.scoring.rows import pair_rows, pool_scores, regret_curve
from kbench.loaders.storage.atomic import write_atomically
from kbench.schemas import bins

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PAIR_METRICS, POOL_METRICS = (SKILL, LEVEL_SKILL, ACCURACY, SIGN_ACCURACY, RPS), (SPEARMAN,)
"""What the table of problems shows."""
WORST = 8
"""Misses shown with their sources."""
LONGEST = 200
"""Lines of a source that are shown."""
TEMPLATE = Path(__file__).with_name("report.html.j2")
INK, BLUE, GREY, RED = "#1b1f24", "#2563b0", "#9aa4b0", "#c2410c"
MOST_POINTS = 400
"""Points drawn per curve: more make the file larger and the line no different."""


def write_report(evaluation: Evaluation, path: Path, comparison: Comparison | None = None) -> None:
    """Write the page; it appears whole or not at all."""
    write_atomically(path, render(evaluation, comparison))


def render(evaluation: Evaluation, comparison: Comparison | None = None) -> str:
    """The page as text."""
    from jinja2 import Environment, StrictUndefined
    from markupsafe import Markup

    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    found = of_problems(evaluation.questions, evaluation.table, PAIR_METRICS, POOL_METRICS)
    plots = {title: (text, Markup(svg)) for title, text, svg in _plots(evaluation)}
    return environment.from_string(TEMPLATE.read_text(encoding="utf-8")).render(
        results=(results := EvaluationResults.of(evaluation)),
        standing=standing_rows(results),
        standing_notes=standing_notes(results),
        comparison=comparison,
        plots=plots,
        misses=list(_misses(evaluation)),
        labels=bins.LABELS,
        headline=headline,
        of_track=of_track,
        sliced=_sliced(evaluation),
        # Those with most skill first.
        problems=sorted(found, key=lambda one: -math.inf if one.figures[0] is None else one.figures[0], reverse=True),
        problem_metrics=(*PAIR_METRICS, *POOL_METRICS),
    )


def _sliced(evaluation: Evaluation) -> list[Metric]:
    """Metrics of slices that have a value in any."""
    defined = {score.metric for score in evaluation.scored.slices if score.value is not None}
    return [metric for metric in METRICS if metric.sliced and metric.name in defined]


def _plots(evaluation: Evaluation) -> Iterator[tuple[str, str, str]]:
    figures = evaluation.scored.figures
    if "forecast" in figures:
        yield "Reliability", "When it says 70 %, is it correct 70 % of the time?", reliability(evaluation)
        yield "Confusion", "Where it puts its probability, for each true bin.", confusion(evaluation)
    if "select" in figures:
        yield "Risk and coverage", "Answer the surest first: how many are wrong by then?", risk_coverage(evaluation)
    if figures.get("rank"):
        yield "Regret", "Measure only the top share of each pool: how far from its best?", regret(evaluation)
    if "forecast" in figures:
        yield "Families", "Family by family, the most skill first. Blue is better.", families(evaluation)


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
            "kind": STATED_KINDS[query.kind.value],
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


def _svg(draw: Callable[[Axes], None], width: float = 4.6, height: float = 3.6) -> str:
    """Draw on fresh axes and give the SVG text; the same drawing gives the same text."""
    import matplotlib as mpl

    mpl.use("svg")
    from matplotlib.figure import Figure

    style: Any = {"svg.hashsalt": "kbench", "font.size": 9, "axes.spines.top": False, "axes.spines.right": False,
             "axes.edgecolor": INK, "svg.fonttype": "none", "font.family": "sans-serif"}  # fmt: skip
    with mpl.rc_context(style):
        figure = Figure(figsize=(width, height), layout="constrained")
        draw(figure.add_subplot())
        buffer = io.StringIO()
        figure.savefig(buffer, format="svg", metadata={"Date": None}, transparent=True)
    text = buffer.getvalue()
    return text[text.index("<svg") :]


def reliability(evaluation: Evaluation) -> str:
    """Accuracy against confidence; marks grow with their number of rows."""
    rows = pair_rows(evaluation.questions, evaluation.table)
    curve = reliability_curve(rows.probabilities, rows.bins)

    def draw(axes: Axes) -> None:
        axes.plot([0, 1], [0, 1], color=GREY, linewidth=1, linestyle="--", label="perfectly calibrated")
        axes.plot(curve.confidence, curve.accuracy, color=BLUE, linewidth=1.2)
        axes.scatter(curve.confidence, curve.accuracy, s=12 + 220 * curve.rows / curve.rows.sum(), color=BLUE)
        axes.set(xlim=(0, 1), ylim=(0, 1), xlabel="confidence in the most probable bin", ylabel="share correct")
        axes.legend(frameon=False, loc="upper left")

    return _svg(draw)


def _thinned(*columns: Any) -> tuple[Any, ...]:
    count = len(columns[0])
    places = np.unique(np.linspace(0, count - 1, min(count, MOST_POINTS)).astype(int)) if count else np.zeros(0, int)
    return tuple(np.asarray(column)[places] for column in columns)


def risk_coverage(evaluation: Evaluation) -> str:
    """Error among the answered, surest first, for the exact bin and for faster-or-slower."""
    rows = pair_rows(evaluation.questions, evaluation.table)
    exact = risk_coverage_curve(1.0 - correct(rows.probabilities, rows.bins), rows.confidence)
    sign = risk_coverage_curve(rows.sign_loss, rows.sign_confidence)

    def draw(axes: Axes) -> None:
        axes.plot(*_thinned(exact.coverage, exact.risk), color=BLUE, label="exact bin")
        axes.plot(*_thinned(sign.coverage, sign.risk), color=RED, label="faster or slower")
        axes.set(xlim=(0, 1), ylim=(0, None), xlabel="share answered, surest first", ylabel="share wrong among them")
        axes.legend(frameon=False)

    return _svg(draw)


def regret(evaluation: Evaluation) -> str:
    """Mean regret over pools against the share measured, with random choice beside it."""
    labels = evaluation.questions.pools
    scores = pool_scores(labels, evaluation.table)[:1]
    found, random = (100 * np.array(list(regret_curve(labels, s).items())) for s in (scores, np.zeros_like(scores)))

    def draw(axes: Axes) -> None:
        axes.plot(*found.T, color=BLUE, marker="o", markersize=3, label=evaluation.name)
        axes.plot(*random.T, color=GREY, linestyle="--", label="random choice")
        axes.axvline(10, color=GREY, linewidth=0.8, linestyle=":")
        axes.set(xscale="log", ylim=(0, None), xlabel="share of the pool measured, %", ylabel="slower than the best, %")
        axes.set_xticks([1, 2, 5, 10, 20, 50, 100], ["1", "2", "5", "10", "20", "50", "100"])
        axes.legend(frameon=False)

    return _svg(draw)


def confusion(evaluation: Evaluation) -> str:
    """Mean forecast distribution for each true bin, as shares of the row."""
    rows = pair_rows(evaluation.questions, evaluation.table)
    grid = np.zeros((bins.COUNT, bins.COUNT))
    np.add.at(grid, rows.bins - 1, rows.probabilities)
    totals = grid.sum(axis=1, keepdims=True)
    grid = np.divide(grid, totals, out=np.zeros_like(grid), where=totals > 0)

    def draw(axes: Axes) -> None:
        axes.imshow(grid, cmap="Blues", vmin=0, vmax=1)
        for i, row in enumerate(grid):
            for j, value in enumerate(row):
                if value >= 0.005:
                    axes.text(j, i, f"{100 * value:.0f}", ha="center", va="center", fontsize=8,
                              color="white" if value > 0.55 else INK)  # fmt: skip
        axes.set_xticks(range(bins.COUNT), [str(n) for n in bins.NUMBERS])
        axes.set_yticks(range(bins.COUNT), [str(n) for n in bins.NUMBERS])
        axes.set(xlabel="forecast bin (mean probability, %)", ylabel="true bin")

    return _svg(draw, 4.4, 4.0)


def families(evaluation: Evaluation) -> str:
    """Every sliced metric that has values by family, best first."""
    columns = _sliced(evaluation)
    table: dict[str, dict[str, float]] = {}
    for score in evaluation.scored.slices:
        facet, _, value = score.slice.partition("=")
        if facet == "family" and score.value is not None:
            table.setdefault(value, {})[score.metric] = score.value
    order = SKILL.name if any(SKILL.name in figures for figures in table.values()) else LEVEL_SKILL.name
    names = sorted(table, key=lambda name: table[name].get(order, -math.inf), reverse=True)
    grid = np.array([[table[name].get(column.name, np.nan) for column in columns] for name in names])
    # Errors are good when small, so they are shaded the other way round.
    shade = np.where([column.sign < 0 for column in columns], 1.0 - 4 * grid, grid) if len(names) else grid

    def draw(axes: Axes) -> None:
        if len(names):
            # Not to the ends of the colours, on which the figures could not be read.
            axes.imshow(np.clip(shade, -0.3, 1.5), cmap="RdYlBu", vmin=-0.6, vmax=1.8, aspect="auto")
        for i in range(len(names)):
            for j in range(len(columns)):
                axes.text(j, i, columns[j].text(grid[i, j]), ha="center", va="center", fontsize=8, color=INK)
        # One word a line: side by side the labels would overlap.
        axes.set_xticks(
            range(len(columns)), [f"{column.label} {column.arrow}".replace(" ", "\n") for column in columns]
        )
        axes.xaxis.tick_top()
        axes.tick_params(length=0)
        axes.set_yticks(range(len(names)), [name.replace("_", " ") for name in names])
        axes.spines[:].set_visible(False)

    return _svg(draw, 1.6 + 0.72 * len(columns), max(1.6, 0.26 * len(names) + 0.9))
