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
from typing import NamedTuple

from kbench.benchmark.problems.definition import ProblemDefinition
from kbench.schemas import UnknownNameError, UserError
from kbench.schemas.convert import to_dict
from kbench.schemas.ids import content_hash


class Retirement(NamedTuple):
    """Why a problem is listed no more."""

    like: str
    """The listed problem whose kernels its own are most like."""
    similarity: float
    reason: str


RETIRED: Mapping[str, Retirement] = MappingProxyType(
    {
        "matmul_standard": Retirement("matmul_square", 0.74, "the same fp32 product with three unequal sides"),
        "matmul_large_k": Retirement("matmul_square", 0.78, "the same fp32 product; decode layers ask for split sums"),
        "matmul_tall_skinny": Retirement("matmul_small_k", 0.81, "k = 16 instead of 32, the output the same"),
        "matmul_lower_triangular": Retirement("matmul_small_k", 0.84, "upper triangles ask for the same skipped tiles"),
        "matmul_transposed_both": Retirement("matmul_square", 0.67, "the same fp32 product, read by other strides"),
        "linear_mish_mish": Retirement("linear_divide_gelu", 0.62, "another pointwise function after a linear layer"),
        "linear_logsumexp_leaky_gelu": Retirement(
            "linear_divide_gelu", 0.63, "a row sum after a linear layer, as in linear_sigmoid_sum; no model's layer"
        ),
        "fp8_gemm": Retirement("int8_gemm", 0.64, "fp8_linear_rowwise asks the same at three real layers"),
        "sigmoid": Retirement("relu", 0.77, "another pointwise function on the same sizes, bound by memory"),
        "swish": Retirement("relu", 0.78, "another pointwise function on the same sizes, bound by memory"),
        "softplus": Retirement("relu", 0.69, "another pointwise function on the same sizes, bound by memory"),
        "softsign": Retirement("relu", 0.73, "another pointwise function on the same sizes, bound by memory"),
        "l2_norm": Retirement("log_softmax", 0.64, "a row reduction and a division, as in the other norms of rows"),
        "mean_reduce": Retirement("sum_reduce", 0.74, "the sum with one division"),
        "argmin": Retirement("argmax", 0.66, "argmax with the comparison turned round"),
        "cumsum_reverse": Retirement("cumsum", 0.57, "cumsum from the other end"),
        "masked_cumsum": Retirement("cumsum", 0.56, "cumsum of a product with a mask"),
        "kl_div_loss": Retirement("huber_loss", 0.73, "another pointwise function summed over two matrices"),
        "conv2d_asymmetric": Retirement("conv2d_relu_hardswish", 0.61, "conv2d_square with five taps on one side"),
        "pointwise_conv2d": Retirement("conv2d_square", 0.67, "a convolution that is a product; see conv1x1 in fp16"),
        "avg_pool2d": Retirement("max_pool2d", 0.69, "max_pool2d with a sum in place of the maximum"),
        "avg_pool3d": Retirement("max_pool3d", 0.65, "max_pool3d with a sum in place of the maximum"),
        "conv2d_mish_mish": Retirement(
            "conv2d_relu_hardswish", 0.70, "another pointwise function after the same layer"
        ),
        "conv2d_scaling_min": Retirement("conv2d_relu_hardswish", 0.59, "another reduction after the same layer"),
    }
)
"""Problems once listed, too like another one to be worth new kernels, in registry order.

Their definitions, kernels, splits and scores stay as they are, and whoever names one gets it; new campaigns over all
problems leave them out. Likeness is measured on kernels of dataset 1: for six sampled correct kernels per problem and
backend, the 5-gram Jaccard similarity of their tokens (numbers masked, comments removed) with the nearest of six of
the other problem's, averaged. Only problems of the training split are retired, so that no test question loses its
listed problem.
"""


FAMILIES = (
    "matmul", "fused_matmul", "quantized_matmul", "activation", "norm", "scan", "loss", "fused_elementwise",
    "convolution", "pooling", "fused_convolution", "scientific:STENCILS", "gpu_mode", "gpu_mode:GATED_DELTANET",
    "attention", "mixture_of_experts", "indexing", "mamba:SELECTIVE_SCAN", "scientific", "fused_matmul:MODEL_LAYERS",
    "quantized_matmul:MODEL_LAYERS", "quantized_matmul:EXPERT_LAYERS", "attention:MODEL_LAYERS",
    "convolution:FP16_LAYERS", "fused_elementwise:ROW_LAYERS", "attention_backward", "prefill", "decode",
    "weight_quantised", "block_scaled", "expert_layers", "linear_backward", "norm:GRADIENTS", "mamba", "delta_net",
    "serving", "optimizer", "sparse", "convolution:CHANNELS_LAST", "season",
)  # fmt: skip
"""Tuples of problems, `PROBLEMS` unless named, of the modules of `families/`; their order is the registry's, by age."""
UNLISTED = ("foreign.published", "tuned")
"""Modules of the same form whose problems are none of the benchmark's."""
USER_FILES = "KBENCH_PROBLEMS"
"""Environment variable that carries the files of users' problems to the processes that plan, verify and time."""


