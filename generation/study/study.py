"""The study: every method on every pool with many seeds, or the searches of run folders, compared."""

from __future__ import annotations

import dataclasses
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np

from kbench.generation.campaign.campaign import counted
from kbench.generation.campaign.status import recorded_runs
from kbench.generation.log import read_environments
from kbench.generation.proposers.pool import RecordedPool
from kbench.generation.search.action import NOTHING_NEW
from kbench.generation.study.points import Point, points_of, too_few
from kbench.generation.study.trials import BATCH, Trial, learned_from, shown, trial, trial_of
from kbench.schemas import UnknownNameError, UserError

METHODS = ("random", "hill_climb", "evolve", "puct", "bayes", "random+online", "evolve+online")


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
        return list(points_of(name, shares[name], shares[base], problems, max(1, others), lengths[name]))

    filtered = [(name, own) for own in methods[1:] for name in methods if name.startswith(f"{own}+")]
    return Study(
        trials, [point for name in methods for point in points(name, methods[0], len(methods) - 1)],
        too_few(problems, seeds), seen,
        [(points(name, own, len(filtered))[-1], points(own, own, len(filtered))[-1]) for name, own in filtered], notes,
    )  # fmt: skip
