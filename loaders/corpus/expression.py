"""Filter expressions: `runtime_us < 10 and source contains 'wgmma'`, made a filter of pyarrow."""

from __future__ import annotations

import ast
import numbers
import operator
import re
from collections.abc import Callable, Collection, Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from kbench.loaders.corpus.configs import SPLITS
from kbench.schemas import UnknownNameError, UserError
from kbench.schemas.record import ID_PATTERN, FieldType

if TYPE_CHECKING:
    import pyarrow.compute as pc

COMPARISONS: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt, ast.LtE: operator.le,
    ast.Gt: operator.gt, ast.GtE: operator.ge,
}  # fmt: skip
EQUALITIES = (ast.Eq, ast.NotEq)
"""What truth values can be compared by."""
SYNTAX = "use comparisons, and, or, not, in [..], contains and is null, such as: runtime_us < 10 and backend == 'cuda'"
SQL_WORDS = re.compile(r"\b(AND|OR|NOT|IN|IS|CONTAINS)\b")
SUBSTRING = re.compile(r"\b(\w+)\s+(not\s+)?contains\s*$")
"""What stands before the text that a column contains."""
Closed = Mapping[str, Collection[str]]
NOTHING_CLOSED: Closed = MappingProxyType({})
ID_DIGITS = 32
"""Digits of an id of ours; fewer are read as its beginning."""


def is_prefix(declared: FieldType | None, value: Any) -> bool:
    """Whether a value is the beginning of an id, in a column of ids."""
    is_id = declared is not None and declared.limit is not None and declared.limit.pattern == ID_PATTERN
    return is_id and isinstance(value, str) and 0 < len(value) < ID_DIGITS


def among(field: pc.Expression, values: Collection[Any], declared: FieldType | None = None) -> pc.Expression:
    """Whether a column's value is one of these; null is when None is listed, and is not otherwise.

    In a column `declared` to hold ids, one of fewer digits stands for all ids that begin so.
    """
    import pyarrow.compute as pc

    null = field.is_null()
    prefixes = [value for value in values if is_prefix(declared, value)]
    if prefixes:
        rest = among(field, [value for value in values if value not in prefixes])
        return _joined(operator.or_, [rest, *(pc.starts_with(field, prefix) & ~null for prefix in prefixes)])
    listed = [value for value in values if value is not None]
    if not listed:
        return null if values else null & ~null
    is_listed = field.isin(listed) & ~null
    return is_listed | null if len(listed) < len(values) else is_listed


def read_expression(
    text: str, columns: Collection[str] | Mapping[str, FieldType], closed: Closed = NOTHING_CLOSED
) -> pc.Expression:
    """The filter a text describes.

    Args:
        text: the condition.
        columns: the columns there are; where their types come with them, what they are compared with must fit.
        closed: of columns with few words, the words that there are.
    """
    try:
        tree = ast.parse(_as_python(text.strip()), mode="eval").body
        return _Reader(text, columns, closed).truth(tree)
    except UserError:
        raise
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise UserError(f"where {text!r} cannot be read; {SYNTAX}") from None


def _as_python(text: str) -> str:
    """The text as Python writes it where SQL differs, outside quotes: `=`, `<>`, `AND`, `null`, `contains`."""
    parts = re.split(r"""('[^']*'|"[^"]*")""", text)
    for number in range(0, len(parts), 2):
        part = re.sub(r"(?<![<>=!])=(?!=)", "==", parts[number].replace("<>", "!="))
        part = SQL_WORDS.sub(lambda word: word[0].lower(), part)
        parts[number] = re.sub(r"\b(null|NULL|none)\b", "None", part)
        match = SUBSTRING.search(parts[number])
        if match and number + 1 < len(parts):
            parts[number] = parts[number][: match.start()]
            parts[number + 1] += f" {match[2] or ''}in {match[1]}"
    return "".join(parts)


