"""Sources: kernel files as given on the command line; raw `.cu` files become kernels with `run`."""

from __future__ import annotations

import ast
import dataclasses
import re
from collections.abc import Sequence
from pathlib import Path

from kbench.benchmark.problems import ProblemDefinition, TensorSpec, problem
from kbench.harness.kernel.adapters import adapter_for, defined, problem_of
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
    if path.suffix not in ("", ".py", *RAW):
        raise UserError(f"{str(path)!r} is no kernel file; give one that ends in .py, or in {' or '.join(RAW)}")
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
        tree = ast.parse(source, "the kernel's file")
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        return f"does not parse: {error}"
    names = {name for node in tree.body for name in defined(node)}
    if "run" not in names and adapter_for(source) is None:
        return "defines no function `run`"
    decorators = [d for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) for d in node.decorator_list]
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    if not {_last_name(node) for node in (*decorators, *calls)} & {"jit", "CudaModule", "load_inline", "load"}:
        return "has no @triton.jit function and no CudaModule: the kernel must compute, not torch"
    for call in calls:
        if isinstance(call.func, ast.Attribute) and not call.args and call.func.attr in HOST_COPIES:
            return f"line {call.lineno} calls .{call.func.attr}(): host logic may depend on shapes, not on contents"
    return None


def other_inputs(source: str, problem_id: str) -> str | None:
    """Why a text's `run` cannot be called with a problem's inputs; None where it can, or only running it tells."""
    try:
        runs = [node for node in ast.parse(source, "the kernel's file").body if "run" in defined(node)]
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        return f"does not parse: {error}"
    if not runs or not isinstance(run := runs[-1], ast.FunctionDef) or run.decorator_list:
        return None
    definition = problem(problem_id)
    given = [spec.name for spec in definition.inputs(definition.tiny.params)]
    taken = [one.arg for one in (*run.args.posonlyargs, *run.args.args)]
    enough = len(taken) - len(run.args.defaults) <= len(given)
    if enough and (len(given) <= len(taken) or run.args.vararg is not None):
        return None
    return f"{problem_id} calls run({', '.join(given)}); this file's run takes ({', '.join(taken)})"


def _last_name(node: ast.expr) -> str:
    """`jit` of triton.jit, of triton.jit(…) and of jit."""
    inner = node.func if isinstance(node, ast.Call) else node
    return inner.attr if isinstance(inner, ast.Attribute) else inner.id if isinstance(inner, ast.Name) else ""


ENTRY = re.compile(
    r"__global__\s+(?:__launch_bounds__\s*\([^)]*\)\s*)?void\s+(?:__launch_bounds__\s*\([^)]*\)\s*)?(\w+)"
)
TEMPLATE = '''\
import torch
from kbench.harness.cuda import CudaModule

module = CudaModule({source}{names})
OUTPUTS = {outputs}
"""Shapes of the outputs by those of the inputs."""


def cdiv(a, b):
    return -(-a // b)


def run({inputs}):
    shapes = OUTPUTS[tuple(tuple(v.shape) if torch.is_tensor(v) else v for v in ({inputs},))]
    {returned} = ({first}.new_empty(shape, dtype=dtype) for shape, dtype in shapes)
    module.launch({entry!r}, grid=({grid},), block=({block},), args=({args},), shared_bytes={shared_bytes})
    return {result}
'''


@dataclasses.dataclass(frozen=True, slots=True)
class RawLaunch:
    """How a function of a raw file is launched; texts are Python expressions over the inputs and outputs by name."""

    entry: str
    grid: str
    block: str = "256"
    args: str | None = None
    """The inputs and then the outputs by default."""
    shared_bytes: str = "0"


def wrap(source: str, launch: RawLaunch | None, definition: ProblemDefinition, where: str) -> str:
    """A kernel that launches one function of a raw CUDA file.

    Raises:
        UserError: the launch is missing or does not fit the file; says how to give it.
    """
    names = list(dict.fromkeys(ENTRY.findall(source)))
    inputs = [spec.name for spec in definition.inputs(definition.tiny.params)]
    outputs = [spec.name for spec in definition.outputs(definition.tiny.params)]
    if launch is None:
        such = f"--entry {names[0] if names else 'NAME'} --grid 'cdiv({outputs[0]}.numel(), 256)' --block 256"
        raise UserError(
            f"{where} is CUDA C++ without a `run`; say how to launch it, such as {such} --args"
            f" '{', '.join(inputs + outputs)}', or wrap it in Python with CudaModule as docs/kernels.md shows"
        )
    if launch.entry.partition("<")[0] not in names:
        raise UserError(
            f"--entry is {launch.entry!r}, but {where} defines {', '.join(names) or 'no __global__ function'}"
        )
    expressions = {"--grid": launch.grid, "--block": launch.block, "--shared-bytes": launch.shared_bytes}
    for option, text in (expressions | ({"--args": launch.args} if launch.args else {})).items():
        _check(option, text, {*inputs, *outputs})
    return TEMPLATE.format(
        source=_literal(source),
        names="" if _is_c(source, launch.entry) else f", names=({launch.entry!r},)",
        outputs=_shapes(definition),
        inputs=", ".join(inputs),
        first=next(s.name for s in definition.inputs(definition.tiny.params) if isinstance(s, TensorSpec)),
        returned=f"{', '.join(outputs)},",
        result=", ".join(outputs),
        entry=launch.entry,
        grid=launch.grid,
        block=launch.block,
        args=launch.args or ", ".join(inputs + outputs),
        shared_bytes=launch.shared_bytes,
    )


def _check(option: str, text: str, known: set[str]) -> None:
    try:
        tree = ast.parse(f"({text},)", mode="eval")
    except (SyntaxError, ValueError):
        raise UserError(f"{option} is {text!r}; it must be Python, such as cdiv(y.numel(), 256)") from None
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id not in {*known, "cdiv"}:
            raise UserError(f"{option} names {node.id!r}; known: cdiv, {', '.join(sorted(known))}")


def _literal(source: str) -> str:
    plain = '"""' not in source and not source.endswith(("\\", '"'))
    return f'r"""{source}"""' if plain else repr(source)


def _is_c(source: str, entry: str) -> bool:
    """Whether a function keeps its name when compiled."""
    return (
        re.search(rf'extern\s*"C"[^;{{}}]*\b{entry}\b|extern\s*"C"\s*\{{.*\b{entry}\b', source, re.DOTALL) is not None
    )


def _shapes(definition: ProblemDefinition) -> str:
    """Shapes and types of the outputs by shapes and numbers of the inputs, of every workload."""
    rows: dict[str, None] = {}
    for size in (*definition.sizes, definition.tiny):
        inputs, outputs = definition.inputs(size.params), definition.outputs(size.params)
        key = tuple(tuple(spec.shape) if isinstance(spec, TensorSpec) else spec.value for spec in inputs)
        shapes = [f"({tuple(spec.shape)!r}, torch.{spec.dtype})" for spec in outputs]
        rows[f"    {key!r}: [{', '.join(shapes)}],"] = None
    return "\n".join(["{", *rows, "}"])
