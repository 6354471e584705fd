"""Problems at the shapes their kernels are tuned for."""

from __future__ import annotations

import pytest
import torch

from kbench.benchmark.problems import TensorSpec, problem
from kbench.benchmark.problems.registry import known
from kbench.benchmark.problems.tuned import GROUPED, PREFIX


@pytest.mark.parametrize("name", GROUPED)
def test_the_floor_counts_no_matrix_of_an_expert_without_rows(name: str) -> None:
    definition = problem(PREFIX + name)
    for size in definition.sizes:
        specs = {spec.name: spec for spec in definition.inputs(size.params) if isinstance(spec, TensorSpec)}
        matrices = sum(spec.nbytes for spec in specs.values() if spec.name.startswith("weight"))
        unused = known()[name].count_bytes(size.params) - definition.count_bytes(size.params)
        for seed in range(4):
            ends = specs["offsets"].fill(torch.Generator().manual_seed(seed), specs["offsets"], "cpu")
            without = int((ends.diff(prepend=torch.zeros(1, dtype=ends.dtype)) == 0).sum())
            assert unused >= matrices * without // size.params["experts"]
