"""Raw CUDA C++ files: a `.cu` file and how to launch it, as a kernel with `run`."""

from __future__ import annotations

import ast
import dataclasses
import re
from typing import Any

from kbench.benchmark.problems import ProblemDefinition, Size, TensorSpec
from kbench.schemas import UserError

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
        first=_first_tensor(definition),
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
    rows = [f"    {_key(definition, size)!r}: {_outputs(definition, size)}," for size in _sizes(definition)]
    return "\n".join(["{", *dict.fromkeys(rows), "}"])


def _sizes(definition: ProblemDefinition) -> tuple[Size, ...]:
    return (*definition.sizes, definition.tiny)


def _key(definition: ProblemDefinition, size: Size) -> tuple[Any, ...]:
    specs = definition.inputs(size.params)
    return tuple(tuple(spec.shape) if isinstance(spec, TensorSpec) else spec.value for spec in specs)


def _outputs(definition: ProblemDefinition, size: Size) -> str:
    shapes = [f"({tuple(spec.shape)!r}, torch.{spec.dtype})" for spec in definition.outputs(size.params)]
    return f"[{', '.join(shapes)}]"


def _first_tensor(definition: ProblemDefinition) -> str:
    return next(s.name for s in definition.inputs(definition.tiny.params) if isinstance(s, TensorSpec))
