"""The explicit list of all problems, family by family; the retired among them, and the few that are only measured."""

from __future__ import annotations

import functools
import importlib
import re
from collections.abc import Mapping
from types import MappingProxyType

from kbench.benchmark.problems.definition import ProblemDefinition
from kbench.benchmark.problems.retired import RETIRED
from kbench.schemas import UnknownNameError

FAMILY_MODULES = (
    "families.dense.matmul", "families.dense.fused_matmul", "families.dense.quantized_matmul",
    "families.rowwise.activation", "families.rowwise.norm", "families.rowwise.reduction", "families.rowwise.scan",
    "families.rowwise.loss", "families.rowwise.fused_elementwise",
    "families.spatial.convolution", "families.spatial.transposed_convolution", "families.spatial.pooling",
    "families.spatial.fused_convolution", "families.spatial.stencil",
    "families.sequence.gpu_mode", "families.sequence.gated_deltanet", "families.sequence.attention",
    "families.dense.mixture_of_experts",
    "families.irregular.indexing", "families.rowwise.sorting", "families.sequence.state_space",
    "families.irregular.scientific",
    "families.model_layers.linear", "families.model_layers.quantized", "families.model_layers.experts",
    "families.model_layers.attention", "families.model_layers.convolution", "families.model_layers.rowwise",
)  # fmt: skip
"""One module per group of families, each with a tuple PROBLEMS; their order is the registry's."""
UNLISTED_MODULES = ("foreign.published",)
"""Modules of the same form whose problems are none of the benchmark's."""


@functools.cache
def problems() -> Mapping[str, ProblemDefinition]:
    """Every listed problem by id, in registry order: what new searches and campaigns take on."""
    return MappingProxyType({name: one for name, one in known().items() if name not in RETIRED})


@functools.cache
def retired() -> Mapping[str, ProblemDefinition]:
    """Problems of earlier datasets that new campaigns leave out; kbench.benchmark.problems.retired says why."""
    return MappingProxyType({name: known()[name] for name in RETIRED})


@functools.cache
def known() -> Mapping[str, ProblemDefinition]:
    """Every problem a dataset of ours may have kernels of, listed or retired, in registry order."""
    return _declared(FAMILY_MODULES)


@functools.cache
def unlisted() -> Mapping[str, ProblemDefinition]:
    """Problems that kernels are measured on but that are none of the benchmark's: no dataset or search has them."""
    return _declared(UNLISTED_MODULES)


def _declared(modules: tuple[str, ...]) -> Mapping[str, ProblemDefinition]:
    found: dict[str, ProblemDefinition] = {}
    for name in modules:
        module = importlib.import_module(f"kbench.benchmark.problems.{name}")
        for problem in module.PROBLEMS:
            if problem.id in found:
                raise ValueError(f"problem id {problem.id!r} is declared twice, again in {name}.py")
            found[problem.id] = problem
    return MappingProxyType(found)


def resolve(name: str) -> str | None:
    """Our id of a problem another suite names: an id of ours, an alias such as kernelbench/v0/L1/23, or that alias as
    imports spell it (kernelbench_v0_l1_23); None when we do not have it."""
    if name in known() or name in unlisted():
        return name
    return _aliases().get(name)


@functools.cache
def _aliases() -> dict[str, str]:
    found: dict[str, str] = {}
    for problem_id, definition in known().items():
        for alias in definition.aliases:
            found[alias] = problem_id
            found[re.sub(r"[^a-z0-9]+", "_", alias.lower())] = problem_id
    return found


def listed(problem_id: str) -> ProblemDefinition:
    """One problem of the benchmark; a retired one too, for whoever names it.

    Raises:
        UnknownNameError: with the nearest ids.
    """
    try:
        return known()[problem_id]
    except KeyError:
        raise UnknownNameError("problem", problem_id, known()) from None


def problem(problem_id: str) -> ProblemDefinition:
    """One problem that kernels are measured on, of the benchmark or not.

    Raises:
        UnknownNameError: with the nearest ids of the benchmark.
    """
    return unlisted().get(problem_id) or listed(problem_id)


def input_count(problem_id: str) -> int:
    """How many inputs a problem's `run` takes."""
    found = problem(problem_id)
    return len(found.inputs(found.tiny.params))
