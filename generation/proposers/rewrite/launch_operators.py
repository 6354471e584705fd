"""Edits of the launch: geometry, warps, stages and the constants that host and device share."""

from __future__ import annotations

import ast
import random

from kbench.generation.proposers.rewrite.edit import Edit, Module, Operator, int_value, with_keyword

WARPS = (1, 2, 4, 8, 16)
STAGES = (1, 2, 3, 4, 5)
SMALLEST, LARGEST = 8, 16384
"""Powers of two outside these bounds are no tile sizes."""
REGISTER_CAPS = (40, 64, 96, 128, 168)


def _launches(module: Module) -> list[ast.Call]:
    """Calls of the form kernel[grid](…)."""
    found = [
        node
        for function in module.host_functions()
        for node in ast.walk(function)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Subscript)
    ]
    return sorted(found, key=lambda node: (node.lineno, node.col_offset))


def _launch_option(name: str, choices: tuple[int, ...]) -> Operator:
    def find(module: Module, rng: random.Random) -> list[Edit]:
        edits = []
        for call in _launches(module):
            held = next((one.value for one in call.keywords if one.arg == name), None)
            before = int_value(held)
            if held is not None and before is None:
                continue
            value = rng.choice([choice for choice in choices if choice != before])
            shown = before if before is not None else "default"
            edits.append(with_keyword(module, call, name, str(value), f"{name}: {shown} -> {value}"))
        return edits

    return Operator(name, find)


def _is_tile(value: int | None) -> bool:
    return value is not None and SMALLEST <= value <= LARGEST and value & (value - 1) == 0


def _tile_constants(module: Module, rng: random.Random) -> list[Edit]:
    """Power-of-two constants: assigned names, and keyword arguments of launches."""
    places: list[tuple[str, ast.expr]] = []
    for statement in module.tree.body:
        if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
            places.append((statement.targets[0].id, statement.value))
    for function in module.host_functions():
        for node in ast.walk(function):
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                places.append((node.targets[0].id, node.value))
    for call in _launches(module):
        places.extend((one.arg, one.value) for one in call.keywords if one.arg and not one.arg.startswith("num_"))
    edits = []
    for name, node in places:
        before = int_value(node)
        if before is not None and _is_tile(before):
            value = before * 2 if rng.random() < 0.5 else before // 2
            edits.append(module.replace(node, str(value), f"{name}: {before} -> {value}"))
    return edits


def _cuda_modules(module: Module) -> list[ast.Call]:
    return [
        node
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "CudaModule"
    ]


def _register_cap(module: Module, rng: random.Random) -> list[Edit]:
    edits = []
    for call in _cuda_modules(module):
        held = next((one.value for one in call.keywords if one.arg == "max_registers"), None)
        value = rng.choice([cap for cap in REGISTER_CAPS if cap != int_value(held)])
        edits.append(with_keyword(module, call, "max_registers", str(value), f"max_registers: -> {value}"))
    return edits


def _fast_math(module: Module, rng: random.Random) -> list[Edit]:
    edits = []
    for call in _cuda_modules(module):
        held = next((one.value for one in call.keywords if one.arg == "fast_math"), None)
        value = not (isinstance(held, ast.Constant) and held.value is True)
        edits.append(with_keyword(module, call, "fast_math", str(value), f"fast_math: -> {value}"))
    return edits


TRITON_LAUNCH = (
    _launch_option("num_warps", WARPS),
    _launch_option("num_stages", STAGES),
    Operator("tile constant", _tile_constants),
)
CUDA_LAUNCH = (
    Operator("tile constant", _tile_constants),
    Operator("register cap", _register_cap),
    Operator("fast math", _fast_math),
)
