"""What can be worked out again from traces: every sample of a measurement with its label, round and state."""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Callable, Sequence
from typing import Any

from kbench.harness.timing.interval import PROCESS_SIGMA, Interval, log_interval
from kbench.harness.timing.null_kernel import NULL_KERNEL
from kbench.harness.timing.rounds import ANCHOR
from kbench.harness.worker.execute import CANDIDATE

Average = Callable[[Sequence[float]], float]
LETTERS = {CANDIDATE: "c", ANCHOR: "a", NULL_KERNEL: "r"}


def pack(trace: Sequence[Sequence[Any]]) -> dict[str, Any]:
    """A trace as a few short lists: a letter and a digit a sample, times in nanoseconds."""
    return {
        "label": "".join(LETTERS[label] for label, _, _, _ in trace),
        "exposed": "".join(str(state) for _, _, _, state in trace),
        "round": [number for _, number, _, _ in trace],
        "ns": [round(1e3 * time_us) for _, _, time_us, _ in trace],
    }


def times(trace: dict[str, Any], letter: str) -> list[tuple[int, float]]:
    """Round and time in microseconds of a label's good samples, chosen as the harness does."""
    columns = (trace[name] for name in ("label", "exposed", "round", "ns"))
    mine = [entry for entry in zip(*columns, strict=True) if entry[0] == letter]
    kept = [entry for entry in mine if entry[1] == "0"] or [entry for entry in mine if entry[1] != "1"] or mine
    if len({number for _, _, number, _ in kept}) < 2:
        kept = mine
    return [(number, ns / 1e3) for _, _, number, ns in kept]


def round_values(trace: dict[str, Any], letter: str, average: Average) -> dict[int, float]:
    """One figure a round."""
    groups = itertools.groupby(sorted(times(trace, letter)), key=lambda pair: pair[0])
    return {number: average([us for _, us in group]) for number, group in groups}


def interval(trace: dict[str, Any], average: Average, shift_us: float, sigma_us: float) -> Interval:
    """The runtime as it would be with another average, correction and spread between processes."""
    logs = [math.log(max(us - shift_us, us / 2)) for us in round_values(trace, "c", average).values()]
    return log_interval(logs, math.hypot(PROCESS_SIGMA, sigma_us / math.exp(statistics.fmean(logs))))


def speedup(trace: dict[str, Any], average: Average, shift_us: float) -> float:
    """The speedup with another average and correction."""
    mine, anchors = (round_values(trace, letter, average) for letter in "ca")
    both = mine.keys() & anchors.keys()
    return math.exp(statistics.fmean(math.log((anchors[n] - shift_us) / (mine[n] - shift_us)) for n in both))


def order_effects(traces: Sequence[dict[str, Any]]) -> dict[str, float]:
    """Whether samples know of their neighbours: both figures are those of independent samples at 0 and 1.

    The lag-1 correlation within rounds, which alternation makes negative, and the spread of round means over what the
    spread within rounds explains, which a state that lasts for a batch makes larger than 1.
    """
    products, squares, ratios = 0.0, 0.0, []
    for trace in traces:
        by_round = itertools.groupby(times(trace, "c"), key=lambda pair: pair[0])
        groups = [[us for _, us in group] for _, group in by_round]
        usual = statistics.median(us for group in groups for us in group)
        groups = [[us for us in group if us < 1.25 * usual] for group in groups]
        groups = [group for group in groups if len(group) >= 8]
        for group in groups:
            centred = [us - statistics.fmean(group) for us in group]
            products += sum(one * two for one, two in itertools.pairwise(centred))
            squares += sum(one * one for one in centred)
        if len(groups) >= 5:
            within = statistics.fmean(statistics.variance(group) / len(group) for group in groups)
            ratios.append(math.sqrt(statistics.variance(statistics.fmean(g) for g in groups) / max(within, 1e-12)))
    return {
        "lag_1_correlation": products / squares if squares else 0.0,
        "round_spread_ratio": statistics.median(ratios) if ratios else 0.0,
    }


def exposed_share(traces: Sequence[dict[str, Any]], state: str = "1") -> float:
    """Share of samples in a state: 1 exposed, 2 thin."""
    flags = "".join(trace["exposed"] for trace in traces)
    return flags.count(state) / max(1, len(flags))
