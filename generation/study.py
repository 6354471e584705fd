"""The replay study: every method on recorded pools, many seeds, best speedup found against measurements spent.

Noise is not called a difference: intervals are drawn over problems and over the searches on each pool, and where there
are too few of them to say, there is no interval.
"""

from __future__ import annotations

import csv
import dataclasses
import itertools
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import click
import numpy as np
import numpy.typing as npt
from click.core import ParameterSource

from kbench.benchmark.metrics.bootstrap import LEVEL, interval_level
from kbench.benchmark.questions.build import TRAIN_SPLITS
from kbench.benchmark.questions.render import gpu_facts
from kbench.benchmark.surrogates.resolve import locate
from kbench.generation.campaign.campaign import Campaign, Drive, counted, failed_forecasts
from kbench.generation.campaign.status import recorded_runs
from kbench.generation.executors.compiler import compiler_facts
from kbench.generation.executors.replay import ReplayExecutor
from kbench.generation.log import LogEntry, found_files, read_environments
from kbench.generation.proposers.pool import LIVE, RecordedPool, pools_in
from kbench.generation.search.action import NOTHING_NEW
from kbench.generation.search.guide import ONLINE, guide_named
from kbench.generation.search.methods.catalogue import SEARCHES, filter_of, searchable
from kbench.generation.search.proposal import Proposer
from kbench.generation.search.search import Search
from kbench.generation.search.settings import SURROGATE, Budget, FilterSettings, RunSettings, in_file
from kbench.generation.search.state import Node, RunState
from kbench.loaders.options import CorpusPath, echo_json, json_option, out_option
from kbench.schemas import UnknownNameError, UserError

METHODS = ("random", "hill_climb", "evolve", "puct", "bayes", "random+online", "evolve+online")
DRAWS = 2000
"""Bootstrap draws for an interval."""
SHOWN = (8, 16, 32, 64, 128)
"""Measurements with a column of their own in the table, besides the last."""
AT_LEAST_1 = click.IntRange(min=1)
STILL = "2026-01-01T00:00:00.000Z"
BATCH = 4
"""Kernels of a step, and seeds of a search."""
ENOUGH = 10
"""Problems, or searches where there is one pool, from which an interval says something."""
SAME = 0.005
"""Mean shares of a pool that are closer than this count as equal: times repeat to about half a percent."""
POINTS = "points.csv"

Floats = npt.NDArray[np.float64]


