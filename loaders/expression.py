"""Filter expressions: `runtime_us < 10 and backend == 'cuda'`, read once, made for pyarrow or polars."""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Collection
from typing import Any, Protocol

from kbench.schemas import UnknownNameError, UserError

COMPARISONS: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt, ast.LtE: operator.le,
    ast.Gt: operator.gt, ast.GtE: operator.ge,
}  # fmt: skip
SYNTAX = "use comparisons, and, or, not, in [..] and is None, such as: runtime_us < 10 and backend == 'cuda'"


class Dialect(Protocol):
    """How a library spells the few things that differ."""

    def field(self, name: str) -> Any:
        """A column."""

    def among(self, field: Any, values: list[Any]) -> Any:
        """Whether a column's value is one of these."""

    def null(self, field: Any) -> Any:
        """Whether a column is null."""


class PyArrow:
    """pyarrow.compute expressions."""

    def field(self, name: str) -> Any:
        """A column."""
        import pyarrow.compute as pc

        return pc.field(name)

    def among(self, field: Any, values: list[Any]) -> Any:
        """Whether a column's value is one of these."""
        return field.isin(values)

    def null(self, field: Any) -> Any:
        """Whether a column is null."""
        return field.is_null()


class Polars:
    """polars expressions."""

    def field(self, name: str) -> Any:
        """A column."""
        import polars

        return polars.col(name)

    def among(self, field: Any, values: list[Any]) -> Any:
        """Whether a column's value is one of these."""
        return field.is_in(values)

    def null(self, field: Any) -> Any:
        """Whether a column is null."""
        return field.is_null()


def read_expression(text: str, columns: Collection[str], dialect: Dialect) -> Any:
    """The filter a text describes.

    Raises:
        UserError: the text is not a filter.
        UnknownNameError: it names a column the config does not have.
    """
    try:
        tree = ast.parse(_with_double_equals(text.strip()), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise UserError(f"where {text!r} cannot be read; {SYNTAX}") from None
    return _Reader(text, columns, dialect).truth(tree)


def _with_double_equals(text: str) -> str:
    """The text with `=` outside quotes read as `==`, as SQL writes it."""
    parts = re.split(r"""('[^']*'|"[^"]*")""", text)
    return "".join(
        part if number % 2 else re.sub(r"(?<![<>=!])=(?!=)", "==", part) for number, part in enumerate(parts)
    )


class _Reader:
    def __init__(self, text: str, columns: Collection[str], dialect: Dialect) -> None:
        self.text, self.columns, self.dialect = text, columns, dialect

    def truth(self, node: ast.expr) -> Any:
        if isinstance(node, ast.BoolOp):
            join = operator.and_ if isinstance(node.op, ast.And) else operator.or_
            found = self.truth(node.values[0])
            for value in node.values[1:]:
                found = join(found, self.truth(value))
            return found
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            return ~self.truth(node.operand)
        if isinstance(node, ast.Compare):
            return self._comparison(node)
        if isinstance(node, ast.Name):
            return self._field(node)
        raise self._refusal(node)

    def _comparison(self, node: ast.Compare) -> Any:
        found = None
        left: ast.expr = node.left
        for symbol, right in zip(node.ops, node.comparators, strict=True):
            part = self._one(left, symbol, right)
            found = part if found is None else found & part
            left = right
        return found

    def _one(self, left: ast.expr, symbol: ast.cmpop, right: ast.expr) -> Any:
        if isinstance(symbol, ast.In | ast.NotIn):
            values = self._literal(right)
            if not isinstance(values, list | tuple | set):
                raise self._refusal(right)
            found = self.dialect.among(self._field(left), list(values))
            return found if isinstance(symbol, ast.In) else ~found
        if isinstance(right, ast.Constant) and right.value is None:
            null = self.dialect.null(self._field(left))
            if isinstance(symbol, ast.Is | ast.Eq):
                return null
            if isinstance(symbol, ast.IsNot | ast.NotEq):
                return ~null
        if type(symbol) not in COMPARISONS:
            raise self._refusal(left)
        return COMPARISONS[type(symbol)](self._operand(left), self._operand(right))

    def _operand(self, node: ast.expr) -> Any:
        return self._field(node) if isinstance(node, ast.Name) else self._literal(node)

    def _field(self, node: ast.expr) -> Any:
        if not isinstance(node, ast.Name):
            raise self._refusal(node)
        if node.id not in self.columns:
            raise UnknownNameError("column", node.id, self.columns)
        return self.dialect.field(node.id)

    def _literal(self, node: ast.expr) -> Any:
        try:
            return ast.literal_eval(node)
        except ValueError:
            raise self._refusal(node) from None

    def _refusal(self, node: ast.expr) -> UserError:
        return UserError(f"where {self.text!r}: cannot read {ast.unparse(node)!r}; {SYNTAX}")
