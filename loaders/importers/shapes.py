"""Workloads of foreign problems: sizes of inputs from the definitions that flashinfer-bench and SOL-ExecBench share.

A definition names axes (constant, given by each workload, or an expression of others) and the shape and type of every
input and output in them.
Where there is no definition, a workload keeps its axes and has no inputs; nothing is guessed.
"""

from __future__ import annotations

import ast
import json
import math
import operator
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from kbench.loaders.importers.context import Context
from kbench.loaders.importers.fields import RowError, is_number, plain, slug
from kbench.loaders.importers.inputs import files_below, read_inside
from kbench.loaders.importers.json_stream import json_lines
from kbench.loaders.importers.rows import Row
from kbench.schemas import Workload, to_dict

BYTES = {"float64": 8, "int64": 8, "float32": 4, "int32": 4, "uint32": 4, "bfloat16": 2, "float16": 2, "int16": 2}
"""Bytes of an element; types that are not named have one."""
LARGEST_AXIS = 1 << 40
DEFINITION, WORKLOADS = "definition.json", "workload.jsonl"
LONGEST_EXPRESSION = 200
"""Characters of an axis that is computed from others."""
OPERATORS = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.FloorDiv: operator.floordiv}


class Definitions:
    """Definitions and workloads of a folder, by name and by `LEVEL__NAME` of the folders they lie in.

    A definition is also known by the name it states, with which `LEVEL__` may stand.
    """

    def __init__(self, folder: Path, context: Context) -> None:
        self._folder, self._context = folder, context
        self._files: dict[tuple[str, str], Path] = {}
        self._definitions: dict[str, Mapping[str, Any]] = {}
        for path in files_below(folder, WORKLOADS):
            for key in _keys(path):
                self._files.setdefault((path.name, key), path)
        for path in files_below(folder, DEFINITION):
            try:
                stated = definition_in(path, folder)
            except RowError as error:
                context.bad(folder, path.relative_to(folder).as_posix(), error, entry=False)
                continue
            for key in (*_keys(path), str(stated.get("name"))):
                self._definitions.setdefault(key, stated)

    def definition(self, name: str) -> Mapping[str, Any]:
        """The definition of this name, or an empty one."""
        found = self._definitions.get(name)
        return self._definitions.get(name.partition("__")[2], {}) if found is None else found

    def workloads(self, name: str) -> list[Row]:
        """The workloads of the definition of this name; none, with a note, where the folder does not list them."""
        path = self._files.get((WORKLOADS, name))
        if path is None or not path.resolve().is_relative_to(self._folder.resolve()):
            self._context.null("workloads", f"no {WORKLOADS} of the problem lies in the folder")
            return []
        definition = self.definition(name)
        if not definition:
            self._context.null(
                "inputs of workloads", f"no {DEFINITION} of the problem lies in the folder; axes are kept"
            )
        entries = [entry for _, entry in json_lines(path, lambda _: None) if isinstance(entry, Mapping)]
        return [workload for entry in entries if (workload := workload_row(entry, definition)) is not None]


def definition_in(path: Path, folder: Path) -> Mapping[str, Any]:
    """The definition that a file of a folder holds.

    Raises:
        RowError: the file cannot be read.
    """
    try:
        value = json.loads(read_inside(path, folder) or b"{}")
    except (ValueError, RecursionError) as error:
        raise RowError("definition", path.name, f"cannot be read ({type(error).__name__})") from None
    return value if isinstance(value, Mapping) else {}


def _keys(path: Path) -> tuple[str, str]:
    return path.parent.name, f"{path.parent.parent.name}__{path.parent.name}"


def workload_name(uuid: str) -> str:
    """A workload's name, from the uuid that its suite gives it."""
    return f"w_{slug('w ' + uuid, 'workload.uuid')[2:]}"


