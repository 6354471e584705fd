"""`uniform`: one eighth for every bin. What knowing nothing scores."""

from __future__ import annotations

from collections.abc import Sequence

from kbench.schemas import Forecast, Query, bins


class UniformSurrogate:
    """Gives every bin the same probability."""

    inputs = "source"

    def forecast(self, queries: Sequence[Query]) -> list[Forecast]:
        """One eighth each."""
        share = (1 / bins.COUNT,) * bins.COUNT
        return [Forecast(query_id=query.query_id, probabilities=share) for query in queries]
