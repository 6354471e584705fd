"""The track's figures: the share of the best speed that a strategy reaches by measuring a few configurations.

A question is a kernel and a shape. Its figure is the time of the shape's best configuration over the best time that the
strategy measured, 0 while all it measured failed. A strategy that abstains measures everything: its share is 1, and its
cost is all configurations.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

import numpy as np

from kbench.benchmark.metrics.rank import measured as budget_of
from kbench.benchmark.tuning.strategies import Strategy
from kbench.benchmark.tuning.table import TunedKernel

FEW = 4
"""Configurations of the first headline."""
SHARE = 0.1
"""Share of the configurations of the second."""
GOOD = 0.97
"""Share of the best speed that counts as reached."""
REPEATS = 10
"""Runs of a question, whose mean counts: most strategies draw at random somewhere."""


@dataclasses.dataclass(frozen=True, slots=True)
class Outcome:
    """A strategy on one question, at one number of measurements."""

    family: str
    gpu: str
    shape: int
    budget: int
    """Configurations it was allowed to measure."""
    share: float
    """Share of the best speed, mean over repeats."""
    reached: float
    """Share of the repeats in which it reached GOOD."""
    cost: float
    """Share of the configurations that it measured, mean over repeats."""


def outcome(
    kernel: TunedKernel, shape: int, strategy: Strategy, budget: int, *, unseen: bool = False, seed: int = 0
) -> Outcome:
    """Run a strategy on a question, with a generator of its own per repeat.

    Args:
        kernel: with all its times, of which the strategy sees what the setting shows.
        shape: the shape that is asked about.
        strategy: names one configuration after another.
        budget: how many it may measure.
        unseen: whether times of other shapes are hidden: nobody measured this kernel before.
        seed: of the repeats.

    Raises:
        ValueError: the strategy chose a configuration that it measured before, or that does not exist.
    """
    given = kernel.hiding(others=unseen)
    times = kernel.times_us[:, shape]
    shares, costs = [], []
    for repeat in range(REPEATS):
        rng = np.random.default_rng((seed, repeat, shape))
        seen: dict[int, float] = {}
        while len(seen) < min(budget, len(times)):
            choice = strategy(given, shape, seen, rng)
            if choice is None:
                seen = dict(enumerate(times.tolist()))
                break
            if choice in seen or not 0 <= choice < len(times):
                raise ValueError(f"strategy chose configuration {choice}, which is measured already or does not exist")
            seen[choice] = float(times[choice])
        shares.append(float(times.min()) / min(seen.values()))
        costs.append(len(seen) / len(times))
    reached = float(np.mean(np.array(shares) >= GOOD))
    return Outcome(kernel.family, kernel.gpu, shape, budget, float(np.mean(shares)), reached, float(np.mean(costs)))


def outcomes(
    kernels: Iterable[TunedKernel], strategy: Strategy, *, unseen: bool = False, seed: int = 0
) -> dict[str, list[Outcome]]:
    """Every question of the kernels at both headline budgets, by the headline's name."""
    found: dict[str, list[Outcome]] = {"share_at_4": [], "share_at_10_percent": []}
    for kernel in kernels:
        budgets = (FEW, budget_of(len(kernel.configs), SHARE))
        for name, budget in zip(found, budgets, strict=True):
            found[name] += [
                outcome(kernel, shape, strategy, budget, unseen=unseen, seed=seed) for shape in kernel.asked
            ]
    return found


def headline(results: Iterable[Outcome]) -> float:
    """Mean share over questions, every kernel alike; NaN without a question."""
    shares = list(by_kernel(results, "share").values())
    return float(np.mean(shares)) if shares else float("nan")


def by_kernel(results: Iterable[Outcome], field: str) -> dict[tuple[str, str], float]:
    """A field's mean over the questions of each kernel on each GPU."""
    found: dict[tuple[str, str], list[float]] = {}
    for result in results:
        found.setdefault((result.family, result.gpu), []).append(getattr(result, field))
    return {kernel: float(np.mean(values)) for kernel, values in found.items()}