@click.command("study", short_help="Compare methods: replayed on recorded pools, or in run folders.")
@click.argument(
    "places", metavar="CORPUS|RUN...", nargs=-1, required=True, type=CorpusPath(exists=True, path_type=Path)
)
@out_option("New folder for points.csv, searches.csv, table.md, plot.png.", required=True)
@click.option("--seeds", type=AT_LEAST_1, default=20, show_default=True, help="Searches per method and pool.")
@click.option("--budget", type=AT_LEAST_1, default=16, show_default=True, help="Measurements per search.")
@click.option("--least", type=AT_LEAST_1, default=48, show_default=True, help="Smallest pool to use, in kernels.")
@click.option("--pools", type=AT_LEAST_1, default=24, show_default=True, help="Pools to use, spread over problems.")
@click.option("--problem", "problems", multiple=True, help="Only pools of this problem. Repeatable.")
@click.option("--backend", "backends", multiple=True, help="Only pools of this backend. Repeatable.")
@click.option(
    "--live", is_flag=True, help="Larger pools: all kernels of searches on a GPU (config live), of test problems."
)
@click.option("--split", help="Only kernels of this split: test for surrogates that learned from training problems.")
@click.option(
    "--methods",
    help="Comma-separated, the baseline first: NAME or FILE.py[:NAME]; NAME+SURROGATE filters by that surrogate's "
    "forecasts. By default all built-in ones, two of them also with `online`.",
)
@click.option(
    "--unsure-share", type=click.FloatRange(0, 1), default=0.25, show_default=True, help="Share of unsure forecasts."
)
@json_option
def command(
    places: tuple[Path, ...], out: Path, seeds: int, budget: int, least: int, pools: int, problems: tuple[str, ...],
    backends: tuple[str, ...], live: bool, split: str | None, methods: str | None, unsure_share: float, as_json: bool,
) -> None:  # fmt: skip
    """Replay methods on recorded pools: best speedup found against measurements spent.

    CORPUS is a folder, or the word shipped. Fresh draws are kernels recorded without a parent. Imported parameter
    spaces are searched by their parameters. Files are written when all pools are done; a stopped study keeps none.

    Run folders are compared as they are: the searches in their logs, and nothing is replayed.
    """
    if (out / POINTS).exists():
        raise UserError(f"--out {str(out)!r} holds a study already; name a new folder, or remove that one")
    names = None if methods is None else methods.split(",")
    if any(map(found_files, places)):
        context = click.get_current_context()
        for name in ("seeds", "budget", "least", "pools", "live", "split", "unsure_share"):
            if context.get_parameter_source(name) is not ParameterSource.DEFAULT:
                raise UserError(f"--{name.replace('_', '-')} changes nothing for searches that were made; leave it out")
        result = study_of_runs(places, names, problems, backends)
    elif len(places) > 1:
        raise UserError(f"{str(places[1])!r} is one corpus too many; name one, or run folders")
    else:
        replayed = METHODS if names is None else names
        for name in replayed:
            parts_of(name)
        recorded = pools_in(places[0], least, pools, problems, backends, split, LIVE if live else "kernels")
        out.mkdir(parents=True, exist_ok=True)  # where that is refused, no minute has passed
        result = study(
            recorded, methods=replayed, seeds=seeds, budget=budget, unsure_share=unsure_share,
            report=lambda text: click.echo(text, err=True),
        )  # fmt: skip
    text = write_study(result, out)
    echo_json([dataclasses.asdict(point) for point in result.points]) if as_json else click.echo(text)


@dataclasses.dataclass(frozen=True, slots=True)
class Trial:
    """One search of a study."""

    problem_id: str
    backend: str
    method: str
    seed: int
    pool_best: float
    """The best speedup recorded in its pool; of a run folder, the best that a search of the pool found."""
    measured: tuple[Node, ...]
    """What it measured, in order; fewer than its budget where it found nothing new."""
    gpu_seconds: tuple[float, ...]
    """What measuring each of them cost when it was recorded."""
    failed: str | None
    """How many forecasts failed and why the first did; None where none did."""
    stopped: str | None
    """Why it ended; None where it has not."""

    @property
    def pool(self) -> str:
        """The pool's name."""
        return f"{self.problem_id}/{self.backend}"

    @property
    def best(self) -> list[float]:
        """The best speedup after each measurement; 0 as long as none was correct."""
        return list(itertools.accumulate((node.reward or 0.0 for node in self.measured), max))

    def shares(self, budget: int) -> list[float]:
        """The best speedup after each measurement, relative to the pool's; one that ended early keeps its last."""
        shares = [best / self.pool_best for best in self.best]
        return (shares + [shares[-1] if shares else 0.0] * (budget - len(shares)))[:budget]


@dataclasses.dataclass(frozen=True, slots=True)
class Point:
    """How much of the pool's best speedup a method has found after so many measurements, over pools and seeds.

    `gain` is how much more that is than the study's first method found on the same pools. Pools differ far more than
    methods do, so the gain's interval tells methods apart where those of their shares overlap. Intervals are 95 %
    bootstraps; null where there are too few pools to say, or where nothing varies.
    """

    method: str
    measurements: int
    share: float
    low: float | None
    high: float | None
    gain: float
    gain_low: float | None
    gain_high: float | None
    sure_low: float | None
    """The gain's interval that holds for all methods of the study at once."""
    sure_high: float | None
    pools: int
    seeds: int
    searches: int
    """Searches that made this measurement; the others ended before it, and what they found counts on."""
    ahead: int
    """Pools on which the method found more than the first one, mean over seeds."""
    equal: int
    behind: int
    decided: bool
    """Whether zero lies outside that interval."""
    needed: int | None
    """Measurements in which the method's mean share reaches the first's after this many; None beyond the budget."""
    needed_low: int | None
    """Their interval that holds for all methods of the study at once."""
    needed_high: int | None


