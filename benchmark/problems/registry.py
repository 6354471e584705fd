"""The explicit list of all problems, family by family; the retired, those only measured, and those of users' files."""

from __future__ import annotations

import functools
import importlib
import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from kbench.benchmark.problems.definition import ProblemDefinition
from kbench.benchmark.problems.retired import RETIRED
from kbench.schemas import UnknownNameError, UserError
from kbench.schemas.convert import to_dict
from kbench.schemas.ids import content_hash

FAMILY_MODULES = (
    "matmul", "fused_matmul", "quantized_matmul", "activation", "norm", "reduction", "scan", "loss",
    "fused_elementwise", "convolution", "transposed_convolution", "pooling", "fused_convolution", "stencil", "gpu_mode",
    "gated_deltanet", "attention", "mixture_of_experts", "indexing", "sorting", "state_space", "scientific",
    "linear_layers", "quantized_layers", "experts", "attention_layers", "convolution_fp16", "rowwise_layers",
    "attention_backward", "prefill", "decode", "weight_quantised", "block_scaled", "expert_layers", "linear_backward",
    "norm_backward", "mamba", "delta_net", "serving", "optimizer", "sparse", "conv_channels_last",
)  # fmt: skip
"""Modules of `families/`, each with a tuple PROBLEMS; their order is the registry's."""
UNLISTED_MODULES = ("foreign.published", "tuned")
"""Modules of the same form whose problems are none of the benchmark's."""
USER_FILES = "KBENCH_PROBLEMS"
"""Environment variable that carries the files of users' problems to the processes that plan, verify and time."""


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
    return _declared(tuple(f"families.{name}" for name in FAMILY_MODULES))


@functools.cache
def unlisted() -> Mapping[str, ProblemDefinition]:
    """Problems that kernels are measured on but that are none of the benchmark's: no dataset or search has them."""
    return _declared(UNLISTED_MODULES)


def users() -> Mapping[str, ProblemDefinition]:
    """Problems that `named` has loaded from users' files, here or in the process that started this one."""
    return {one.id: one for one in map(_from_file, filter(None, os.environ.get(USER_FILES, "").split(os.pathsep)))}


@functools.cache
def _from_file(path: str) -> ProblemDefinition:
    from kbench.benchmark.problems.foreign.user import load_user_problem

    found = load_user_problem(path)
    if resolve(found.id) is not None:
        raise UserError(f"{path} defines {found.id!r}, which is a problem of the benchmark; give it another name")
    return found


def named(name: str) -> ProblemDefinition:
    """The problem a user names: by id or alias, or by a file or folder that defines it.

    Processes that this one starts know a problem from a file as well. Loading it runs its code.

    Raises:
        UserError: there is no such problem, or the file does not define one.
    """
    path = Path(name)
    is_file = path.exists() or path.suffix == ".py"
    if resolve(name) is not None or name in users() or not is_file:
        return problem(resolve(name) or name)
    found = _from_file(str(path.resolve()))
    if users().get(found.id, found) is not found:
        raise UserError(f"{name} defines {found.id!r}, as another file does; give it another name")
    given = [given for given in os.environ.get(USER_FILES, "").split(os.pathsep) if given]
    os.environ[USER_FILES] = os.pathsep.join(dict.fromkeys([*given, str(path.resolve())]))
    return found


def edition(problem_id: str) -> str:
    """What tells versions of a user's problem apart; empty for problems of ours, whose ids never change meaning."""
    found = users().get(problem_id)
    return content_hash("problem", json.dumps(to_dict(found.record()), sort_keys=True)) if found else ""


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
    """One problem of the benchmark, a retired one too for whoever names it, or of a user's file.

    Raises:
        UnknownNameError: with the nearest ids.
    """
    found = known().get(problem_id) or users().get(problem_id)
    if found is None:
        raise UnknownNameError("problem", problem_id, known())
    return found


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
