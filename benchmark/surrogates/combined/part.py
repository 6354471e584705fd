"""One of the surrogates that a combined one is made of."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from kbench.benchmark.surrogates.forecasts.answers import answer_rows, checked
from kbench.benchmark.surrogates.forecasts.ensemble import ensembled
from kbench.benchmark.surrogates.protocol import Surrogate, accept, failure
from kbench.schemas import Forecast, Pair, Query

Train = Sequence[tuple[Query, Pair]]


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

    def held_out(self, queries: Sequence[Query], train: Train, corpus: Any) -> list[Forecast]:
        """Answers to validation queries by a surrogate that learned nothing from validation problems.

        What learns is fitted on the `train` split alone. Then it is fitted on everything, as without calibration.

        Args:
            queries: the validation queries.
            train: training pairs of both training splits.
            corpus: the corpus they come from; None where only the pairs are known.
        """
        fit = getattr(self.surrogate, "fit", None)
        fit_corpus = getattr(self.surrogate, "fit_corpus", None) if corpus is not None else None
        without_validation = getattr(self.surrogate, "without_validation", None)
        found = None
        if self.recorded is not None:
            found = answers(self.recorded, queries)
        elif without_validation is not None:
            found = answers(without_validation(corpus), queries)
        elif fit is not None:
            fit([(query, pair) for query, pair in train if pair.split == "train"])
            found = self.forecasts(queries)
        if fit_corpus is not None:
            fit_corpus(corpus)
        elif fit is not None:
            fit(train)
        return self.forecasts(queries) if found is None else found


def answers(surrogate: Surrogate, queries: Sequence[Query]) -> list[Forecast]:
    """What a surrogate says, one forecast per query, in their order, repeats averaged."""
    rows = answer_rows(surrogate.forecast(queries), queries)
    given = [accept(row) if isinstance(row, Forecast) else checked(row) for row in rows]
    found = {each.query_id: each for each in ensembled(given)}
    missing = "no answer to this query among those returned"
    return [found.get(query.query_id) or failure(query.query_id, missing) for query in queries]
