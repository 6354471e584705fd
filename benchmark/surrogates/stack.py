"""`calibrated:NAME` and `stack:A+B`: the forecasts of one or several surrogates, mapped by what validation shows.

The map is learned on validation problems alone, from forecasts of surrogates that did not learn from them.
"""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from kbench.benchmark.metrics.arrays import LOG2_CENTERS, Booleans, Floats, Ints, encode
from kbench.benchmark.questions.build import TRAIN_SPLITS, build_questions, training_pairs
from kbench.benchmark.questions.questions import Questions, Strings, strings
from kbench.benchmark.surrogates.forecasts import ensembled, mean_of, total_of
from kbench.benchmark.surrogates.maps import Choice, Sample, choose
from kbench.benchmark.surrogates.protocol import INPUTS, Surrogate, accept, answer_rows, failure, forecast_from
from kbench.schemas import Forecast, PairKind, Query, Question, UserError, bins

LEAST = 200
"""Fewest validation answers that a map is learned from."""
Train = Sequence[tuple[Query, Question]]


class CombinedSurrogate:
    """Learns a map on validation problems and applies it to what its parts say."""

    repeats = 1

    def __init__(self, name: str, parts: Sequence[Part], validation_limit: int | None = None) -> None:
        """Put it together; nothing is learned yet."""
        self._name, self._parts, self._limit = name, tuple(parts), validation_limit
        self.inputs = max((getattr(p.surrogate, "inputs", INPUTS[0]) for p in parts), key=INPUTS.index)
        self.batch_size = min(int(getattr(p.surrogate, "batch_size", 2048)) for p in parts)
        self.chosen: Choice | None = None
        """The map of the distributions."""
        self._weights = np.full(len(parts), 1 / len(parts))
        self.tell: Callable[[str], None] = lambda text: None
        """Told what it does while it learns."""

    @property
    def answers_depend_on(self) -> tuple[str, ...]:
        """What else decides the answers of the parts."""
        return tuple(each for part in self._parts for each in getattr(part.surrogate, "answers_depend_on", ()))

    def learned_from(self, splits: tuple[str, ...]) -> tuple[str, ...]:
        """Both training splits: its parts learn from train, its map from validation problems."""
        return TRAIN_SPLITS

    def remarks(self) -> list[str]:
        """What the parts have to say about their answers."""
        return [each for part in self._parts for each in getattr(part.surrogate, "remarks", list)()]

    def check_dataset(self, fingerprint: str) -> None:
        """Refuse parts made for other data."""
        for part in self._parts:
            if hasattr(part.surrogate, "check_dataset"):
                part.surrogate.check_dataset(fingerprint)

    def keep_replies(self, folder: Path | None, max_tokens: int | None = None, max_cost: float | None = None) -> None:
        """Let language models among the parts keep their replies; each has the whole limit."""
        for part in self._parts:
            if hasattr(part.surrogate, "keep_replies"):
                part.surrogate.keep_replies(folder, max_tokens, max_cost)

    def estimate(self, queries: Sequence[Query]) -> dict[str, Any]:
        """What asking these queries would cost; validation queries cost as much each, and are not counted."""
        costs = [p.surrogate.estimate(queries) for p in self._parts if hasattr(p.surrogate, "estimate")]
        return {key: sum(cost.get(key, 0) for cost in costs) for cost in costs for key in cost} or {"price": 0.0}

    def fit_corpus(self, corpus: Any) -> None:
        """Learn from the validation split of a corpus."""
        self.tell("reading validation questions and training pairs")
        validation = Validation.of(build_questions(corpus, "validation", limit=self._limit))
        fewer = "" if self._limit else "; --surrogate-arg validation_limit=N takes fewer"
        self.tell(f"learning a map from {len(validation.queries):,} validation queries{fewer}")
        fits = any(callable(getattr(part.surrogate, "fit", None)) for part in self._parts)
        self.learn(validation, list(training_pairs(corpus)) if fits else (), corpus)

    def fit(self, train: Train) -> None:
        """Learn from training pairs; a search's own measurements, which hold no validation pair, change nothing."""
        validation = Validation.of_pairs(train, self._limit)
        if validation.queries:
            self.learn(validation, train, None)

    def learn(self, validation: Validation, train: Train = (), corpus: Any = None) -> None:
        """Learn from validation queries, and fit the parts that learn."""
        by_part = [part.held_out(validation.queries, train, corpus, self.tell) for part in self._parts]
        for part, forecasts in zip(self._parts, by_part, strict=True):
            answered = sum(forecast.probabilities is not None for forecast in forecasts)
            if answered < LEAST:
                raise UserError(
                    f"{self._name}: {part.name} answers {answered:,} of {len(validation.queries):,} validation "
                    f"queries, and {LEAST} are needed; make them with "
                    f"`kbench evaluate --surrogate {part.name} --split validation` and give "
                    "the file: --surrogate-arg validation_forecasts=FILE (of a stack, PART.validation_forecasts=FILE), "
                    "which a built-in or a file with fit does not need"
                )
        every = np.stack([_shares(forecasts) for forecasts in by_part], axis=1)[validation.query]
        answered_rows = np.flatnonzero(~np.isnan(every).any(axis=(1, 2)))
        if len(answered_rows) < LEAST:
            raise UserError(
                f"{self._name}: all parts together answer {len(answered_rows):,} validation pairs, and {LEAST} are "
                "needed; answer the same queries with each part"
            )
        sample = Sample(every, validation.bin - 1, encode(validation.problem)[1], validation.level).take(answered_rows)
        self.tell(f"choosing a map by {len(answered_rows):,} validation pairs")
        self.chosen = choose(sample)
        self._weights = self.chosen.weights
        shares = ", ".join(f"{part.name} {share:.2f}" for part, share in zip(self._parts, self._weights, strict=True))
        self.tell(f"map: {self.chosen.name}; weights of the points: {shares}")

    def forecast(self, queries: Sequence[Query]) -> list[Forecast]:
        """What the parts say, mapped; a part that fails on a query has no say in it."""
        if self.chosen is None:
            raise UserError(f"{self._name} learns from validation problems, and the corpus has none; give --train")
        by_part = [part.forecasts(queries) for part in self._parts]
        # Equal shares for all classes leave a pool unmoved.
        every = np.stack([np.nan_to_num(_shares(forecasts), nan=1 / bins.COUNT) for forecasts in by_part], axis=1)
        level = np.array([query.kind is PairKind.REFERENCE for query in queries], dtype=np.bool_)
        shares = self.chosen.map.applied(every, level)
        return [self._forecast(said, share) for said, share in zip(zip(*by_part, strict=True), shares, strict=True)]

    def _forecast(self, said: Sequence[Forecast], shares: Floats) -> Forecast:
        costs: dict[str, Any] = {
            name: total_of([getattr(each, name) for each in said])
            for name in ("input_tokens", "output_tokens", "elapsed_s")
        }
        if all(each.probabilities is None for each in said):
            unanswered = failure(said[0].query_id, said[0].failure or "")
            return dataclasses.replace(unanswered, **costs)
        return Forecast(
            query_id=said[0].query_id, probabilities=tuple(shares.tolist()), speedup=self._point(said),
            p_valid=mean_of([each.p_valid for each in said]), **costs,
        )  # fmt: skip

    def _point(self, said: Sequence[Forecast]) -> float | None:
        """The parts' point forecasts, or the means of their distributions, averaged by the weights of the pool."""
        if all(each.speedup is None for each in said):
            return None
        rows = [(weight, each) for weight, each in zip(self._weights, said, strict=True) if each.probabilities]
        total = sum(weight for weight, _ in rows)
        logs = [
            math.log2(each.speedup) if each.speedup else float(np.dot(each.probabilities or (), LOG2_CENTERS))
            for _, each in rows
        ]
        if total <= 0:
            return float(2.0 ** np.mean(logs))
        return float(2.0 ** (sum(weight * log for (weight, _), log in zip(rows, logs, strict=True)) / total))


