"""The genome proposer: samples, mutates and crosses the parametrised families of a problem."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from kbench.generation.proposers.genome.template import Family, Genome, cross, families, mutate, sample
from kbench.generation.search.proposal import Answer, Ask, Proposal, ProposalTask, Refusal
from kbench.generation.search.state import Operator
from kbench.schemas import UserError
from kbench.schemas.ids import kernel_id

TRIES = 8
"""Draws before a duplicate is accepted: small families run out of unseen genomes."""
WIDER = {4: Operator.MUTATE, 6: Operator.FRESH}
"""From which draw on something less close to the parents is tried."""


class GenomeProposer:
    """Candidates from parametrised families."""

    name = "genome"

    def __init__(self, known: Mapping[str, Family] | None = None) -> None:
        """Propose from the registered families, or from those given."""
        self._families = families() if known is None else known

    def propose(self, task: ProposalTask, asks: Sequence[Ask]) -> Iterator[Answer]:
        """One candidate for each ask."""
        choices = [f for f in self._families.values() if f.backend is task.backend and task.problem_id in f.problems]
        if not choices:
            raise UserError(
                f"no genome family solves problem {task.problem_id!r} in backend {task.backend.value!r}; "
                "use --proposer llm, or --from-folder"
            )
        for ask in asks:
            yield self._answer(task, ask, choices)

    def _answer(self, task: ProposalTask, ask: Ask, choices: Sequence[Family]) -> Answer:
        answer: Answer = Refusal(reason="no genome: no valid combination of genes found", proposer=self.name)
        for attempt in range(TRIES):
            if attempt in WIDER and ask.operator is not Operator.FRESH:
                # Alike parents have few children, and a good one's neighbours may all have been measured.
                ask = dataclasses.replace(ask, operator=WIDER[attempt])
            try:
                answer = self._derive(task.problem_id, ask, choices)
            except ValueError as error:
                return Refusal(reason=f"no genome: {error}", proposer=self.name)
            if not task.seen(kernel_id(task.problem_id, task.backend, answer.source)):
                break
        return answer

    def knows(self, recipe: Mapping[str, Any] | None) -> bool:
        """Whether a recipe names a family that still exists."""
        return recipe is not None and recipe.get("family") in self._families

    def _derive(self, problem_id: str, ask: Ask, choices: Sequence[Family]) -> Proposal:
        parent = ask.parent
        if ask.operator is Operator.FRESH or parent is None or parent.recipe is None or not self.knows(parent.recipe):
            family = ask.rng.choice(choices)
            return self._proposal(problem_id, family, sample(family, problem_id, ask.rng))
        family = self._families[parent.recipe["family"]]
        before = _in_order(family, problem_id, parent.recipe["genome"])
        changes: dict[str, Any] = {"parent_id": parent.kernel_id}
        other = ask.other
        if ask.operator is Operator.CROSS and other and other.recipe and other.recipe.get("family") == family.name:
            genes = _in_order(family, problem_id, other.recipe["genome"])
            child, changes["other_id"] = cross(family, problem_id, before, genes, ask.rng), other.kernel_id
        else:
            child = mutate(family, problem_id, before, ask.rng)
        return self._proposal(
            problem_id, family, child, edit=describe(before, child, changes.get("other_id")), **changes
        )

    def _proposal(self, problem_id: str, family: Family, genome: Genome, **changes: Any) -> Proposal:
        structural = {gene.name: genome[gene.name] for gene in family.genes(problem_id) if gene.structural}
        return Proposal(
            source=family.render(problem_id, genome), proposer=self.name,
            niche=f"{family.name}:{json.dumps(structural, sort_keys=True)}",
            recipe={"family": family.name, "genome": dict(genome)}, **changes,
        )  # fmt: skip


def _in_order(family: Family, problem_id: str, genome: Genome) -> Genome:
    """The genome in the order of the family's genes: the log sorts keys, and draws go by order."""
    names = [gene.name for gene in family.genes(problem_id)]
    if set(names) != set(genome):
        raise ValueError(f"the recorded genome has genes {sorted(genome)}, family {family.name!r} has {sorted(names)}")
    return {name: genome[name] for name in names}


def describe(before: Genome, after: Genome, other_id: str | None = None) -> str:
    """The changed genes in words."""
    changed = [f"{name}: {before.get(name)} -> {value}" for name, value in after.items() if before.get(name) != value]
    text = ", ".join(changed) or "no gene"
    return f"crossed with {other_id[:8]}: {text}" if other_id else text