class _Reader:
    def __init__(self, text: str, columns: Collection[str] | Mapping[str, FieldType], closed: Closed) -> None:
        self.text, self.columns, self.closed = text, columns, closed
        self.types: Mapping[str, FieldType] = columns if isinstance(columns, Mapping) else {}

    def truth(self, node: ast.expr) -> Any:
        if isinstance(node, ast.BoolOp):
            join = operator.and_ if isinstance(node.op, ast.And) else operator.or_
            return _joined(join, [self.truth(value) for value in node.values])
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            return ~self.truth(node.operand)
        if isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            parts = [self._one(*each) for each in zip(sides[:-1], node.ops, sides[1:], strict=True)]
            return _joined(operator.and_, parts)
        if isinstance(node, ast.Name):
            return self._flag(node)
        raise self._refusal(node)

    def _flag(self, node: ast.Name) -> Any:
        """A column that is a condition by itself."""
        field = self._field(node)
        if node.id in self.types and kind_of(node.id, self.types[node.id]) is not bool:
            raise UserError(f"where {self.text!r}: {node.id!r} alone is no condition, because it is not true or false; "
                            f"compare it with something, such as: {node.id} is not None; a shell takes < and > for "
                            "itself unless the whole condition is in quotes")  # fmt: skip
        return field

    def _one(self, left: ast.expr, symbol: ast.cmpop, right: ast.expr) -> Any:
        if isinstance(symbol, ast.In | ast.NotIn):
            is_in = self._contained(left, right) if isinstance(right, ast.Name) else self._listed(left, right)
            return is_in if isinstance(symbol, ast.In) else ~is_in
        if _is_none(left):
            left, right = right, left
        if _is_none(right):
            null = self._field(left).is_null()
            if isinstance(symbol, ast.Is | ast.Eq):
                return null
            if isinstance(symbol, ast.IsNot | ast.NotEq):
                return ~null
        if type(symbol) not in COMPARISONS:
            raise self._refusal(left)
        declared = self.types.get(left.id) if isinstance(left, ast.Name) else None
        if isinstance(symbol, EQUALITIES) and isinstance(right, ast.Constant) and is_prefix(declared, right.value):
            begins = self._listed(left, right)
            return begins if isinstance(symbol, ast.Eq) else ~begins & ~self._field(left).is_null()
        return COMPARISONS[type(symbol)](*self._operands(left, symbol, right))

    def _contained(self, left: ast.expr, right: ast.Name) -> Any:
        """Whether a column of text has this in it."""
        import pyarrow.compute as pc

        field, text = self._field(right), self._literal(left)
        is_text = right.id not in self.types or kind_of(right.id, self.types[right.id]) is str
        if not isinstance(text, str) or not is_text:
            raise self._refusal(ast.Compare(left, [ast.In()], [right]))
        return pc.match_substring(field, text)

    def _listed(self, left: ast.expr, right: ast.expr) -> Any:
        """Whether a column's value is one of a list, or the only one given."""
        values = self._literal(right)
        listed = list(values) if isinstance(values, list | tuple | set) else [values]
        declared = self.types.get(left.id) if isinstance(left, ast.Name) else None
        if declared is not None:
            listed = [member(ast.unparse(left), declared, value, self.closed) for value in listed]
        return among(self._field(left), listed, declared)

    def _operands(self, left: ast.expr, symbol: ast.cmpop, right: ast.expr) -> tuple[Any, Any]:
        """Both sides of a comparison, of which one at least is a column."""
        names = [node.id for node in (left, right) if isinstance(node, ast.Name)]
        if not names:
            raise self._refusal(ast.Compare(left, [symbol], [right]))
        both = self._operand(left, names[-1]), self._operand(right, names[0])
        kinds = {kind_of(name, self.types[name]) for name in names if name in self.types}
        families = {float if kind is int else kind for kind in kinds}
        if len(families) > 1 or (bool in families and not isinstance(symbol, EQUALITIES)):
            raise self._refusal(ast.Compare(left, [symbol], [right]))
        return both

    def _operand(self, node: ast.expr, beside: str) -> Any:
        """A column, or a value that is compared with the column `beside`."""
        if isinstance(node, ast.Name):
            is_text = beside in self.types and issubclass(self.types[beside].base, str)
            if is_text and node.id not in self.columns:
                raise UserError(
                    f"where {self.text!r}: no column is called {node.id!r}; put a text in quotes: '{node.id}'"
                )
            return self._field(node)
        value = self._literal(node)
        return operand(beside, self.types[beside], value, self.closed) if beside in self.types else value

    def _field(self, node: ast.expr) -> Any:
        import pyarrow.compute as pc

        if not isinstance(node, ast.Name):
            raise self._refusal(node)
        if node.id not in self.columns:
            raise UnknownNameError("column", node.id, self.columns)
        return pc.field(node.id)

    def _literal(self, node: ast.expr) -> Any:
        try:
            return ast.literal_eval(node)
        except (ValueError, TypeError):
            raise self._refusal(node) from None

    def _refusal(self, node: ast.expr) -> UserError:
        return UserError(f"where {self.text!r}: cannot read {ast.unparse(node)!r}; {SYNTAX}")