def _shares(forecasts: Sequence[Forecast]) -> Floats:
    """[queries, 8]; NaN where there is no answer."""
    return np.array([each.probabilities or (np.nan,) * bins.COUNT for each in forecasts], dtype=np.float64)


@dataclasses.dataclass(frozen=True, slots=True)
class Part:
    """A surrogate, and where its answers to validation queries come from."""

    name: str
    surrogate: Surrogate
    recorded: Surrogate | None = None
    """Answers validation queries in its place: forecasts made earlier."""

    def forecasts(self, queries: Sequence[Query]) -> list[Forecast]:
        """One forecast per query, in their order, repeats averaged; a failure where there is no answer."""
        return answers(self.surrogate, queries)

    def held_out(
        self, queries: Sequence[Query], train: Train, corpus: Any, tell: Callable[[str], None]
    ) -> list[Forecast]:
        """Answers to validation queries by a surrogate that learned nothing from validation problems.

        What learns is fitted on the `train` split alone. Then it is fitted on everything, as without calibration.
        """
        fit = getattr(self.surrogate, "fit", None)
        fit_corpus = getattr(self.surrogate, "fit_corpus", None) if corpus is not None else None
        without_validation = getattr(self.surrogate, "without_validation", None)
        forecasts = None
        asked = f"asking {self.name} {len(queries):,} validation queries"
        if self.recorded is not None:
            forecasts = answers(self.recorded, queries)
        elif without_validation is not None:
            tell(f"fitting {self.name} on train")
            held_out = without_validation(corpus)
            tell(asked)
            forecasts = answers(held_out, queries)
        elif fit is not None:
            tell(f"fitting {self.name} on train")
            fit([(query, pair) for query, pair in train if pair.split == "train"])
            tell(asked)
            forecasts = self.forecasts(queries)
        if fit_corpus is not None or fit is not None:
            tell(f"fitting {self.name} on {' and '.join(TRAIN_SPLITS)}")
        if fit_corpus is not None:
            fit_corpus(corpus)
        elif fit is not None:
            fit(train)
        if forecasts is None:
            tell(asked)
        return self.forecasts(queries) if forecasts is None else forecasts


