"""Plots of a report, each an SVG text: reliability, risk and coverage, regret, confusion, families."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from kbench.benchmark.evaluate.evaluate import Evaluation
from kbench.benchmark.metrics.forecast import correct, reliability_curve
from kbench.benchmark.metrics.registry import METRICS
from kbench.benchmark.metrics.select import risk_coverage_curve
from kbench.benchmark.scoring.rows import pair_rows, pool_scores, regret_curve
from kbench.schemas import bins

if TYPE_CHECKING:
    from matplotlib.axes import Axes

INK, BLUE, GREY, RED = "#1b1f24", "#2563b0", "#9aa4b0", "#c2410c"
MOST_POINTS = 400
"""Points drawn per curve: more make the file larger and the line no different."""


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
    kept = np.unique(np.linspace(0, count - 1, min(count, MOST_POINTS)).astype(int)) if count else np.zeros(0, int)
    return tuple(np.asarray(column)[kept] for column in columns)


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
    """Every sliced metric by family, worst first."""
    columns = [metric for metric in METRICS if metric.sliced]
    table: dict[str, dict[str, float]] = {}
    for score in evaluation.scored.slices:
        facet, _, value = score.slice.partition("=")
        if facet == "family" and score.value is not None:
            table.setdefault(value, {})[score.metric] = score.value
    names = sorted(table, key=lambda name: table[name].get(columns[0].name, 0.0))
    grid = np.array([[table[name].get(column.name, np.nan) for column in columns] for name in names])
    # Errors are good when small, so they are shaded the other way round.
    shade = np.where([column.sign < 0 for column in columns], 1.0 - 4 * grid, grid) if len(names) else grid

    def draw(axes: Axes) -> None:
        if len(names):
            axes.imshow(shade, cmap="RdYlBu", vmin=-0.6, vmax=1.8, aspect="auto")
        for i in range(len(names)):
            for j in range(len(columns)):
                axes.text(j, i, f"{grid[i, j]:.2f}", ha="center", va="center", fontsize=8, color=INK)
        axes.set_xticks(range(len(columns)), [column.label for column in columns])
        axes.set_yticks(range(len(names)), [name.replace("_", " ") for name in names])
        axes.spines[:].set_visible(False)

    return _svg(draw, 5.4, max(1.6, 0.28 * len(names) + 0.7))
