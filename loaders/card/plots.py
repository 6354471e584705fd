"""The card's plots: runtime spread, bins, speedup by family, search progress. SVG text by file name, from the data."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping

import numpy
import pyarrow as pa

from kbench.loaders.card.svg import COLOURS, FAINT, INK, Drawing, Scale
from kbench.loaders.corpus.configs import SPLITS
from kbench.loaders.corpus.corpus import Corpus
from kbench.loaders.summary.timed import WRITERS, Timed
from kbench.schemas.bins import LABELS, NUMBERS

CAPTIONS: Mapping[str, str] = {
    "runtime-spread.svg": "Runtimes within each problem, fastest problems on top: line 5th to 95th percentile, bar "
    "the middle half, mark the median.",
    "bins.svg": "Share of pairs in each speedup bin, by split.",
    "speedup-by-family.svg": "Speedup over the PyTorch reference by family: line 5th to 95th percentile, bar the "
    "middle half, mark the median, dot the best.",
    "search-progress.svg": "Search progress: best kernel so far as a share of the best speedup any method found for "
    "the same problem and backend; geometric mean over searches, as long as half of them go on. Searches that start "
    "from freely written kernels are drawn apart.",
}
"""What each plot shows, in the card's order."""
LONGEST = 64
"""Measured kernels up to which progress is drawn."""


def render_plots(corpus: Corpus, kernels: Timed) -> dict[str, str]:
    """The plots a corpus has data for, by file name."""
    drawn: dict[str, str] = {}
    if len(kernels):
        drawn["runtime-spread.svg"] = _spread(kernels)
        drawn["speedup-by-family.svg"] = _families(kernels)
        drawn["search-progress.svg"] = _progress(kernels)
    if corpus.rows("pairs"):
        drawn["bins.svg"] = _bins(corpus)
    return {name: drawn[name] for name in CAPTIONS if name in drawn}


def _quantiles(values: numpy.ndarray[tuple[int], numpy.dtype[numpy.float64]]) -> tuple[float, ...]:
    return tuple(float(value) for value in numpy.quantile(values, (0.05, 0.25, 0.5, 0.75, 0.95)))


def _range_row(drawing: Drawing, scale: Scale, y: float, half: float, marks: tuple[float, ...], colour: str) -> None:
    low, first, middle, third, high = (scale(value) for value in marks)
    drawing.line(low, y, high, y, colour, 1)
    drawing.box(first, y - half, max(third - first, 1), 2 * half, colour, 0.55)
    drawing.line(middle, y - half - 1, middle, y + half + 1, INK, 1.5)


def _spread(kernels: Timed) -> str:
    runtimes = kernels.figures["runtime_us"]
    rows = [(name, _quantiles(runtimes[at])) for (name,), at in kernels.groups("problem_id")]
    rows.sort(key=lambda row: (row[1][2], row[0]))
    pitch = 9
    bottom = 38 + pitch * len(rows)
    drawing = Drawing(760, bottom + 46, f"Runtime spread within {len(rows)} problems")
    scale = Scale(min(row[1][0] for row in rows) * 0.9, max(row[1][4] for row in rows) * 1.1, 210, 745, log=True)
    drawing.across(scale, 34, bottom, "runtime in µs (geometric mean over workloads)")
    for position, (name, marks) in enumerate(rows):
        y = 38 + pitch * (position + 0.5)
        drawing.text(204, y + 3, name, size=8, anchor="end")
        _range_row(drawing, scale, y, 2.6, marks, COLOURS[0])
    return drawing.render()


def _families(kernels: Timed) -> str:
    speedups = kernels.figures["speedup"]
    rows = [(name, _quantiles(speedups[at]), float(speedups[at].max())) for (name,), at in kernels.groups("family")]
    rows.sort(key=lambda row: (-row[1][2], row[0]))
    bottom = 38 + 20 * len(rows)
    drawing = Drawing(760, bottom + 46, "Speedup over the PyTorch reference, by family")
    scale = Scale(min(row[1][0] for row in rows) * 0.9, max(row[2] for row in rows) * 1.15, 160, 745, log=True)
    drawing.across(scale, 34, bottom, "speedup (right of 1: faster than PyTorch)")
    drawing.line(scale(1.0), 34, scale(1.0), bottom, FAINT, 1.5)
    for position, (name, marks, best) in enumerate(rows):
        y = 38 + 20 * (position + 0.5)
        drawing.text(154, y + 4, name, anchor="end")
        _range_row(drawing, scale, y, 5, marks, COLOURS[0])
        drawing.box(scale(best) - 2.5, y - 2.5, 5, 5, COLOURS[1])
    return drawing.render()


def _bins(corpus: Corpus) -> str:
    found: dict[str, Counter[int]] = defaultdict(Counter)
    for batch in corpus.select("pairs", columns=["split", "bin"]).batches():
        for row in pa.table(batch).group_by(["split", "bin"]).aggregate([([], "count_all")]).to_pylist():
            found[row["split"]][row["bin"]] += row["count_all"]
    splits = [split for split in SPLITS if split in found]
    shares = {split: {n: found[split][n] / found[split].total() for n in NUMBERS} for split in splits}
    drawing = Drawing(760, 330, "Pairs by speedup bin")
    scale = Scale(0, max(max(share.values()) for share in shares.values()) * 105, 270, 40)
    drawing.upright(scale, 60, 745, "% of the split's pairs")
    pitch = (745 - 60) / len(NUMBERS)
    width = (pitch - 16) / len(splits)
    for place, number in enumerate(NUMBERS):
        for position, split in enumerate(splits):
            top = scale(100 * shares[split][number])
            left = 60 + pitch * place + 8 + width * position
            drawing.box(left, top, width - 1, 270 - top, COLOURS[position % len(COLOURS)])
        drawing.text(60 + pitch * (place + 0.5), 286, f"bin {number}", anchor="middle")
        drawing.text(60 + pitch * (place + 0.5), 301, LABELS[place], size=8, anchor="middle", colour=FAINT)
    drawing.legend([f"{split} ({found[split].total():,} pairs)" for split in splits], 590, 52)
    return drawing.render()


def _progress(kernels: Timed) -> str:
    curves = progress(kernels)
    drawing = Drawing(760, 350, "Search progress")
    longest = max(len(curve) for curve in curves.values())
    lowest = min(curve[0] for curve in curves.values())
    across = Scale(1, max(longest, 2), 60, 745)
    upright = Scale(max(0.0, lowest - 0.08), 1.0, 300, 40)
    drawing.upright(upright, 60, 745, "share of the best known speedup")
    drawing.across(across, 40, 300, "timed kernels of the search")
    for position, curve in enumerate(curves.values()):
        points = [(across(n + 1), upright(value)) for n, value in enumerate(curve)]
        drawing.path(points, COLOURS[position % len(COLOURS)])
    drawing.legend(list(curves), 560, 290 - 17 * len(curves))
    return drawing.render()


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
