"""Rounds: candidates and the problem's anchor, interleaved in random order, until the interval is narrow enough."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
import random
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

from kbench.harness.bench.context import SETS, ProblemContext
from kbench.harness.device.environment import Conditions, ConditionsReader
from kbench.harness.timing.batch import Sample, Sampler, Slot
from kbench.harness.timing.interval import Interval, centre, log_interval, process_sigma
from kbench.harness.timing.stamps import NULL_KERNEL, corrected, counted_us
from kbench.schemas import InfrastructureError

ANCHOR = "anchor"
SLOW_US = 200_000.0
"""A call longer than this is measured with as few samples as give an interval at all."""
SLOW_RATIO = 40.0
"""So is a kernel this many times slower than the reference."""
DRIFT = 0.03
"""Relative change of the anchor's time that means the machine is no longer in the state it was warmed up to."""
DISCARDS = 12
"""Rounds that may be discarded because heat or a fault slowed the GPU, before the machine counts as failed."""
PAUSE_S = 0.2
"""Rest after such rounds, for the heat to pass."""
Z95 = 1.96
SHORT_US, VERY_SHORT_US = 50.0, 20.0
"""Below these a kernel's rounds have two turns, and more samples."""
AUDITS, AUDITED_SHARE = 2, 0.1
"""Fewest calls per look whose outputs are judged."""
INSPECTED = 3
"""Calls of the reference per look before which its inputs are looked at, where a kernel could have changed them."""
ADVERSARIAL_SHARE, FEWEST_ADVERSARIAL = 0.2, 2
"""Calls on adversarial inputs that a look has at most, as a share of the others, or so many."""
UNJUDGED_BYTES = 1 << 30
"""Outputs that may wait for the look after theirs to be judged with it."""


@dataclasses.dataclass(frozen=True, slots=True)
class TimingSettings:
    """When to stop."""

    half_width: float = 0.01
    looks: tuple[int, ...] = (5, 8, 13, 21)
    """Rounds after which the interval is looked at."""
    budget_us: float = 150_000.0
    """Device time for one kernel and workload; the interval reached by then is recorded as it is."""


@dataclasses.dataclass(slots=True)
class Timing:
    """The result of the rounds: samples, intervals and conditions."""

    samples_us: list[float] = dataclasses.field(default_factory=list)
    anchor_us: list[float] = dataclasses.field(default_factory=list)
    reference_us: float | None = None
    """Time of the reference in the rounds that the speedup is of."""
    rounds: int = 0
    sampling: Interval | None = None
    """Of the runtime, within this process alone."""
    runtime: Interval | None = None
    speedup: Interval | None = None
    conditions: list[Conditions] = dataclasses.field(default_factory=list)
    """One reading per round, including discarded rounds."""
    late_anchors: bool = False
    """Whether the reference's launches could not be hidden, so that its time is the host's as well."""
    null_us: float | None = None
    """Time of an empty kernel in this process."""
    shift_us: float | None = None
    """Time that was subtracted from every time; None when nothing was."""
    drift: float = 0.0
    clocks: dict[str, float] = dataclasses.field(default_factory=dict)
    """How far the clocks were apart, for whoever watches; not part of a record."""


Hooks = tuple[Callable[[], None], Callable[[Any], Any]]
"""Two functions that queue work: one before a call, one after it, which keeps its outputs."""


@dataclasses.dataclass(frozen=True, slots=True)
class Audit:
    """Makes the hooks of judged calls."""

    usual: Callable[[int, int], Hooks]
    """For a set of buffers and a random number that chooses its contents."""
    adversarial: Sequence[Callable[[int], Hooks]] = ()
    """For a set of buffers: calls that are added to the others, on inputs that may take another time."""


@dataclasses.dataclass(frozen=True, slots=True)
class Candidate:
    """A kernel in the rounds: how to call it and how to audit a call."""

    label: str
    call: Callable[[int], Any]
    """Calls it on a set of buffers, by its number."""
    audits: Callable[[], Audit] | None = None
    """Makes ready to audit some rounds, while nothing is timed."""
    prepare: Callable[[int], None] | None = None
    """Queued ahead of every call on a set of buffers, where the harness owns the memory that calls use."""
    idle: Callable[[int], Any] | None = None
    """Queues an empty kernel in place of a call, with the same to be prepared after it; there, too."""
    form: object = None
    """How much is prepared: as long for kernels of one form."""


