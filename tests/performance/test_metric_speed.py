"""Speed of every metric beside a loop over rows that does the same work. Run with -m performance."""

from __future__ import annotations

import bisect
import itertools
import math
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import click
import numpy as np
import numpy.typing as npt
import pytest

from kbench.benchmark import metrics
from kbench.benchmark.metrics.arrays import Floats, Ints

pytestmark = pytest.mark.performance

Row = Sequence[float]
Rows = Sequence[Row]

ROWS = 1_000_000
LOOPED = ROWS // 50
"""Rows the loops are given: they take as long for each, however many there are."""


def drawn(rows: int) -> tuple[Floats, Ints]:
    generator = np.random.default_rng(0)
    return generator.dirichlet(np.ones(8), rows), generator.integers(1, 9, rows)


def seconds(call: Callable[[], object]) -> float:
    # Of the processor, not of the wall: a busy machine must not decide.
    started = time.process_time()
    call()
    return time.process_time() - started


def checked(row: Row) -> Row:
    """What the metrics check of every row before they look at it."""
    if not (min(row) >= 0.0 and abs(sum(row) - 1.0) <= 1e-6):
        raise ValueError(row)
    return row


def loop_rps(probabilities: Rows, numbers: Sequence[int]) -> float:
    total = 0.0
    for row, number in zip(probabilities, numbers, strict=True):
        below = 0.0
        for position, value in enumerate(checked(row)[:7], 1):
            below += value
            total += (below - 1.0 if position >= number else below) ** 2
    return total / 7 / len(numbers)


def loop_brier(probabilities: Rows, numbers: Sequence[int]) -> float:
    total = 0.0
    for row, number in zip(probabilities, numbers, strict=True):
        for position, value in enumerate(checked(row), 1):
            total += 0.5 * (value - 1.0 if position == number else value) ** 2
    return total / len(numbers)


def loop_log_score(probabilities: Rows, numbers: Sequence[int]) -> float:
    total = 0.0
    for row, number in zip(probabilities, numbers, strict=True):
        total -= math.log(max(checked(row)[number - 1], 1e-12))
    return total / len(numbers)


def modes_of(row: Row) -> list[int]:
    largest = max(row)
    return [position for position, value in enumerate(row, 1) if value == largest]


def loop_accuracy(probabilities: Rows, numbers: Sequence[int]) -> float:
    total = 0.0
    for row, number in zip(probabilities, numbers, strict=True):
        modes = modes_of(checked(row))
        total += (number in modes) / len(modes)
    return total / len(numbers)


def loop_within_one(probabilities: Rows, numbers: Sequence[int]) -> float:
    total = 0.0
    for row, number in zip(probabilities, numbers, strict=True):
        modes = modes_of(checked(row))
        total += sum(abs(mode - number) <= 1 for mode in modes) / len(modes)
    return total / len(numbers)


def sure_and_right(probabilities: Rows, numbers: Sequence[int]) -> list[tuple[float, float]]:
    found = []
    for row, number in zip(probabilities, numbers, strict=True):
        modes = modes_of(checked(row))
        found.append((row[modes[0] - 1], (number in modes) / len(modes)))
    return found


def loop_ece(probabilities: Rows, numbers: Sequence[int]) -> float:
    gaps = [0.0] * 10
    for sure, right in sure_and_right(probabilities, numbers):
        gaps[min(int(10 * sure), 9)] += sure - right
    return sum(map(abs, gaps)) / len(numbers)


