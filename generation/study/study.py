"""The replay study: every method on recorded pools, many seeds, best speedup found against measurements spent."""

from __future__ import annotations

import csv
import dataclasses
import random
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import click

from kbench.generation.campaign.campaign import Campaign, Drive
from kbench.generation.executors.replay import ReplayExecutor
from kbench.generation.log import LogEntry
from kbench.generation.search.guidance.guide import OnlineGuide
from kbench.generation.search.methods.catalogue import filter_of, searchable
from kbench.generation.search.proposal import Proposer
from kbench.generation.search.search import Search
from kbench.generation.search.settings import SURROGATE, Budget, FilterSettings, RunSettings
from kbench.generation.study.pool import RecordedPool, pools_in
from kbench.loaders.options import echo_json, json_option, out_option
from kbench.schemas import UserError

METHODS = ("random", "hill_climb", "evolve", "puct", "bayes", "random+surrogate", "evolve+surrogate")
DRAWS = 2000
"""Bootstrap draws for an interval."""
SHOWN = (8, 16, 32, 64, 128)
"""Measurements with a column of their own in the table, besides the last."""
AT_LEAST_1 = click.IntRange(min=1)
STILL = "2026-01-01T00:00:00.000Z"

Traces = Mapping[str, Sequence[Sequence[float]]]
"""For each problem and each of its pools: what a method has found after each measurement, mean over seeds."""


@click.command("study", short_help="Replay every method on recorded pools.")
@click.argument("corpus", type=click.Path(exists=True, path_type=Path))
@out_option("Folder for points.csv, table.md, plot.png.", required=True)
@click.option("--seeds", type=AT_LEAST_1, default=20, show_default=True, help="Searches per method and pool.")
@click.option("--budget", type=AT_LEAST_1, default=32, show_default=True, help="Measurements per search.")
@click.option("--least", type=AT_LEAST_1, default=48, show_default=True, help="Smallest pool to use, in kernels.")
@click.option("--pools", type=AT_LEAST_1, default=24, show_default=True, help="Pools to use, spread over problems.")
@click.option("--methods", help="Comma-separated, the baseline first; NAME+surrogate, FILE.py[:NAME]. All by default.")
@click.option("--unsure-share", default=0.0, show_default=True, help="Share of measurements for unsure forecasts.")
@json_option
def command(
    corpus: Path, out: Path, seeds: int, budget: int, least: int, pools: int, methods: str | None,
    unsure_share: float, as_json: bool,
) -> None:  # fmt: skip
    """Replay methods on recorded pools: best speedup found against measurements spent.

    Fresh draws are kernels recorded without a parent. Imported parameter spaces are searched by their parameters.
    """
    points = study(
        pools_in(corpus, least, pools), methods=methods.split(",") if methods else METHODS, seeds=seeds, budget=budget,
        unsure_share=unsure_share, report=lambda text: click.echo(text, err=True),
    )  # fmt: skip
    text = write_study(points, out)
    echo_json([dataclasses.asdict(point) for point in points]) if as_json else click.echo(text)


@dataclasses.dataclass(frozen=True, slots=True)
class Point:
    """How much of the pool's best speedup a method has found after so many measurements, over pools and seeds.

    `gain` is how much more that is than the study's first method found on the same pools. Pools differ far more than
    methods do, so the gain's interval tells methods apart where those of their shares overlap.
    """

    method: str
    measurements: int
    share: float
    low: float
    high: float
    gain: float
    gain_low: float
    gain_high: float
    pools: int
    seeds: int


def trace(
    pool: RecordedPool, proposer: Proposer, method: str, seed: int, budget: int, batch: int,
    unsure_share: float = 0.0,
) -> list[float]:  # fmt: skip
    """Best speedup so far after each measurement of one search, relative to the pool's best."""
    name = method.removesuffix(SURROGATE)
    filter_settings = FilterSettings(surrogate="online", draw=4, unsure_share=unsure_share) if name != method else None
    settings = RunSettings(
        problem_id=pool.problem_id, backend=pool.backend, method=name, proposer=proposer.name, seed=seed, seeds=batch,
        batch=batch, filter=filter_settings, budget=Budget(measurements=budget),
    )  # fmt: skip
    search = Search(settings, proposer, lambda: STILL, surrogate=OnlineGuide() if filter_of(settings) else None)
    entries: list[LogEntry] = []
    with ReplayExecutor(pool.measurements) as executor:
        campaign = Campaign(Drive(executor=executor), entries.extend)
        campaign.add(search)
        campaign.run()
    shares: list[float] = []
    best = 0.0
    for entry in entries:
        if entry.kind == "kernel_measured":
            best = max(best, search.state.nodes[entry.payload["kernel_id"]].reward or 0.0)
            shares.append(best / pool.best)
    return shares + [best / pool.best] * (budget - len(shares))


