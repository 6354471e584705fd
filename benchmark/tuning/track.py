"""The track's figures: the share of the best speed that a strategy reaches by measuring a few configurations.

A question is a kernel and a shape. Its figure is the time of the shape's best configuration over the best time that the
strategy measured, 0 while all it measured failed. A strategy that abstains measures everything: its share is 1, and its
cost is all configurations.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from kbench.benchmark.metrics.arrays import Floats
from kbench.benchmark.metrics.bootstrap import Bootstrap, Figure
from kbench.benchmark.metrics.rank import measured as budget_of
from kbench.benchmark.tuning.strategies import NEW_KERNEL, STRATEGIES, Strategy, TunedKernel, kernels_of
from kbench.loaders.corpus.corpus import Corpus
from kbench.schemas import UnknownNameError, UserError

CONFIG = "tuning"
KNOWN, NEW, UNSEEN = "known kernel", "new shape", "unseen kernel"
SETTINGS = {
    KNOWN: "times of all other shapes are shown",
    NEW: "times of a few other shapes are shown",
    UNSEEN: "no time of the kernel is shown",
}
FEW = 4
"""Configurations of the first headline."""
SHARE, SMALL_SHARE = 0.1, 0.05
"""Shares of the configurations of the second headline, rounded up, and of the least budget, rounded down."""
GOOD = 0.97
"""Share of the best speed that counts as reached."""
REPEATS = 10
"""Runs of a question, whose mean counts: most strategies draw at random somewhere."""


@dataclasses.dataclass(frozen=True, slots=True)
class StrategyResult:
    """A strategy in one setting."""

    strategy: str
    setting: str
    kernels: int
    questions: int
    figures: Mapping[str, Figure]
    """Share of the best speed at each budget, every kernel alike; intervals are over kernels."""
    reached: Mapping[str, float]
    """Share of the questions in which it reached GOOD, at each budget."""
    cost: Mapping[str, float]
    """Share of the configurations measured, at each budget; 1 where it abstained."""

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        plain = {name: [one.value, one.low, one.high] for name, one in self.figures.items()}
        return dataclasses.asdict(dataclasses.replace(self, figures={})) | {"figures": plain}


def evaluate_strategies(
    dataset: str | None,
    names: Sequence[str],
    *,
    gpu: str | None = None,
    resamples: int = 2000,
    seed: int = 0,
    tell: Callable[[str], None] = lambda text: None,
) -> list[StrategyResult]:
    """Every strategy in every setting it can answer.

    Args:
        dataset: a corpus folder or a Hub id; the shipped dataset by default.
        names: strategies; all where there is none.
        gpu: kernels on this GPU alone.
        resamples: of the bootstrap.
        seed: of the bootstrap and the strategies.
        tell: told what begins; the slow strategies take a minute.
    """
    for name in names:
        if name not in STRATEGIES:
            raise UnknownNameError("built-in strategy", name, tuple(STRATEGIES))
    corpus = Corpus.open(dataset, verified=True)
    if CONFIG not in corpus.configs:
        raise UserError(f"the corpus has no table {CONFIG!r}, which --tracks tune asks about; give another --dataset")
    kernels = kernels_of(corpus.table(CONFIG).to_pylist())
    kernels = [kernel for kernel in kernels if gpu is None or gpu.lower() in kernel.gpu.lower()]
    if not kernels:
        raise UserError(f"--gpu is {gpu!r}, on which the tuning table has no kernel")
    # A kernel at a new shape shows its own times, so nothing was fitted to any; an unseen one must be of `test`.
    unseen = [kernel for kernel in kernels if kernel.split == "test"]
    strategies = list(names or STRATEGIES)
    asked = [(name, setting, kernels) for setting in (KNOWN, NEW) for name in strategies]
    asked += [(name, UNSEEN, unseen) for name in strategies if name in NEW_KERNEL]
    results = []
    for name, setting, some in asked:
        tell(f"{setting}: {name}")
        results.append(evaluate_strategy(name, STRATEGIES[name], setting, some, resamples, seed))
    return results


def evaluate_strategy(
    name: str, strategy: Strategy, setting: str, kernels: Sequence[TunedKernel], resamples: int = 2000, seed: int = 0
) -> StrategyResult:
    """One strategy in one setting."""
    by_budget = outcomes(kernels, strategy, setting, seed=seed)
    figures, reached, cost = {}, {}, {}
    for budget, results in by_budget.items():
        shares = by_kernel(results, "share")
        figures[budget] = Bootstrap([family for family, _ in shares], resamples, seed).mean(
            np.array([*shares.values()])
        )
        reached[budget] = float(np.mean([result.reached for result in results]))
        cost[budget] = float(np.mean([*by_kernel(results, "cost").values()]))
    questions = len(next(iter(by_budget.values())))
    return StrategyResult(name, setting, len(kernels), questions, figures, reached, cost)


def text(results: Sequence[StrategyResult]) -> str:
    """Results for people."""
    lines: list[str] = []
    for setting, meaning in SETTINGS.items():
        rows = [result for result in results if result.setting == setting]
        if not rows:
            continue
        lines.append(f"{setting} ({meaning}): {rows[0].questions} questions, {rows[0].kernels} kernels on a GPU")
        # Who measures every configuration finds the best: such a budget tells no strategy from another.
        telling = [name for name in rows[0].figures if min(row.cost[name] for row in rows) < 1]
        lines.append(" " * 20 + "".join(f"{name:<39}" for name in telling).rstrip())
        lines.append((" " * 20 + f"{'share':<22}{'reached':<9}{'cost':<8}" * len(telling)).rstrip())
        for row in rows:
            parts = [
                f"{row.figures[name].value:.3f} [{row.figures[name].low:.3f}, {row.figures[name].high:.3f}]  "
                f"{row.reached[name]:<9.0%}{row.cost[name]:<8.0%}"
                for name in telling
            ]
            lines.append(f"  {row.strategy:<18}{''.join(parts)}".rstrip())
    lines.append(f"share: of the best speed, 95 % interval; reached: questions with {GOOD} of it; cost: share measured")
    return "\n".join(lines)


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
    kernel: TunedKernel, shape: int, strategy: Strategy, budget: int, setting: str = NEW, *, seed: int = 0
) -> Outcome:
    """A strategy on a question at one budget; for the arguments see `outcomes_at`."""
    return outcomes_at(kernel, shape, strategy, (budget,), setting, seed=seed)[0]


def outcomes_at(
    kernel: TunedKernel, shape: int, strategy: Strategy, budgets: Sequence[int], setting: str, *, seed: int = 0
) -> list[Outcome]:
    """Run a strategy on a question, with a generator of its own per repeat, and judge it at each budget.

    Args:
        kernel: with all its times, of which the strategy sees what the setting shows.
        shape: the shape that is asked about.
        strategy: names one configuration after another.
        budgets: how many it may measure; what it measures first does not depend on how many may follow.
        setting: which times it sees.
        seed: of the repeats.
    """
    others = np.arange(len(kernel.shapes)) != shape
    visible = kernel.showing({KNOWN: others, NEW: kernel.shown & others, UNSEEN: others & False}[setting])
    times = kernel.times_us[:, shape]
    orders = []
    for repeat in range(REPEATS):
        rng = np.random.default_rng((seed, repeat, shape))
        before = rng.bit_generator.state
        orders.append(_order(visible, shape, strategy, times, max(budgets), rng))
        if rng.bit_generator.state == before:
            break  # it draws nothing, so that every repeat is the same
    found = []
    for budget in budgets:
        # Who abstains before the budget is spent measures everything.
        measured = [order[:budget] if len(order) >= min(budget, len(times)) else range(len(times)) for order in orders]
        shares = [float(times.min() / times[list(places)].min()) for places in measured]
        cost = float(np.mean([len(places) / len(times) for places in measured]))
        reached = float(np.mean(np.array(shares) >= GOOD))
        found.append(Outcome(kernel.family, kernel.gpu, shape, budget, float(np.mean(shares)), reached, cost))
    return found


def _order(
    visible: TunedKernel, shape: int, strategy: Strategy, times: Floats, most: int, rng: np.random.Generator
) -> list[int]:
    """The configurations that a strategy measures, one after another, until it has enough or abstains."""
    seen: dict[int, float] = {}
    while len(seen) < min(most, len(times)):
        choice = strategy(visible, shape, seen, rng)
        if choice is None:
            break
        if choice in seen or not 0 <= choice < len(times):
            raise ValueError(f"strategy chose configuration {choice}, which is measured already or does not exist")
        seen[choice] = float(times[choice])
    return list(seen)


def outcomes(
    kernels: Iterable[TunedKernel], strategy: Strategy, setting: str = NEW, *, seed: int = 0
) -> dict[str, list[Outcome]]:
    """Every question at each budget, by the figure's name; all working shapes of a known kernel are asked about."""
    by_budget: dict[str, list[Outcome]] = {"share_at_5_percent": [], "share_at_4": [], "share_at_10_percent": []}
    for kernel in kernels:
        count = len(kernel.configs)
        budgets = (max(1, int(SMALL_SHARE * count)), FEW, budget_of(count, SHARE))
        for shape in kernel.working if setting == KNOWN else kernel.asked:
            for name, found in zip(
                by_budget, outcomes_at(kernel, shape, strategy, budgets, setting, seed=seed), strict=True
            ):
                by_budget[name].append(found)
    return by_budget


def headline(results: Iterable[Outcome]) -> float:
    """Mean share over questions, every kernel alike; NaN without a question."""
    shares = list(by_kernel(results, "share").values())
    return float(np.mean(shares)) if shares else float("nan")


def by_kernel(results: Iterable[Outcome], field: str) -> dict[tuple[str, str], float]:
    """A field's mean over the questions of each kernel on each GPU."""
    grouped: dict[tuple[str, str], list[float]] = {}
    for result in results:
        grouped.setdefault((result.family, result.gpu), []).append(getattr(result, field))
    return {kernel: float(np.mean(values)) for kernel, values in grouped.items()}
