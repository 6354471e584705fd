"""Shapes and types of inputs, read from the text of `get_inputs` or `generate_input` without running it.

The text is anyone's, so it is interpreted, not executed: assignments of numbers and sizes, and calls that make tensors.
Whatever else stands there makes an input unknown, and then the workload has none.
"""

from __future__ import annotations

import ast
import json
import math
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from kbench.loaders.importers.rows import Row, with_workloads
from kbench.schemas import Workload, to_dict

BYTES = {"float64": 8, "int64": 8, "float32": 4, "int32": 4, "uint32": 4, "bfloat16": 2, "float16": 2, "int16": 2}
"""Bytes of an element; types that are not named have one."""
LARGEST_AXIS = 1 << 40
LONGEST_EXPRESSION = 200
"""Characters of an axis that is computed from others."""
MOST_STEPS = 2000
"""Expressions that are looked at."""
SHAPES: Mapping[str, Callable[[list[Any]], list[Any]]] = {
    **dict.fromkeys(("randn", "rand", "zeros", "ones", "empty"), lambda given: given),
    "full": lambda given: given[:1],
    **dict.fromkeys(("randint", "randperm", "linspace"), lambda given: given[-1:]),
    "arange": lambda given: [given[-1] - (given[0] if len(given) == 2 else 0)] if len(given) < 3 else [None],
}
"""Functions of torch that make a tensor: its shape, from what they are called with."""
WHOLE_NUMBERS = ("randint", "randperm", "arange")
LIKE = ("randn_like", "rand_like", "zeros_like", "ones_like", "empty_like")
SAME = frozenset((
    "cuda", "contiguous", "clone", "detach", "requires_grad_", "softmax", "abs", "sigmoid", "normal_", "uniform_",
    "fill_", "zero_", "clamp", "pow", "sqrt", "exp",
))  # fmt: skip
"""Methods that return a tensor of the same form."""
CASTS = {"float": "float32", "half": "float16", "bfloat16": "bfloat16", "long": "int64", "int": "int32",
         "double": "float64", "bool": "bool"}  # fmt: skip
SCALARS = {bool: "bool", int: "int64"}
ARITHMETIC: Mapping[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod, ast.Div: operator.truediv,
}  # fmt: skip


class Tensor(NamedTuple):
    """A tensor of which only the form is known."""

    dtype: str
    shape: tuple[int, ...]

    def shown(self) -> str:
        """As workloads state it."""
        return f"{self.dtype}[{','.join(map(str, self.shape))}]"


class Dtype(NamedTuple):
    """A type of torch, by its name."""

    name: str


class UnknownValueError(Exception):
    """The text does something that is not followed."""


UNREADABLE = (UnknownValueError, SyntaxError, ValueError, RecursionError, MemoryError, TypeError, ArithmeticError,
              LookupError)  # fmt: skip
"""What reading anyone's text raises where it cannot be followed."""


def workload_of(
    source: str, function: str = "get_inputs", name: str = "stated", arguments: Mapping[str, Any] | None = None
) -> Row | None:
    """The workload that a function of a text makes inputs for; None where its tensors are not plain to see."""
    given = dict(arguments or {})
    try:
        leaves = list(_leaves(_Reader(ast.parse(source)).returned(function, dict(given))))
    except UNREADABLE:
        return None
    tensors = [leaf for leaf in leaves if isinstance(leaf, Tensor)]
    inputs = [leaf if isinstance(leaf, Tensor) else Tensor(SCALARS.get(type(leaf), "float32"), ()) for leaf in leaves]
    return workload(name, given, inputs, (), moved=tensors) if tensors else None


def with_stated_inputs(row: Row, reference: str) -> Row:
    """A problem's row with the workload that get_inputs of its reference makes, where its shapes are plain to see."""
    stated = workload_of(reference) if reference else None
    return row if stated is None else with_workloads(row, [stated])


def workload(
    name: str, params: Mapping[str, Any], inputs: Sequence[Tensor], outputs: Sequence[Tensor], moved: Sequence[Tensor]
) -> Row:
    """A workload whose operations are not counted; its bytes are those of the tensors that are moved."""
    size = sum(math.prod(one.shape) * BYTES.get(one.dtype, 1) for one in moved)
    return to_dict(
        Workload(
            name=name, params_json=json.dumps(params, sort_keys=True), inputs=tuple(one.shown() for one in inputs),
            outputs=tuple(one.shown() for one in outputs), seed=0, flops=0, min_bytes=min(size, 2**62),
        )
    )  # fmt: skip