@dataclasses.dataclass(frozen=True, slots=True)
class Study:
    """What a study found."""

    trials: Sequence[Trial]
    points: Sequence[Point]
    too_few: str | None
    """Why there are no intervals; None where there are some."""
    seen: Mapping[str, int]
    """For methods whose surrogate says what it learned from: pools with kernels of those splits."""
    added: Sequence[tuple[Point, Point]]
    """Filtered methods whose own method is in the study too: the last points of both, compared with that one."""
    notes: Sequence[str] = ()
    """What else its table needs said."""


def trial(
    pool: RecordedPool, proposer: Proposer, method: str, seed: int, budget: int, batch: int,
    unsure_share: float = 0.25,
) -> Trial:  # fmt: skip
    """One search on a pool."""
    name, surrogate = parts_of(method)
    filter_settings = FilterSettings(surrogate=surrogate, draw=4, unsure_share=unsure_share) if surrogate else None
    # The searches of a pool and seed share their first kernels: methods differ in what they do after them.
    settings = RunSettings(
        problem_id=pool.problem_id, backend=pool.backend, method=name, proposer=proposer.name, seed=seed, seeds=batch,
        batch=batch, filter=filter_settings, budget=Budget(measurements=budget), first=f"study {seed}",
    )  # fmt: skip
    guide = guide_named(chosen.surrogate, compiler_facts) if (chosen := filter_of(settings)) else None
    gpu = next(rows[0].gpu for rows in pool.measurements.values())
    search = Search(
        settings, proposer, lambda: STILL, surrogate=guide, gpu=gpu, gpu_facts_json=gpu_facts(gpu)
    )  # fmt: skip
    entries: list[LogEntry] = []
    with ReplayExecutor(pool.measurements) as executor:
        campaign = Campaign(Drive(executor=executor), entries.extend)
        campaign.add(search)
        campaign.run()
    return trial_of(search.state, entries, method, pool.best)


def trial_of(state: RunState, entries: Sequence[LogEntry], method: str, pool_best: float) -> Trial:
    """A search as its log tells it."""
    payloads = [entry.payload for entry in entries if entry.kind == "kernel_measured"]
    measured = tuple(state.nodes[payload["kernel_id"]] for payload in payloads)
    cost = tuple(payload["gpu_seconds"] for payload in payloads)
    failed = failed_forecasts(state.failed_forecasts, state.forecast_failure) if state.failed_forecasts else None
    chosen = state.settings
    return Trial(
        chosen.problem_id, chosen.backend.value, method, chosen.seed, pool_best, measured, cost, failed, state.stopped
    )


def parts_of(name: str) -> tuple[str, str | None]:
    """A method of a study, and the surrogate that filters its candidates: NAME+SURROGATE, +surrogate for `online`.

    Raises:
        UserError: no such method or surrogate.
    """
    method, plus, surrogate = name.partition("+")
    if method not in SEARCHES and not in_file(method) and in_file(name):  # a path with a plus sign
        method, surrogate = name, ""
    if plus and not surrogate and not in_file(name):
        raise UserError(f"method {name!r} names no surrogate after +; name one, such as {method}+{ONLINE}")
    surrogate = ONLINE if f"+{surrogate}" == SURROGATE else surrogate
    if surrogate:
        locate(surrogate.removeprefix(f"{ONLINE}:"))
    return searchable(method), surrogate or None


def shown(spec: str) -> str:
    """A method of a study as its tables name it: a file's without its path, as runs name it."""
    method, surrogate = parts_of(spec)
    own = in_file(method)
    return "+".join(filter(None, (own[2] or own[1] if own else method, surrogate)))


