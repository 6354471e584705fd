"""Filter expressions: `runtime_us < 10 and backend == 'cuda'`, read once, made for pyarrow or polars."""

from __future__ import annotations

import ast
import dataclasses
import importlib
import operator
import re
from collections.abc import Callable, Collection, Mapping
from typing import Any

from kbench.loaders.corpus.operand import kind_of, member, operand
from kbench.schemas import UnknownNameError, UserError
from kbench.schemas.record import FieldType

COMPARISONS: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt, ast.LtE: operator.le,
    ast.Gt: operator.gt, ast.GtE: operator.ge,
}  # fmt: skip
EQUALITIES = (ast.Eq, ast.NotEq)
"""What truth values can be compared by."""
SYNTAX = "use comparisons, and, or, not, in [..] and is None, such as: runtime_us < 10 and backend == 'cuda'"


@dataclasses.dataclass(frozen=True, slots=True)
class Dialect:
    """How a library spells the few things that differ."""

    module: str
    column: str
    """The function that gives a column."""
    membership: str
    """The method that says whether a value is listed; what it says of null is the library's."""

    def field(self, name: str) -> Any:
        """A column."""
        return getattr(importlib.import_module(self.module), self.column)(name)


PYARROW = Dialect("pyarrow.compute", "field", "isin")
POLARS = Dialect("polars", "col", "is_in")


def among(dialect: Dialect, field: Any, values: Collection[Any]) -> Any:
    """Whether a column's value is one of these; null is when None is listed, and is not otherwise."""
    null = field.is_null()
    listed = [value for value in values if value is not None]
    if not listed:
        return null if values else null & ~null
    # pyarrow says false of null and polars says null, which `not` would turn into different rows.
    found = getattr(field, dialect.membership)(listed) & ~null
    return found | null if len(listed) < len(values) else found


def read_expression(text: str, columns: Collection[str] | Mapping[str, FieldType], dialect: Dialect) -> Any:
    """The filter a text describes.

    Args:
        text: the condition.
        columns: the columns there are; where their types come with them, what they are compared with must fit.
        dialect: the library the filter is for.

    Raises:
        UserError: the text is not a filter.
        UnknownNameError: it names a column the config does not have.
    """
    try:
        tree = ast.parse(_with_double_equals(text.strip()), mode="eval").body
        return _Reader(text, columns, dialect).truth(tree)
    except UserError:
        raise
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise UserError(f"where {text!r} cannot be read; {SYNTAX}") from None


def _with_double_equals(text: str) -> str:
    """The text with `=` outside quotes read as `==`, as SQL writes it."""
    parts = re.split(r"""('[^']*'|"[^"]*")""", text)
    return "".join(
        part if number % 2 else re.sub(r"(?<![<>=!])=(?!=)", "==", part) for number, part in enumerate(parts)
    )


class _Reader:
    def __init__(self, text: str, columns: Collection[str] | Mapping[str, FieldType], dialect: Dialect) -> None:
        self.text, self.columns, self.dialect = text, columns, dialect
        self.types: Mapping[str, FieldType] = columns if isinstance(columns, Mapping) else {}

    def truth(self, node: ast.expr) -> Any:
        if isinstance(node, ast.BoolOp):
            join = operator.and_ if isinstance(node.op, ast.And) else operator.or_
            return _joined(join, [self.truth(value) for value in node.values])
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            return ~self.truth(node.operand)
        if isinstance(node, ast.Compare):
            return self._comparison(node)
        if isinstance(node, ast.Name):
            return self._flag(node)
        raise self._refusal(node)

    def _flag(self, node: ast.Name) -> Any:
        """A column that is a condition by itself."""
        field = self._field(node)
        if node.id in self.types and kind_of(node.id, self.types[node.id]) is not bool:
            raise UserError(f"where {self.text!r}: {node.id!r} alone is no condition, because it is not true or false; "
                            f"compare it with something, such as: {node.id} is not None")  # fmt: skip
        return field

    def _comparison(self, node: ast.Compare) -> Any:
        sides = [node.left, *node.comparators]
        parts = [self._one(*each) for each in zip(sides[:-1], node.ops, sides[1:], strict=True)]
        return _joined(operator.and_, parts)

    def _one(self, left: ast.expr, symbol: ast.cmpop, right: ast.expr) -> Any:
        if isinstance(symbol, ast.In | ast.NotIn):
            found = among(self.dialect, self._field(left), self._members(left, right))
            return found if isinstance(symbol, ast.In) else ~found
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
        return COMPARISONS[type(symbol)](*self._operands(left, symbol, right))

    def _members(self, left: ast.expr, right: ast.expr) -> list[Any]:
        values = self._literal(right)
        if not isinstance(values, list | tuple | set):
            raise self._refusal(right)
        field = self.types.get(left.id) if isinstance(left, ast.Name) else None
        return list(values) if field is None else [member(ast.unparse(left), field, value) for value in values]

    def _operands(self, left: ast.expr, symbol: ast.cmpop, right: ast.expr) -> tuple[Any, Any]:
        """Both sides of a comparison, of which one at least is a column."""
        names = [node.id for node in (left, right) if isinstance(node, ast.Name)]
        if not names:
            raise self._refusal(ast.Compare(left, [symbol], [right]))
        found = self._operand(left, names[-1]), self._operand(right, names[0])
        kinds = {kind_of(name, self.types[name]) for name in names if name in self.types}
        families = {float if kind is int else kind for kind in kinds}
        if len(families) > 1 or (bool in families and not isinstance(symbol, EQUALITIES)):
            raise self._refusal(ast.Compare(left, [symbol], [right]))
        return found

    def _operand(self, node: ast.expr, beside: str) -> Any:
        """A column, or a value that is compared with the column `beside`."""
        if isinstance(node, ast.Name):
            return self._field(node)
        value = self._literal(node)
        return operand(beside, self.types[beside], value) if beside in self.types else value

    def _field(self, node: ast.expr) -> Any:
        if not isinstance(node, ast.Name):
            raise self._refusal(node)
        if node.id not in self.columns:
            raise UnknownNameError("column", node.id, self.columns)
        return self.dialect.field(node.id)

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