def workload_row(entry: Mapping[str, Any], definition: Mapping[str, Any]) -> Row | None:
    """A workload of a definition; None where it has no name or its axes are no sizes.

    Args:
        entry: uuid and axes, as traces and lists of workloads give them.
        definition: axes, inputs and outputs; may be empty.
    """
    uuid, axes = entry.get("uuid"), entry.get("axes")
    if not isinstance(uuid, str) or not uuid.strip() or not isinstance(axes, Mapping):
        return None
    sizes = {**_constants(definition), **{plain(str(axis)): value for axis, value in axes.items()}}
    if not all(_is_size(value) for value in sizes.values()):
        return None
    sizes |= _computed(definition, sizes)
    inputs, outputs = (list(_tensors(definition.get(side), sizes)) for side in ("inputs", "outputs"))
    moved = sum(math.prod(shape) * BYTES.get(dtype, 1) for dtype, shape in (*inputs, *outputs))
    return to_dict(
        Workload(
            name=workload_name(uuid), params_json=json.dumps(sizes, sort_keys=True),
            inputs=tuple(_shown(*one) for one in inputs), outputs=tuple(_shown(*one) for one in outputs),
            seed=0, flops=0, min_bytes=min(moved, 2**62),
        )
    )  # fmt: skip


def _is_size(value: object) -> bool:
    return is_number(value) and float(value).is_integer() and 0 <= value <= LARGEST_AXIS


def _constants(definition: Mapping[str, Any]) -> dict[str, Any]:
    axes = definition.get("axes")
    stated = axes.items() if isinstance(axes, Mapping) else ()
    return {
        plain(str(name)): axis["value"]
        for name, axis in stated
        if isinstance(axis, Mapping) and axis.get("type") == "const" and _is_size(axis.get("value"))
    }


def _tensors(stated: Any, sizes: Mapping[str, Any]) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Type and shape of each tensor whose axes are known; scalars have the empty shape."""
    for tensor in stated.values() if isinstance(stated, Mapping) else ():
        if not isinstance(tensor, Mapping) or not isinstance(tensor.get("dtype"), str):
            continue
        shape = [_extent(axis, sizes) for axis in tensor.get("shape") or ()]
        if None not in shape:
            yield plain(tensor["dtype"]), tuple(shape)  # type: ignore[arg-type]


def _computed(definition: Mapping[str, Any], sizes: Mapping[str, Any]) -> dict[str, int]:
    """Axes that are expressions of others, as far as those are known."""
    axes = definition.get("axes")
    stated = axes.items() if isinstance(axes, Mapping) else ()
    waiting = {plain(str(name)): axis.get("expression") for name, axis in stated
               if isinstance(axis, Mapping) and axis.get("type") == "expr"}  # fmt: skip
    found: dict[str, int] = {}
    for _ in range(len(waiting)):
        for name, expression in waiting.items():
            value = _extent(expression, {**found, **sizes})
            if value is not None and _is_size(value):
                found.setdefault(name, value)
    return found


def _extent(axis: Any, sizes: Mapping[str, Any]) -> int | None:
    """The size of an axis: a number, a name, or sums, products and quotients of both; None where it is not known."""
    text = str(axis).strip()
    if len(text) > LONGEST_EXPRESSION:
        return None
    try:
        return _value(ast.parse(text, mode="eval").body, sizes)
    except (SyntaxError, ValueError, KeyError, RecursionError, ZeroDivisionError):
        return None


def _value(node: ast.expr, sizes: Mapping[str, Any]) -> int:
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return node.value
    if isinstance(node, ast.Name):
        return int(sizes[node.id])
    if isinstance(node, ast.BinOp) and type(node.op) in OPERATORS:
        found: int = OPERATORS[type(node.op)](_value(node.left, sizes), _value(node.right, sizes))
        if abs(found) <= LARGEST_AXIS:
            return found
    raise ValueError(ast.dump(node)[:LONGEST_EXPRESSION])


def _shown(dtype: str, shape: tuple[int, ...]) -> str:
    return f"{dtype}[{','.join(map(str, shape))}]"