def study(
    pools: Sequence[RecordedPool], *,
    methods: Sequence[str] = METHODS, seeds: int = 20, budget: int = 16, unsure_share: float = 0.25,
    report: Callable[[str], None] = lambda text: None,
) -> Study:  # fmt: skip
    """Every method on every pool.

    Returns:
        every search, and a point for each method and number of measurements.
    """
    names = [shown(spec) for spec in methods]
    for name, times in Counter(names).items():
        if times > 1:
            raise UserError(f"method {name!r} is named {times} times; name it once, or give files names of their own")
    if not pools:
        raise UserError("no pool is large enough for the study; lower --least, or record more kernels")
    learned = {name: learned_from(spec) for name, spec in zip(names, methods, strict=True)}
    trials = []
    began = time.monotonic()
    for number, pool in enumerate(pools, 1):
        left = (time.monotonic() - began) / max(1, number - 1) * (len(pools) - number + 1)
        report(
            f"pool {number} of {len(pools)}: {pool.problem_id}, {pool.backend.value}, {len(pool.sources)} kernels"
            + (f"; about {left:.0f} s left" if number > 1 else "")
        )
        proposer = pool.proposer()
        for name, spec in zip(names, methods, strict=True):
            own = [trial(pool, proposer, spec, seed, budget, BATCH, unsure_share) for seed in range(seeds)]
            trials += [dataclasses.replace(one, method=name) for one in own]
            if failed := next((one.failed for one in own if number == 1 and one.failed), None):
                report(f"{name}: in a search {failed}")
    seen = {name: sum(bool(pool.splits & learned[name]) for pool in pools) for name in names}
    return _compared(trials, names, [pool.problem_id for pool in pools], seeds, budget, seen)


def study_of_runs(
    folders: Sequence[Path], methods: Sequence[str] | None = None, problems: Sequence[str] = (),
    backends: Sequence[str] = (),
) -> Study:  # fmt: skip
    """The methods of searches that were made, such as those of a campaign with `independent`.

    Args:
        folders: run folders.
        methods: those to compare, the baseline first; all by default, in the order of the logs.
        problems: their problems; all by default.
        backends: their backends, likewise.

    Raises:
        UserError: the searches cannot be compared, and why.
    """
    if len(gpus := {one.gpu for folder in folders for one in read_environments(folder)}) > 1:
        raise UserError(f"the runs were measured on {' and '.join(sorted(gpus))}; compare runs of one GPU")
    made: dict[tuple[str, str, int], Trial] = {}
    known: set[str] = set()
    for folder in folders:
        sharing = set()
        for state, entries in recorded_runs(folder):
            one = trial_of(state, entries, state.settings.full_method, 0.0)
            known.add(one.method)
            pairs = ((one.problem_id, problems), (one.backend, backends), (one.method, methods))
            if not all(name in (chosen or [name]) for name, chosen in pairs):
                continue
            if (one.pool, state.settings.label) in sharing:
                raise UserError(
                    f"searches of {one.pool} in {str(folder)!r} share what they measure, which says nothing of their "
                    'methods; compare those of a campaign with "independent": true'
                )
            if (one.pool, one.method, one.seed) in made:
                raise UserError(f"{one.method!r} searched {one.pool} with seed {one.seed} in two folders; name one")
            sharing.add((one.pool, state.settings.label))
            made[one.pool, one.method, one.seed] = one
    if absent := [name for name in methods or () if name not in known]:
        raise UnknownNameError("method of these runs:", absent[0], known)
    names, seeds = methods or [*dict.fromkeys(key[1] for key in made)], sorted({key[2] for key in made})
    best: dict[str, float] = {}
    for one in made.values():
        best[one.pool] = max(best.get(one.pool, 0.0), *one.best, 0.0)
    whole = {pool for pool in best if all((pool, name, seed) in made for name in names for seed in seeds)}
    places = [(pool, name, seed) for pool in best if best[pool] and pool in whole for name in names for seed in seeds]
    trials = [dataclasses.replace(made[place], pool_best=best[place[0]]) for place in places]
    # One that found nothing new would find no more; others might, with a larger budget.
    lengths = [len(one.measured) for one in trials if one.stopped != NOTHING_NEW]
    budget = min(lengths, default=max((len(one.measured) for one in trials), default=0))
    if not budget:
        raise UserError(
            f"nothing to compare: no problem on which each of {', '.join(names)} has measured kernels with each of "
            f"the seeds {', '.join(map(str, seeds))}"
        )
    notes = ["A pool is a problem and backend, and its best speedup the best that one of these searches found."]
    of_pools = {one.pool: one.problem_id for one in trials}
    if left_out := len(best) - len(of_pools):
        notes.append(
            f"left out: {counted(left_out, 'pool')} without all methods and seeds, or without a correct kernel"
        )
    if going := sum(one.stopped is None for one in trials):
        notes.append(f"{counted(going, 'search', 'searches')} not ended: compared is what all have measured")
    found = _compared(trials, names, [*of_pools.values()], len(seeds), budget, {}, notes)
    # What would make a replay large enough is no option here.
    return dataclasses.replace(found, too_few=found.too_few and found.too_few.partition(";")[0])


