"""The explicit list of proposers, and the one that mixes genome and rewrite."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from kbench.generation.proposers.genome.proposer import GenomeProposer
from kbench.generation.proposers.llm.proposer import proposer_from_environment
from kbench.generation.proposers.rewrite.proposer import RewriteProposer
from kbench.generation.search.proposal import Answer, Ask, ProposalTask, Proposer
from kbench.generation.search.state import Operator
from kbench.schemas import UnknownNameError


class MixedProposer:
    """Genome and rewrite together.

    Fresh asks and crossings go to the genome; a kernel that no genome describes can only be rewritten.
    """

    def __init__(self, genome: GenomeProposer, rewrite: Proposer, *, edits_text: bool = False) -> None:
        """Mix.

        Args:
            genome: changes genes.
            rewrite: edits text.
            edits_text: whether every change of a parent is an edit of its text, not only those asked for as rewrites.
        """
        self.name = f"{genome.name}+{rewrite.name}"
        self._genome, self._rewrite, self._edits_text = genome, rewrite, edits_text

    def propose(self, task: ProposalTask, asks: Sequence[Ask]) -> Iterator[Answer]:
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
        return self._rewrite if self._edits_text or ask.operator is Operator.REWRITE else self._genome


PROPOSERS: Mapping[str, Callable[[], Proposer]] = {
    "genome": GenomeProposer,
    "rewrite": lambda: MixedProposer(GenomeProposer(), RewriteProposer(), edits_text=True),
    "genome+rewrite": lambda: MixedProposer(GenomeProposer(), RewriteProposer()),
    "llm": proposer_from_environment,
}
"""Makers by name. `rewrite` edits every parent's text; only its seeds come from the genome."""


def proposer(name: str) -> Proposer:
    """A proposer by name.

    Raises:
        UnknownNameError: with the nearest names.
    """
    if name not in PROPOSERS:
        raise UnknownNameError("proposer", name, PROPOSERS)
    return PROPOSERS[name]()
