"""Trials: one search of a study, replayed on a pool or told by its log, and what methods are called."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence

from kbench.benchmark.questions.build import TRAIN_SPLITS
from kbench.benchmark.questions.render import gpu_facts
from kbench.benchmark.surrogates.resolve import locate
from kbench.generation.campaign.campaign import Campaign, Drive, failed_forecasts
from kbench.generation.executors.compiler import compiler_facts
from kbench.generation.executors.replay import ReplayExecutor
from kbench.generation.log import LogEntry
from kbench.generation.proposers.pool import RecordedPool
from kbench.generation.search.guide import ONLINE, guide_named
from kbench.generation.search.methods.catalogue import SEARCHES, filter_of, searchable
from kbench.generation.search.proposal import Proposer
from kbench.generation.search.search import Search
from kbench.generation.search.settings import SURROGATE, Budget, FilterSettings, RunSettings, in_file
from kbench.generation.search.state import Node, RunState
from kbench.schemas import UserError

STILL = "2026-01-01T00:00:00.000Z"
BATCH = 4
"""Kernels of a step, and seeds of a search."""


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


def learned_from(name: str) -> frozenset[str | None]:
    """The splits that the surrogate of a study's method learned from, as far as it says."""
    surrogate = (parts_of(name)[1] or ONLINE).removeprefix(f"{ONLINE}:")
    stated = getattr(guide_named(surrogate, compiler_facts), "learned_from", None)
    return frozenset(stated(TRAIN_SPLITS) or () if stated else ())