def _compared(
    trials: Sequence[Trial], methods: Sequence[str], problems: Sequence[str], seeds: int, budget: int,
    seen: Mapping[str, int], notes: Sequence[str] = (),
) -> Study:  # fmt: skip
    """The study of these searches, which lie in the order of pools and seeds; `problems` are those of the pools."""
    shares = {
        name: np.array([one.shares(budget) for one in trials if one.method == name]).reshape(-1, seeds, budget)
        for name in methods
    }
    lengths = {name: [len(one.measured) for one in trials if one.method == name] for name in methods}

    def points(name: str, base: str, others: int) -> list[Point]:
        return list(_points(name, shares[name], shares[base], problems, max(1, others), lengths[name]))

    filtered = [(name, own) for own in methods[1:] for name in methods if name.startswith(f"{own}+")]
    return Study(
        trials, [point for name in methods for point in points(name, methods[0], len(methods) - 1)],
        too_few(problems, seeds), seen,
        [(points(name, own, len(filtered))[-1], points(own, own, len(filtered))[-1]) for name, own in filtered], notes,
    )  # fmt: skip


def learned_from(name: str) -> frozenset[str | None]:
    """The splits that the surrogate of a study's method learned from, as far as it says."""
    surrogate = (parts_of(name)[1] or ONLINE).removeprefix(f"{ONLINE}:")
    stated = getattr(guide_named(surrogate, compiler_facts), "learned_from", None)
    return frozenset(stated(TRAIN_SPLITS) or () if stated else ())


def too_few(problems: Sequence[str], seeds: int) -> str | None:
    """Why no interval can be given for pools of these problems; None where one can."""
    if len(problems) == 1:
        return None if seeds >= ENOUGH else f"one pool with fewer than {ENOUGH} seeds; raise --seeds"
    if len(set(problems)) >= ENOUGH:
        return None
    if len(set(problems)) == 1:
        return f"several pools of one problem; take one of them (--backend) with {ENOUGH} seeds, or more problems"
    return f"too few pools to say: fewer than {ENOUGH} problems; raise --pools, or lower --least"