def loop_ece_adaptive(probabilities: Rows, numbers: Sequence[int]) -> float:
    found = sure_and_right(probabilities, numbers)
    ordered = sorted(sure for sure, _ in found)
    cuts = [ordered[part * len(found) // 10] for part in range(1, 10)]
    gaps = [0.0] * 10
    for sure, right in found:
        gaps[bisect.bisect_right(cuts, sure)] += sure - right
    return sum(map(abs, gaps)) / len(numbers)


def reliability(probabilities: Floats, numbers: Ints) -> float:
    """Accuracy of the surest bucket: one number of the curve, which takes all of its work."""
    return float(metrics.reliability_curve(probabilities, numbers).accuracy[-1])


def loop_reliability(probabilities: Rows, numbers: Sequence[int]) -> float:
    count, confidence, right = [0] * 10, [0.0] * 10, [0.0] * 10
    for sure, hit in sure_and_right(probabilities, numbers):
        bucket = min(int(10 * sure), 9)
        count[bucket] += 1
        confidence[bucket] += sure
        right[bucket] += hit
    curve = [(c / n, r / n, n) for n, c, r in zip(count, confidence, right, strict=True) if n]
    return curve[-1][1]


def sharpness(probabilities: Floats, _: Ints) -> float:
    return metrics.sharpness(probabilities)


def loop_sharpness(probabilities: Rows, _: Sequence[int]) -> float:
    total = 0.0
    for row in probabilities:
        total += 1.0 + sum(value * math.log(value) for value in checked(row) if value > 0) / math.log(8)
    return total / len(probabilities)


def by_score(scores: Row) -> list[list[int]]:
    """Rows from the highest score on, tied ones together."""
    order = sorted(range(len(scores)), key=scores.__getitem__, reverse=True)
    return [list(tied) for _, tied in itertools.groupby(order, scores.__getitem__)]


def loop_curve(losses: Row, scores: Row) -> list[float]:
    """Risk after each row, surest first, tied rows sharing their mean loss."""
    curve: list[float] = []
    total = 0.0
    for tied in by_score(scores):
        mean = sum(losses[row] for row in tied) / len(tied)
        for _ in tied:
            total += mean
            curve.append(total / (len(curve) + 1))
    return curve


def loop_area(curve: list[float]) -> float:
    return (curve[0] + sum((one + other) / 2 for one, other in itertools.pairwise(curve))) / len(curve)


def loop_aurc(losses: Row, scores: Row) -> float:
    return loop_area(loop_curve(losses, scores))


def loop_excess_aurc(losses: Row, scores: Row) -> float:
    total, ideal = 0.0, []
    for count, loss in enumerate(sorted(losses), 1):
        total += loss
        ideal.append(total / count)
    return loop_aurc(losses, scores) - loop_area(ideal)


def risk_at_half(losses: Floats, scores: Floats) -> float:
    return metrics.risk_at_coverage(losses, scores, 0.5)


def loop_risk_at_half(losses: Row, scores: Row) -> float:
    return loop_curve(losses, scores)[len(losses) // 2 - 1]


def coverage_at_half(losses: Floats, scores: Floats) -> float:
    return metrics.coverage_at_risk(losses, scores, 0.5)


def loop_coverage_at_half(losses: Row, scores: Row) -> float:
    allowed = [count for count, risk in enumerate(loop_curve(losses, scores), 1) if risk <= 0.5 + 1e-12]
    return allowed[-1] / len(losses) if allowed else 0.0


def loop_ranks(scores: Row) -> list[float]:
    ranks, before = [0.0] * len(scores), 0
    for tied in reversed(by_score(scores)):
        for row in tied:
            ranks[row] = before + (len(tied) + 1) / 2
        before += len(tied)
    return ranks


def auroc(happened: Floats, scores: Floats) -> float:
    return metrics.auroc(scores, happened)


def loop_auroc(happened: Row, scores: Row) -> float:
    total, yes = 0.0, 0
    for rank, truth in zip(loop_ranks(scores), happened, strict=True):
        if truth:
            total += rank
            yes += 1
    return (total - yes * (yes + 1) / 2) / (yes * (len(scores) - yes))


def loop_spearman(speeds: Row, scores: Row) -> float:
    one, other = loop_ranks(speeds), loop_ranks(scores)
    middle = (len(one) + 1) / 2
    both = sum((a - middle) * (b - middle) for a, b in zip(one, other, strict=True))
    return both / math.sqrt(sum((a - middle) ** 2 for a in one) * sum((b - middle) ** 2 for b in other))


def loop_kendall(speeds: Row, scores: Row) -> float:
    """Of rows without ties: those already seen that are in the other order, by bisection."""
    seen: list[float] = []
    discordant, true = 0, speeds
    for (row,) in by_score(scores):
        place = bisect.bisect_left(seen, true[row])
        discordant += place
        seen.insert(place, true[row])
    pairs = len(true) * (len(true) - 1) / 2
    return 1.0 - 2.0 * discordant / pairs


def loop_ndcg(scores: Row, speeds: Row) -> float:
    true, gained, best = speeds, 0.0, 0.0
    for place, (row,) in enumerate(by_score(scores), 2):
        gained += true[row] / math.log2(place)
    for place, speed in enumerate(sorted(true, reverse=True), 2):
        best += speed / math.log2(place)
    return gained / best


def regret(runtimes: Floats, scores: Floats) -> float:
    return metrics.regret_at(scores, runtimes, 0.1)


def loop_regret(runtimes: Row, scores: Row) -> float:
    """Of rows without ties."""
    times = runtimes
    top = by_score(scores)[: math.ceil(len(times) / 10)]
    return min(times[row] for (row,) in top) / min(times) - 1.0


def top_tenth_recall(speeds: Floats, scores: Floats) -> float:
    return metrics.top_k_recall(scores, speeds, len(scores) // 10)


def loop_top_tenth_recall(speeds: Row, scores: Row) -> float:
    """Of rows without ties."""
    count = len(scores) // 10
    fast, forecast = ({row for (row,) in by_score(values)[:count]} for values in (speeds, scores))
    return len(fast & forecast) / count


def beside(metric: metrics.Metric, loop: metrics.Metric, arrays: tuple[npt.NDArray[Any], ...], name: str) -> float:
    """How many times faster a row than the loop over the same arrays the metric is, once both agree.

    Printed beside it: the same loop over lists of Python's own numbers, which somebody has made before.
    """
    few = [array[:LOOPED] for array in arrays]
    lists = [array.tolist() for array in few]
    assert metric(*few) == pytest.approx(loop(*few), rel=1e-9)
    fast = min(seconds(lambda: metric(*arrays)) for _ in range(3)) / ROWS
    slow, plain = (min(seconds(partial(loop, *rows)) for _ in range(2)) / LOOPED for rows in (few, lists))
    click.echo(
        f"{name}: {fast * 1e9:.0f} ns a row; {slow / fast:.0f} times faster than a loop over the arrays", nl=False
    )
    click.echo(f", {plain / fast:.0f} than one over lists")
    return slow / fast


@pytest.mark.parametrize(
    ("metric", "loop", "least"),
    [
        (metrics.rps, loop_rps, 100),
        (metrics.brier, loop_brier, 100),
        (metrics.log_score, loop_log_score, 100),
        (metrics.accuracy, loop_accuracy, 100),
        (metrics.within_one, loop_within_one, 100),
        (metrics.ece, loop_ece, 100),
        (metrics.ece_adaptive, loop_ece_adaptive, 100),
        (reliability, loop_reliability, 100),
        (sharpness, loop_sharpness, 100),
    ],
    ids=lambda value: getattr(value, "__name__", str(value)),
)
def test_metrics_of_distributions_are_far_faster_than_a_loop_over_rows(
    metric: metrics.Metric, loop: metrics.Metric, least: float
) -> None:
    assert beside(metric, loop, drawn(ROWS), metric.__name__) >= least


@pytest.mark.parametrize(
    ("metric", "loop", "least"),
    [
        (metrics.aurc, loop_aurc, 8),
        (metrics.excess_aurc, loop_excess_aurc, 8),
        (risk_at_half, loop_risk_at_half, 8),
        (coverage_at_half, loop_coverage_at_half, 8),
        (auroc, loop_auroc, 3),
        (metrics.spearman, loop_spearman, 5),
        (metrics.kendall, loop_kendall, 5),
        (metrics.ndcg, loop_ndcg, 5),
        (regret, loop_regret, 40),
        (top_tenth_recall, loop_top_tenth_recall, 30),
    ],
    ids=lambda value: getattr(value, "__name__", str(value)),
)
def test_metrics_of_an_order_are_faster_than_a_loop_that_sorts(
    metric: metrics.Metric, loop: metrics.Metric, least: float
) -> None:
    # Most of their time is one sort, which Python's own does in C as well: a hundred times is not to be had.
    generator = np.random.default_rng(0)
    yes_or_no = metric in (metrics.aurc, metrics.excess_aurc, risk_at_half, coverage_at_half, auroc)
    truth = generator.integers(0, 2, ROWS).astype(np.float64) if yes_or_no else generator.random(ROWS) + 0.5
    assert beside(metric, loop, (truth, generator.random(ROWS)), metric.__name__) >= least
