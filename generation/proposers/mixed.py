"""The explicit list of proposers, and the one that mixes genes with changes of text."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from kbench.generation.proposers.genome.proposer import GenomeProposer
from kbench.generation.proposers.llm.llm import proposer_from_environment
from kbench.generation.proposers.pool import POOL
from kbench.generation.proposers.rewrite.rewrite import RewriteProposer
from kbench.generation.search.proposal import Answer, Ask, ProposalTask, Proposer
from kbench.generation.search.state import Operator
from kbench.schemas import UnknownNameError, UserError


class MixedProposer:
    """Genome and proposers that change text, together.

    Fresh asks go to the genome, and so do crossings of parents that it describes. Other kernels can only be changed
    as text.
    """

    def __init__(self, genome: GenomeProposer, *others: Proposer, edits_text: bool = False) -> None:
        """Mix.

        Args:
            genome: changes genes.
            others: change text; each is asked where an operator has its name.
            edits_text: whether every change of a parent is one of its text, not only those asked for by name.
        """
        self.name = "+".join(one.name for one in (genome, *others))
        self._genome, self._edits_text = genome, edits_text
        self.parts = others
        """Those that change text."""

    def propose(self, task: ProposalTask, asks: Sequence[Ask]) -> Iterator[Answer]:
        """One answer for each ask, in order. What one proposer is asked goes to it together."""
        chosen = [self._choose(ask) for ask in asks]
        groups = {id(one): [ask for ask, its in zip(asks, chosen, strict=True) if its is one] for one in chosen}
        answers = {id(one): one.propose(task, groups[id(one)]) for one in chosen}
        for one in chosen:
            yield next(answers[id(one)])

    def _choose(self, ask: Ask) -> Proposer:
        if ask.operator is Operator.FRESH or ask.parent is None:
            return self._genome
        named = next((one for one in self.parts if one.name == ask.operator.value), None)
        if named is not None:
            return named
        if not self._genome.knows(ask.parent.recipe):
            # The last can join two texts if it is a language model; to change one, the first is cheaper.
            return self.parts[-1 if ask.operator is Operator.CROSS else 0]
        if ask.operator is Operator.CROSS:
            return self._genome
        return self.parts[0] if self._edits_text else self._genome


PROPOSERS: Mapping[str, Callable[[], Proposer]] = {
    "genome": GenomeProposer,
    "rewrite": lambda: MixedProposer(GenomeProposer(), RewriteProposer(), edits_text=True),
    "genome+rewrite": lambda: MixedProposer(GenomeProposer(), RewriteProposer()),
    "genome+llm": lambda: MixedProposer(GenomeProposer(), proposer_from_environment()),
    "genome+rewrite+llm": lambda: MixedProposer(GenomeProposer(), RewriteProposer(), proposer_from_environment()),
    "llm": proposer_from_environment,
}
"""Makers by name. `rewrite` edits every parent's text; only its seeds come from the genome."""


def checked(name: str) -> str:
    """A proposer's name; a wrong one is refused before anything is looked for or made."""
    if name.endswith(".py"):
        raise UserError(f"proposer {name!r} is a file; a program of yours proposes by answering Batch files")
    if name not in (*PROPOSERS, POOL):
        raise UnknownNameError("proposer", name, (*PROPOSERS, POOL))
    return name


def proposer(name: str) -> Proposer:
    """A proposer by name."""
    if checked(name) == POOL:
        raise UserError(f"proposer {POOL!r} draws kernels of a corpus; give --executor replay --recorded CORPUS")
    return PROPOSERS[name]()
