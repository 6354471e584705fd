"""Workloads of foreign problems: sizes of inputs from the definitions that flashinfer-bench and SOL-ExecBench share.

A definition names axes (constant, given by each workload, or an expression of others) and the shape and type of every
input and output in them.
Where there is no definition, a workload keeps its axes and has no inputs; nothing is guessed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from kbench.loaders.importers.fields import is_number, plain, slug
from kbench.loaders.importers.rows import Row
from kbench.loaders.importers.stated_inputs import LARGEST_AXIS, Tensor, size_in, workload


def workload_name(uuid: str) -> str:
    """A workload's name, from the uuid that its suite gives it."""
    return f"w_{slug('w ' + uuid, 'workload.uuid')[2:]}"


def workload_row(entry: Mapping[str, Any], definition: Mapping[str, Any]) -> Row | None:
    """A workload of a definition; None where it has no name or its axes are no sizes.

    Args:
        entry: uuid and axes, as traces and lists of workloads give them.
        definition: axes, inputs and outputs; may be empty.
    """
    uuid, given = entry.get("uuid"), entry.get("axes")
    if not isinstance(uuid, str) or not uuid.strip() or not isinstance(given, Mapping):
        return None
    axes = definition.get("axes")
    items = axes.items() if isinstance(axes, Mapping) else ()
    stated = {plain(str(name)): axis for name, axis in items if isinstance(axis, Mapping)}
    constants = {name: axis.get("value") for name, axis in stated.items() if axis.get("type") == "const"}
    sizes = {name: value for name, value in constants.items() if _is_size(value)}
    sizes |= {plain(str(axis)): value for axis, value in given.items()}
    if not all(_is_size(value) for value in sizes.values()):
        return None
    expressions = {name: str(axis.get("expression")) for name, axis in stated.items() if axis.get("type") == "expr"}
    for _ in expressions:  # each round may make further ones known
        for name, expression in expressions.items():
            size = size_in(expression, sizes)
            if size is not None and _is_size(size):
                sizes.setdefault(name, size)
    inputs, outputs = (list(_tensors(definition.get(side), sizes)) for side in ("inputs", "outputs"))
    return workload(workload_name(uuid), sizes, inputs, outputs, moved=[*inputs, *outputs])


def _is_size(value: object) -> bool:
    return is_number(value) and float(value).is_integer() and 0 <= value <= LARGEST_AXIS


def _tensors(stated: Any, sizes: Mapping[str, Any]) -> Iterator[Tensor]:
    """Each tensor whose axes are known; scalars have the empty shape."""
    for tensor in stated.values() if isinstance(stated, Mapping) else ():
        if isinstance(tensor, Mapping) and isinstance(tensor.get("dtype"), str):
            shape = [size_in(str(axis), sizes) for axis in tensor.get("shape") or ()]
            if None not in shape:
                yield Tensor(plain(tensor["dtype"]), tuple(size for size in shape if size is not None))
