"""Reads the body of a `run` for one workload: its arithmetic on shapes, and what it launches and allocates.

Only numbers, shapes and tuples are followed, through the few statements kernels use around a launch; whatever else
there is becomes unknown, and what depends on it too. Texts may be hostile: everything counts against one budget.
"""

from __future__ import annotations

import ast
import dataclasses
import math
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

MOST = 2.0**62
"""Numbers beyond are no sizes."""
NUMERIC = frozenset((int, float, bool))
LONGEST = 64
"""Turns of a loop that are followed, and the longest tuple."""
MOST_STEPS = 20_000
"""Statements, operations and elements that are followed for all workloads of a source together."""
MOST_DEPTH = 64
"""How deeply statements and expressions may nest; counted, so that it is no matter how deep the caller is."""

Env = dict[str, Any]


class UnreadableError(Exception):
    """What is launched cannot be told, or not without more work than any honest kernel asks for."""


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
    return base**exponent if 0 <= exponent <= LONGEST else None


def _shifted(base: Any, places: Any) -> Any:
    return base << places if 0 <= places <= LONGEST else None


OPERATORS: Mapping[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.FloorDiv: operator.floordiv,
    ast.Div: operator.truediv, ast.Mod: operator.mod, ast.Pow: _power, ast.LShift: _shifted,
    ast.RShift: operator.rshift, ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt,
    ast.LtE: operator.le, ast.Gt: operator.gt, ast.GtE: operator.ge,
}  # fmt: skip


def _inverted(value: Any) -> Any:
    return ~int(value) if isinstance(value, int) else None


SIGNS: Mapping[type, Callable[[Any], Any]] = {
    ast.Not: operator.not_, ast.USub: operator.neg, ast.UAdd: operator.pos, ast.Invert: _inverted,
}  # fmt: skip
LEAVING = frozenset((ast.Return, ast.Raise, ast.Break, ast.Continue))
WITHOUT_EFFECT = frozenset((ast.Assert, ast.Pass))
"""Statements that change nothing of what is followed; an assertion is taken to hold."""


def _short(values: tuple[Any, ...]) -> tuple[Any, ...]:
    if len(values) > LONGEST:
        raise UnreadableError
    return values


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


