"""Sources: kernel files as given on the command line."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from pathlib import Path

from kbench.benchmark.problems import problem
from kbench.harness.kernel.adapters import adapter_for, defined, problem_of
from kbench.harness.kernel.raw import RawLaunch, wrap
from kbench.schemas import Backend, KernelSource, UserError

RAW = (".cu", ".cuh")


def read_kernel(
    path: Path, problem_id: str, backend: str | None = None, launch: RawLaunch | None = None
) -> KernelSource:
    """A file as a kernel.

    Args:
        path: the file.
        problem_id: the problem it solves; a published form may show that another suite's of that name is meant.
        backend: triton or cuda; by default cuda when the text uses CudaModule.
        launch: how a file of raw CUDA C++ is launched.

    Raises:
        UserError: the file cannot be read as text, or is plainly not of the backend given.
    """
    try:
        source = path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"cannot read kernel file {str(path)!r}: {error}") from error
    if path.suffix in RAW:
        source = wrap(source, launch, problem(problem_id), path.name)
    elif launch is not None:
        raise UserError(f"--entry is for files of raw CUDA C++ ({', '.join(RAW)}); {path.name} has its own `run`")
    shown = Backend.CUDA if "CudaModule" in source else Backend.TRITON
    chosen = Backend(backend) if backend else shown
    if chosen is not shown and adapter_for(source) is None:
        uses = "a" if shown is Backend.CUDA else "no"
        raise UserError(f"{str(path)!r} is no {chosen} kernel: it uses {uses} CudaModule; leave --backend out")
    return KernelSource(problem_of(source, problem_id), chosen, source)


def of_raw(path: Path, launch: RawLaunch | None) -> RawLaunch | None:
    """A launch for a file of raw CUDA C++, which may stand beside one that has its own `run`."""
    return launch if path.suffix in RAW else None


def read_kernels(
    paths: Sequence[Path], problem_id: str, backend: str | None = None, launch: RawLaunch | None = None
) -> list[tuple[str, KernelSource]]:
    """Files, and all Python files of folders, as kernels, each with its path."""
    files: list[Path] = []
    for path in paths:
        files += sorted(path.glob("*.py")) if path.is_dir() else [path]
    if not files:
        raise UserError(f"no Python files in {', '.join(map(str, paths))}")
    return [(str(path), read_kernel(path, problem_id, backend, launch)) for path in files]


HOST_COPIES = ("item", "cpu", "tolist", "numpy")
"""Methods that read a tensor's values on the host."""


def advice(source: str) -> str | None:
    """What keeps a text from being planned, by the first line that does; None where nothing is certain.

    A courtesy to its author: nothing is refused here. Planning runs the text and decides.

    Args:
        source: a kernel's text.
    """
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        return f"does not parse: {error}"
    names = {name for node in tree.body for name in defined(node)}
    if "run" not in names and adapter_for(source) is None:
        return "defines no function `run`"
    if not _has_device_code(tree):
        return "has no @triton.jit function and no CudaModule: the kernel must compute, not torch"
    return _host_copy(tree)


def other_inputs(source: str, problem_id: str) -> str | None:
    """Why a text's `run` cannot be called with a problem's inputs; None where it can, or only running it tells."""
    try:
        runs = [node for node in ast.parse(source).body if "run" in defined(node)]
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    if not runs or not isinstance(run := runs[-1], ast.FunctionDef) or run.decorator_list:
        return None
    definition = problem(problem_id)
    given = [spec.name for spec in definition.inputs(definition.tiny.params)]
    taken = [one.arg for one in (*run.args.posonlyargs, *run.args.args)]
    enough = len(taken) - len(run.args.defaults) <= len(given)
    if enough and (len(given) <= len(taken) or run.args.vararg is not None):
        return None
    return f"{problem_id} calls run({', '.join(given)}); this file's run takes ({', '.join(taken)})"


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
