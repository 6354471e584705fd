"""The replay study: every method on recorded pools, many seeds, best speedup found against measurements spent."""

from __future__ import annotations

import dataclasses
import random
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from kbench.generation.campaign.campaign import Campaign
from kbench.generation.executors.replay import ReplayExecutor
from kbench.generation.log.entry import LogEntry
from kbench.generation.search.budget import Budget
from kbench.generation.search.guidance.guide import OnlineGuide
from kbench.generation.search.methods.registry import filter_of, searchable
from kbench.generation.search.proposal import Proposer
from kbench.generation.search.search import Search
from kbench.generation.search.settings import SURROGATE, FilterSettings, RunSettings
from kbench.generation.study.pool import RecordedPool
from kbench.schemas import UserError

METHODS = ("random", "hill_climb", "evolve", "puct", "bayes", "random+surrogate", "evolve+surrogate")
DRAWS = 2000
"""Bootstrap draws for an interval."""
STILL = "2026-01-01T00:00:00.000Z"

Traces = Mapping[str, Sequence[Sequence[float]]]
"""For each problem and each of its pools: what a method has found after each measurement, mean over seeds."""


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
    chosen = FilterSettings(surrogate="online", draw=4, unsure_share=unsure_share) if name != method else None
    settings = RunSettings(
        problem_id=pool.problem_id, backend=pool.backend, method=name, proposer=proposer.name, seed=seed, seeds=batch,
        batch=batch, filter=chosen, budget=Budget(measurements=budget),
    )  # fmt: skip
    search = Search(settings, proposer, lambda: STILL, surrogate=OnlineGuide() if filter_of(settings) else None)
    entries: list[LogEntry] = []
    with ReplayExecutor(pool.measurements) as executor:
        campaign = Campaign(executor, entries.extend)
        campaign.add(search)
        campaign.run()
    found: list[float] = []
    best = 0.0
    for entry in entries:
        if entry.kind == "kernel_measured":
            best = max(best, search.state.nodes[entry.payload["kernel_id"]].reward or 0.0)
            found.append(best / pool.best)
    return found + [best / pool.best] * (budget - len(found))


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
