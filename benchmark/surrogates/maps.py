"""Maps from the distributions of one or several forecasters to one calibrated distribution.

Temperature scaling, log-linear pools, vector and Dirichlet calibration, and multinomial logistic stacking are one
family: logits that are linear in the parts' log-probabilities. They differ in which coefficients are free. Fitting the
log score is convex for each.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import numpy as np

from kbench.benchmark.metrics.arrays import Booleans, Floats, Ints

FLOOR = 1e-4
"""Least probability whose logarithm is taken: zeros of language models are not infinitely certain."""
LEAST_ROWS = 100
"""Fewest rows of a kind for coefficients of its own."""
FOLDS = 10
RIDGES = (1e-1, 1e-2)
"""How strongly free coefficients are held to the equal pool; cross-validation chooses."""


@dataclasses.dataclass(frozen=True, slots=True)
class Sample:
    """Forecasts with their answers."""

    given: Floats
    """[rows, parts, classes]: what each part says."""
    truth: Ints
    """Class of each row, from 0."""
    problem: Ints
    """Number of the row's problem."""
    level: Booleans
    """Whether the row asks about the PyTorch reference: those forecasts err by the problem's level."""

    def __len__(self) -> int:
        return len(self.truth)

    def take(self, rows: Booleans | Ints) -> Sample:
        """Some of the rows."""
        return Sample(self.given[rows], self.truth[rows], self.problem[rows], self.level[rows])

    @property
    def weights(self) -> Floats:
        """Every problem counts alike; the weights sum to one."""
        counts = np.bincount(self.problem)
        return 1.0 / counts[self.problem] / np.count_nonzero(counts)


class Map(Protocol):
    """From what the parts say to one distribution."""

    def applied(self, given: Floats, level: Booleans) -> Floats:
        """[rows, parts, classes] to [rows, classes]."""


Fit = Callable[[Sample], Map]


@dataclasses.dataclass(frozen=True, slots=True)
class LogLinear:
    """Logits that are linear in the log-probabilities of the parts."""

    matrix: Floats
    """[parts · classes, classes]."""
    bias: Floats
    """[classes]."""

    def applied(self, given: Floats, level: Booleans) -> Floats:
        """The distribution of each row."""
        return _softmax(_logs(given) @ self.matrix + self.bias)


@dataclasses.dataclass(frozen=True, slots=True)
class ByKind:
    """One map against the reference, another for kernel against kernel."""

    level: Map
    between: Map

    def applied(self, given: Floats, level: Booleans) -> Floats:
        """Each row by the map of its kind."""
        one, other = (each.applied(given, level) for each in (self.level, self.between))
        return np.where(level[:, None], one, other)


@dataclasses.dataclass(frozen=True, slots=True)
class Isotonic:
    """A rising step function for each class of one part, normalised."""

    steps: tuple[tuple[Floats, Floats], ...]
    """Forecast probabilities and observed frequencies, class by class."""

    def applied(self, given: Floats, level: Booleans) -> Floats:
        """The distribution of each row."""
        columns = [np.interp(given[:, 0, at], *step) for at, step in enumerate(self.steps)]
        shares = np.maximum(np.stack(columns, axis=1), FLOOR)
        return shares / shares.sum(axis=1, keepdims=True)


def equal_pool(sample: Sample) -> LogLinear:
    """Equal weights that sum to one and nothing learned: of a single part, its own forecast."""
    _, parts, classes = sample.given.shape
    return LogLinear(np.tile(np.eye(classes) / parts, (parts, 1)), np.zeros(classes))


def pool(sample: Sample, ridge: float = 1e-4) -> LogLinear:
    """A weight ≥ 0 for each part, the log-linear pool; of a single part, its inverse temperature."""
    return _fitted(sample, _pool_basis(sample), ridge, positive=sample.given.shape[1])


def vector(sample: Sample, ridge: float) -> LogLinear:
    """The pool with a bias for each class."""
    classes, basis = sample.given.shape[2], _pool_basis(sample)
    bias = np.zeros((len(basis), classes))
    bias[-classes:] = np.eye(classes)
    return _fitted(sample, np.hstack([basis, bias]), ridge, positive=sample.given.shape[1])


