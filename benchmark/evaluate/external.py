"""What figures mean on kernels of others: is there skill beyond how fast those kernels are on the whole, and an order?

A corpus that was imported has other frequencies of speedups than ours. Whoever knows them has skill over our prior
without telling two kernels apart, so skill over the corpus's own frequencies and a rank correlation stand beside it.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from kbench.benchmark.metrics.arrays import Floats
from kbench.benchmark.metrics.bootstrap import Figure
from kbench.benchmark.metrics.forecast import skill_over_problems
from kbench.benchmark.metrics.metric import PairRows
from kbench.benchmark.metrics.rank import spearman
from kbench.benchmark.questions.questions import Questions
from kbench.benchmark.scoring.rows import pair_rows
from kbench.benchmark.scoring.score import BootstrapSettings, clusters_of
from kbench.benchmark.surrogates.forecasts import ForecastTable
from kbench.benchmark.surrogates.protocol import Surrogate
from kbench.schemas import Forecast, Query, bins

LEAST_ORDERED = 5
"""Fewest kernels of a problem and backend worth ordering."""
NEED_SHAPES = ("roofline", "static", "static-compiler", "work")
"""Built-ins that reckon with the sizes of tensors."""


@dataclasses.dataclass(frozen=True, slots=True)
class ExternalFigures:
    """One surrogate on imported kernels."""

    over_prior: Figure
    """Skill over the baseline: training frequencies, or the uniform forecast where there are none."""
    over_own: Figure
    """Skill over the frequencies of the corpus's own answers, kind by kind."""
    spearman: Figure | None
    """Mean rank correlation within problem, backend and kind; over all pairs where no problem has enough of them."""
    groups: int
    """Sets of kernels that the mean is over."""
    pairs: int
    without_shapes: int
    """Queries that state no workload, or workloads without inputs."""

    @property
    def has_order(self) -> bool:
        """Whether the rank correlation is above 0 beyond its interval."""
        return self.spearman is not None and self.spearman.low > 0

    def to_json(self) -> dict[str, Any]:
        """As plain values."""
        figures = {name: getattr(self, name) for name in ("over_prior", "over_own", "spearman")}
        plain = {name: None if one is None else {"value": one.value, "low": one.low, "high": one.high}
                 for name, one in figures.items()}  # fmt: skip
        counts = {name: getattr(self, name) for name in ("groups", "pairs", "without_shapes", "has_order")}
        return {"skill_over_prior": plain.pop("over_prior"), "skill_over_own": plain.pop("over_own"), **plain, **counts}

    def text(self) -> str:
        """For people."""
        lines = [
            f"On kernels of others, {self.pairs:,} {'pair' if self.pairs == 1 else 'pairs'}:",
            f"  skill over the baseline           {_text(self.over_prior)}",
            f"  skill over their own frequencies  {_text(self.over_own)}",
            f"  Spearman, {self.groups:,} sets of kernels   {'-' if self.spearman is None else _text(self.spearman)}",
        ]
        if not self.has_order:
            lines.append(
                "  no order: forecasts do not tell which of these kernels is faster; skill over the baseline says how "
                "fast they are on the whole"
            )
        if self.without_shapes:
            queries = "1 query states" if self.without_shapes == 1 else f"{self.without_shapes:,} queries state"
            lines.append(
                f"  {queries} no workload or no shapes; built-ins that need them "
                f"({', '.join(NEED_SHAPES)}) answer with the baseline there"
            )
        return "\n".join(lines)


def _text(figure: Figure) -> str:
    interval = f" [{figure.low:+.3f}, {figure.high:+.3f}]" if math.isfinite(figure.low) else ""
    return f"{figure.value:+.3f}{interval}" if math.isfinite(figure.value) else "-"


def external_figures(questions: Questions, table: ForecastTable, settings: BootstrapSettings) -> ExternalFigures | None:
    """The figures of forecasts about imported kernels; None where no pair has an answer."""
    pairs, rows = questions.pairs, pair_rows(questions, table)
    if not len(pairs):
        return None
    problems = np.tile(clusters_of(pairs.problem, pairs.candidate), table.repeats)
    bootstrap = settings.draws(problems)
    everything = np.ones(len(rows.bins), dtype=np.bool_)
    # The frequencies of the bins among all pairs of a kind.
    kinds, index = np.unique(pairs.kind.astype(str), return_inverse=True)
    counts = np.zeros((len(kinds), bins.COUNT))
    np.add.at(counts, (index, pairs.bin - 1), 1.0)
    frequencies = (counts / counts.sum(axis=1, keepdims=True))[index]
    own = dataclasses.replace(rows, kind_prior=np.tile(frequencies, (table.repeats, 1)))
    keys = np.tile(pairs.problem.astype(str) + "\n" + pairs.backend.astype(str) + "\n" + pairs.kind.astype(str),
                   table.repeats)  # fmt: skip
    order, groups = _order(rows, keys, problems, settings)
    return ExternalFigures(
        over_prior=skill_over_problems(bootstrap, rows, everything),
        over_own=skill_over_problems(bootstrap, own, everything),
        spearman=order,
        groups=groups,
        pairs=len(pairs),
        without_shapes=sum(not has_shapes(query) for query in questions.queries),
    )


def _order(
    rows: PairRows, keys: np.ndarray[Any, Any], problems: np.ndarray[Any, Any], settings: BootstrapSettings
) -> tuple[Figure | None, int]:
    """The rank correlation of forecast and measured speedup, and how many sets of kernels it is over."""
    _, index = np.unique(keys, return_inverse=True)
    members = [np.flatnonzero(index == number) for number in range(int(index.max()) + 1)]
    large = [one for one in members if len(one) >= LEAST_ORDERED]
    if large:
        values = np.array([spearman(rows.score[one], rows.speedup[one]) for one in large])
        bootstrap = settings.draws(problems[[int(one[0]) for one in large]])
        return bootstrap.mean(values), len(large)
    if len(rows.speedup) < LEAST_ORDERED:
        return None, 0
    # One kernel per problem: whatever order there is lies between problems.
    draws = np.random.default_rng(settings.seed).integers(0, len(index), (settings.resamples, len(index)))
    drawn = [spearman(rows.score[one], rows.speedup[one]) for one in draws]
    return Figure(spearman(rows.score, rows.speedup), np.array(drawn)), 1


def has_shapes(query: Query) -> bool:
    """Whether a query says on which inputs the kernels run."""
    workloads: Sequence[Mapping[str, Any]] = json.loads(query.workloads_json)
    return bool(workloads) and all(one["inputs"] for one in workloads)


class PriorWithoutShapes:
    """A surrogate that needs shapes, with the baseline's answers to queries that state none."""

    def __init__(self, surrogate: Surrogate, priors: Mapping[str, Floats]) -> None:
        """Stand before a surrogate."""
        self._surrogate, self._priors = surrogate, priors

    def forecast(self, queries: Sequence[Query]) -> list[Forecast]:
        """Answers in the order of the surrogate's, then those of the baseline."""
        with_shapes = [has_shapes(query) for query in queries]
        shaped, rest = ([query for query, one in zip(queries, with_shapes, strict=True) if one is wanted]
                        for wanted in (True, False))  # fmt: skip
        prior = [Forecast(query_id=one.query_id, probabilities=tuple(self._priors[one.kind].tolist())) for one in rest]
        return [*(self._surrogate.forecast(shaped) if shaped else ()), *prior]
