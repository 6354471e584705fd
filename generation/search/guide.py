"""What a search asks about its candidates: is this one faster than the reference? Queries carry no comment or runtime.

Any surrogate may answer. The `online` surrogate of a search is a Gaussian process over genes, fitted to what the run
has measured so far. It says how fast a candidate may be, and how much it may improve on the best kernel. A prior, such
as `static`, can give the mean before anything is measured; the run's measurements then say how far to trust it.
Kernels without a genome are compared by their tokens.

The filter then measures candidates ranked high and those the surrogate is unsure about.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import math
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import click
import numpy as np

from kbench.benchmark.problems.registry import problem
from kbench.benchmark.questions.corpus_view import benchmark_of
from kbench.benchmark.questions.render import render_query
from kbench.benchmark.surrogates.llm import LlmSurrogate
from kbench.benchmark.surrogates.online import Matrix, distribution, features, squared_distances
from kbench.benchmark.surrogates.protocol import Compiler, Surrogate, accept
from kbench.benchmark.surrogates.resolve import resolve
from kbench.benchmark.surrogates.stack import CombinedSurrogate
from kbench.generation.search.settings import FilterSettings, RunSettings
from kbench.generation.search.state import Node
from kbench.loaders.corpus.corpus import Corpus
from kbench.schemas import (
    AuthorClass,
    Forecast,
    KbenchError,
    PairKind,
    Query,
    Question,
    QuestionKind,
    UserError,
    bins,
    to_dict,
)
from kbench.schemas.ids import content_hash


@dataclasses.dataclass(frozen=True, slots=True)
class Guess:
    """What is expected of a candidate."""

    forecast: Forecast
    improvement: float | None = None
    """Expected rise of the best log2 speedup; None where it is not known."""


Decision = dict[str, Any]
"""What the filter decided on one candidate, as the log has it: `kernel_id`, `measure`, `why` (`rank`, `unsure` or
`no forecast` if measured, else `below` or `no place`), `score`, `confidence` and `forecast`."""


def decide(kernel_ids: Sequence[str], guesses: Sequence[Guess], settings: FilterSettings, keep: int) -> list[Decision]:
    """Which candidates to measure, in the order given.

    Candidates without a forecast come first, up to `keep`: nothing is known against them. Of the remaining places a
    share goes to the least confident forecasts below the threshold, the rest to the highest scores.
    """
    scored = {key: score(guess) for key, guess in zip(kernel_ids, guesses, strict=True)}
    sure = {key: confidence(guess.forecast) for key, guess in zip(kernel_ids, guesses, strict=True)}
    silent = [key for key in kernel_ids if scored[key] is None]
    why = dict.fromkeys(silent[:keep], "no forecast")
    passed_over = dict.fromkeys(silent, "no place")
    answered = [key for key in kernel_ids if scored[key] is not None]
    unsure = [key for key in answered if (sure[key] or 0.0) < settings.confidence]
    unsure.sort(key=lambda key: sure[key] or 0.0)
    for key in unsure[: math.floor((keep - len(why)) * settings.unsure_share)]:
        why[key] = "unsure"
    ranked = sorted((k for k in answered if k not in why), key=lambda k: -(scored[k] or 0.0))
    for key in ranked[: keep - len(why)]:
        why[key] = "rank"
    return [
        {
            "kernel_id": key,
            "measure": key in why,
            "why": why.get(key) or passed_over.get(key, "below"),
            "score": scored[key],
            "confidence": sure[key],
            "forecast": _summary(guess.forecast),
        }
        for key, guess in zip(kernel_ids, guesses, strict=True)
    ]


def score(guess: Guess) -> float | None:
    """Expected improvement where it is known, else expected log2 speedup, weighed by the chance of being valid."""
    return expected_log2(guess.forecast) if guess.improvement is None else guess.improvement


def expected_log2(forecast: Forecast) -> float | None:
    """Expected log2 speedup, with the slowest bin for an invalid kernel; None without a forecast."""
    if forecast.probabilities is None:
        return None
    if forecast.speedup is not None:
        expected = math.log2(forecast.speedup)
    else:
        expected = sum(p * math.log2(bins.center(n)) for n, p in zip(bins.NUMBERS, forecast.probabilities, strict=True))
    valid = 1.0 if forecast.p_valid is None else forecast.p_valid
    return valid * expected + (1 - valid) * math.log2(bins.center(1))


def confidence(forecast: Forecast) -> float | None:
    """The surrogate's own confidence, else its largest probability."""
    if forecast.confidence is not None:
        return forecast.confidence
    return max(forecast.probabilities) if forecast.probabilities else None


