"""The card's plots: runtime spread, bins, speedup by family, search progress. SVG text by file name, from the data."""

from __future__ import annotations

import io
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy
import numpy.typing as npt
import pyarrow as pa

from kbench.loaders.corpus.configs import SPLITS
from kbench.loaders.corpus.corpus import Corpus
from kbench.loaders.summary.timed import WRITERS, Timed
from kbench.schemas.bins import LABELS, NUMBERS

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Values = npt.NDArray[numpy.float64]

BINS = "bins.svg"
"""The plot of questions; all others are of kernels."""
CAPTIONS: Mapping[str, str] = {
    "runtime-spread.svg": "Runtimes within each problem, fastest problems on top: line 5th to 95th percentile, bar "
    "the middle half, mark the median.",
    BINS: "Share of questions in each speedup bin, by split.",
    "speedup-by-family.svg": "Speedup over the PyTorch reference by family: line 5th to 95th percentile, bar the "
    "middle half, mark the median, dot the best.",
    "search-progress.svg": "Search progress: best kernel so far as a share of the best speedup any method found for "
    "the same problem and backend; geometric mean over searches, as long as half of them go on. Searches that start "
    "from freely written kernels are drawn apart.",
}
"""What each plot shows, in the card's order."""
COLOURS = ("#0969da", "#bc4c00", "#1a7f37", "#8250df", "#bf3989", "#7d4e00")
WIDTH_PX = 760
DRAWN = (1e-6, 1e9)
"""Figures beyond are drawn at the edge: a logarithmic axis cannot span what a float can."""
QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
STYLE: Any = {
    "svg.hashsalt": "kbench", "svg.fonttype": "none", "font.family": "sans-serif", "font.size": 10,
    "grid.color": "#d8dee4", "axes.spines.top": False, "axes.spines.right": False,
}  # fmt: skip
LONGEST = 64
"""Measured kernels up to which progress is drawn."""


def render_plots(corpus: Corpus, kernels: Timed) -> dict[str, str]:
    """The plots a corpus has data for, by file name; none on a machine that measures and has no matplotlib.

    Args:
        corpus: the corpus, whose questions are drawn.
        kernels: its timed kernels, of one GPU.
    """
    drawn: dict[str, str] = {}
    try:
        import matplotlib.figure  # noqa: F401
    except ImportError:
        return drawn
    if len(kernels):
        drawn["runtime-spread.svg"] = _spread(kernels)
        drawn["speedup-by-family.svg"] = _families(kernels)
        drawn["search-progress.svg"] = _progress(kernels)
    if "questions" in corpus.configs:
        drawn[BINS] = _bins(corpus)
    return {name: drawn[name] for name in CAPTIONS if name in drawn}


