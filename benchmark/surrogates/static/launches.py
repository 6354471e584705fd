"""What `run` would launch: its arithmetic on shapes is read, not run, so that grids and scratch memory are known.

Only numbers, shapes and tuples are followed, through the few statements kernels use around a launch; whatever else
there is becomes unknown, and what depends on it too.
"""

from __future__ import annotations

import ast
import dataclasses
import functools
import json
import math
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kbench.benchmark.surrogates.static.source_features import settings_of

PROCESSORS = 132
"""Multiprocessors of an H200, where a source asks how many there are."""
MOST = 2.0**62
"""Numbers beyond are no sizes."""
NUMERIC = frozenset((int, float, bool))
STEPS = 64
"""Turns of a loop that are followed, and the longest tuple."""
MOST_STATEMENTS = 4096
"""Loops within loops end there."""
INPUT = re.compile(r"\w+\[([\d,]*)\]$")
# What must not come before is looked at after the first digit: a pattern that begins with a digit is found faster.
LITERAL = re.compile(r"(\d(?<![\w.]\d)(?<!e-\d)\d{0,17})(?![\w.])")

Env = dict[str, Any]
Constants = tuple[tuple[str, int], ...]


@dataclasses.dataclass(slots=True)
class Tensor:
    """What is known of one: its shape, None where it is not."""

    shape: tuple[Any, ...] | None

    @property
    def elements(self) -> float | None:
        """How many there are."""
        return _product(self.shape) if self.shape is not None else None


@dataclasses.dataclass(frozen=True, slots=True)
class Launch:
    """One launch: blocks of the grid and threads of a block, None where they are not known."""

    blocks: float | None
    threads: float | None
    shared_bytes: float


@dataclasses.dataclass(slots=True)
class Trace:
    """Everything `run` launches and allocates for one workload."""

    launches: list[Launch]
    allocated: float = 0.0
    """Elements, outputs included."""
    cleared: float = 0.0
    """Elements of it that are filled first."""


def _number(value: Any) -> bool:
    return type(value) in NUMERIC and -MOST < value < MOST


def _product(values: Any) -> float | None:
    """Of one number or a tuple of them."""
    if _number(values):
        return float(values)
    if not isinstance(values, tuple) or not all(map(_number, values)):
        return None
    found = math.prod(map(float, values))
    return found if abs(found) < MOST else None


def _power(base: Any, exponent: Any) -> Any:
    return base**exponent if 0 <= exponent <= STEPS else None


def _shifted(base: Any, places: Any) -> Any:
    return base << places if 0 <= places <= STEPS else None


OPERATORS: Mapping[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.FloorDiv: operator.floordiv,
    ast.Div: operator.truediv, ast.Mod: operator.mod, ast.Pow: _power, ast.LShift: _shifted,
    ast.RShift: operator.rshift, ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt,
    ast.LtE: operator.le, ast.Gt: operator.gt, ast.GtE: operator.ge,
}  # fmt: skip


def _cdiv(value: int, by: int) -> int:
    return -(-value // by)


def _next_power(value: int) -> int:
    return 1 << max(int(value) - 1, 0).bit_length()


FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "min": min, "max": max, "int": int, "cdiv": _cdiv, "next_power_of_2": _next_power, "abs": abs,
    "sqrt": lambda value: math.sqrt(max(value, 0.0)), "ceil": math.ceil, "log2": lambda value: math.log2(max(value, 1)),
    "bit_length": lambda value: int(value).bit_length(),
}  # fmt: skip
LAUNCH_PLACES = ("grid", "block")
"""What follows the name in the call of a CUDA launch."""
ALLOCATIONS = frozenset(("empty", "zeros", "ones", "full", "new_empty", "new_zeros"))
ALIKE = frozenset(("empty_like", "zeros_like", "ones_like", "full_like"))
SAME = frozenset(("contiguous", "to", "clone", "detach", "float"))
VIEWS = frozenset(("view", "reshape"))
FOLLOWED = frozenset(FUNCTIONS) | ALLOCATIONS | ALIKE | SAME | VIEWS | {"range", "numel", "size", "dim"}
"""Functions whose results are known."""