class RunReader:
    """Follows the statements of one `run`, workload by workload, until the budget for all of them is spent."""

    def __init__(self, processors: int | None) -> None:
        self.processors = processors
        self.env: Env = {}
        self.trace = Trace([])
        self.left = MOST_STEPS
        self.depth = 0

    def read(self, body: Sequence[ast.stmt], env: Env) -> Trace:
        """What the statements launch and allocate, given the values of names.

        Raises:
            UnreadableError: where that cannot be told.
        """
        self.env, self.trace = env, Trace([])
        self.follow(body)
        return self.trace

    def spend(self, steps: int) -> None:
        """Take steps off the budget."""
        self.left -= steps
        if self.left < 0:
            raise UnreadableError

    def follow(self, body: Sequence[ast.stmt]) -> type | None:
        """Every statement, in order; the kind of the one that leaves them early, if one does."""
        self.enter()
        left = self._followed(body)
        self.depth -= 1
        return left

    def enter(self) -> None:
        """Count a level; nothing is counted back where reading ends early, since a reader is of no use then."""
        self.left -= 1
        self.depth += 1
        if self.left < 0 or self.depth > MOST_DEPTH:
            raise UnreadableError

    def _followed(self, body: Sequence[ast.stmt]) -> type | None:
        for statement in body:
            self.spend(1)
            kind = type(statement)
            if isinstance(statement, ast.Assign):
                value = self.value(statement.value)
                for target in statement.targets:
                    self.assign(target, value)
            elif isinstance(statement, ast.Expr):
                self.value(statement.value)
            elif kind in LEAVING:
                return kind
            elif isinstance(statement, ast.AugAssign):
                found = self.operated(type(statement.op), self.value(statement.target), self.value(statement.value))
                self.assign(statement.target, found)
            elif isinstance(statement, ast.AnnAssign):
                self.assign(statement.target, self.value(statement.value))
            elif isinstance(statement, ast.If):
                if left := self.follow(statement.body if self.holds(statement.test) else statement.orelse):
                    return left
            elif isinstance(statement, ast.For | ast.While):
                if left := self.turns(statement):
                    return left
            elif kind not in WITHOUT_EFFECT:
                raise UnreadableError
        return None

    def holds(self, test: ast.expr) -> bool:
        """Whether a condition does."""
        value = self.value(test)
        if value is None:
            raise UnreadableError
        return bool(value)

    def turns(self, loop: ast.For | ast.While) -> type | None:
        """A loop, as often as it turns; the kind of statement that leaves the function within, if one does."""
        for _ in self.rounds(loop):
            left = self.follow(loop.body)
            if left is ast.Break:
                return None
            if left is not None and left is not ast.Continue:
                return left
        return self.follow(loop.orelse)

    def rounds(self, loop: ast.For | ast.While) -> Iterator[None]:
        """One a turn, after what a turn begins with."""
        if isinstance(loop, ast.While):
            for _ in range(LONGEST):
                going = self.value(loop.test)
                if going is None or going:
                    yield
                # The trained models know loops that go on for reasons unknown as turning once.
                if not going:
                    return
            raise UnreadableError
        values = self.value(loop.iter)
        if not isinstance(values, tuple):
            raise UnreadableError
        for value in values:
            self.assign(loop.target, value)
            yield

    def assign(self, target: ast.expr, value: Any) -> None:
        """A name, or several at once."""
        self.spend(1)
        if type(target) is ast.Name:
            self.env[target.id] = value
        elif isinstance(target, ast.Tuple | ast.List):
            known = isinstance(value, tuple) and len(value) == len(target.elts)
            self.enter()
            for at, each in enumerate(target.elts):
                self.assign(each, value[at] if known else None)
            self.depth -= 1
        elif isinstance(target, ast.Starred) or isinstance(self.value(getattr(target, "value", None)), tuple):
            # Several of a tuple at once, or one of a list.
            raise UnreadableError

    def value(self, node: ast.AST | None) -> Any:
        """What an expression comes to; None where that is not known."""
        if type(node) is ast.Name:
            return self.env.get(node.id)
        handler = _HANDLERS.get(type(node))
        if handler is None:
            return None
        # Names cost nothing of their own: whatever may hold many of them counts its elements.
        self.left -= 1
        self.depth += 1
        if self.left < 0 or self.depth > MOST_DEPTH:
            raise UnreadableError
        found = handler(self, node)
        self.depth -= 1
        return found

    def operated(self, kind: type, left: Any, right: Any) -> Any:
        """Two numbers, combined; or two tuples, joined."""
        if kind is ast.Add and isinstance(left, tuple) and isinstance(right, tuple):
            return _short(left + right)
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
        left, found = self.value(node.left), None
        self.spend(len(node.ops))
        for kind, other in zip(node.ops, node.comparators, strict=True):
            right = self.value(other)
            found = self.operated(type(kind), left, right)
            if not found:
                return found
            left = right
        return found

    def _negated(self, node: ast.UnaryOp) -> Any:
        value = self.value(node.operand)
        work = SIGNS.get(type(node.op))
        return work(value) if work is not None and _number(value) else None

    def _choice(self, node: ast.IfExp) -> Any:
        chosen = self.value(node.test)
        return None if chosen is None else self.value(node.body if chosen else node.orelse)

    def _several(self, node: ast.Tuple | ast.List) -> tuple[Any, ...] | None:
        return self._elements(node.elts)

    def _elements(self, nodes: Sequence[ast.expr]) -> tuple[Any, ...] | None:
        """Of a tuple or a call; None where it is not known how many there are."""
        self.spend(len(nodes))
        found: list[Any] = []
        for each in nodes:
            if not isinstance(each, ast.Starred):
                found.append(self.value(each))
                continue
            value = self.value(each.value)
            if not isinstance(value, tuple):
                return None
            self.spend(len(value))
            found += value
        return _short(tuple(found))

    def _attribute(self, node: ast.Attribute) -> Any:
        if node.attr == "multi_processor_count":
            return self.processors
        owner = self.value(node.value)
        if not isinstance(owner, Tensor):
            return None
        return owner.shape if node.attr == "shape" else True if node.attr == "is_cuda" else None

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
        if arguments is None:
            raise UnreadableError
        return self._made(name, owner, arguments)

    def _named(self, node: ast.Call, wanted: tuple[str, ...]) -> dict[str, Any]:
        self.spend(len(node.keywords))
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
            # One more than is allowed shows that there are too many.
            return _short(tuple(range(*arguments)[: LONGEST + 1])) if known and 0 not in arguments[2:] else None
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
    rest = whole // others
    return tuple(int(rest) if each == -1 else each for each in shape) if _number(rest) else None


_HANDLERS: Mapping[type, Callable[[RunReader, Any], Any]] = {
    ast.Constant: lambda reader, node: node.value,
    ast.BinOp: RunReader._binary,
    ast.Compare: RunReader._compare,
    ast.UnaryOp: RunReader._negated,
    ast.IfExp: RunReader._choice,
    ast.Tuple: RunReader._several,
    ast.List: RunReader._several,
    ast.Attribute: RunReader._attribute,
    ast.Subscript: RunReader._subscript,
    ast.Call: RunReader._call,
}
