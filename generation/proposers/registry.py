"""The explicit list of proposers."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from kbench.generation.proposers.proposal import Proposer
from kbench.schemas import UnknownNameError


def _genome() -> Proposer:
    from kbench.generation.proposers.genome.proposer import GenomeProposer

    return GenomeProposer()


def _rewrite() -> Proposer:
    from kbench.generation.proposers.genome.proposer import GenomeProposer
    from kbench.generation.proposers.mixed import MixedProposer
    from kbench.generation.proposers.rewrite.proposer import RewriteProposer

    return MixedProposer(GenomeProposer(), RewriteProposer(), share=1.0)


def _mixed() -> Proposer:
    from kbench.generation.proposers.genome.proposer import GenomeProposer
    from kbench.generation.proposers.mixed import MixedProposer
    from kbench.generation.proposers.rewrite.proposer import RewriteProposer

    return MixedProposer(GenomeProposer(), RewriteProposer())


def _llm() -> Proposer:
    from kbench.generation.proposers.llm.proposer import proposer_from_environment

    return proposer_from_environment()


PROPOSERS: Mapping[str, Callable[[], Proposer]] = {
    "genome": _genome,
    "rewrite": _rewrite,
    "genome+rewrite": _mixed,
    "llm": _llm,
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