class _Reader:
    """Follows the statements of one `run` for one workload."""

    def __init__(self, env: Env) -> None:
        self.env = env
        self.trace = Trace([])
        self.left = MOST_STATEMENTS

    def follow(self, body: Sequence[ast.stmt]) -> bool:
        """Every statement, in order; whether the function goes on after them."""
        for statement in body:
            self.left -= 1
            if self.left < 0:
                return False
            if isinstance(statement, ast.Assign):
                value = self.value(statement.value)
                for target in statement.targets:
                    self.assign(target, value)
            elif isinstance(statement, ast.Expr):
                self.value(statement.value)
            elif isinstance(statement, ast.AugAssign):
                found = self.operated(type(statement.op), self.value(statement.target), self.value(statement.value))
                self.assign(statement.target, found)
            elif isinstance(statement, ast.If):
                if not self.follow(statement.body if self.holds(statement.test) else statement.orelse):
                    return False
            elif isinstance(statement, ast.For | ast.While):
                if not self.turns(statement):
                    return False
            elif isinstance(statement, ast.Return):
                return False
        return True

    def holds(self, test: ast.expr) -> bool:
        """Whether a condition does; what is not known is taken to."""
        value = self.value(test)
        return value is None or bool(value)

    def turns(self, loop: ast.For | ast.While) -> bool:
        """A loop, as often as it turns, once where that is not known; whether the function goes on after it."""
        if isinstance(loop, ast.While):
            for _ in range(STEPS):
                going = self.value(loop.test)
                if going is not None and not going:
                    break
                if not self.follow(loop.body):
                    return False
                if going is None:
                    break
            return True
        values = self.value(loop.iter)
        for value in values[:STEPS] if isinstance(values, tuple) else (None,):
            self.assign(loop.target, value)
            if not self.follow(loop.body):
                return False
        return True

    def assign(self, target: ast.expr, value: Any) -> None:
        """A name, or several at once."""
        if isinstance(target, ast.Name):
            self.env[target.id] = value
        elif isinstance(target, ast.Tuple | ast.List):
            known = isinstance(value, tuple) and len(value) == len(target.elts)
            for at, each in enumerate(target.elts):
                self.assign(each, value[at] if known else None)

    def value(self, node: ast.AST | None) -> Any:
        """What an expression comes to; None where that is not known."""
        if type(node) is ast.Name:
            return self.env.get(node.id)
        handler = _HANDLERS.get(type(node))
        return handler(self, node) if handler else None

    def operated(self, kind: type, left: Any, right: Any) -> Any:
        """Two numbers, combined; or two tuples, joined."""
        if kind is ast.Add and isinstance(left, tuple) and isinstance(right, tuple):
            return (left + right)[:STEPS]
        work = OPERATORS.get(kind)
        if work is None or not _number(left) or not _number(right):
            return None
        try:
            return work(left, right)
        except (ArithmeticError, TypeError, ValueError):
            return None

    def _binary(self, node: ast.BinOp) -> Any:
        return self.operated(type(node.op), self.value(node.left), self.value(node.right))

    def _compare(self, node: ast.Compare) -> Any:
        return self.operated(type(node.ops[0]), self.value(node.left), self.value(node.comparators[0]))

    def _negated(self, node: ast.UnaryOp) -> Any:
        value = self.value(node.operand)
        if not _number(value):
            return None
        return not value if isinstance(node.op, ast.Not) else -value

    def _choice(self, node: ast.IfExp) -> Any:
        return self.value(node.body if self.holds(node.test) else node.orelse)

    def _several(self, node: ast.Tuple | ast.List) -> tuple[Any, ...]:
        return self._elements(node.elts)

    def _elements(self, nodes: Sequence[ast.expr]) -> tuple[Any, ...]:
        found: list[Any] = []
        for each in nodes:
            value = self.value(each.value if isinstance(each, ast.Starred) else each)
            found += value if isinstance(each, ast.Starred) and isinstance(value, tuple) else (value,)
        return tuple(found[:STEPS])

    def _attribute(self, node: ast.Attribute) -> Any:
        if node.attr == "multi_processor_count":
            return PROCESSORS
        owner = self.value(node.value)
        return owner.shape if node.attr == "shape" and isinstance(owner, Tensor) else None

    def _subscript(self, node: ast.Subscript) -> Any:
        owner = self.value(node.value)
        if not isinstance(owner, tuple):
            return None
        if isinstance(node.slice, ast.Slice):
            low, high = self.value(node.slice.lower), self.value(node.slice.upper)
            known = all(each is None or isinstance(each, int) for each in (low, high))
            return owner[low:high] if known and node.slice.step is None else None
        at = self.value(node.slice)
        return owner[at] if isinstance(at, int) and -len(owner) <= at < len(owner) else None

    def _call(self, node: ast.Call) -> Any:
        called = node.func
        if isinstance(called, ast.Subscript):
            return self._launched(self.value(called.slice), self._named(node, ("num_warps",)))
        name = called.attr if isinstance(called, ast.Attribute) else called.id if isinstance(called, ast.Name) else ""
        if name == "launch":
            places = dict(zip(LAUNCH_PLACES, map(self.value, node.args[1:3]), strict=False))
            given = places | self._named(node, (*LAUNCH_PLACES, "shared_bytes"))
            return self._launched(given.get("grid"), given)
        if name not in FOLLOWED:
            return None
        arguments = self._elements(node.args)
        owner = self.value(called.value) if isinstance(called, ast.Attribute) else None
        return self._made(name, owner, arguments)

    def _named(self, node: ast.Call, wanted: tuple[str, ...]) -> dict[str, Any]:
        return {each.arg: self.value(each.value) for each in node.keywords if each.arg in wanted}

    def _launched(self, grid: Any, given: Mapping[str, Any]) -> None:
        warps = given.get("num_warps", 4)
        threads = _product(given["block"]) if "block" in given else 32.0 * warps if _number(warps) else None
        shared = given.get("shared_bytes", 0)
        self.trace.launches.append(Launch(_product(grid), threads, float(shared) if _number(shared) else 0.0))

    def _made(self, name: str, owner: Any, arguments: tuple[Any, ...]) -> Any:
        """What a function gives, and what memory it takes."""
        first = arguments[0] if arguments else None
        if name in ALLOCATIONS or name in ALIKE:
            like = first.shape if isinstance(first, Tensor) else None
            shape = like if name in ALIKE else first if isinstance(first, tuple) else arguments
            made = Tensor(shape)
            self.trace.allocated += made.elements or 0.0
            self.trace.cleared += 0.0 if "empty" in name else made.elements or 0.0
            return made
        if isinstance(owner, Tensor):
            return _of_tensor(owner, name, arguments)
        if name == "range":
            known = 1 <= len(arguments) <= 3 and all(isinstance(each, int) for each in arguments)
            return tuple(range(*arguments)[:STEPS]) if known and 0 not in arguments[2:] else None
        arguments = (owner, *arguments) if name == "bit_length" else arguments
        work = FUNCTIONS.get(name)
        if work is None or not arguments or not all(map(_number, arguments)):
            return None
        try:
            return work(*arguments)
        except (ArithmeticError, TypeError, ValueError):
            return None


