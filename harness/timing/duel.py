"""Duel: two kernels in the same rounds, until their ratio is known well enough to say which is faster."""

from __future__ import annotations

import dataclasses
import math
import random
import statistics
from collections.abc import Callable, Sequence
from enum import StrEnum

from kbench.harness.bench.context import ProblemContext
from kbench.harness.timing.batch import Sample, Sampler
from kbench.harness.timing.interval import Interval, log_interval
from kbench.harness.timing.rounds import Candidate, RoundPlan, best_samples, by_round, calling, make_slots

LOOKS = (8, 13, 21, 34, 55, 89)
CONFIDENCE = 0.9985
"""Confidence of each look's interval: six looks together then mislead in under one trial in a hundred."""
PLACEMENT_SIGMA = 0.001
"""Standard deviation of the log ratio between two loads of the same code, which rounds do not average away."""


class Verdict(StrEnum):
    """The verdict of a comparison on the second kernel relative to the first."""

    SAME = "SAME"
    FASTER = "FASTER"
    SLOWER = "SLOWER"
    UNDECIDED = "UNDECIDED"


@dataclasses.dataclass(frozen=True, slots=True)
class Decision:
    """A verdict with its reason."""

    verdict: Verdict
    reason: str


def decide(ratio: Interval, threshold: float) -> Decision:
    """Judge the ratio of the first kernel's time to the second's.

    Args:
        ratio: above 1 when the second is faster.
        threshold: the smallest relative difference that matters; within it either way is the same.
    """
    low, high = 1.0 / (1.0 + threshold), 1.0 + threshold
    span = f"{ratio.value:.4f} times as fast ({ratio.low:.4f} to {ratio.high:.4f})"
    if ratio.low > high:
        return Decision(Verdict.FASTER, f"{span}, above 1 by more than {100 * threshold:g} %")
    if ratio.high < low:
        return Decision(Verdict.SLOWER, f"{span}, below 1 by more than {100 * threshold:g} %")
    if low <= ratio.low and ratio.high <= high:
        return Decision(Verdict.SAME, f"{span}, within {100 * threshold:g} % of 1")
    return Decision(Verdict.UNDECIDED, f"{span}: the interval crosses an edge of ±{100 * threshold:g} %")


@dataclasses.dataclass(slots=True)
class Duel:
    """The result of the rounds: the ratio with its interval, and both times."""

    ratios: list[float] = dataclasses.field(default_factory=list)
    """Log of first over second, one per round."""
    rounds: int = 0
    first_us: float = 0.0
    second_us: float = 0.0
    ratio: Interval | None = None


def fight(
    first: Candidate,
    second: Candidate,
    context: ProblemContext,
    sampler: Sampler,
    rng: random.Random,
    threshold: float,
    judge: Callable[[Sequence[Sample]], bool],
    budget_us: float = 400_000.0,
) -> Duel:
    """Rounds of both kernels until the verdict is not undecided, or the budget is spent."""
    pair = (first, second)
    if any(candidate.prepare is None for candidate in pair):
        sampler.leftovers.reserve(context.output_bytes)
    probe = [calling(candidate, context, 0, -1) for candidate in pair for _ in range(2)]
    longest = max(s.time_us for s in sampler.run(probe))
    cost = sum(sampler.device_us[c.label] for c in pair)
    samples = 5 if longest < 50.0 else 3 if longest < 500.0 else 1
    most = max(3, int(budget_us / (samples * cost)))
    looks = tuple(look for look in LOOKS if look <= most) or (most,)
    chosen = RoundPlan(samples, 0, looks)
    duel, timed = Duel(), list[Sample]()
    for look in looks:
        taken = sampler.run(make_slots(pair, context, range(duel.rounds, look), chosen, rng))
        # Without what audited calls left, which would stay in memory until the end.
        timed.extend(dataclasses.replace(sample, kept=None) for sample in taken)
        duel.rounds = look
        if not judge(taken):
            break
        summarise_duel(duel, timed, first.label, second.label)
        if duel.ratio is not None and decide(duel.ratio, threshold).verdict is not Verdict.UNDECIDED:
            break
    return duel


def summarise_duel(duel: Duel, samples: Sequence[Sample], first: str, second: str) -> None:
    """Recompute the ratio from all samples so far."""
    ones, others = (by_round(best_samples(samples, label), label) for label in (first, second))
    both = sorted(ones.keys() & others.keys())
    if len(both) < 3:
        return
    duel.ratios = [math.log(ones[number] / others[number]) for number in both]
    duel.first_us = statistics.median(ones.values())
    duel.second_us = statistics.median(others.values())
    duel.ratio = log_interval(duel.ratios, PLACEMENT_SIGMA, CONFIDENCE)