@functools.cache
def problems() -> Mapping[str, ProblemDefinition]:
    """Every listed problem by id, in registry order: what new searches and campaigns take on."""
    return MappingProxyType({name: one for name, one in known().items() if name not in RETIRED})


@functools.cache
def retired() -> Mapping[str, ProblemDefinition]:
    """Problems of earlier datasets that new campaigns leave out; kbench.benchmark.problems.registry says why."""
    return MappingProxyType({name: known()[name] for name in RETIRED})


@functools.cache
def known() -> Mapping[str, ProblemDefinition]:
    """Every problem a dataset of ours may have kernels of, listed or retired, in registry order."""
    return _declared(tuple(f"families.{name}" for name in FAMILIES))


@functools.cache
def unlisted() -> Mapping[str, ProblemDefinition]:
    """Problems that kernels are measured on but that are none of the benchmark's: no dataset or search has them."""
    return _declared(UNLISTED)


def users() -> Mapping[str, ProblemDefinition]:
    """Problems that `named` has loaded from users' files, here or in the process that started this one."""
    return {one.id: one for one in map(_from_file, filter(None, os.environ.get(USER_FILES, "").split(os.pathsep)))}


@functools.cache
def _from_file(path: str) -> ProblemDefinition:
    from kbench.benchmark.problems.foreign.user import load_user_problem

    definition = load_user_problem(path)
    if resolve(definition.id) is not None:
        raise UserError(f"{path} defines {definition.id!r}, which is a problem of the benchmark; give it another name")
    return definition


def named(name: str) -> ProblemDefinition:
    """The problem a user names: by id or alias, or by a file or folder that defines it.

    Processes that this one starts know a problem from a file as well. Loading it runs its code.
    """
    path = Path(name)
    is_file = bool(name) and (path.exists() or path.suffix == ".py")
    if resolve(name) is not None or name in users() or not is_file:
        return problem(resolve(name) or name)
    definition = _from_file(str(path.resolve()))
    if users().get(definition.id, definition) is not definition:
        raise UserError(f"{name} defines {definition.id!r}, as another file does; give it another name")
    given = [given for given in os.environ.get(USER_FILES, "").split(os.pathsep) if given]
    os.environ[USER_FILES] = os.pathsep.join(dict.fromkeys([*given, str(path.resolve())]))
    return definition


def edition(problem_id: str) -> str:
    """What tells versions of a user's problem apart; empty for problems of ours, whose ids never change meaning."""
    definition = users().get(problem_id)
    return content_hash("problem", json.dumps(to_dict(definition.record()), sort_keys=True)) if definition else ""


def _declared(places: tuple[str, ...]) -> Mapping[str, ProblemDefinition]:
    declared: dict[str, ProblemDefinition] = {}
    for place in places:
        name, _, attribute = place.partition(":")
        module = importlib.import_module(f"kbench.benchmark.problems.{name}")
        for problem in getattr(module, attribute or "PROBLEMS"):
            if problem.id in declared:
                raise ValueError(f"problem id {problem.id!r} is declared twice, again in {name}.py")
            declared[problem.id] = problem
    return MappingProxyType(declared)


def resolve(name: str) -> str | None:
    """Our id of a problem another suite names: an id of ours, an alias such as kernelbench/v0/L1/23, or that alias as
    imports spell it (kernelbench_v0_l1_23); None when we do not have it."""
    if name in known() or name in unlisted():
        return name
    return _aliases().get(name)


@functools.cache
def _aliases() -> dict[str, str]:
    ids: dict[str, str] = {}
    for problem_id, definition in known().items():
        for alias in definition.aliases:
            ids[alias] = problem_id
            ids[re.sub(r"[^a-z0-9]+", "_", alias.lower())] = problem_id
    return ids


def listed(problem_id: str) -> ProblemDefinition:
    """One problem of the benchmark, a retired one too for whoever names it, or of a user's file."""
    definition = known().get(problem_id) or users().get(problem_id)
    if definition is None and problem_id and Path(problem_id).exists():
        raise UserError(f"{problem_id!r} is a file; a kernel takes the id: kbench.benchmark.problems.named(FILE).id")
    if definition is None:
        raise UnknownNameError("problem", problem_id, known())
    return definition


def problem(problem_id: str) -> ProblemDefinition:
    """One problem that kernels are measured on, of the benchmark or not.

    Raises:
        UnknownNameError: with the nearest ids of the benchmark.
    """
    return unlisted().get(problem_id) or listed(problem_id)


def input_count(problem_id: str) -> int:
    """How many inputs a problem's `run` takes."""
    definition = problem(problem_id)
    return len(definition.inputs(definition.tiny.params))