def size_in(text: str, sizes: Mapping[str, Any]) -> int | None:
    """The size that an expression of other sizes gives; None where it gives none, or names one that is not known."""
    if len(text) > LONGEST_EXPRESSION:
        return None
    try:
        value = _Reader(ast.Module([], [])).value(ast.parse(text.strip(), mode="eval").body, sizes)
    except UNREADABLE:
        return None
    return int(value) if type(value) in (int, float) and value == int(value) else None


def _leaves(value: Any) -> Any:
    if isinstance(value, Tensor) or not isinstance(value, list | tuple | dict):
        if value is UnknownValueError:
            raise UnknownValueError("leaf")
        if value is not None and not isinstance(value, str | Dtype):
            yield value
        return
    for one in value.values() if isinstance(value, dict) else value:
        yield from _leaves(one)


class _Reader:
    """Follows assignments at the top of a module, and those in one of its functions."""

    def __init__(self, module: ast.Module) -> None:
        self._functions = {one.name: one for one in module.body if isinstance(one, ast.FunctionDef)}
        self._steps = 0
        self._globals: dict[str, Any] = {}
        for statement in module.body:
            if isinstance(statement, ast.Assign | ast.AnnAssign):
                self._assign(statement, self._globals)

    def returned(self, function: str, arguments: dict[str, Any]) -> Any:
        """What a function returns."""
        if function not in self._functions:
            raise UnknownValueError(function)
        value = self._run(self._functions[function].body, {**self._globals, **arguments})
        if value is None:
            raise UnknownValueError("return")
        return value

    def _run(self, body: Sequence[ast.stmt], names: dict[str, Any]) -> Any:
        """What a block returns; None where it goes on."""
        for statement in body:
            if isinstance(statement, ast.Return) and statement.value is not None:
                return self.value(statement.value, names)
            if isinstance(statement, ast.Assign | ast.AnnAssign):
                self._assign(statement, names)
            elif isinstance(statement, ast.If):
                branch = statement.body if self._holds(statement.test, names) else statement.orelse
                value = self._run(branch, names)
                if value is not None:
                    return value
            elif not isinstance(statement, ast.Expr | ast.Assert):
                raise UnknownValueError(type(statement).__name__)
        return None

    def _holds(self, test: ast.expr, names: Mapping[str, Any]) -> bool:
        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            return not self._holds(test.operand, names)
        if isinstance(test, ast.Compare) and isinstance(test.ops[0], ast.Eq) and len(test.ops) == 1:
            one, other = self.value(test.left, names), self.value(test.comparators[0], names)
            return bool(one == other)
        value = self.value(test, names)
        if not isinstance(value, bool | int | None):
            raise UnknownValueError("condition")
        return bool(value)

    def _assign(self, statement: ast.Assign | ast.AnnAssign, names: dict[str, Any]) -> None:
        """Take note of names that are given a value; one whose value is not followed is forgotten."""
        targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
        try:
            value = None if statement.value is None else self.value(statement.value, names)
        except (UnknownValueError, TypeError, ArithmeticError, LookupError):
            value = UnknownValueError
        for target in targets:
            if isinstance(target, ast.Name):
                names[target.id] = value
            elif isinstance(target, ast.Subscript) and isinstance(target.value, ast.Name):
                holder = names.get(target.value.id)
                if isinstance(holder, dict):
                    holder[ast.dump(target.slice)] = value
            elif isinstance(target, ast.Tuple):
                parts: Sequence[Any] = value if isinstance(value, list | tuple) else ()
                same = len(parts) == len(target.elts)
                for at, one in enumerate(target.elts):
                    if isinstance(one, ast.Name):
                        names[one.id] = parts[at] if same else UnknownValueError

    def value(self, node: ast.expr, names: Mapping[str, Any]) -> Any:
        """The value of an expression."""
        self._steps += 1
        if self._steps > MOST_STEPS:
            raise UnknownValueError("too long")
        if isinstance(node, ast.Constant):
            return node.value
        if isinstance(node, ast.Name):
            bound = names.get(node.id, UnknownValueError)
            if bound is UnknownValueError:
                raise UnknownValueError(node.id)
            return bound
        if isinstance(node, ast.List | ast.Tuple):
            return tuple(self._spread(node.elts, names))
        if isinstance(node, ast.Dict):
            keys = [ast.dump(key) if key is not None else "" for key in node.keys]
            return {key: self.value(one, names) for key, one in zip(keys, node.values, strict=True)}
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            return -self.value(node.operand, names)
        if isinstance(node, ast.BinOp):
            return self._computed(node, names)
        if isinstance(node, ast.Compare):
            return Tensor("bool", self._tensor(node.left, names).shape)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "torch":
            return Dtype(node.attr)
        if isinstance(node, ast.Attribute) and node.attr == "T":
            tensor = self._tensor(node.value, names)
            return tensor._replace(shape=tensor.shape[::-1])
        if isinstance(node, ast.Call):
            return self._called(node, names)
        raise UnknownValueError(type(node).__name__)

    def _spread(self, nodes: Sequence[ast.expr], names: Mapping[str, Any]) -> Any:
        for node in nodes:
            if isinstance(node, ast.Starred):
                yield from self.value(node.value, names)
            else:
                yield self.value(node, names)

    def _tensor(self, node: ast.expr, names: Mapping[str, Any]) -> Tensor:
        value = self.value(node, names)
        if not isinstance(value, Tensor):
            raise UnknownValueError("no tensor")
        return value

    def _computed(self, node: ast.BinOp, names: Mapping[str, Any]) -> Any:
        one, other = self.value(node.left, names), self.value(node.right, names)
        tensors = [value for value in (one, other) if isinstance(value, Tensor)]
        if tensors:
            largest = max(tensors, key=lambda tensor: len(tensor.shape))
            # As torch broadcasts: shapes are aligned at their last axis.
            sides = len(largest.shape)
            padded = [(1,) * (sides - len(tensor.shape)) + tensor.shape for tensor in tensors]
            return largest._replace(shape=tuple(max(sizes) for sizes in zip(*padded, strict=True)))
        if type(node.op) not in ARITHMETIC or not all(isinstance(value, int | float) for value in (one, other)):
            raise UnknownValueError("operator")
        result = ARITHMETIC[type(node.op)](one, other)
        if abs(result) > LARGEST_AXIS:
            raise UnknownValueError("too large")
        return result

    def _called(self, node: ast.Call, names: Mapping[str, Any]) -> Any:
        arguments = list(self._spread(node.args, names))
        stated = {word.arg: word.value for word in node.keywords}
        named_dtype = self.value(stated["dtype"], names) if "dtype" in stated else None
        dtype = named_dtype.name if isinstance(named_dtype, Dtype) else None
        if not isinstance(node.func, ast.Attribute):
            raise UnknownValueError("call")
        name, of = node.func.attr, node.func.value
        if isinstance(of, ast.Name) and of.id == "math" and name == "sqrt":
            return math.sqrt(*arguments)
        if isinstance(of, ast.Name) and of.id == "F" and name in (*SAME, "normalize"):
            return self._tensor(node.args[0], names)
        if isinstance(of, ast.Name) and of.id == "torch":
            return self._made(name, arguments, stated, dtype, names)
        tensor = self._tensor(of, names)
        if name in CASTS:
            return tensor._replace(dtype=CASTS[name])
        if name in ("to", "type"):
            casts = [value.name for value in arguments if isinstance(value, Dtype)]
            return tensor._replace(dtype=dtype or (casts[0] if casts else tensor.dtype))
        if name in ("view", "reshape"):
            return tensor._replace(shape=_shape(arguments))
        if name == "transpose" and len(arguments) == 2:
            shape = list(tensor.shape)
            shape[arguments[0]], shape[arguments[1]] = shape[arguments[1]], shape[arguments[0]]
            return tensor._replace(shape=tuple(shape))
        if name == "unsqueeze" and arguments in ([0], [-1]):
            return tensor._replace(shape=(1, *tensor.shape) if arguments == [0] else (*tensor.shape, 1))
        if name in SAME:
            return tensor
        raise UnknownValueError(name)

    def _made(
        self, name: str, arguments: list[Any], stated: Mapping[str | None, ast.expr], dtype: str | None, names: Any
    ) -> Tensor:
        size = self.value(stated["size"], names) if "size" in stated else None
        if name in SHAPES:
            shape = _shape([size] if size is not None else SHAPES[name](arguments))
            return Tensor(dtype or ("int64" if name in WHOLE_NUMBERS else "float32"), shape)
        if name in LIKE and isinstance(arguments[0], Tensor):
            return arguments[0]._replace(dtype=dtype or arguments[0].dtype)
        if (name in SAME or name in ("tril", "triu")) and isinstance(arguments[0], Tensor):
            return arguments[0]
        raise UnknownValueError(name)


def _shape(given: Sequence[Any]) -> tuple[int, ...]:
    sizes = given[0] if len(given) == 1 and isinstance(given[0], list | tuple) else given
    if not all(type(size) is int and 0 <= size <= LARGEST_AXIS for size in sizes):
        raise UnknownValueError("shape")
    return tuple(sizes)
