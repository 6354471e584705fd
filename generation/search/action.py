"""What a run does next: a pure function of its state. The driver carries actions out and logs what came of them."""

from __future__ import annotations

import dataclasses
import random

from kbench.generation.search.methods.catalogue import filter_of, planned, with_repairs
from kbench.generation.search.state import FRESH, ProposalRequest, RunState
from kbench.schemas.ids import content_hash

IDLE_STEPS = 4
"""After so many steps without a new kernel a run ends."""
NOTHING_NEW = f"nothing new in {IDLE_STEPS} steps"


@dataclasses.dataclass(frozen=True, slots=True)
class StartStep:
    """Begin a step with these requests; without any the step is over and brought nothing new."""

    requests: tuple[ProposalRequest, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Propose:
    """Ask the proposer for these slots."""

    slots: tuple[int, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Filter:
    """Ask the surrogate about these candidates and decide which to measure."""

    kernel_ids: tuple[str, ...]
    keep: int


@dataclasses.dataclass(frozen=True, slots=True)
class Measure:
    """Measure these candidates."""

    kernel_ids: tuple[str, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class CompleteStep:
    """Close the step: everything in it is settled."""


@dataclasses.dataclass(frozen=True, slots=True)
class Abandon:
    """Give the step up for now: the proposer could not be reached."""

    reason: str


@dataclasses.dataclass(frozen=True, slots=True)
class Stop:
    """End the run."""

    reason: str


@dataclasses.dataclass(frozen=True, slots=True)
class Done:
    """The run has ended."""


Action = StartStep | Propose | Filter | Measure | CompleteStep | Abandon | Stop | Done


def rng_for(state: RunState, *place: int | str) -> random.Random:
    """The generator for one decision, from the run's seed and the decision's place alone: resuming redraws nothing."""
    return random.Random(int(content_hash(origin(state), *map(str, (state.step, *place))), 16))


def origin(state: RunState) -> str:
    """What the draws of a step begin from: the run, or at first the cell, where its runs share their first kernels."""
    settings = state.settings
    if state.step or not settings.first:
        return state.run_id
    return f"{settings.first}/{settings.problem_id}/{settings.backend.value}"


def next_action(state: RunState) -> Action:
    """What the run does next."""
    if state.stopped is not None:
        return Done()
    if not state.requests:
        return _between_steps(state)
    unanswered = tuple(slot for slot in range(len(state.requests)) if slot not in state.answered)
    if unanswered:
        return Propose(unanswered)
    if len(state.outages) == len(state.requests):
        return Abandon(state.outages[0])
    if filters(state) and state.open and not state.filtered:
        return Filter(state.open, keep=measured_per_step(state))
    unsettled = tuple(key for key in state.open if not state.nodes[key].settled)
    return Measure(unsettled) if unsettled else CompleteStep()


def filters(state: RunState) -> bool:
    """Whether a surrogate filters this step. It has nothing to learn from before the seeds: all are measured."""
    return filter_of(state.settings) is not None and state.step > 0


def measured_per_step(state: RunState) -> int:
    """How many candidates this step may measure."""
    settings = state.settings
    wanted = settings.seeds if state.step == 0 else settings.batch
    left = settings.budget.measurements_left(state.charge)
    return wanted if left is None else min(wanted, left)


def _between_steps(state: RunState) -> Action:
    spent = state.settings.budget.spent(state.charge)
    if spent is not None:
        return Stop(f"budget spent: {spent}")
    if state.idle_steps >= IDLE_STEPS:
        return Stop(NOTHING_NEW)
    count = measured_per_step(state)
    if state.step == 0:
        return StartStep((FRESH,) * count)
    chosen = filter_of(state.settings)
    draw = count * chosen.draw if chosen is not None else count
    requests = planned(state, draw, rng_for(state, "plan"))
    return StartStep(with_repairs(state, requests, rng_for(state, "repair")))
