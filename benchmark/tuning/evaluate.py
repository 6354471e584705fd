"""`kbench evaluate --tracks tune`: what each strategy reaches on the tuning table of a corpus, with intervals."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from kbench.benchmark.metrics.bootstrap import Bootstrap, Figure
from kbench.benchmark.tuning.strategies import NEW_KERNEL, STRATEGIES
from kbench.benchmark.tuning.table import TunedKernel, kernels_of
from kbench.benchmark.tuning.track import GOOD, by_kernel, outcomes
from kbench.loaders.corpus.corpus import Corpus
from kbench.schemas import UnknownNameError, UserError

CONFIG = "tuning"
SETTINGS = {"new shape": "times of other shapes are shown", "unseen kernel": "no time of the kernel is shown"}


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
    dataset: str | None, names: Sequence[str], *, gpu: str | None = None, resamples: int = 2000, seed: int = 0
) -> list[StrategyResult]:
    """Every strategy in every setting it can answer.

    Args:
        dataset: a corpus folder or a Hub id; the shipped dataset by default.
        names: strategies; all where there is none.
        gpu: kernels on this GPU alone.
        resamples: of the bootstrap.
        seed: of the bootstrap and the strategies.

    Raises:
        UserError: there is no such strategy, or the corpus has no tuning table.
    """
    for name in names:
        if name not in STRATEGIES:
            raise UnknownNameError("strategy", name, tuple(STRATEGIES))
    corpus = Corpus.open(dataset, verified=True)
    if CONFIG not in corpus.configs:
        raise UserError(f"the corpus has no table {CONFIG!r}, which --tracks tune asks about; give another --dataset")
    kernels = kernels_of(corpus.table(CONFIG).to_pylist())
    kernels = [kernel for kernel in kernels if gpu is None or gpu.lower() in kernel.gpu.lower()]
    if not kernels:
        raise UserError(f"--gpu is {gpu!r}, on which the tuning table has no kernel")
    # A kernel at a new shape shows its own times, so nothing was fitted to any; an unseen one must be of `test`.
    unseen = [kernel for kernel in kernels if kernel.split == "test"]
    chosen = list(names or STRATEGIES)
    results = [_result(name, "new shape", kernels, resamples, seed) for name in chosen]
    return results + [_result(name, "unseen kernel", unseen, resamples, seed) for name in chosen if name in NEW_KERNEL]


def _result(name: str, setting: str, kernels: Sequence[TunedKernel], resamples: int, seed: int) -> StrategyResult:
    found = outcomes(kernels, STRATEGIES[name], unseen=setting == "unseen kernel", seed=seed)
    figures, reached, cost = {}, {}, {}
    for budget, results in found.items():
        shares = by_kernel(results, "share")
        figures[budget] = Bootstrap([family for family, _ in shares], resamples, seed).mean(
            np.array([*shares.values()])
        )
        reached[budget] = float(np.mean([result.reached for result in results]))
        cost[budget] = float(np.mean([*by_kernel(results, "cost").values()]))
    questions = sum(len(kernel.asked) for kernel in kernels)
    return StrategyResult(name, setting, len(kernels), questions, figures, reached, cost)


def text(results: Sequence[StrategyResult]) -> str:
    """Results for people."""
    lines: list[str] = []
    for setting, meaning in SETTINGS.items():
        rows = [result for result in results if result.setting == setting]
        if not rows:
            continue
        lines.append(f"{setting} ({meaning}): {rows[0].questions} questions about {rows[0].kernels} kernels")
        for row in rows:
            parts = [
                f"{name} {figure.value:.3f} [{figure.low:.3f}, {figure.high:.3f}],"
                f" {row.reached[name]:.0%} reach {GOOD}, {row.cost[name]:.0%} measured"
                for name, figure in row.figures.items()
            ]
            lines.append(f"  {row.strategy:<18}{'; '.join(parts)}")
    return "\n".join(lines)