def _svg(draw: Callable[[Axes], None], title: str, height_px: float, left_px: float = 60) -> str:
    """Draw on fresh axes; equal drawings give equal text."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(WIDTH_PX / 72, height_px / 72), dpi=72)
        # Margins by hand: a layout engine draws everything twice.
        bounds = (left_px / WIDTH_PX, 46 / height_px, 1 - (left_px + 15) / WIDTH_PX, 1 - 80 / height_px)
        axes = figure.add_axes(bounds)
        axes.set_title(title, loc="left", fontsize=13, fontweight="bold")
        axes.set_axisbelow(True)
        draw(axes)
        buffer = io.StringIO()
        figure.savefig(buffer, format="svg", metadata={"Date": None})
    return buffer.getvalue()


def _ranges(axes: Axes, rows: Sequence[tuple[str, Values]], size: float) -> None:
    """A line per row from the 5th to the 95th percentile, a bar over the middle half, a mark at the median."""
    low, first, middle, third, high = numpy.array([numpy.quantile(values, QUANTILES) for _, values in rows]).T
    places = numpy.arange(len(rows))
    axes.hlines(places, low, high, color=COLOURS[0], linewidth=1)
    axes.hlines(places, first, third, color=COLOURS[0], linewidth=size * 0.8, alpha=0.55)
    axes.vlines(middle, places - 0.4, places + 0.4, color="black", linewidth=1.2)
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter("{x:,g}")
    axes.set_yticks(places, [name for name, _ in rows], fontsize=size)
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.tick_params(axis="y", left=False)
    axes.grid(axis="x")


def _spread(kernels: Timed) -> str:
    runtimes = kernels.figures["runtime_us"]
    rows = [(name, runtimes[at].clip(*DRAWN)) for (name,), at in kernels.groups("problem_id")]
    rows.sort(key=lambda row: (numpy.median(row[1]), row[0]))

    def draw(axes: Axes) -> None:
        _ranges(axes, rows, 7)
        axes.set_xlabel("runtime in µs (geometric mean over workloads)")

    return _svg(draw, f"Runtime spread within {len(rows)} problems", 80 + 9 * len(rows), left_px=210)


def _families(kernels: Timed) -> str:
    speedups = kernels.figures["speedup"]
    rows = [(name, speedups[at].clip(*DRAWN)) for (name,), at in kernels.groups("family")]
    rows.sort(key=lambda row: (-numpy.median(row[1]), row[0]))

    def draw(axes: Axes) -> None:
        axes.axvline(1.0, color="grey", linewidth=1.2)
        _ranges(axes, rows, 10)
        axes.plot([values.max() for _, values in rows], range(len(rows)), "s", markersize=3.5, color=COLOURS[1])
        axes.set_xlabel("speedup (right of 1: faster than PyTorch)")

    return _svg(draw, "Speedup over the PyTorch reference, by family", 80 + 20 * len(rows), left_px=160)


def _bins(corpus: Corpus) -> str:
    found: dict[str, Counter[int]] = defaultdict(Counter)
    for batch in corpus.select("questions", columns=["split", "bin"]).batches():
        for row in pa.table(batch).group_by(["split", "bin"]).aggregate([([], "count_all")]).to_pylist():
            found[row["split"]][row["bin"]] += row["count_all"]
    splits = [split for split in SPLITS if split in found]

    def draw(axes: Axes) -> None:
        for position, split in enumerate(splits):
            total = found[split].total()
            width = 0.84 / len(splits)
            lefts = [place - 0.42 + position * width for place in range(len(NUMBERS))]
            heights = [100 * found[split][number] / total for number in NUMBERS]
            axes.bar(lefts, heights, width * 0.95, align="edge", label=f"{split} ({total:,} questions)")
        names = [f"bin {number}\n{label}" for number, label in zip(NUMBERS, LABELS, strict=True)]
        axes.set_xticks(range(len(NUMBERS)), names, fontsize=8)
        axes.set_ylabel("% of the split's questions")
        axes.grid(axis="y")
        axes.legend(frameon=False)

    return _svg(draw, "Questions by speedup bin", 330)


def _progress(kernels: Timed) -> str:
    curves = progress(kernels)

    def draw(axes: Axes) -> None:
        for method, curve in curves.items():
            axes.plot(range(1, len(curve) + 1), curve, label=method)
        axes.set(xlabel="timed kernels of the search", ylabel="share of the best known speedup")
        axes.grid()
        axes.legend(frameon=False, loc="lower right")

    return _svg(draw, "Search progress", 350)


def progress(kernels: Timed) -> dict[str, list[float]]:
    """For each search method the mean share of the best known speedup after 1, 2, … timed kernels of a search."""
    speedups = kernels.figures["speedup"]
    best = {cell: float(speedups[at].max()) for cell, at in kernels.groups("problem_id", "backend", "gpu")}
    tracks: dict[str, list[list[float]]] = defaultdict(list)
    for (method, _, *cell), at in kernels.groups("search_method", "run_id", "problem_id", "backend", "gpu"):
        ordered = at[numpy.argsort(kernels.figures["step"][at], kind="stable")][:LONGEST]
        if kernels.text("proposer", int(ordered[0])) in WRITERS:
            method = f"{method}, from written kernels"
        so_far = numpy.maximum.accumulate(speedups[ordered]) / best[tuple(cell)]
        tracks[method].append([float(value) for value in numpy.log(so_far)])
    return {method: _mean_track(found) for method, found in sorted(tracks.items())}


def _mean_track(tracks: list[list[float]]) -> list[float]:
    result: list[float] = []
    for number in range(max(map(len, tracks))):
        going = [track[number] for track in tracks if len(track) > number]
        if 2 * len(going) < len(tracks):
            break
        # A search that ended keeps its best: leaving it out would make the mean jump when easy problems end early.
        held = [track[min(number, len(track) - 1)] for track in tracks]
        result.append(float(numpy.exp(numpy.mean(held))))
    return result
