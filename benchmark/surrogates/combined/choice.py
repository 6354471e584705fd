"""Which map to use: the simplest whose log score, on problems it was not fitted on, is about as good as the best.

A dozen validation problems cannot rank a dozen maps: the best one often wins by luck and does harm elsewhere.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping

import numpy as np

from kbench.benchmark.metrics.arrays import Floats, Ints
from kbench.benchmark.surrogates.combined.maps import (
    FLOOR,
    Fit,
    Map,
    Sample,
    by_kind,
    equal_pool,
    isotonic,
    matrix,
    pool,
    pool_weights,
    vector,
)

FOLDS = 10
RIDGES = (1e-1, 1e-2)
"""How strongly free coefficients are held to the equal pool; cross-validation chooses."""
RIDGED = {
    f"{fit.__name__}, ridge {ridge:g}": functools.partial(fit, ridge=ridge)
    for fit in (vector, matrix)
    for ridge in RIDGES
}
LINEAR: Mapping[str, Fit] = {"pool": pool, **RIDGED}
BY_KIND: Mapping[str, Fit] = {f"{name}, by kind": by_kind(fit) for name, fit in LINEAR.items()}
"""For samples with both kinds of question."""
OF_ONE_PART: Mapping[str, Fit] = {"isotonic": isotonic}
SIMPLEST_FIRST: Mapping[str, Fit] = {
    "unchanged": equal_pool,
    **{name: fit for both in zip(LINEAR.items(), BY_KIND.items(), strict=True) for name, fit in both},
    **OF_ONE_PART,
}
"""A pool of one part is temperature scaling."""


@dataclasses.dataclass(frozen=True, slots=True)
class Choice:
    """The map chosen, fitted on every row."""

    name: str
    map: Map
    log_scores: Mapping[str, float]
    """Cross-validated log score of every candidate, every problem counting alike."""
    weights: Floats
    """Weight of each part in the log-linear pool, whichever map was chosen; they sum to one."""


def choose(sample: Sample) -> Choice:
    """Cross-validate every candidate over problems and apply the one-standard-error rule.

    The simplest candidate is taken whose log score exceeds the best one's by at most one standard error of the
    difference, paired by problem. With a single problem nothing can be held out, and the forecasts stay unchanged.
    """
    from threadpoolctl import threadpool_limits

    problems, number = np.unique(sample.problem, return_inverse=True)
    both_kinds = 0 < sample.level.sum() < len(sample)
    left_out = {*(() if both_kinds else BY_KIND), *(OF_ONE_PART if sample.given.shape[1] > 1 else ())}
    fits = {name: fit for name, fit in SIMPLEST_FIRST.items() if name not in left_out}
    fold = (number % min(FOLDS, len(problems))).astype(np.int64)
    # On one thread: sums over threads differ from run to run, and waiting threads burn cores.
    with threadpool_limits(limits=1):
        losses = {}
        if len(problems) > 1:
            losses = {name: _held_out(fit, sample, fold, number) for name, fit in fits.items()}
        name = _simplest(losses) if losses else "unchanged"
        scores = {each: float(found.mean()) for each, found in losses.items()}
        return Choice(name, fits[name](sample), scores, pool_weights(pool(sample), sample.given.shape[1]))


def _simplest(losses: Mapping[str, Floats]) -> str:
    best = losses[min(losses, key=lambda name: float(losses[name].mean()))]
    errors = {name: (found - best).std(ddof=1) / np.sqrt(len(best)) for name, found in losses.items()}
    return next(name for name, found in losses.items() if (found - best).mean() <= errors[name])


def _held_out(fit: Fit, sample: Sample, fold: Ints, problem: Ints) -> Floats:
    """Log score of each problem by a map fitted on other folds."""
    losses = np.zeros(len(sample))
    for each in np.unique(fold):
        held = np.flatnonzero(fold == each)
        shares = fit(sample.take(fold != each)).applied(sample.given[held], sample.level[held])
        losses[held] = -np.log(np.maximum(shares[np.arange(len(held)), sample.truth[held]], FLOOR))
    means: Floats = np.bincount(problem, weights=losses) / np.bincount(problem)
    return means
