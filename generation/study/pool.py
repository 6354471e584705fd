"""The pool proposer: only kernels that were recorded, so that every method can be replayed without a GPU.

A mutation is a near neighbour by token counts, a crossing lies near the middle of two parents. The pool says nothing
of how fast its kernels are: that only measuring tells.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from kbench.benchmark.surrogates.online.features import features
from kbench.generation.search.proposal import Answer, Ask, Proposal, ProposalTask, Refusal
from kbench.generation.search.state import Operator

if TYPE_CHECKING:
    from kbench.benchmark.surrogates.online.features import Matrix

NEIGHBOURS = 6
"""A mutation is drawn from so many nearest kernels not yet seen."""


class PoolProposer:
    """Proposes recorded kernels."""

    name = "pool"

    def __init__(self, sources: Mapping[str, str]) -> None:
        """Take the pool: source by kernel id."""
        self._ids = sorted(sources)
        self._sources = sources
        self._place = {key: place for place, key in enumerate(self._ids)}
        self._features: Matrix = features([sources[key] for key in self._ids])

    def propose(self, task: ProposalTask, asks: Sequence[Ask]) -> Iterator[Answer]:
        """One recorded kernel for each ask, until the pool is spent."""
        for ask in asks:
            yield self._answer(task, ask)

    def _answer(self, task: ProposalTask, ask: Ask) -> Answer:
        unseen = [place for place, key in enumerate(self._ids) if not task.seen(key)]
        if not unseen:
            return Refusal(reason="pool spent: every recorded kernel was proposed", proposer=self.name)
        if ask.operator is Operator.FRESH or ask.parent is None:
            return self._proposal(ask.rng.choice(unseen), ask)
        near = sorted(unseen, key=self._distances(ask).__getitem__)[:NEIGHBOURS]
        return self._proposal(ask.rng.choice(near), ask)

    def _distances(self, ask: Ask) -> list[float]:
        import numpy

        assert ask.parent is not None
        center = self._features[self._place[ask.parent.kernel_id]]
        if ask.operator is Operator.CROSS and ask.other is not None:
            center = (center + self._features[self._place[ask.other.kernel_id]]) / 2
        found: list[float] = numpy.square(self._features - center).sum(axis=1).tolist()
        return found

    def _proposal(self, place: int, ask: Ask) -> Proposal:
        key = self._ids[place]
        parent = ask.parent if ask.operator is not Operator.FRESH else None
        return Proposal(
            source=self._sources[key],
            proposer=self.name,
            edit="a near neighbour" if parent else None,
            parent_id=parent.kernel_id if parent else None,
            other_id=ask.other.kernel_id if parent and ask.other else None,
            niche=str(int(self._features[place].sum())),
        )