@dataclasses.dataclass(frozen=True, slots=True)
class RoundPlan:
    """How many calls a round has, and how many rounds there are."""

    samples: int
    """Calls of the kernel in each turn."""
    anchors: int
    looks: tuple[int, ...]
    turns: int = 1
    """Batches a round is spread over: two for short kernels, because every other batch takes longer."""
    audited: float = AUDITED_SHARE
    """Share of the kernel's calls whose outputs are judged."""

    @property
    def null_kernels(self) -> int:
        """Calls of the null kernel per turn; its time depends on the rest of the batch; only short kernels need it."""
        return 1 if self.turns > 1 else 0


def ramp(context: ProblemContext, sampler: Sampler, tries: int = 25) -> float:
    """Run the anchor until its time is stable; the steady time is kept in the context."""
    sampler.serve((context.definition.id, context.size.name), ANCHOR)
    reference, places = anchor(context), len(context.sets)
    previous = math.inf
    steady: list[float] = []
    for turn in range(tries):
        count = 4 if previous > 5_000.0 and turn else 10
        # In two turns, like the rounds that are compared with it.
        slots = [calling(reference, context, at % places, 0, turn=2 * at // count) for at in range(count)]
        if previous > 50_000.0 and turn:
            slots = slots[:1]
        times = [s.time_us for s in sampler.run(slots)]
        typical = centre(times)
        steady = [*steady, typical] if abs(typical / previous - 1.0) < 0.01 else [typical]
        previous = typical
        if len(steady) >= 3 or (typical > 50_000.0 and turn >= 2):
            break
    context.anchor_us = statistics.median(steady)
    return context.anchor_us


def anchor(context: ProblemContext) -> Candidate:
    """The problem's PyTorch reference as a candidate."""
    return Candidate(ANCHOR, context.reference)


def calling(candidate: Candidate, context: ProblemContext, set_number: int, number: int, turn: int = 0) -> Slot:
    """A call of a candidate on one of the buffer sets, in a round and turn."""
    call = functools.partial(candidate.call, set_number)
    prepare = None if candidate.prepare is None else functools.partial(candidate.prepare, set_number)
    left = context.sets[set_number] if prepare is None else None
    return Slot(candidate.label, number, call, prepare=prepare, turn=turn, buffers=left)


def adversarial_label(label: str) -> str:
    """The label of a kernel's calls on adversarial inputs, whose times are not its own."""
    return f"{label}, adversarial"


def null_kernel(context: ProblemContext) -> Candidate:
    """The empty kernel as a candidate."""
    return Candidate(NULL_KERNEL, lambda set_number: context.device.nothing())


def plan(candidate_us: float, anchor_us: float, flush_us: float, settings: TimingSettings) -> RoundPlan:
    """Rounds that fit the budget: more calls per round for short kernels, fewer rounds for long ones."""
    turns = 2 if candidate_us < SHORT_US else 1
    samples = 8 if candidate_us < VERY_SHORT_US else 3 if candidate_us < 500.0 else 1
    # Three or more per round, so that one that was delayed is cut off.
    anchors = 1 if turns * anchor_us >= 500.0 else 3 if turns == 1 else 4 if anchor_us < SHORT_US else 2
    if candidate_us > SLOW_US or candidate_us > SLOW_RATIO * anchor_us:
        return RoundPlan(1, 1, (3,))
    cost = turns * (samples * (candidate_us + flush_us) + anchors * (anchor_us + flush_us))
    most = max(3, int(settings.budget_us / cost))
    looks = tuple(look for look in settings.looks if look <= most) or (most,)
    return RoundPlan(samples, anchors, looks, turns=turns)


def time_candidate(
    candidate: Candidate,
    context: ProblemContext,
    sampler: Sampler,
    reader: ConditionsReader,
    rng: random.Random,
    settings: TimingSettings,
    judge: Callable[[Sequence[Sample]], bool],
) -> Timing:
    """Rounds of [anchor, candidate] until the interval is narrow enough.

    Args:
        candidate: the kernel.
        context: the problem and size; its anchor must have been warmed up.
        sampler: where calls are queued.
        reader: reads clocks, temperature, power and throttle reasons in every round.
        rng: orders the rounds and picks the audited calls.
        settings: when to stop.
        judge: sees the samples of all looks, outputs of audited calls included; False ends the timing.

    Raises:
        InfrastructureError: too many rounds were discarded because the GPU was throttled; names the reasons.
    """
    timing = Timing()
    sampler.serve((context.definition.id, context.size.name), ANCHOR)
    sampler.calibrate()
    steady = context.anchor_us if context.anchor_us is not None else ramp(context, sampler)
    if candidate.prepare is None:
        sampler.leftovers.reserve(context.output_bytes)
    chosen = probe(candidate, context, sampler, steady, settings)
    timed: list[Sample] = []
    unjudged: list[Sample] = []
    begun = 0
    while timing.rounds < chosen.looks[-1]:
        target = next(look for look in chosen.looks if look > timing.rounds)
        numbers = range(begun, begun + target - timing.rounds)
        begun = numbers.stop
        samples, readings = take(make_slots([candidate], context, numbers, chosen, rng), sampler, reader)
        timing.conditions.extend(readings.values())
        spoilt = {number for number, conditions in readings.items() if conditions.harmful}
        # Without what audited calls left, which would stay in memory until the end.
        timed.extend(dataclasses.replace(s, kept=None) for s in samples if s.round not in spoilt)
        timing.rounds += len(numbers) - len(spoilt)
        summarise(timing, timed, candidate.label, sampler.null_kernel.shift_us)
        unjudged.extend(samples)
        done = settled(timing, settings) or timing.rounds >= chosen.looks[-1]
        if done or not can_wait(unjudged, candidate):
            if not judge(unjudged):
                break
            unjudged = []
        harmful = [conditions for conditions in timing.conditions if conditions.harmful]
        if len(harmful) > DISCARDS:
            raise InfrastructureError(f"the GPU is throttled: {', '.join(harmful[-1].throttle_reasons)}")
        if done:
            break
        if spoilt:
            time.sleep(PAUSE_S)
    timing.null_us = sampler.null_kernel.time_us
    timing.late_anchors = any(s.exposed for s in best_samples(timed, ANCHOR))
    timing.drift = abs(centre(timing.anchor_us) / steady - 1.0) if timing.anchor_us else 0.0
    return timing


def can_wait(samples: Sequence[Sample], candidate: Candidate) -> bool:
    """Whether what audited calls left can be judged after the next look: asking takes longer than many a look.

    Not where a kernel runs beside its judge, nor where too much memory is held.
    """
    held = sum(output.nbytes for sample in samples if sample.kept is not None for output in sample.kept.outputs)
    return candidate.prepare is not None and held <= UNJUDGED_BYTES


def probe(
    candidate: Candidate, context: ProblemContext, sampler: Sampler, steady_us: float, settings: TimingSettings
) -> RoundPlan:
    """Call a kernel twice to plan its rounds."""
    slots = [calling(candidate, context, at, -1) for at in range(SETS)]
    first = min(s.time_us for s in sampler.run(slots))
    flush = max(0.0, sampler.device_us[candidate.label] - first)
    return plan(first, steady_us, flush, settings)


def take(
    slots: Sequence[Slot], sampler: Sampler, reader: ConditionsReader
) -> tuple[list[Sample], dict[int, Conditions]]:
    """Time some rounds; the conditions of each are read while the device works on it, so that reading costs no time."""
    readings: dict[int, Conditions] = {}

    def read(number: int) -> None:
        # A round of two turns is read in both; that it was slowed in one of them counts.
        if number not in readings or not readings[number].harmful:
            readings[number] = reader.read()

    return sampler.run(slots, read), readings


def make_slots(
    candidates: Sequence[Candidate], context: ProblemContext, rounds: range, chosen: RoundPlan, rng: random.Random
) -> list[Slot]:
    """The calls of some rounds, in random order within each, with audits at random places."""
    blocks = [(c, chosen.samples) for c in candidates]
    blocks += [(anchor(context), chosen.anchors), (null_kernel(context), chosen.null_kernels)]
    owned = any(candidate.prepare is not None for candidate in candidates)
    slots: list[Slot] = []
    places: dict[str, list[tuple[int, int]]] = {c.label: [] for c in candidates}
    seen = {c.label: set(range(SETS)) for c in candidates}
    others: dict[str, list[tuple[int, int]]] = {c.label: [] for c in candidates}
    anchors: list[tuple[int, int]] = []
    for number, turn in itertools.product(rounds, range(chosen.turns)):
        for candidate, count in rng.sample(blocks, len(blocks)):
            for set_number in shuffled_sets(count, len(context.sets), rng):
                # Best audited are buffer sets that were called with: answers kept by address are wrong there.
                if candidate.audits is not None:
                    known = set_number in seen[candidate.label]
                    (places if known else others)[candidate.label].append((len(slots), set_number))
                    seen[candidate.label].add(set_number)
                if candidate.label == ANCHOR and owned:
                    anchors.append((len(slots), set_number))
                slots.append(calling(candidate, context, set_number, number, turn))
    for place, set_number in rng.sample(anchors, min(INSPECTED, len(anchors))):
        slots[place].before = functools.partial(context.inspect, set_number)
    added: list[tuple[int, Slot]] = []
    for candidate in candidates:
        if candidate.audits is None:
            continue
        audit = candidate.audits()
        everywhere = [*places[candidate.label], *others[candidate.label]]
        judged = audited_places(places[candidate.label], others[candidate.label], rng, chosen.audited)
        for place, set_number in judged:
            slots[place].before, slots[place].after = audit.usual(set_number, rng.randrange(1 << 16))
        renamed = dataclasses.replace(candidate, label=adversarial_label(candidate.label))
        for hooks in audit.adversarial[: max(FEWEST_ADVERSARIAL, round(ADVERSARIAL_SHARE * len(everywhere)))]:
            place, set_number = rng.choice(everywhere)
            slot = calling(renamed, context, set_number, slots[place].round, slots[place].turn)
            slot.before, slot.after = hooks(set_number)
            added.append((place, slot))
    # From the last place on, so that the others keep theirs.
    for place, slot in sorted(added, key=lambda one: one[0], reverse=True):
        slots.insert(place, slot)
    return slots


def audited_places(
    places: Sequence[tuple[int, int]],
    others: Sequence[tuple[int, int]],
    rng: random.Random,
    share: float = AUDITED_SHARE,
) -> list[tuple[int, int]]:
    """A share of the places of a look, at least two; where there are too few, some of the others."""
    if share >= 1.0:
        return [*places, *others]
    chosen = rng.sample(places, min(max(AUDITS, round(share * len(places))), len(places)))
    return chosen + rng.sample(others, min(max(0, AUDITS - len(chosen)), len(others)))


def shuffled_sets(count: int, sets: int, rng: random.Random) -> list[int]:
    """Buffer sets for some calls, in random order, each used equally often, give or take one."""
    order: list[int] = []
    while len(order) < count:
        order += rng.sample(range(sets), sets)
    return order[:count]


def settled(timing: Timing, settings: TimingSettings) -> bool:
    """Whether more rounds would not help: the interval is narrow enough, or what is left of it is not sampling."""
    if timing.runtime is None or timing.sampling is None:
        return False
    beyond_rounds = Z95 * process_sigma(timing.runtime.value)
    return timing.runtime.half_width <= settings.half_width or timing.sampling.half_width <= beyond_rounds


def summarise(timing: Timing, samples: Sequence[Sample], label: str, shift_us: float | None) -> None:
    """Recompute figures and intervals from all samples so far, less what this process adds to every call."""
    timing.shift_us = shift_us
    mine, anchors = (by_round(best_samples(samples, name), name, shift_us) for name in (label, ANCHOR))
    if len(mine.keys() & anchors.keys()) < 2:
        mine, anchors = by_round(samples, label, shift_us), by_round(samples, ANCHOR, shift_us)
    timing.samples_us = [s.time_us for s in samples if s.label == label]
    timing.anchor_us = [s.time_us for s in samples if s.label == ANCHOR]
    both = sorted(mine.keys() & anchors.keys())
    if len(both) < 2:
        return
    runtimes = [math.log(mine[number]) for number in sorted(mine)]
    ratios = [math.log(anchors[number] / mine[number]) for number in both]
    middle = math.exp(statistics.fmean(runtimes))
    timing.sampling = log_interval(runtimes)
    spread = process_sigma(middle)
    timing.runtime = log_interval(runtimes, spread)
    timing.reference_us = base = math.exp(statistics.fmean(math.log(anchors[number]) for number in both))
    timing.speedup = log_interval(ratios, math.hypot(spread, process_sigma(base)))


def best_samples(samples: Sequence[Sample], label: str) -> list[Sample]:
    """A kernel's good samples where half of its rounds have some; else those whose launch was hidden; else all.

    Kernels of very many launches fill the queue and are never followed by much; some wait for the device by themselves.
    """
    mine = [s for s in samples if s.label == label]
    enough = len({s.round for s in mine}) / 2.0
    for better in ([s for s in mine if s.good], [s for s in mine if not s.exposed]):
        if better and len({s.round for s in better}) >= enough:
            return better
    return mine


def by_round(samples: Sequence[Sample], label: str, shift_us: float | None = None) -> dict[int, float]:
    """Typical time of a kernel's calls in each round."""
    calls_of: dict[int, list[Sample]] = {}
    for sample in samples:
        if sample.label == label:
            calls_of.setdefault(sample.round, []).append(sample)
    return {number: corrected(counted_us(calls), shift_us) for number, calls in calls_of.items()}
