"""The explicit list of genome families."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Mapping
from types import MappingProxyType

from kbench.generation.proposers.genome.family import Family
from kbench.schemas import Backend

GROUPS: Mapping[str, tuple[str, ...]] = {
    "dense": ("tiled", "matrix_vector", "scaling", "int4", "triangle"),
    "rowwise": (
        "elementwise", "norms", "grouped", "columns", "scan", "loss", "layernorm_backward", "cross_entropy",
        "fp8_quant",
    ),
    "spatial": ("convolution", "separable", "window", "stencil"),
    "sequence": ("prefill", "decode", "dequant", "delta", "state_scan"),
    "irregular": (
        "gather", "scatter", "histogram", "transpose", "sort", "top_k", "routing", "sampling", "expert_order", "spmv",
    ),
    "scientific": ("small_solve", "fft", "cluster", "tridiagonal", "gravity"),
}  # fmt: skip
"""Modules of `families` by group; each has a tuple FAMILIES."""


@functools.cache
def families() -> Mapping[str, Family]:
    """Every family by name."""
    found: dict[str, Family] = {}
    for place in (f"{group}.{name}" for group, names in GROUPS.items() for name in names):
        module = importlib.import_module(f"kbench.generation.proposers.genome.families.{place}")
        for family in module.FAMILIES:
            if family.name in found:
                raise ValueError(f"genome family {family.name!r} is declared twice, again in {place}")
            found[family.name] = family
    return MappingProxyType(found)


def families_for(problem_id: str, backend: Backend) -> tuple[Family, ...]:
    """The families that can solve a problem in a backend."""
    return tuple(f for f in families().values() if f.backend is backend and problem_id in f.problems)