def answers(surrogate: Surrogate, queries: Sequence[Query]) -> list[Forecast]:
    """What a surrogate says, one forecast per query, in their order, repeats averaged."""
    rows = answer_rows(surrogate.forecast(queries), queries)
    forecasts = [accept(row) if isinstance(row, Forecast) else forecast_from(row) for row in rows]
    by_query = {each.query_id: each for each in ensembled(forecasts)}
    missing = "no answer to this query among those returned"
    return [by_query.get(query.query_id) or failure(query.query_id, missing) for query in queries]


@dataclasses.dataclass(frozen=True, slots=True)
class Validation:
    """Queries, and the bins of their pairs."""

    queries: Sequence[Query]
    query: Ints
    """Position of each pair's query."""
    bin: Ints
    problem: Strings
    level: Booleans
    """Whether the pair is against the PyTorch reference."""

    @classmethod
    def of(cls, questions: Questions) -> Validation:
        """The questions of the validation split."""
        pairs = questions.pairs
        return cls(questions.queries, pairs.query, pairs.bin, pairs.problem, pairs.kind == PairKind.REFERENCE.value)

    @classmethod
    def of_pairs(cls, train: Sequence[tuple[Query, Question]], limit: int | None) -> Validation:
        """The validation pairs among training pairs, of the GPU with the most of them, as questions are."""
        count = Counter(pair.gpu for _, pair in train if pair.split == "validation")
        gpu = min(count, key=lambda name: (-count[name], name), default=None)
        pairs = {
            query.query_id: (query, pair)
            for query, pair in train
            if pair.split == "validation" and pair.bin is not None and pair.gpu == gpu
        }
        rows = [pairs[each] for each in sorted(pairs)][:limit]
        return cls(
            queries=[query for query, _ in rows],
            query=np.arange(len(rows)),
            bin=np.array([pair.bin for _, pair in rows], dtype=np.int64),
            problem=strings([pair.problem_id for _, pair in rows]),
            level=np.array([query.kind is PairKind.REFERENCE for query, _ in rows], dtype=np.bool_),
        )
