"""Edits of the launch: geometry, warps, stages and the constants that host and device share."""

from __future__ import annotations

import ast
import random
from collections.abc import Iterator

from kbench.generation.proposers.rewrite.edit import (
    Edit,
    EditOperator,
    Module,
    in_order,
    int_value,
    is_tile,
    keyword,
    other_keyword,
    other_tile,
    with_keyword,
)

WARPS = (1, 2, 4, 8, 16)
STAGES = (1, 2, 3, 4, 5)
SMALLEST, LARGEST = 8, 16384
"""Powers of two outside these bounds are no tile sizes."""
REGISTER_CAPS = (40, 64, 96, 128, 168)


def _launches(module: Module) -> list[ast.Call]:
    """Calls of the form kernel[grid](…)."""
    host_calls = in_order(module.host_functions(), ast.Call)
    return [call for call in host_calls if isinstance(call.func, ast.Subscript)]


def _launch_option(name: str, choices: tuple[int, ...]) -> EditOperator:
    def find(module: Module, rng: random.Random) -> Iterator[Edit]:
        for call in _launches(module):
            held = keyword(call, name)
            if held is None or int_value(held.value) is not None:
                yield other_keyword(module, call, name, choices, rng, name + ": {before} -> {value}")

    return EditOperator(name, find)


def _tile_constants(module: Module, rng: random.Random) -> Iterator[Edit]:
    """Power-of-two constants: assigned names, and keyword arguments of launches."""
    inside = [node for function in module.host_functions() for node in ast.walk(function)]
    places = [
        (node.targets[0].id, node.value)
        for node in [*module.tree.body, *inside]
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
    ]
    for call in _launches(module):
        places.extend((one.arg, one.value) for one in call.keywords if one.arg and not one.arg.startswith("num_"))
    for name, node in places:
        before = int_value(node)
        if before is not None and is_tile(before, SMALLEST, LARGEST):
            value = other_tile(before, rng)
            yield module.replace(node, str(value), f"{name}: {before} -> {value}")


def _cuda_modules(module: Module) -> list[ast.Call]:
    module_calls = [node for node in ast.walk(module.tree) if isinstance(node, ast.Call)]
    return [call for call in module_calls if isinstance(call.func, ast.Name) and call.func.id == "CudaModule"]


def _register_cap(module: Module, rng: random.Random) -> Iterator[Edit]:
    for call in _cuda_modules(module):
        yield other_keyword(module, call, "max_registers", REGISTER_CAPS, rng, "max_registers: -> {value}")


def _fast_math(module: Module, rng: random.Random) -> Iterator[Edit]:
    for call in _cuda_modules(module):
        held = keyword(call, "fast_math")
        value = not (held and isinstance(held.value, ast.Constant) and held.value.value is True)
        yield with_keyword(module, call, "fast_math", str(value), f"fast_math: -> {value}")


TRITON_LAUNCH = (
    _launch_option("num_warps", WARPS),
    _launch_option("num_stages", STAGES),
    EditOperator("tile constant", _tile_constants),
)
CUDA_LAUNCH = (
    EditOperator("tile constant", _tile_constants),
    EditOperator("register cap", _register_cap),
    EditOperator("fast math", _fast_math),
)
