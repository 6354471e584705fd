"""What `run` would launch for each workload: its text is parsed and followed, never run.

Only the few statements that kernels use around a launch are followed; what else there is becomes unknown, and so does
what depends on it. Texts may be hostile: everything counts against one budget.
"""

from __future__ import annotations

import ast
import functools
import json
import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from kbench.benchmark.surrogates.static.shapes import (
    ALIKE,
    ALLOCATIONS,
    FUNCTIONS,
    KNOWN_CALLS,
    LONGEST,
    SIGNS,
    Launch,
    Tensor,
    Trace,
    UnreadableError,
    combined,
    computed,
    is_number,
    product,
    short,
)

INPUT = re.compile(r"\w+\[([\d,]*)\]$")
MOST_RUN = 16384
"""Characters of the longest `run` that is read, ten times what kernels have."""
PLAIN_RUN = 2048
"""Characters too few to nest more deeply than the parser allows. Of longer texts the depth is counted first, since
what the parser allows depends on the depth of its caller."""

Constants = tuple[tuple[str, int], ...]
MOST_STEPS = 20_000
"""Statements, operations and elements that are followed for all workloads of a source together."""
MOST_DEPTH = 64
"""How deeply statements and expressions may nest; counted, so that the caller's own depth does not matter."""
LEAVING = frozenset((ast.Return, ast.Raise, ast.Break, ast.Continue))
WITHOUT_EFFECT = frozenset((ast.Assert, ast.Pass))
"""Statements that change nothing of what is followed; an assertion is taken to hold."""
LAUNCH_PLACES = ("grid", "block")
"""What follows the name in the call of a CUDA launch."""

Env = dict[str, Any]


@functools.lru_cache(maxsize=8192)
def parsed(run: str) -> tuple[tuple[str, ...], tuple[ast.stmt, ...]] | None:
    """Parameters and statements of a `run`; None where the text is of no such function."""
    # Names set within expressions may be set where nothing is followed, as in the arguments of a launch.
    if ":=" in run:
        return None
    try:
        with warnings.catch_warnings():
            # The parser warns of escapes and of words that touch a number; neither is of interest here.
            warnings.simplefilter("ignore")
            statements = ast.parse(run).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    if not statements or not isinstance(statements[0], ast.FunctionDef) or statements[0].name != "run":
        return None
    if len(run) > PLAIN_RUN and not _shallow(statements[0]):
        return None
    return tuple(each.arg for each in statements[0].args.args), tuple(statements[0].body)


def _shallow(tree: ast.AST) -> bool:
    """Whether a tree is of a depth that may be followed."""
    level: list[ast.AST] = [tree]
    for _ in range(MOST_DEPTH):
        level = [child for node in level for child in ast.iter_child_nodes(node)]
        if not level:
            return True
    return False


@functools.lru_cache(maxsize=4096)
def _inputs_of(workloads_json: str) -> tuple[tuple[Any, ...], ...]:
    """What each workload passes to `run`: shapes, and numbers where they are stated."""
    return tuple(tuple(_input(text) for text in work["inputs"]) for work in json.loads(workloads_json))


def _input(text: str) -> Any:
    value = text.partition(": ")[2]
    if shape := INPUT.match(value):
        return Tensor(tuple(int(each) for each in shape[1].split(",") if each))
    return int(value) if value.isdecimal() else None


