"""Report: a study's table, what it decides, its files and its plot."""

from __future__ import annotations

import csv
import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path

from kbench.generation.campaign.campaign import counted
from kbench.generation.search.action import NOTHING_NEW
from kbench.generation.study.points import Point
from kbench.generation.study.study import Study

SHOWN = (8, 16, 32, 64, 128)
"""Measurements with a column of their own in the table, besides the last."""
POINTS = "points.csv"


def write_study(result: Study, folder: Path) -> str:
    """Write points.csv, searches.csv, table.md and plot.png.

    Returns:
        the table and what it decides.
    """
    folder.mkdir(parents=True, exist_ok=True)
    points = result.points
    budget = points[-1].measurements
    text = f"{table(points, [*(n for n in SHOWN if n < budget), budget])}\n\n{verdict(result)}"
    (folder / "table.md").write_text(text + "\n", encoding="utf-8")
    _write_csv(folder / "searches.csv", [
        {"pool": one.pool, "method": one.method, "seed": one.seed, "measurement": n, "best": best,
         "kernel_id": node.kernel_id, "status": node.outcome.status.value, "speedup": node.reward,
         "pool_best": one.pool_best, "gpu_seconds": cost}
        for one in result.trials
        for n, (best, node, cost) in enumerate(zip(one.best, one.measured, one.gpu_seconds, strict=True), 1)
        if node.outcome
    ])  # fmt: skip
    plot_study(points, folder / "plot.png")
    _write_csv(folder / POINTS, [dataclasses.asdict(point) for point in points])
    return text


def _write_csv(path: Path, rows: Sequence[Mapping[str, object]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.DictWriter(stream, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def table(points: Sequence[Point], at: Sequence[int]) -> str:
    """The study as a Markdown table: share of the pool's best after so many measurements, gain at the last of them."""
    methods = list(dict.fromkeys(point.method for point in points))
    by_place = {(point.method, point.measurements): point for point in points}
    heads = ["method", *(f"{n} measurements" for n in at), f"minus {methods[0]} after {at[-1]}"]
    lines = ["| " + " | ".join(heads) + " |", "|---" * len(heads) + "|"]
    for method in methods:
        cells = [f"{p.share:.3f}{_brackets(p.low, p.high)}" for p in (by_place[method, n] for n in at)]
        last = by_place[method, at[-1]]
        gain = f"{last.gain:+.3f}{_brackets(last.sure_low, last.sure_high, '+')}"
        lines.append("| " + " | ".join([method, *cells, "–" if method == methods[0] else gain]) + " |")
    return "\n".join(lines)


def _brackets(low: float | None, high: float | None, sign: str = "") -> str:
    return "" if low is None or high is None else f" [{low:{sign}.3f}, {high:{sign}.3f}]"


def verdict(result: Study) -> str:
    """What the table shows, on how many pools each method is ahead, and what the study decides."""
    last = result.points[-1]
    first, *others = [point for point in result.points if point.measurements == last.measurements]
    drawn = "seeds of this pool" if last.pools == 1 else "pools and seeds"
    at_once = f" (95 % for all {len(others)} at once)" if len(others) > 1 else ""
    brackets = (
        f"no brackets: {result.too_few}" if result.too_few else f"brackets: 95 % over {drawn}, none where all agree"
    )
    lines = [
        f"Share of the pool's best speedup; {brackets}; last column: paired difference, minus {first.method}{at_once}."
    ]
    lines += [
        f"{one.method}: ahead of {first.method} on {counted(one.ahead, 'pool')}, equal on {one.equal}, "
        f"behind on {one.behind}; {_saving(result, one, first)}"
        for one in others
    ]
    for one in (first, *others):
        own = [trial for trial in result.trials if trial.method == one.method]
        if ended := len(own) - one.searches:
            lines.append(
                f"{one.method}: {ended} of {len(own)} searches ended before {one.measurements} measurements "
                f"({NOTHING_NEW}); their best counts on"
            )
        if seen := result.seen.get(one.method):
            lines.append(
                f"{one.method}: its surrogate learned from problems of {seen} of {counted(one.pools, 'pool')}; "
                "--split test has none of these"
            )
        if failed := next((trial.failed for trial in own if trial.failed), None):
            lines.append(f"{one.method}: in a search {failed}")
    for one, base in result.added:
        all_filters = f" (95 % for all {len(result.added)} at once)" if len(result.added) > 1 else ""
        lines.append(
            f"{one.method} minus {base.method}: {one.gain:+.3f}{_brackets(one.sure_low, one.sure_high, '+')}; "
            f"{_saving(result, one, base)}{all_filters}"
        )
    lines += result.notes
    decided = [f"{one.method} ({'more' if one.gain > 0 else 'less'})" for one in others if one.decided]
    undecided = [one.method for one in others if not one.decided]
    parts = [f"decided{at_once}: {', '.join(decided) or 'none'}", f"undecided: {', '.join(undecided) or 'none'}"]
    size = f"{counted(last.pools, 'pool')}, {counted(last.seeds, 'seed')}"
    return "\n".join([*lines, f"After {last.measurements} measurements: {'; '.join(parts)}; {size}."])


def _saving(result: Study, last: Point, base: Point) -> str:
    """How many measurements a method needs for all that another finds, and that one itself."""

    def count(point: Point) -> str:
        counts = point.needed, point.needed_low, point.needed_high
        number, low, high = (f">{point.measurements}" if one is None else str(one) for one in counts)
        return number if result.too_few else f"{number} [{low}, {high}]"

    return f"needs {count(last)} for what {base.method} finds in {count(base)}"


def plot_study(points: Sequence[Point], path: Path) -> None:
    """Shares of the pools' best as lines on the left; gains after some measurements, with intervals, on the right."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    budget = points[-1].measurements
    shown = [*(n for n in SHOWN if n < budget), budget]
    methods = list(dict.fromkeys(point.method for point in points))
    figure, (shares, gains) = pyplot.subplots(1, 2, figsize=(11, 5), layout="constrained")
    for number, method in enumerate(methods):
        own = [point for point in points if point.method == method]
        style = "--" if "+" in method else "-"
        (line,) = shares.plot([p.measurements for p in own], [p.share for p in own], style, label=method)
        if number == 0:
            continue  # it gains nothing on itself
        for place, point in enumerate(point for point in own if point.measurements in shown):
            at = place + (number - len(methods) / 2) * 0.7 / len(methods)
            ends = [point.gain if end is None else end for end in (point.sure_low, point.sure_high)]
            gains.plot([at, at], ends, color=line.get_color())
            gains.plot(at, point.gain, "o", markersize=4, color=line.get_color())
    shares.locator_params(axis="x", integer=True)
    shares.set_xlabel("measurements")
    shares.set_ylabel("best speedup found, share of the pool's best")
    gains.set_xticks(range(len(shown)), map(str, shown))
    gains.set_xlabel("after so many measurements")
    gains.set_ylabel(f"minus {methods[0]} on the same pools")
    gains.axhline(0.0, color="black", linewidth=0.8)
    for axes in (shares, gains):
        axes.grid(alpha=0.3)
    figure.legend(loc="outside lower center", ncols=min(7, len(methods)), frameon=False)
    figure.savefig(path, dpi=130)
    pyplot.close(figure)