def _points(
    method: str, own: Floats, first: Floats, problems: Sequence[str], others: int, lengths: Sequence[int]
) -> Iterator[Point]:
    """The points of a method.

    Args:
        method: its name.
        own: shares by pool, seed and measurement.
        first: those of the method compared with, whose searches of a pool and seed began with the same kernels.
        problems: the problem of each pool.
        others: methods that are compared with the first: the more there are, the likelier luck alone sets one apart.
        lengths: measurements of each of its searches.
    """
    pools, seeds, budget = own.shape
    gains = own - first
    bounds = gain_bounds = sure_bounds = None
    counts = measurements_needed(own.mean(axis=(0, 1))[None], first.mean(axis=(0, 1))[None])
    if too_few(problems, seeds) is None:
        drawn = weights(problems, seeds, np.random.default_rng(0))
        clusters = seeds if pools == 1 else len(set(problems))
        at_once = 1 - (1 - LEVEL) / others
        bounds, gain_bounds = interval(own, drawn, clusters), interval(gains, drawn, clusters)
        sure_bounds = interval(gains, drawn, clusters, at_once)
        drawn_counts = measurements_needed(means(own, drawn), means(first, drawn))
        ends = np.quantile(drawn_counts, tails(clusters, at_once), axis=0, method="inverted_cdf")
        counts = np.concatenate([counts, ends])
    of_pools = gains.mean(axis=1)
    for n in range(budget):
        needed, needed_low, needed_high = (*(int(c) if c <= budget else None for c in counts[:, n]), None, None)[:3]
        low, high = _wide(bounds, n)
        gain_low, gain_high = _wide(gain_bounds, n)
        sure_low, sure_high = _wide(sure_bounds, n)
        yield Point(
            method=method, measurements=n + 1, share=float(own[:, :, n].mean()), low=low, high=high,
            gain=float(gains[:, :, n].mean()), gain_low=gain_low, gain_high=gain_high,
            sure_low=sure_low, sure_high=sure_high, pools=pools, seeds=seeds,
            searches=sum(length > n for length in lengths),
            ahead=int((of_pools[:, n] > SAME).sum()), equal=int((abs(of_pools[:, n]) <= SAME).sum()),
            behind=int((of_pools[:, n] < -SAME).sum()),
            decided=sure_low is not None and sure_high is not None and not sure_low <= 0 <= sure_high,
            needed=needed, needed_low=needed_low, needed_high=needed_high,
        )  # fmt: skip


def _wide(bounds: Floats | None, n: int) -> tuple[float, float] | tuple[None, None]:
    """Bounds after measurement n; none where all draws agree, which says nothing about the next pool."""
    if bounds is None or bounds[1, n] - bounds[0, n] < 1e-9:
        return None, None
    return float(bounds[0, n]), float(bounds[1, n])


def weights(problems: Sequence[str], seeds: int, rng: np.random.Generator) -> npt.NDArray[np.int64]:
    """How often each draw of the bootstrap takes each search: an array by draw, pool and seed.

    Problems are drawn with all their pools, since what helps on one helps on the other; then searches within each pool,
    so that the luck of a seed is never taken for a property of its pool.
    """
    names = sorted(set(problems))
    of_problems = rng.multinomial(len(names), [1 / len(names)] * len(names), size=DRAWS)
    of_pools = of_problems[:, [names.index(name) for name in problems]]
    return rng.multinomial(of_pools * seeds, [1 / seeds] * seeds)


def interval(values: Floats, drawn: npt.NDArray[np.int64], clusters: int, level: float = LEVEL) -> Floats:
    """Bootstrap interval of the mean after each measurement: lower bounds, then upper ones."""
    return np.quantile(means(values, drawn), tails(clusters, level), axis=0)


def means(values: Floats, drawn: npt.NDArray[np.int64]) -> Floats:
    """The mean after each measurement, in every draw of the bootstrap."""
    searches = drawn.reshape(len(drawn), -1).astype(float)
    of_draws: Floats = searches @ values.reshape(searches.shape[1], -1) / searches.sum(axis=1, keepdims=True)
    return of_draws


def tails(clusters: int, level: float) -> tuple[float, float]:
    """Between which quantiles of the draws an interval lies."""
    tail = (1 - interval_level(clusters, level)) / 2
    return tail, 1 - tail


def measurements_needed(own: Floats, first: Floats) -> npt.NDArray[np.int64]:
    """In how many measurements a method finds what another has after each number of them; budget + 1 if in none.

    Rows are draws: curves that never fall.
    """
    return np.array([np.searchsorted(a, b - 1e-9) + 1 for a, b in zip(own, first, strict=True)])


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
