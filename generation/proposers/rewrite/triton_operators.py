"""Edits of Triton device code: loads, stores, masks, accumulators, loops, arithmetic."""

from __future__ import annotations

import ast
import itertools
import random
from collections.abc import Callable, Iterator

from kbench.generation.proposers.rewrite.edit import (
    Edit,
    EditOperator,
    Module,
    calls,
    in_order,
    keyword,
    other_keyword,
    with_keyword,
    without_keyword,
)

LOAD_CACHE = (".ca", ".cg", ".cv")
STORE_CACHE = (".wb", ".cg", ".cs", ".wt")
EVICTION = ("evict_first", "evict_last")
PRECISIONS = ("ieee", "tf32", "tf32x3")
ACCUMULATORS = ("float32", "float16", "bfloat16", "float64")
LOG2_E = "1.4426950408889634"

Find = Callable[[Module, random.Random], Iterator[Edit]]


def _hint(function: str, option: str, choices: tuple[str, ...]) -> Find:
    def find(module: Module, rng: random.Random) -> Iterator[Edit]:
        for call in calls(module.device_functions(), function):
            what = f"tl.{function} at line {call.lineno}: {option} {{value}}"
            yield other_keyword(module, call, option, choices, rng, what)

    return find


def _masked_other(module: Module, rng: random.Random) -> Iterator[Edit]:
    """The value of masked elements: set where it was left open, left open where it was set."""
    for call in calls(module.device_functions(), "load"):
        if keyword(call, "mask") is None and len(call.args) < 2:
            continue
        what = f"tl.load at line {call.lineno}: "
        dropped = without_keyword(module, call, "other", what + "masked lanes left undefined")
        if dropped is not None:
            yield dropped
        elif keyword(call, "other") is None and len(call.args) < 3:
            yield with_keyword(module, call, "other", "0", what + "masked lanes read 0")


def _accumulator(module: Module, rng: random.Random) -> Iterator[Edit]:
    functions = module.device_functions()
    for call in [*calls(functions, "zeros"), *calls(functions, "full")]:
        argument = keyword(call, "dtype")
        node = argument.value if argument is not None else call.args[-1] if call.args else None
        if isinstance(node, ast.Attribute) and node.attr in ACCUMULATORS:
            value = rng.choice([dtype for dtype in ACCUMULATORS if dtype != node.attr])
            yield module.replace(node, f"tl.{value}", f"accumulator at line {call.lineno}: {node.attr} -> {value}")


def _dot_precision(module: Module, rng: random.Random) -> Iterator[Edit]:
    for call in calls(module.device_functions(), "dot"):
        if keyword(call, "allow_tf32") is None:
            value = rng.choice(PRECISIONS)
            what = f'tl.dot at line {call.lineno}: input_precision "{value}"'
            yield with_keyword(module, call, "input_precision", f'"{value}"', what)


def _loop_option(option: str, choices: tuple[int, ...]) -> Find:
    def find(module: Module, rng: random.Random) -> Iterator[Edit]:
        for loop in in_order(module.device_functions(), ast.For):
            call = loop.iter
            if not isinstance(call, ast.Call) or ast.unparse(call.func) not in ("range", "tl.range"):
                continue
            edit = other_keyword(module, call, option, choices, rng, f"loop at line {loop.lineno}: {option} {{value}}")
            named = () if ast.unparse(call.func) == "tl.range" else ((*module.span(call.func), "tl.range"),)
            yield Edit((*edit.spans, *named), edit.what)

    return find


def _exp2(module: Module, rng: random.Random) -> Iterator[Edit]:
    """exp(x) as exp2(x · log2 e), which is one instruction."""
    for call in calls(module.device_functions(), "exp"):
        if len(call.args) == 1 and not call.keywords:
            text = f"tl.exp2(({module.text(call.args[0])}) * {LOG2_E})"
            yield module.replace(call, text, f"line {call.lineno}: exp as exp2")


def _reciprocal(module: Module, rng: random.Random) -> Iterator[Edit]:
    """x / name: multiply by the reciprocal."""
    for function in module.device_functions():
        for node in ast.walk(function):
            if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div) and isinstance(node.right, ast.Name):
                text = f"({module.text(node.left)}) * (1.0 / {node.right.id})"
                yield module.replace(node, text, f"line {node.lineno}: division as reciprocal")


def _blocks(module: Module) -> Iterator[list[ast.stmt]]:
    for function in module.device_functions():
        for node in ast.walk(function):
            if isinstance(node, ast.FunctionDef | ast.For | ast.While | ast.If):
                yield node.body
            if isinstance(node, ast.If) and node.orelse:
                yield node.orelse


def _names(node: ast.AST, context: type[ast.expr_context]) -> set[str]:
    return {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, context)}


def _touches_memory(node: ast.AST, names: tuple[str, ...]) -> bool:
    return any(
        isinstance(n, ast.Call) and isinstance(n.func, ast.Attribute) and n.func.attr.startswith(names)
        for n in ast.walk(node)
    )


def independent(one: ast.stmt, other: ast.stmt) -> bool:
    """Whether two neighbouring statements may change places: neither writes what the other touches."""
    if _touches_memory(one, ("store", "atomic", "debug")) or _touches_memory(other, ("store", "atomic", "debug")):
        return False
    writes = (_names(one, ast.Store), _names(other, ast.Store))
    reads = (_names(one, ast.Load), _names(other, ast.Load))
    return not (writes[0] & (writes[1] | reads[1]) or writes[1] & reads[0])


def _swap(module: Module, rng: random.Random) -> Iterator[Edit]:
    """Two independent neighbours, one of them a load, in the other order."""
    for block in _blocks(module):
        for one, other in itertools.pairwise(block):
            simple = isinstance(one, ast.Assign) and isinstance(other, ast.Assign)
            loads = _touches_memory(one, ("load",)) or _touches_memory(other, ("load",))
            if simple and loads and independent(one, other):
                spans = ((*module.span(one), module.text(other)), (*module.span(other), module.text(one)))
                yield Edit(spans, f"lines {one.lineno} and {other.lineno} swapped")


OPERATORS = (
    EditOperator("load cache", _hint("load", "cache_modifier", LOAD_CACHE)),
    EditOperator("store cache", _hint("store", "cache_modifier", STORE_CACHE)),
    EditOperator("load eviction", _hint("load", "eviction_policy", EVICTION)),
    EditOperator("store eviction", _hint("store", "eviction_policy", EVICTION)),
    EditOperator("masked lanes", _masked_other),
    EditOperator("accumulator type", _accumulator),
    EditOperator("dot precision", _dot_precision),
    EditOperator("loop stages", _loop_option("num_stages", (1, 2, 3, 4, 5))),
    EditOperator("loop unroll", _loop_option("loop_unroll_factor", (1, 2, 4, 8))),
    EditOperator("exp as exp2", _exp2),
    EditOperator("reciprocal", _reciprocal),
    EditOperator("load order", _swap),
)
