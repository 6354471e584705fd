"""The card's plots: runtime spread, bins, speedup by family, search progress. SVG text by file name, from the data."""

from __future__ import annotations

import io
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy
import numpy.typing as npt
import polars

from kbench.loaders.corpus.configs import SPLITS
from kbench.loaders.corpus.corpus import Corpus
from kbench.loaders.summary.coverage import WRITERS, bins_by_split
from kbench.schemas.bins import LABELS, NUMBERS

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Values = npt.NDArray[numpy.float64]

BINS = "bins.svg"
"""The plot of questions; all others are of kernels."""
CAPTIONS: Mapping[str, str] = {
    "runtime-spread.svg": "Runtimes within each problem, fastest problems on top: line 5th to 95th percentile, bar "
    "the middle half, mark the median.",
    BINS: "Share of questions in each speedup bin, by split; those about one workload included.",
    "speedup-by-family.svg": "Speedup over the PyTorch reference by family: line 5th to 95th percentile, bar the "
    "middle half, mark the median, square the largest. Behind a family stand its kernels and problems; one of few "
    "kernels says little beside one of many.",
    "search-progress.svg": "Search progress: best kernel so far as a share of the best speedup any method found for "
    "the same problem and backend; geometric mean over searches, as long as half of them go on. Searches that start "
    "from freely written kernels are drawn apart.",
}
"""What each plot shows, in the card's order."""
COLOURS = ("#0969da", "#bc4c00", "#1a7f37", "#8250df", "#bf3989", "#7d4e00", "#1b9aaa", "#57606a")
FROM_WRITTEN = ", from written kernels"
LINES, DASHES = ("solid", "dotted"), ("dashed", "dashdot")
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


def render_plots(corpus: Corpus, kernels: polars.DataFrame) -> dict[str, str]:
    """The plots a corpus has data for, by file name; none on a machine that measures and has no matplotlib."""
    drawn: dict[str, str] = {}
    try:
        import matplotlib.figure  # noqa: F401
    except ImportError:
        return drawn
    if not kernels.is_empty():
        drawn["runtime-spread.svg"] = _spread(kernels)
        drawn["speedup-by-family.svg"] = _families(kernels)
        drawn["search-progress.svg"] = _progress(kernels)
    if "questions" in corpus.configs:
        drawn[BINS] = _bins(corpus)
    return {name: drawn[name] for name in CAPTIONS if name in drawn}


def _svg(draw: Callable[[Axes], None], title: str, height_px: float, left_px: float = 60, right_px: float = 15) -> str:
    """Draw on fresh axes; equal drawings give equal text."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(WIDTH_PX / 72, height_px / 72), dpi=72)
        # Margins by hand: a layout engine draws everything twice.
        bounds = (left_px / WIDTH_PX, 46 / height_px, 1 - (left_px + right_px) / WIDTH_PX, 1 - 80 / height_px)
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


def _values(kernels: polars.DataFrame, group: str, figure: str) -> list[tuple[str, Values]]:
    """A figure's values of each group, as far as an axis can show them."""
    drawn = kernels.group_by(group).agg(polars.col(figure).clip(*DRAWN))
    return [(name, numpy.array(values)) for name, values in drawn.iter_rows()]


def _spread(kernels: polars.DataFrame) -> str:
    rows = _values(kernels, "problem_id", "runtime_us")
    rows.sort(key=lambda row: (numpy.median(row[1]), row[0]))

    def draw(axes: Axes) -> None:
        _ranges(axes, rows, 7)
        axes.set_xlabel("runtime in µs (geometric mean over workloads)")

    return _svg(draw, f"Runtime spread within {len(rows)} problems", 80 + 9 * len(rows), left_px=210)


def _families(kernels: polars.DataFrame) -> str:
    counts = kernels.group_by("family").agg(polars.len(), problems=polars.col("problem_id").n_unique())
    labels = {name: f"{name} ({number:,}; {problems})" for name, number, problems in counts.iter_rows()}
    rows = [(labels[name], values) for name, values in _values(kernels, "family", "speedup")]
    rows.sort(key=lambda row: (-numpy.median(row[1]), row[0]))

    def draw(axes: Axes) -> None:
        axes.axvline(1.0, color="grey", linewidth=1.2)
        _ranges(axes, rows, 10)
        axes.plot([values.max() for _, values in rows], range(len(rows)), "s", markersize=3.5, color=COLOURS[1])
        axes.set_xlabel("speedup (right of 1: faster than PyTorch)")

    return _svg(
        draw, "Speedup over the PyTorch reference, by family (kernels; problems)", 80 + 20 * len(rows), left_px=215
    )


def _bins(corpus: Corpus) -> str:
    counts = bins_by_split(corpus)
    splits = [split for split in SPLITS if split in counts]

    def draw(axes: Axes) -> None:
        for position, split in enumerate(splits):
            total = counts[split].total()
            width = 0.84 / len(splits)
            lefts = [place - 0.42 + position * width for place in range(len(NUMBERS))]
            heights = [100 * counts[split][number] / total for number in NUMBERS]
            axes.bar(lefts, heights, width * 0.95, align="edge", label=f"{split} ({total:,} questions)")
        names = [f"bin {number}\n{label}" for number, label in zip(NUMBERS, LABELS, strict=True)]
        axes.set_xticks(range(len(NUMBERS)), names, fontsize=8)
        axes.set_ylabel("% of the split's questions")
        axes.grid(axis="y")
        axes.legend(frameon=False)

    return _svg(draw, "Questions by speedup bin", 330)


def _progress(kernels: polars.DataFrame) -> str:
    curves = progress(kernels)
    methods = sorted({name.removesuffix(FROM_WRITTEN) for name in curves})

    def draw(axes: Axes) -> None:
        for name, curve in curves.items():
            rounds, place = divmod(methods.index(name.removesuffix(FROM_WRITTEN)), len(COLOURS))
            # No two lines look alike: a method has a colour, what starts from written kernels is dashed.
            style = (DASHES if name.endswith(FROM_WRITTEN) else LINES)[rounds % len(LINES)]
            axes.plot(range(1, len(curve) + 1), curve, label=name, color=COLOURS[place], linestyle=style)
        axes.set(xlabel="timed kernels of the search", ylabel="share of the best known speedup")
        axes.grid()
        # Beside the axes, where it hides no line.
        axes.legend(frameon=False, loc="center left", bbox_to_anchor=(1.01, 0.5), fontsize=9)

    return _svg(draw, "Search progress", 350, right_px=230)


def progress(kernels: polars.DataFrame) -> dict[str, list[float]]:
    """For each search method the mean share of the best known speedup after 1, 2, … timed kernels of a search."""
    cell = ["problem_id", "backend", "gpu"]
    shares = kernels.with_columns(share=polars.col("speedup") / polars.col("speedup").max().over(cell))
    tracks: dict[str, list[list[float]]] = defaultdict(list)
    for (method, *_), search in shares.group_by(["search_method", "run_id", *cell], maintain_order=True):
        ordered = search.sort("step", maintain_order=True).head(LONGEST)
        name = f"{method}{FROM_WRITTEN}" if ordered["proposer"][0] in WRITERS else str(method)
        tracks[name].append(ordered["share"].cum_max().log().to_list())
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
