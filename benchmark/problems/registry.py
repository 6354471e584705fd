"""The explicit list of all problems, family by family."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Mapping
from types import MappingProxyType

from kbench.benchmark.problems.definition import ProblemDefinition
from kbench.schemas import UnknownNameError

FAMILY_MODULES = (
    "matmul", "fused_matmul", "quantized_matmul",
    "activation", "norm", "reduction", "scan", "loss", "fused_elementwise",
    "convolution", "transposed_convolution", "pooling", "fused_convolution", "stencil",
    "gpu_mode", "attention", "mixture_of_experts", "indexing", "sorting", "state_space", "scientific",
)  # fmt: skip
"""One module a family group, each with a tuple PROBLEMS."""


@functools.cache
def problems() -> Mapping[str, ProblemDefinition]:
    """Every problem by id, in registry order."""
    found: dict[str, ProblemDefinition] = {}
    for name in FAMILY_MODULES:
        module = importlib.import_module(f"kbench.benchmark.problems.{name}")
        for problem in module.PROBLEMS:
            if problem.id in found:
                raise ValueError(f"problem id {problem.id!r} is declared twice, again in {name}.py")
            found[problem.id] = problem
    return MappingProxyType(found)


def problem(problem_id: str) -> ProblemDefinition:
    """One problem.

    Raises:
        UnknownNameError: with the nearest ids.
    """
    try:
        return problems()[problem_id]
    except KeyError:
        raise UnknownNameError("problem", problem_id, problems()) from None
