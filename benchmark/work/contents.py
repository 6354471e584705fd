"""What a problem's integer inputs hold: indices, lengths and offsets decide which branches a kernel takes."""

from __future__ import annotations

import math

from kbench.benchmark.problems import ProblemDefinition, ScalarSpec

MOST_ELEMENTS = 1 << 22
"""Of an input that is made; larger ones are data, not indices."""


def index_contents(definition: ProblemDefinition, workload: str) -> dict[int, bytes]:
    """Bytes of the integer inputs of a workload, by position.

    They are drawn as the harness draws them, but on the CPU, whose random numbers are others: the values differ from
    what a GPU is given, their distribution does not.
    """
    import torch

    size = next(one for one in (*definition.sizes, definition.tiny) if one.name == workload)
    generator = torch.Generator().manual_seed(0)
    found: dict[int, bytes] = {}
    for position, spec in enumerate(definition.inputs(size.params)):
        if isinstance(spec, ScalarSpec) or "int" not in spec.dtype or math.prod(spec.shape) > MOST_ELEMENTS:
            continue
        found[position] = spec.fill(generator, spec, "cpu").contiguous().numpy().tobytes()
    return found
