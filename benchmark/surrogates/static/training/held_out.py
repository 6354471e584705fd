"""What models that saw nothing of a problem said of it, scored: a cross-validation over training problems."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from kbench.benchmark.metrics.arrays import Floats, Ints
from kbench.benchmark.metrics.bootstrap import Bootstrap, Figure
from kbench.benchmark.metrics.registry import figures
from kbench.benchmark.metrics.rows import PairRows, Pool, PoolRows
from kbench.benchmark.scoring.rows import LEAST_RANKED
from kbench.benchmark.surrogates.static.training.material import Material
from kbench.schemas import PairKind, Query, Question, bins

Strings = npt.NDArray[np.object_]

SHOWN = ("skill", "ece", "accuracy", "log_score", "aurc", "regret_at_10", "within_20_at_10", "spearman")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class HeldOut:
    """Forecasts of training questions by models of other folds."""

    probabilities: Floats
    """[questions, 8]: over the reference first, then between kernels."""
    bin: Ints
    problem: Strings
    kind: Strings
    """A PairKind each."""
    kernel_problem: Strings
    kernel_pool: Ints
    """Number of its problem and GPU."""
    kernel_point: Floats
    """Forecast log2 speedup of every measured kernel over the reference."""
    kernel_runtime_us: Floats

    @classmethod
    def of(
        cls,
        material: Material,
        point: Floats,
        over_reference: Floats,
        pairs: Sequence[tuple[Query, Question]],
        between: Floats,
    ) -> HeldOut:
        """Match forecasts with their answers.

        Args:
            material: the training kernels.
            point: forecast of every kernel over the reference.
            over_reference: distributions of the kernels with a runtime.
            pairs: pairs of kernels.
            between: their distributions.
        """
        known = material.known
        problems = material.problems[known]
        speedups = np.concatenate([2.0 ** material.total[known], [pair.speedup for _, pair in pairs]])
        kinds = [PairKind.REFERENCE] * len(problems) + [query.kind for query, _ in pairs]
        return cls(
            probabilities=np.concatenate([over_reference, between]),
            bin=bins.bins_of(speedups),
            problem=np.array([*problems.tolist(), *(query.problem_id for query, _ in pairs)], dtype=object),
            kind=np.array(kinds, dtype=object),
            kernel_problem=problems,
            kernel_pool=material.pools[known],
            kernel_point=point[known],
            kernel_runtime_us=material.runtime_us[known],
        )

    def figures(self) -> dict[str, dict[str, list[float]]]:
        """Value, low and high of the headline metrics: of all questions, of each kind, and of the pools."""
        prior = np.bincount(self.bin - 1, minlength=bins.COUNT) + 1.0
        made: dict[str, dict[str, list[float]]] = {}
        for kind in ("all", *sorted(set(self.kind.tolist()))):
            rows = np.flatnonzero((self.kind == kind) | (kind == "all"))
            made[str(kind)] = _shown(self._pair_figures(rows, prior / prior.sum()))
        made["pools"] = _shown(self._pool_figures(self.kernel_point))
        made["pools at random"] = _shown(self._pool_figures(np.zeros(len(self.kernel_point))))
        return made

    def _pair_figures(self, rows: Ints, prior: Floats) -> dict[str, Figure]:
        answered = PairRows.all_answered(self.probabilities[rows], self.bin[rows], prior)
        bootstrap = Bootstrap(self.problem[rows])
        return figures("forecast", bootstrap, answered) | figures("select", bootstrap, answered)

    def _pool_figures(self, scores: Floats) -> dict[str, Figure]:
        pools = [np.flatnonzero(self.kernel_pool == pool) for pool in np.unique(self.kernel_pool)]
        kept = [rows for rows in pools if len(rows) >= LEAST_RANKED]
        ranked = PoolRows(tuple(Pool(scores[rows], self.kernel_runtime_us[rows]) for rows in kept))
        # Pools of one problem are alike: they are drawn together.
        problems = np.array([self.kernel_problem[rows[0]] for rows in kept], dtype=object)
        return figures("rank", Bootstrap(problems), ranked)


def _shown(figures: dict[str, Figure]) -> dict[str, list[float]]:
    return {
        name: [round(value, 4) for value in (figure.value, figure.low, figure.high)]
        for name in SHOWN
        if (figure := figures.get(name)) is not None
    }