def _of_tensor(owner: Tensor, name: str, arguments: tuple[Any, ...]) -> Any:
    if name == "numel":
        found = owner.elements
        return int(found) if found is not None else None
    if name == "size" and owner.shape is not None:
        at = arguments[0] if arguments else None
        return owner.shape[at] if isinstance(at, int) and -len(owner.shape) <= at < len(owner.shape) else owner.shape
    if name == "dim" and owner.shape is not None:
        return len(owner.shape)
    if name in SAME:
        return owner
    if name in VIEWS:
        return Tensor(_viewed(owner, arguments[0] if arguments and isinstance(arguments[0], tuple) else arguments))
    return None


def _viewed(owner: Tensor, shape: tuple[Any, ...]) -> tuple[Any, ...] | None:
    """A shape in which −1 stands for the rest."""
    if shape.count(-1) != 1:
        return shape
    others, whole = _product(tuple(each for each in shape if each != -1)), owner.elements
    if not others or whole is None:
        return None
    return tuple(int(whole // others) if each == -1 else each for each in shape)


_HANDLERS: Mapping[type, Callable[[_Reader, Any], Any]] = {
    ast.Constant: lambda reader, node: node.value,
    ast.BinOp: _Reader._binary,
    ast.Compare: _Reader._compare,
    ast.UnaryOp: _Reader._negated,
    ast.IfExp: _Reader._choice,
    ast.Tuple: _Reader._several,
    ast.List: _Reader._several,
    ast.Attribute: _Reader._attribute,
    ast.Subscript: _Reader._subscript,
    ast.Call: _Reader._call,
}


@functools.lru_cache(maxsize=8192)
def parsed(*pieces: str) -> tuple[tuple[str, ...], tuple[ast.stmt, ...]] | None:
    """Parameters and statements of a `run` whose numbers, between the pieces, have become names: _0, _1 and so on."""
    text = "".join(f"{piece}_{at}" for at, piece in enumerate(pieces[:-1])) + pieces[-1]
    try:
        found = ast.parse(text).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    if not found or not isinstance(found[0], ast.FunctionDef) or found[0].name != "run":
        return None
    return tuple(each.arg for each in found[0].args.args), tuple(found[0].body)


@functools.lru_cache(maxsize=4096)
def _inputs_of(workloads_json: str) -> tuple[tuple[Any, ...], ...]:
    """What each workload passes to `run`: shapes, and numbers where they are stated."""
    return tuple(tuple(_input(text) for text in work["inputs"]) for work in json.loads(workloads_json))


def _input(text: str) -> Any:
    value = text.partition(": ")[2]
    if found := INPUT.match(value):
        return Tensor(tuple(int(each) for each in found[1].split(",") if each))
    return int(value) if value.isdecimal() else None


def run_of(source: str) -> tuple[str, Constants]:
    """The text of `run`, which is the last function of a kernel, and the constants it may use."""
    run = source[source.rfind("\ndef run(") + 1 :]
    return run, tuple(each for each in settings_of(source) if each[0].isupper() and each[0] in run)


def traces(run: str, constants: Constants, workloads_json: str) -> list[Trace]:
    """What `run` does for each workload; nothing where the text is of no such function."""
    # Many kernels of a problem differ in numbers alone, and setting numbers in is several times cheaper than parsing.
    pieces = LITERAL.split(run)
    found = parsed(*pieces[::2])
    if found is None:
        return []
    names, body = found
    known: Env = dict(constants) | {f"_{at}": int(number) for at, number in enumerate(pieces[1::2])}
    return [_traced(body, known | dict(zip(names, given, strict=False))) for given in _inputs_of(workloads_json)]


def _traced(body: Sequence[ast.stmt], env: Env) -> Trace:
    reader = _Reader(env)
    try:
        reader.follow(body)
    except RecursionError:
        # No kernel nests its arithmetic so deeply; what one does that does stays unknown.
        return Trace([])
    return reader.trace
