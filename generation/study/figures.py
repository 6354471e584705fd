"""The study's results as files: points, table and plot."""

from __future__ import annotations

import csv
import dataclasses
from collections.abc import Sequence
from pathlib import Path

from kbench.generation.study.study import Point

SHOWN = (8, 16, 32, 64, 128)
"""Measurements with a column of their own in the table, besides the last."""


def write_study(points: Sequence[Point], folder: Path) -> str:
    """Write points.csv, table.md and plot.png.

    Returns:
        the table.
    """
    folder.mkdir(parents=True, exist_ok=True)
    rows = [dataclasses.asdict(point) for point in points]
    with (folder / "points.csv").open("w", newline="", encoding="utf-8") as stream:
        writer = csv.DictWriter(stream, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    budget = points[-1].measurements
    text = table(points, [*(n for n in SHOWN if n < budget), budget])
    (folder / "table.md").write_text(text + "\n", encoding="utf-8")
    plot(points, folder / "plot.png")
    return text


def table(points: Sequence[Point], at: Sequence[int]) -> str:
    """The study as a Markdown table: share of the pool's best after so many measurements, gain at the last of them."""
    methods = list(dict.fromkeys(point.method for point in points))
    found = {(point.method, point.measurements): point for point in points}
    heads = ["method", *(f"{n} measurements" for n in at), f"more than {methods[0]} after {at[-1]}"]
    lines = ["| " + " | ".join(heads) + " |", "|---" * len(heads) + "|"]
    for method in methods:
        cells = [f"{p.share:.3f} [{p.low:.3f}, {p.high:.3f}]" for p in (found[method, n] for n in at)]
        last = found[method, at[-1]]
        gain = f"{last.gain:+.3f} [{last.gain_low:+.3f}, {last.gain_high:+.3f}]"
        lines.append("| " + " | ".join([method, *cells, "–" if method == methods[0] else gain]) + " |")
    return "\n".join(lines)


def plot(points: Sequence[Point], path: Path) -> None:
    """The study as a picture: a line with its band for each method, shares on the left, gains on the right."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, (shares, gains) = pyplot.subplots(1, 2, figsize=(11, 4.5))
    first = points[0].method
    for method in dict.fromkeys(point.method for point in points):
        own = [point for point in points if point.method == method]
        spent = [point.measurements for point in own]
        style = "--" if method.endswith("+surrogate") else "-"
        (line,) = shares.plot(spent, [point.share for point in own], style, label=method)
        shares.fill_between(spent, [p.low for p in own], [p.high for p in own], color=line.get_color(), alpha=0.12)
        gains.plot(spent, [point.gain for point in own], style, color=line.get_color())
        gains.fill_between(
            spent, [p.gain_low for p in own], [p.gain_high for p in own], color=line.get_color(), alpha=0.12
        )
    shares.set_ylabel("best speedup found, share of the pool's best")
    gains.set_ylabel(f"more than {first} on the same pools")
    shares.legend(loc="lower right")
    for axes in (shares, gains):
        axes.set_xlabel("measurements")
        axes.grid(alpha=0.3)
    figure.tight_layout()
    figure.savefig(path, dpi=130)
    pyplot.close(figure)