def matrix(sample: Sample, ridge: float) -> LogLinear:
    """Every coefficient free: Dirichlet calibration of one part, multinomial logistic stacking of several."""
    return _fitted(sample, np.eye(len(_pool_basis(sample))), ridge, positive=0)


def isotonic(sample: Sample) -> Isotonic:
    """Isotonic regression, class by class."""
    from sklearn.isotonic import IsotonicRegression

    steps = []
    for at in range(sample.given.shape[2]):
        regression = IsotonicRegression(y_min=0.0, y_max=1.0, out_of_bounds="clip").fit(
            sample.given[:, 0, at], sample.truth == at, sample_weight=sample.weights
        )
        steps.append((regression.X_thresholds_, regression.y_thresholds_))
    return Isotonic(tuple(steps))


def by_kind(fit: Fit) -> Fit:
    """The same fit for each kind of question on its own, where the sample has enough of it."""

    def fitted(sample: Sample) -> Map:
        kinds = [sample.take(rows) for rows in (sample.level, ~sample.level)]
        return ByKind(*(fit(each if len(each) >= LEAST_ROWS else sample) for each in kinds))

    return fitted


def pool_weights(found: LogLinear, parts: int) -> Floats:
    """The weight of each part in a pool, scaled to sum to one; equal where all are zero."""
    weights = found.matrix[:: len(found.bias), 0]
    return weights / weights.sum() if weights.sum() > 0 else np.full(parts, 1 / parts)


def _logs(given: Floats) -> Floats:
    return np.log(np.maximum(given, FLOOR)).reshape(len(given), -1)


def _softmax(logits: Floats) -> Floats:
    raised = np.exp(logits - logits.max(axis=1, keepdims=True))
    return raised / raised.sum(axis=1, keepdims=True)


def _pool_basis(sample: Sample) -> Floats:
    """[coefficients, parts]: the coefficients are the matrix, row by row, then the bias."""
    _, parts, classes = sample.given.shape
    basis = np.zeros((parts, parts, classes, classes))
    for part in range(parts):
        basis[part, part] = np.eye(classes)
    flat = basis.reshape(parts, -1).T
    return np.vstack([flat, np.zeros((classes, parts))])


def _fitted(sample: Sample, basis: Floats, ridge: float, positive: int) -> LogLinear:
    """The coefficients with the best log score.

    Args:
        sample: what to learn from.
        basis: [coefficients, free parameters]; only combinations of its columns are tried.
        ridge: weight of the squared distance from the equal pool.
        positive: how many of the first parameters must not be negative.
    """
    from scipy.optimize import minimize

    rows, parts, classes = sample.given.shape
    logs, weights, at = _logs(sample.given), sample.weights, np.arange(rows)
    start = equal_pool(sample)
    origin = np.linalg.lstsq(basis, np.concatenate([start.matrix.ravel(), start.bias]), rcond=None)[0]

    def unpacked(parameters: Floats) -> LogLinear:
        coefficients = basis @ parameters
        return LogLinear(coefficients[:-classes].reshape(parts * classes, classes), coefficients[-classes:])

    def loss(parameters: Floats) -> tuple[float, Floats]:
        shares = _softmax(logs @ (candidate := unpacked(parameters)).matrix + candidate.bias)
        value = -(weights * np.log(np.maximum(shares[at, sample.truth], 1e-300))).sum()
        shares[at, sample.truth] -= 1.0
        slope = shares * weights[:, None]
        gradient = basis.T @ np.concatenate([(logs.T @ slope).ravel(), slope.sum(axis=0)])
        away = parameters - origin
        return float(value + ridge * (away**2).sum()), gradient + 2 * ridge * away

    free: Sequence[tuple[float | None, None]] = [(0.0, None)] * positive + [(None, None)] * (len(origin) - positive)
    return unpacked(minimize(loss, origin, jac=True, method="L-BFGS-B", bounds=free).x)


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
    return np.bincount(problem, weights=losses) / np.bincount(problem)