def _summary(forecast: Forecast) -> dict[str, Any]:
    if forecast.probabilities is None:
        return {"failure": forecast.failure}
    summary: dict[str, Any] = {"probabilities": list(forecast.probabilities)}
    if forecast.p_valid is not None:
        summary["p_valid"] = forecast.p_valid
    return summary


def in_order(query_ids: Sequence[str], forecasts: Sequence[Forecast]) -> list[Forecast]:
    """Forecasts in the queries' order, checked; a query without an answer gets a failure."""
    answers = {forecast.query_id: accept(forecast) for forecast in forecasts}
    missing = "the surrogate gave no forecast"
    return [answers.get(key) or Forecast(query_id=key, failure=missing) for key in query_ids]


def tokens(forecasts: Sequence[Forecast]) -> tuple[int, int]:
    """Tokens read and written for these forecasts."""
    return sum(f.input_tokens or 0 for f in forecasts), sum(f.output_tokens or 0 for f in forecasts)


ONLINE, MODEL = "online", "llm"
MODEL_VARIABLE = "KBENCH_LLM_FORECAST_MODEL"
BATCH_VARIABLE = "KBENCH_LLM_FORECAST_BATCH"
"""Whoever forecasts is asked apart from whoever proposes: they share no request and no file."""


@functools.cache
def _problem_row(problem_id: str) -> tuple[Mapping[str, Any], str]:
    """The problem as queries quote it, and its workloads as JSON."""
    row = to_dict(problem(problem_id).record())
    return row, json.dumps(row["workloads"])


def query_id(node: Node, gpu: str, parent: Node | None = None) -> str:
    """The name of the question about a candidate, against its parent where one is given."""
    return content_hash("filter", gpu, node.kernel_id, *([parent.kernel_id] if parent else []))


def guesses(
    guide: Guide, settings: RunSettings, known: Sequence[Node], nodes: Sequence[Node], gpu: str, gpu_facts_json: str,
    parents: Mapping[str, Node | None],
) -> list[Guess]:  # fmt: skip
    """What a guide expects of candidates, in their order, once it has learned from the measured ones where it can."""

    def ask(some: Sequence[Node]) -> list[Query]:
        return [query_for(settings, node, gpu, gpu_facts_json) for node in some]

    against_parent = settings.filter is not None and settings.filter.against_parent
    if isinstance(guide, OnlineGuide):
        if against_parent:
            raise UserError(f"surrogate {ONLINE!r} knows no pairs of kernels; leave out against_parent")
        return guide.guess(known, nodes, [query_id(node, gpu) for node in nodes], ask)
    if not against_parent and (fit := getattr(guide, "fit", None)):
        fit([(query, _answered(settings, n, gpu)) for n in known if n.reward for query in ask([n])])
    own = [parents.get(node.kernel_id) if against_parent else None for node in nodes]
    anchors = [parent if parent and parent.reward else None for parent in own]
    pairs = zip(nodes, anchors, strict=True)
    queries = [query_for(settings, node, gpu, gpu_facts_json, anchor) for node, anchor in pairs]
    forecasts = in_order([query.query_id for query in queries], guide.forecast(queries))
    expected = []
    for anchor, forecast in zip(anchors, forecasts, strict=True):
        # The parent's own speed puts children of different parents on one scale.
        rise, start = expected_log2(forecast), math.log2(anchor.reward) if anchor and anchor.reward else 0.0
        expected.append(Guess(forecast, start + rise if against_parent and rise is not None else None))
    return expected


def query_for(settings: RunSettings, node: Node, gpu: str, gpu_facts_json: str, parent: Node | None = None) -> Query:
    """The question about one candidate against its parent, or else against the PyTorch reference."""
    row, workloads = _problem_row(settings.problem_id)
    kind = PairKind.PARENT_EDIT if parent else PairKind.REFERENCE
    return render_query(
        query_id=query_id(node, gpu, parent), problem=row, backend=settings.backend, kind=kind,
        candidate_source=node.source, anchor_source=parent.source if parent else None, gpu=gpu,
        gpu_facts_json=gpu_facts_json, workloads_json=workloads,
    )  # fmt: skip


def _answered(settings: RunSettings, node: Node, gpu: str) -> Question:
    """The question about a measured candidate, with its answer."""
    assert node.reward is not None
    return Question(
        question_id=query_id(node, gpu), kind=QuestionKind.LEVEL, author=AuthorClass.OUTSIDE,
        problem_id=settings.problem_id, family=problem(settings.problem_id).family, backend=settings.backend, gpu=gpu,
        workload=None, split="train", core=False, anchor_id=None, candidate_id=node.kernel_id, pool=None, known_ids=(),
        speedup=node.reward, speedup_low=node.reward, speedup_high=node.reward, bin=bins.bin_of(node.reward),
    )  # fmt: skip


