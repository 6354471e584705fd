"""Screen: advice to a kernel's author, from its text alone. A courtesy: nothing is refused here.

Planning runs the text and decides (see `plan.planner`); this says in plain words what will certainly stop it.
"""

from __future__ import annotations

import ast

from kbench.harness.kernel.adapters import adapter_for

HOST_COPIES = ("item", "cpu", "tolist", "numpy")
"""Methods that read a tensor's values on the host."""


def advice(source: str) -> str | None:
    """What keeps a text from being planned, by the first line that does; None where nothing is certain.

    Args:
        source: a kernel's text.
    """
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        return f"does not parse: {error}"
    names = {name for node in tree.body for name in _defined(node)}
    if "run" not in names and adapter_for(source) is None:
        return "defines no function `run`"
    if not _has_device_code(tree):
        return "has no @triton.jit function and no CudaModule: the kernel must compute, not torch"
    return _host_copy(tree)


def _defined(statement: ast.stmt) -> list[str]:
    if isinstance(statement, ast.FunctionDef):
        return [statement.name]
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    return [target.id for target in targets if isinstance(target, ast.Name)]


def _has_device_code(tree: ast.Module) -> bool:
    decorators = [d for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) for d in node.decorator_list]
    calls = [node.func for node in ast.walk(tree) if isinstance(node, ast.Call)]
    used = {_last_name(node) for node in (*decorators, *calls)}
    return bool(used & {"jit", "CudaModule", "load_inline", "load"})


def _last_name(node: ast.expr) -> str:
    """`jit` of triton.jit, of triton.jit(…) and of jit."""
    inner = node.func if isinstance(node, ast.Call) else node
    return inner.attr if isinstance(inner, ast.Attribute) else inner.id if isinstance(inner, ast.Name) else ""


def _host_copy(tree: ast.Module) -> str | None:
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or node.args:
            continue
        if node.func.attr in HOST_COPIES:
            return f"line {node.lineno} calls .{node.func.attr}(): host logic may depend on shapes, not on contents"
    return None