def study(
    pools: Sequence[RecordedPool], *,
    methods: Sequence[str] = METHODS, seeds: int = 20, budget: int = 32, batch: int = 4, unsure_share: float = 0.0,
    report: Callable[[str], None] = lambda text: None,
) -> list[Point]:  # fmt: skip
    """Every method on every pool.

    Args:
        pools: what was recorded.
        methods: names, first the one that the others are compared with; `+surrogate` adds the online surrogate.
        seeds: searches of each method on each pool.
        budget: measurements of each search.
        batch: measurements per step.
        unsure_share: of the surrogate filter.
        report: called with what is being done.

    Returns:
        a point for each method and number of measurements; intervals are 95 % bootstraps over problems.
    """
    for name in methods:
        searchable(name.removesuffix(SURROGATE))
    if not pools:
        raise UserError("no pool is large enough for the study; lower --least, or record more kernels")
    traces: dict[str, dict[str, list[list[float]]]] = {name: defaultdict(list) for name in methods}
    for number, pool in enumerate(pools, 1):
        report(f"pool {number} of {len(pools)}: {pool.problem_id}, {pool.backend.value}")
        proposer = pool.proposer()
        for name in methods:
            rows = [trace(pool, proposer, name, seed, budget, batch, unsure_share) for seed in range(seeds)]
            means = [sum(row[n] for row in rows) / seeds for n in range(budget)]
            traces[name][pool.problem_id].append(means)
    first = traces[methods[0]]
    return [point for name in methods for point in _points(name, traces[name], first, budget, seeds)]


def _points(method: str, traces: Traces, first: Traces, budget: int, seeds: int) -> Iterator[Point]:
    problems = sorted(traces)
    pools = sum(len(traces[problem]) for problem in problems)
    for n in range(budget):
        values = [[means[n] for means in traces[problem]] for problem in problems]
        base = [[means[n] for means in first[problem]] for problem in problems]
        gains = [[a - b for a, b in zip(own, other, strict=True)] for own, other in zip(values, base, strict=True)]
        low, high = interval(values, random.Random(n))
        gain_low, gain_high = interval(gains, random.Random(n))
        yield Point(method, n + 1, _mean(values), low, high, _mean(gains), gain_low, gain_high, pools, seeds)


def _mean(clusters: Iterable[Sequence[float]]) -> float:
    flat = [value for cluster in clusters for value in cluster]
    return sum(flat) / len(flat)


def interval(clusters: Sequence[Sequence[float]], rng: random.Random) -> tuple[float, float]:
    """95 % bootstrap interval of the mean, clusters drawn whole."""
    draws = sorted(_mean(rng.choices(clusters, k=len(clusters))) for _ in range(DRAWS))
    return draws[round(0.025 * (DRAWS - 1))], draws[round(0.975 * (DRAWS - 1))]


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
    plot_study(points, folder / "plot.png")
    return text


def table(points: Sequence[Point], at: Sequence[int]) -> str:
    """The study as a Markdown table: share of the pool's best after so many measurements, gain at the last of them."""
    methods = list(dict.fromkeys(point.method for point in points))
    by_place = {(point.method, point.measurements): point for point in points}
    heads = ["method", *(f"{n} measurements" for n in at), f"more than {methods[0]} after {at[-1]}"]
    lines = ["| " + " | ".join(heads) + " |", "|---" * len(heads) + "|"]
    for method in methods:
        cells = [f"{p.share:.3f} [{p.low:.3f}, {p.high:.3f}]" for p in (by_place[method, n] for n in at)]
        last = by_place[method, at[-1]]
        gain = f"{last.gain:+.3f} [{last.gain_low:+.3f}, {last.gain_high:+.3f}]"
        lines.append("| " + " | ".join([method, *cells, "–" if method == methods[0] else gain]) + " |")
    return "\n".join(lines)


def plot_study(points: Sequence[Point], path: Path) -> None:
    """A line with its band for each method: shares of the pools' best on the left, gains on the right."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, (shares, gains) = pyplot.subplots(1, 2, figsize=(11, 4.5))
    for method in dict.fromkeys(point.method for point in points):
        own = [point for point in points if point.method == method]
        spent = [point.measurements for point in own]
        style = "--" if method.endswith("+surrogate") else "-"
        (line,) = shares.plot(spent, [point.share for point in own], style, label=method)
        band = {"color": line.get_color(), "alpha": 0.12}
        shares.fill_between(spent, [point.low for point in own], [point.high for point in own], **band)
        gains.plot(spent, [point.gain for point in own], style, color=line.get_color())
        gains.fill_between(spent, [point.gain_low for point in own], [point.gain_high for point in own], **band)
    shares.set_ylabel("best speedup found, share of the pool's best")
    gains.set_ylabel(f"more than {points[0].method} on the same pools")
    shares.legend(loc="lower right")
    for axes in (shares, gains):
        axes.set_xlabel("measurements")
        axes.grid(alpha=0.3)
    figure.tight_layout()
    figure.savefig(path, dpi=130)
    pyplot.close(figure)