LENGTHS = (0.5, 1.0, 2.0, 4.0)
"""Distances over which speeds are alike; the likeliest is taken. One gene that differs is a distance of up to 1."""
NOISES = (0.02, 0.1, 0.3)
"""Shares of the variance that genes cannot explain; the likeliest is taken."""
MOST = 256
"""Newest measurements kept: the fit is cubic in their number."""
SMALLEST_SPREAD = 0.05
TRUST = 0.5
"""How many octaves of speed an octave of the prior stands for, before anything is measured; its doubt is as large."""

Ask = Callable[[Sequence[Node]], Sequence[Query]]
"""The questions about candidates."""


class OnlineGuide:
    """Learns from the nodes of a run and guesses about others."""

    def __init__(self, prior: Surrogate | None = None) -> None:
        """Know nothing but what a surrogate says before anything is measured, if there is one."""
        self._prior = prior
        self._means: dict[str, float] = {}

    def guess(self, measured: Sequence[Node], asked: Sequence[Node], names: Sequence[str], ask: Ask) -> list[Guess]:
        """What the measured nodes tell of others."""
        newest = [node for node in measured if node.outcome is not None][-MOST:]
        if not any(node.reward for node in newest):
            reason = "nothing measured yet to learn from"
            return [Guess(Forecast(query_id=name, failure=reason)) for name in names]
        rows = encoded([*newest, *asked])
        seen, new = rows[: len(newest)], rows[len(newest) :]
        correct = np.array([bool(node.reward) for node in newest])
        speeds = np.log2([node.reward for node in newest if node.reward])
        expected = self._expected([*newest, *asked], ask)
        fit = Process(seen[correct], speeds, expected[: len(newest)][correct])
        means, errors = fit.predict(new, expected[len(newest) :])
        near = np.exp(-squared_distances(new, seen) / fit.length**2)
        # Two imagined neighbours carry the overall share, so that one failure nearby does not condemn a candidate.
        valid = np.clip((near @ correct + 2 * correct.mean()) / (near.sum(axis=1) + 2), 0.0, 1.0)
        gains = valid * expected_improvement(means - speeds.max(), errors)
        return [
            Guess(
                Forecast(query_id=name, probabilities=distribution(mean, error), speedup=2.0**mean, p_valid=chance),
                improvement=gain,
            )
            for name, mean, error, chance, gain in zip(
                names, means.tolist(), errors.tolist(), valid.tolist(), gains.tolist(), strict=True
            )
        ]

    def _expected(self, nodes: Sequence[Node], ask: Ask) -> Matrix:
        """The prior's mean of each node; nodes it does not know have the mean of the others."""
        if self._prior is None:
            return np.zeros(len(nodes))
        new = [node for node in nodes if node.kernel_id not in self._means]
        queries = ask(new)
        answers = in_order([query.query_id for query in queries], self._prior.forecast(queries) if new else [])
        for node, answer in zip(new, answers, strict=True):
            mean = expected_log2(answer)
            self._means[node.kernel_id] = math.nan if mean is None else mean
        means: Matrix = np.array([self._means[node.kernel_id] for node in nodes])
        missing = np.isnan(means)
        means[missing] = 0.0 if missing.all() else means[~missing].mean()
        return means


class Process:
    """A Gaussian process whose length and noise are the likeliest of a few; a prior is its mean and one more slope."""

    def __init__(self, rows: Matrix, targets: Matrix, expected: Matrix) -> None:
        self._rows, self._center, self._middle = rows, float(targets.mean()), float(expected.mean())
        self._spread = max(float(targets.std()), SMALLEST_SPREAD)
        self._tilt = (expected - self._middle) / self._spread
        wanted = (targets - self._center) / self._spread - TRUST * self._tilt
        distances = np.sqrt(squared_distances(rows, rows))
        slope = TRUST**2 * np.outer(self._tilt, self._tilt)
        best = -math.inf
        for length in LENGTHS:
            alike = similarity(distances / length) + slope
            for noise in NOISES:
                lower = np.linalg.cholesky(alike + noise * np.eye(len(targets)))
                solved = np.linalg.solve(lower.T, np.linalg.solve(lower, wanted))
                scale = max(float(wanted @ solved) / len(targets), 1e-6)
                likelihood = -0.5 * len(targets) * math.log(scale) - float(np.log(np.diag(lower)).sum())
                if likelihood > best:
                    best, self.length = likelihood, length
                    self._lower, self._solved, self._scale = lower, solved, scale

    def predict(self, rows: Matrix, expected: Matrix) -> tuple[Matrix, Matrix]:
        """Mean and standard error of log2 speedup."""
        tilt = (expected - self._middle) / self._spread
        alike = similarity(np.sqrt(squared_distances(rows, self._rows)) / self.length)
        alike = alike + TRUST**2 * np.outer(tilt, self._tilt)
        explained = np.square(np.linalg.solve(self._lower, alike.T)).sum(axis=0)
        means: Matrix = self._center + self._spread * (TRUST * tilt + alike @ self._solved)
        variances = self._scale * np.maximum(1 + (TRUST * tilt) ** 2 - explained, 1e-4)
        return means, self._spread * np.sqrt(variances)


