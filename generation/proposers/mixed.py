"""Several proposers taking turns: each ask goes to one that can answer it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kbench.generation.proposers.genome.proposer import GenomeProposer
from kbench.generation.proposers.proposal import Answer, Ask, Proposer, Task
from kbench.generation.search.request import Operator

REWRITE_SHARE = 0.3
"""Share of the derivations of a genome kernel that edit its text instead of its genes."""


class MixedProposer:
    """Genome and rewrite together.

    Fresh asks and crossings go to the genome; a kernel that no genome describes can only be rewritten; the rest is
    shared out at random.
    """

    def __init__(self, genome: GenomeProposer, rewrite: Proposer, share: float = REWRITE_SHARE) -> None:
        self.name = f"{genome.name}+{rewrite.name}"
        self._genome, self._rewrite, self._share = genome, rewrite, share

    def propose(self, task: Task, asks: Sequence[Ask]) -> Iterator[Answer]:
        """One answer for each ask."""
        for ask in asks:
            yield from self._choose(ask).propose(task, [ask])

    def _choose(self, ask: Ask) -> Proposer:
        if ask.operator is Operator.FRESH or ask.parent is None:
            return self._genome
        if not self._genome.knows(ask.parent.recipe):
            return self._rewrite
        if ask.operator is Operator.CROSS:
            return self._genome
        return self._rewrite if ask.rng.random() < self._share else self._genome
