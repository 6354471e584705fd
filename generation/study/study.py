"""The replay study: every method on recorded pools, many seeds, best speedup found against measurements spent."""

from __future__ import annotations

import dataclasses
import random
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from kbench.benchmark.surrogates.online.surrogate import OnlineSurrogate
from kbench.generation.campaign.campaign import Campaign
from kbench.generation.executors.replay import ReplayExecutor
from kbench.generation.log.entry import LogEntry
from kbench.generation.search.budget import Budget
from kbench.generation.search.search import Search
from kbench.generation.search.settings import FilterSettings, RunSettings
from kbench.generation.study.pool import PoolProposer
from kbench.schemas import Backend, Measurement, UserError

METHODS = ("random", "hill_climb", "evolve", "puct", "random+surrogate", "puct+surrogate")
DRAWS = 2000
"""Bootstrap draws behind an interval."""
STILL = "2026-01-01T00:00:00.000Z"

Traces = Mapping[str, Sequence[Sequence[float]]]
"""For each problem and each of its pools: what a method has found after each measurement, mean over seeds."""


@dataclasses.dataclass(frozen=True, slots=True)
class RecordedPool:
    """The measured kernels of one problem and backend on one GPU."""

    problem_id: str
    backend: Backend
    gpu: str
    sources: Mapping[str, str]
    measurements: Mapping[str, Sequence[Measurement]]
    best: float


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


class _Memory:
    """A log that is kept in memory: the study needs no resuming."""

    def __init__(self) -> None:
        self.entries: list[LogEntry] = []

    def append(self, entries: Sequence[LogEntry]) -> None:
        self.entries.extend(entries)


def trace(pool: RecordedPool, proposer: PoolProposer, method: str, seed: int, budget: int, batch: int) -> list[float]:
    """Best speedup so far after each measurement of one search, relative to the pool's best."""
    name = method.removesuffix("+surrogate")
    chosen = FilterSettings(surrogate="online", draw=4) if name != method else None
    settings = RunSettings(
        problem_id=pool.problem_id, backend=pool.backend, method=name, proposer="pool", seed=seed, seeds=batch,
        batch=batch, filter=chosen, budget=Budget(measurements=budget),
    )  # fmt: skip
    memory = _Memory()
    with ReplayExecutor(pool.measurements) as executor:
        campaign = Campaign(executor, memory)
        search = Search(settings, proposer, lambda: STILL, surrogate=OnlineSurrogate() if chosen else None)
        campaign.add(search)
        campaign.run()
    found: list[float] = []
    best = 0.0
    for entry in memory.entries:
        if entry.kind == "kernel_measured":
            node = search.state.nodes[entry.payload["kernel_id"]]
            best = max(best, node.reward or 0.0)
            found.append(best / pool.best)
    return found + [best / pool.best] * (budget - len(found))


def study(
    pools: Sequence[RecordedPool], *,
    methods: Sequence[str] = METHODS, seeds: int = 20, budget: int = 32, batch: int = 4,
    report: Callable[[str], None] = lambda text: None,
) -> list[Point]:  # fmt: skip
    """Every method on every pool.

    Args:
        pools: what was recorded.
        methods: names, the one the others are compared with first; `+surrogate` puts the online surrogate in front.
        seeds: searches of each method on each pool.
        budget: measurements of each search.
        batch: measurements a step.
        report: told what is being done.

    Returns:
        a point for each method and number of measurements; intervals are 95 % bootstraps over problems.
    """
    if not pools:
        raise UserError("no pool is large enough for the study; lower --least, or record more kernels")
    traces: dict[str, dict[str, list[list[float]]]] = {name: defaultdict(list) for name in methods}
    for number, pool in enumerate(pools, 1):
        report(f"pool {number} of {len(pools)}: {pool.problem_id}, {pool.backend.value}")
        proposer = PoolProposer(pool.sources)
        for name in methods:
            rows = [trace(pool, proposer, name, seed, budget, batch) for seed in range(seeds)]
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


def pools_in(path: Path, least: int, most: int) -> list[RecordedPool]:
    """The pools of a corpus with at least so many measured kernels, spread evenly over problems.

    Args:
        path: a corpus folder.
        least: fewest kernels of a pool.
        most: pools to take.
    """
    from kbench.loaders.corpus.corpus import Corpus

    corpus = Corpus.open(path)
    wanted = ("kernel_id", "problem_id", "backend", "gpu", "source", "speedup", "status")
    cells: defaultdict[tuple[str, str, str], list[dict[str, object]]] = defaultdict(list)
    for row in corpus.table("kernels", columns=wanted).to_pylist():
        if row["status"] is not None:
            cells[row["problem_id"], row["backend"], row["gpu"]].append(row)
    large = sorted(key for key, rows in cells.items() if len(rows) >= least and any(row["speedup"] for row in rows))
    taken = min(most, len(large))
    return [_pool(corpus, key, cells[key]) for key in (large[n * len(large) // taken] for n in range(taken))]


def _pool(corpus: object, key: tuple[str, str, str], rows: Sequence[Mapping[str, object]]) -> RecordedPool:
    from kbench.loaders.corpus.corpus import Corpus
    from kbench.schemas import from_dict

    assert isinstance(corpus, Corpus)
    ids = {str(row["kernel_id"]) for row in rows}
    found: defaultdict[str, list[Measurement]] = defaultdict(list)
    for row in corpus.table("measurements", problem=key[0], gpu=key[2]).to_pylist():
        if row["kernel_id"] in ids:
            found[row["kernel_id"]].append(from_dict(Measurement, row))
    speedups = [row["speedup"] for row in rows if row["speedup"] is not None]
    sources = {str(row["kernel_id"]): str(row["source"]) for row in rows}
    return RecordedPool(key[0], Backend(key[1]), key[2], sources, found, max(float(str(s)) for s in speedups))


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
    """The study as a picture: a line with its band for each method, left the shares, right the gains."""
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