def similarity(distances: Matrix) -> Matrix:
    """The Matérn kernel of order 3/2."""
    scaled = math.sqrt(3) * distances
    return (1 + scaled) * np.exp(-scaled)


def expected_improvement(gaps: Matrix, errors: Matrix) -> Matrix:
    """Mean rise above the best, for normal forecasts whose means are this far above it."""
    from scipy.special import ndtr

    ratios = gaps / errors
    density = np.exp(-0.5 * ratios**2) / math.sqrt(2 * math.pi)
    return gaps * ndtr(ratios) + errors * density


def encoded(nodes: Sequence[Node]) -> Matrix:
    """A row of numbers for each node, so that nodes with one gene in difference are at most 1 apart.

    Numbers become ranks among the values that occur, from 0 to 1; words become one column for each value.
    """
    genomes = [_genome(node) for node in nodes]
    if any(genome is None for genome in genomes):
        rows = features([node.source for node in nodes])
        apart = np.sqrt(squared_distances(rows, rows))
        return rows / (float(np.median(apart[apart > 0])) if (apart > 0).any() else 1.0)
    names = sorted({name for genome in genomes if genome for name in genome})
    columns: list[Matrix] = []
    for name in names:
        values = [genome.get(name) if genome else None for genome in genomes]
        choices = sorted({value for value in values if value is not None}, key=lambda value: (str(type(value)), value))
        if all(isinstance(choice, int) and not isinstance(choice, bool) for choice in choices):
            place = {choice: at / max(1, len(choices) - 1) for at, choice in enumerate(choices)}
            columns.append(np.array([0.0 if value is None else place[value] for value in values]))
        else:
            columns += [np.array([float(value == choice) for value in values]) / math.sqrt(2) for choice in choices]
    return np.stack(columns, axis=1) if columns else np.zeros((len(nodes), 1))


def _genome(node: Node) -> Mapping[str, int | str | bool] | None:
    """The node's genes, each with its family's name; None without a genome."""
    if node.recipe is None or "genome" not in node.recipe:
        return None
    family = node.recipe["family"]
    return {f"{family}.{name}": value for name, value in node.recipe["genome"].items()} | {"family": str(family)}


Guide = Surrogate | OnlineGuide
"""What a search asks about its candidates."""


def guide_named(name: str, compiler: Compiler | None = None) -> Guide:
    """A guide by name: `online`, `online:NAME` with a prior, or whatever `kbench evaluate --surrogate` accepts.

    Raises:
        UnknownNameError: no such surrogate.
    """
    if name == ONLINE:
        return OnlineGuide()
    if name == MODEL:
        model = os.environ.get(MODEL_VARIABLE)
        if not model:
            raise UserError(f"surrogate 'llm' needs a model in a search; set {MODEL_VARIABLE}, and {BATCH_VARIABLE}")
        return LlmSurrogate(model=model, batch_folder=os.environ.get(BATCH_VARIABLE))
    if name.startswith(f"{ONLINE}:"):
        return OnlineGuide(_surrogate(name.removeprefix(f"{ONLINE}:"), compiler))  # type: ignore[arg-type]
    return _surrogate(name, compiler)  # type: ignore[arg-type]  # functions are hashable


@functools.cache
def _surrogate(name: str, compiler: Compiler | None) -> Surrogate:
    """Made once for all searches: a model is large. Those that learn do so anew each time they are asked."""
    try:
        surrogate = resolve(name, compiler=compiler)
    except KbenchError:
        raise
    except (Exception, SystemExit) as error:
        raise UserError(f"surrogate {name!r} cannot be made: {type(error).__name__}: {error}") from error
    if isinstance(surrogate, CombinedSurrogate):
        # A search has no validation problems to learn from: the shipped dataset's serve.
        click.echo(f"{name} learns from the shipped dataset first, which takes several minutes", err=True)
        surrogate.fit_corpus(benchmark_of(Corpus.open()))
    return surrogate