def traces(run: str, constants: Constants, workloads_json: str, processors: int | None) -> list[Trace]:
    """What `run` does for each workload; nothing where that cannot be told, or the text is of no such function."""
    if len(run) > MOST_RUN:
        return []
    parts = parsed(run)
    if parts is None:
        return []
    names, body = parts
    names_known: Env = dict(constants)
    reader = RunReader(processors)
    try:
        return [
            reader.read(body, names_known | dict(zip(names, given, strict=False)))
            for given in _inputs_of(workloads_json)
        ]
    except UnreadableError:
        return []


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
        self._follow(body)
        return self.trace

    def _spend(self, steps: int) -> None:
        """Take steps off the budget."""
        self.left -= steps
        if self.left < 0:
            raise UnreadableError

    def _follow(self, body: Sequence[ast.stmt]) -> type | None:
        """Follow statements in order; the kind of the one that leaves them early, if one does."""
        self._enter()
        left = self._followed(body)
        self.depth -= 1
        return left

    def _enter(self) -> None:
        """Count a level. Where reading ends early nothing is counted back: the reader is of no use then."""
        self.left -= 1
        self.depth += 1
        if self.left < 0 or self.depth > MOST_DEPTH:
            raise UnreadableError

    def _followed(self, body: Sequence[ast.stmt]) -> type | None:
        for statement in body:
            self._spend(1)
            kind = type(statement)
            if isinstance(statement, ast.Assign):
                value = self._value(statement.value)
                for target in statement.targets:
                    self._assign(target, value)
            elif isinstance(statement, ast.Expr):
                self._value(statement.value)
            elif kind in LEAVING:
                return kind
            elif isinstance(statement, ast.AugAssign):
                value_after = combined(type(statement.op), self._value(statement.target), self._value(statement.value))
                self._assign(statement.target, value_after)
            elif isinstance(statement, ast.AnnAssign):
                self._assign(statement.target, self._value(statement.value))
            elif isinstance(statement, ast.If):
                if left := self._follow(statement.body if self._holds(statement.test) else statement.orelse):
                    return left
            elif isinstance(statement, ast.For | ast.While):
                if left := self._loop(statement):
                    return left
            elif kind not in WITHOUT_EFFECT:
                raise UnreadableError
        return None

    def _holds(self, test: ast.expr) -> bool:
        value = self._value(test)
        if value is None:
            raise UnreadableError
        return bool(value)

    def _loop(self, loop: ast.For | ast.While) -> type | None:
        """All iterations of a loop; the kind of statement that leaves the function within, if one does."""
        for _ in self._iterations(loop):
            left = self._follow(loop.body)
            if left is ast.Break:
                return None
            if left is not None and left is not ast.Continue:
                return left
        return self._follow(loop.orelse)

    def _iterations(self, loop: ast.For | ast.While) -> Iterator[None]:
        """One per iteration, after the loop variable is set."""
        if isinstance(loop, ast.While):
            for _ in range(LONGEST):
                going = self._value(loop.test)
                if going is None or going:
                    yield
                # The trained models know a loop whose condition is unknown as one iteration.
                if not going:
                    return
            raise UnreadableError
        values = self._value(loop.iter)
        if not isinstance(values, tuple):
            raise UnreadableError
        for value in values:
            self._assign(loop.target, value)
            yield

    def _assign(self, target: ast.expr, value: Any) -> None:
        """Set a name, or several at once."""
        self._spend(1)
        if type(target) is ast.Name:
            self.env[target.id] = value
        elif isinstance(target, ast.Tuple | ast.List):
            unpacks = isinstance(value, tuple) and len(value) == len(target.elts)
            self._enter()
            for at, each in enumerate(target.elts):
                self._assign(each, value[at] if unpacks else None)
            self.depth -= 1
        elif isinstance(target, ast.Starred) or isinstance(self._value(getattr(target, "value", None)), tuple):
            # `a, *b = t`, or an item of a list.
            raise UnreadableError

    def _value(self, node: ast.AST | None) -> Any:
        """What an expression comes to; None where unknown."""
        if type(node) is ast.Name:
            return self.env.get(node.id)
        if type(node) is ast.Constant:
            return node.value
        handler = _HANDLERS.get(type(node))
        if handler is None:
            return None
        # Names and numbers cost nothing of their own: whatever may hold many of them counts its elements.
        self.left -= 1
        self.depth += 1
        if self.left < 0 or self.depth > MOST_DEPTH:
            raise UnreadableError
        value = handler(self, node)
        self.depth -= 1
        return value

    def _binary(self, node: ast.BinOp) -> Any:
        return combined(type(node.op), self._value(node.left), self._value(node.right))

    def _compare(self, node: ast.Compare) -> Any:
        left, outcome = self._value(node.left), None
        self._spend(len(node.ops))
        for kind, other in zip(node.ops, node.comparators, strict=True):
            right = self._value(other)
            outcome = combined(type(kind), left, right)
            if not outcome:
                return outcome
            left = right
        return outcome

    def _negated(self, node: ast.UnaryOp) -> Any:
        return computed(SIGNS.get(type(node.op)), self._value(node.operand))

    def _choice(self, node: ast.IfExp) -> Any:
        test = self._value(node.test)
        return None if test is None else self._value(node.body if test else node.orelse)

    def _elements(self, nodes: Sequence[ast.expr]) -> tuple[Any, ...] | None:
        """Of a tuple or a call; None where their number is unknown."""
        self._spend(len(nodes))
        values: list[Any] = []
        for each in nodes:
            if not isinstance(each, ast.Starred):
                values.append(self._value(each))
                continue
            value = self._value(each.value)
            if not isinstance(value, tuple):
                return None
            self._spend(len(value))
            values += value
        return short(tuple(values))

    def _attribute(self, node: ast.Attribute) -> Any:
        if node.attr == "multi_processor_count":
            return self.processors
        owner = self._value(node.value)
        if not isinstance(owner, Tensor):
            return None
        return owner.shape if node.attr == "shape" else True if node.attr == "is_cuda" else None

    def _subscript(self, node: ast.Subscript) -> Any:
        owner = self._value(node.value)
        if not isinstance(owner, tuple):
            return None
        if isinstance(node.slice, ast.Slice):
            low, high = self._value(node.slice.lower), self._value(node.slice.upper)
            whole = all(each is None or isinstance(each, int) for each in (low, high))
            return owner[low:high] if whole and node.slice.step is None else None
        at = self._value(node.slice)
        return owner[at] if isinstance(at, int) and -len(owner) <= at < len(owner) else None

    def _call(self, node: ast.Call) -> Any:
        called = node.func
        if isinstance(called, ast.Subscript):
            return self._launched(self._value(called.slice), self._named(node, ("num_warps",)))
        name = called.attr if isinstance(called, ast.Attribute) else called.id if isinstance(called, ast.Name) else ""
        if name == "launch":
            places = dict(zip(LAUNCH_PLACES, map(self._value, node.args[1:3]), strict=False))
            given = places | self._named(node, (*LAUNCH_PLACES, "shared_bytes"))
            return self._launched(given.get("grid"), given)
        if name not in KNOWN_CALLS:
            return None
        arguments = self._elements(node.args)
        owner = self._value(called.value) if isinstance(called, ast.Attribute) else None
        if arguments is None:
            raise UnreadableError
        return self._made(name, owner, arguments)

    def _named(self, node: ast.Call, wanted: tuple[str, ...]) -> dict[str, Any]:
        self._spend(len(node.keywords))
        return {each.arg: self._value(each.value) for each in node.keywords if each.arg in wanted}

    def _launched(self, grid: Any, given: Mapping[str, Any]) -> None:
        warps = given.get("num_warps", 4)
        threads = product(given["block"]) if "block" in given else 32.0 * warps if is_number(warps) else None
        shared = given.get("shared_bytes", 0)
        self.trace.launches.append(Launch(product(grid), threads, float(shared) if is_number(shared) else 0.0))

    def _made(self, name: str, owner: Any, arguments: tuple[Any, ...]) -> Any:
        """What a function gives; what it allocates is counted."""
        first = arguments[0] if arguments else None
        if name in ALLOCATIONS or name in ALIKE:
            like = first.shape if isinstance(first, Tensor) else None
            shape = like if name in ALIKE else first if isinstance(first, tuple) else arguments
            return self.trace.allocate(Tensor(shape), cleared="empty" not in name)
        if isinstance(owner, Tensor):
            return owner.method(name, arguments)
        if name == "range":
            whole = 1 <= len(arguments) <= 3 and all(isinstance(each, int) for each in arguments)
            # One more than is allowed shows that there are too many.
            return short(tuple(range(*arguments)[: LONGEST + 1])) if whole and 0 not in arguments[2:] else None
        return computed(FUNCTIONS.get(name), *((owner, *arguments) if name == "bit_length" else arguments))


_HANDLERS: Mapping[type, Callable[[RunReader, Any], Any]] = {
    ast.BinOp: RunReader._binary,
    ast.Compare: RunReader._compare,
    ast.UnaryOp: RunReader._negated,
    ast.IfExp: RunReader._choice,
    ast.Tuple: lambda reader, node: reader._elements(node.elts),
    ast.List: lambda reader, node: reader._elements(node.elts),
    ast.Attribute: RunReader._attribute,
    ast.Subscript: RunReader._subscript,
    ast.Call: RunReader._call,
}
