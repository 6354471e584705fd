"""A family whose kernels all come from one template: the genes are the template's values."""

from __future__ import annotations

from collections.abc import Callable

from kbench.generation.proposers.genome.family import Family, Gene, Genome, Value
from kbench.generation.proposers.genome.template import render
from kbench.schemas import Backend

TRITON_HEAD = "import torch\nimport triton\nimport triton.language as tl\n\n\n"
CUDA_HEAD = "import torch\n\nfrom kbench.harness.cuda import CudaModule\n\n"


def pick(name: str, *choices: Value) -> Gene:
    """A gene that only changes numbers."""
    return Gene(name, choices)


def shape(name: str, *choices: Value) -> Gene:
    """A gene that changes the structure of the code."""
    return Gene(name, choices, structural=True)


def templated(
    name: str,
    backend: Backend,
    problem_ids: tuple[str, ...] | str,
    template: str,
    *genes: Gene,
    invalid: Callable[[Genome], str | None] = lambda genome: None,
) -> Family:
    """A family of one template. The template sees every gene by name, and the problem's id as `problem`."""
    head = TRITON_HEAD if backend is Backend.TRITON else CUDA_HEAD

    def text(problem_id: str, genome: Genome) -> str:
        return head + render(template, problem=problem_id, **genome)

    return Family(
        name=name,
        backend=backend,
        problems=(problem_ids,) if isinstance(problem_ids, str) else problem_ids,
        genes=lambda problem_id: genes,
        render=text,
        invalid=lambda problem_id, genome: invalid(genome),
    )