def _joined(join: Callable[[Any, Any], Any], parts: list[Any]) -> Any:
    """All parts in one condition, as a tree of equal halves: a chain takes libraries time quadratic in its length."""
    while len(parts) > 1:
        pairs = [join(*pair) for pair in zip(parts[::2], parts[1::2], strict=False)]
        parts = [*pairs, parts[-1]] if len(parts) % 2 else pairs
    return parts[0]


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


INTEGERS = range(-(2**63), 2**63)
"""What an integer column can hold."""
WORDS = {str: "text", int: "whole numbers", float: "numbers", bool: "true or false"}


def kind_of(name: str, field: FieldType) -> type:
    """What a column's values are: str, int, float or bool."""
    declared = next((kind for kind in (str, bool, int, float) if issubclass(field.base, kind)), None)
    if declared is None:
        raise UserError(f"column {name!r} holds lists or records; a filter can only ask whether it is None")
    return declared


def operand(name: str, field: FieldType, value: Any, closed: Closed = NOTHING_CLOSED) -> Any:
    """A value to compare a column with; a whole number may be compared with a broken one."""
    kind = kind_of(name, field)
    if hasattr(value, "as_py"):
        value = value.as_py()  # an Arrow scalar
    is_number = isinstance(value, numbers.Real) and not isinstance(value, bool)
    if kind is str and isinstance(value, str):
        words: Collection[str] = (
            SPLITS if name == "split" else [*map(str, field.base)] if issubclass(field.base, StrEnum) else ()
        )
        words = words or closed.get(name, ())
        if words and value not in words:
            raise UnknownNameError(name, value, words)
        return str(value)  # of a member of an enumeration
    if kind is bool and isinstance(value, bool):
        return value
    if kind in (int, float) and is_number:
        return _number(name, kind, value)
    raise _misfit(name, kind, value)


def member(name: str, field: FieldType, value: Any, closed: Closed = NOTHING_CLOSED) -> Any:
    """A value that a column may equal, in the column's own type; None stays None."""
    if value is None:
        return None
    number = operand(name, field, value, closed)
    if kind_of(name, field) is int and isinstance(number, float):
        if not number.is_integer() or int(number) not in INTEGERS:
            raise _misfit(name, int, value)
        return int(number)
    return number


def _number(name: str, kind: type, value: Any) -> int | float:
    if kind is int and isinstance(value, numbers.Integral):
        if int(value) not in INTEGERS:
            raise UserError(f"the filter does not fit its column: {name} holds 64-bit integers, {value} is beyond them")
        return int(value)
    try:
        return float(value)
    except OverflowError:
        raise UserError(f"the filter does not fit its column: {name} holds numbers, {value} is too large") from None


def _misfit(name: str, kind: type, value: Any) -> UserError:
    return UserError(f"the filter does not fit its column: {name} holds {WORDS[kind]}, not {value!r}")
