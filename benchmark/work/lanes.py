"""Lanes: integers of a warp's 32 threads, one number where all agree, None where unknown; and instructions on them.

Registers hold values modulo their width, as the machine does; 64-bit words are kept as signed numbers. What depends on
floats or on memory is unknown.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from kbench.benchmark.work.ptx import Instruction

Array = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
Lanes = int | Array | None
"""A value per lane, the same for all, or unknown."""
WARP = 32
IDS: Array = np.arange(WARP, dtype=np.int64)
WIDTHS = {f"{sign}{bits}": (bits, sign == "s") for sign in "sub" for bits in (8, 16, 32)}
COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "eq": operator.eq, "ne": operator.ne, "lt": operator.lt, "le": operator.le, "gt": operator.gt, "ge": operator.ge,
    "lo": operator.lt, "ls": operator.le, "hi": operator.gt, "hs": operator.ge,
}  # fmt: skip
UNKNOWN_RESULTS = frozenset(
    {
        "match",
        "redux",
        "ex2",
        "lg2",
        "sin",
        "cos",
        "rcp",
        "sqrt",
        "rsqrt",
        "tanh",
        "tex",
        "mma",
        "wgmma",
        "wmma",
        "createpolicy",
        "mapa",
        "fma",
        "set",
        "testp",
        "copysign",
    }
)


def wrapped(value: Lanes, kind: str) -> Lanes:
    """A value in the range of an integer type such as s32, u16 or b64; other types leave 64 bits."""
    if value is None:
        return None
    bits, signed = WIDTHS.get(kind, (64, True))
    if isinstance(value, int):
        if 0 <= value < 1 << (bits - 1):
            return value
        low = value & ((1 << bits) - 1)
        return low - (1 << bits) if signed and low >> (bits - 1) else low
    if bits == 64:
        return value
    low_lanes = value & ((1 << bits) - 1)
    return low_lanes - ((low_lanes >> (bits - 1)) << bits) if signed else low_lanes


def folded(value: Array) -> Lanes:
    """One number where all lanes agree."""
    return int(value[0]) if (value == value[0]).all() else value


def spread(value: int | Array) -> Array:
    """A known value as an array."""
    return np.full(WARP, value, dtype=np.int64) if isinstance(value, int) else value


def divided(a: int | Array, b: int | Array, *, remainder: bool) -> Lanes:
    """Quotient or remainder, rounded towards zero as the machine does; unknown where a divisor is zero."""
    x, y = spread(a), spread(b)
    if not y.all():
        return None
    quotient: Array = np.abs(x) // np.abs(y) * np.sign(x) * np.sign(y)
    return folded(x - quotient * y if remainder else quotient)


def shifted(a: int | Array, by: int | Array, *, left: bool, bits: int) -> Lanes:
    """A shift; by the width or more it shifts everything out."""
    if isinstance(a, int) and isinstance(by, int):
        if left:
            return a << by if 0 <= by < bits else 0
        return a >> min(by, bits - 1) if by >= 0 else 0
    x, n = spread(a), np.clip(spread(by), 0, 63)
    return folded(np.where(n >= bits, 0, x << n) if left else x >> np.minimum(n, bits - 1))


def chosen(condition: Lanes, yes: Lanes, no: Lanes) -> Lanes:
    """Per lane, one of two values."""
    if isinstance(condition, int):
        return yes if condition else no
    if yes is None or no is None:
        return None
    if condition is None:
        return yes if same(yes, no) else None
    return folded(np.where(condition != 0, spread(yes), spread(no)))


def same(a: Lanes, b: Lanes) -> bool:
    """Whether two values agree in all lanes, or are both unknown."""
    if a is None or b is None or (isinstance(a, int) and isinstance(b, int)):
        return a is b if a is None or b is None else a == b
    return bool((spread(a) == spread(b)).all())


def result(one: Instruction, values: Sequence[Lanes]) -> Lanes:
    """What an instruction with one destination writes there, given its other operands."""
    name, kind = one.name, one.type
    if name == "mov":
        value = values[0] if values else None
        # Compilers write true as -1; predicates are kept as 0 and 1, so that they can be negated.
        return value if kind != "pred" or value is None else folded((spread(value) != 0).astype(np.int64))
    if name == "selp" and len(values) == 3:
        return chosen(values[2], values[0], values[1])
    if kind[:1] == "f" or kind[:2] in ("bf", "tf") or name in UNKNOWN_RESULTS:
        return None
    known = [value for value in values if value is not None]
    if len(known) < len(values) or not known:
        # Nothing an unknown operand holds can change a product with zero.
        return 0 if name in ("and", "mul") and any(isinstance(v, int) and v == 0 for v in known) else None
    return wrapped(_integer(one, known), _result_type(one))


def _result_type(one: Instruction) -> str:
    kind = one.type
    if one.name in ("mul", "mad") and "wide" in one.parts:
        return f"{kind[0]}{2 * int(kind[1:])}" if kind[1:].isdigit() else "s64"
    if one.name == "cvt":
        return next((part for part in one.parts if part[:1] in "sub" and part[1:].isdigit()), kind)
    return kind if kind[:1] in "sub" else "s64"


def _integer(one: Instruction, values: Sequence[Any]) -> Lanes:
    name, parts, kind = one.name, one.parts, one.type
    bits = int(kind[1:]) if kind[1:].isdigit() else 64
    unsigned_or_signed = "u" + kind[1:] if kind[:1] == "b" else kind
    operands: list[Any] = [wrapped(value, unsigned_or_signed) if kind else value for value in values]
    if name in ("mul", "mad"):
        if "hi" in parts:
            wide = spread(operands[0]).astype(object) * spread(operands[1]).astype(object) >> bits
            product: Any = folded(
                np.array([((int(v) + (1 << 63)) % (1 << 64)) - (1 << 63) for v in wide], dtype=np.int64)
            )
        else:
            product = _narrow(operands[0] * operands[1])
        return _narrow(product + values[2]) if name == "mad" else product  # type: ignore[no-any-return]
    if name in ("div", "rem"):
        return divided(operands[0], operands[1], remainder=name == "rem")
    if name in ("shl", "shr"):
        return shifted(operands[0], values[1], left=name == "shl", bits=bits)
    if name == "cvt":
        source = parts[-1]
        return wrapped(values[0], "u" + source[1:] if source[0] == "b" else source) if source[:1] in "sub" else None
    if name == "not" and kind == "pred":
        return 1 - operands[0]  # type: ignore[no-any-return]
    function = FUNCTIONS.get(name)
    return _narrow(function(*operands)) if function is not None else None


def _narrow(value: Any) -> Any:
    return wrapped(value, "s64") if isinstance(value, int) else value


def _three_inputs(a: Any, b: Any, c: Any, table: Any) -> Lanes:
    """lop3: any logical function of three words, given as a table of its eight outcomes."""
    if not isinstance(table, int):
        return None
    out = 0
    for row in range(8):
        if table >> row & 1:
            out = out | ((a if row & 4 else ~a) & (b if row & 2 else ~b) & (c if row & 1 else ~c))
    return out


def _bit_field(value: Any, start: Any, length: Any) -> Lanes:
    width = np.clip(spread(length), 0, 62)
    return folded((spread(value) >> np.clip(spread(start), 0, 63)) & ((1 << width) - 1))


def _bits_inserted(value: Any, into: Any, start: Any, length: Any) -> Lanes:
    """bfi: the low bits of one word in place of some of another's."""
    place = np.clip(spread(start) & 0xFF, 0, 63)
    width = np.minimum(spread(length) & 0xFF, 63)
    field = ((np.int64(1) << width) - 1) << place
    return folded((spread(into) & ~field) | ((spread(value) << place) & field))


def _permuted_bytes(a: Any, b: Any, selector: Any) -> Lanes:
    """prmt in its plain mode: four bytes chosen out of eight."""
    both = spread(a) & 0xFFFFFFFF | (spread(b) & 0xFFFFFFFF) << 32
    out = np.zeros_like(both)
    for place in range(4):
        choice = spread(selector) >> 4 * place & 0xF
        byte = both >> 8 * (choice & 7) & 0xFF
        out |= np.where(choice & 8, np.where(byte & 0x80, 0xFF, 0), byte) << 8 * place
    return folded(out)


def _ones(value: Any) -> Lanes:
    return folded(np.array([(int(v) & (1 << 64) - 1).bit_count() for v in spread(value)], dtype=np.int64))


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b,
    "not": lambda a: ~a,
    "neg": lambda a: -a,
    "abs": abs,
    "cvta": lambda a: a,
    "min": lambda a, b: folded(np.minimum(spread(a), spread(b))),
    "max": lambda a, b: folded(np.maximum(spread(a), spread(b))),
    "bfe": _bit_field,
    "bfi": _bits_inserted,
    "lop3": _three_inputs,
    "prmt": _permuted_bytes,
    "popc": _ones,
}


def compared(one: Instruction, a: Lanes, b: Lanes) -> Lanes:
    """What setp finds, 0 or 1 for each lane, before it is joined with a further predicate."""
    relation, kind = one.parts[0], one.type
    if a is None or b is None or relation not in COMPARISONS or kind[:1] not in "sub" or kind[:2] == "bf":
        return None
    if isinstance(a, int) and isinstance(b, int) and (kind != "u64" or min(a, b) >= 0):
        return int(COMPARISONS[relation](a, b))
    x, y = spread(a), spread(b)
    if kind == "u64":
        return folded(COMPARISONS[relation](x.view(np.uint64), y.view(np.uint64)).astype(np.int64))
    return folded(COMPARISONS[relation](x, y).astype(np.int64))


def joined(how: str, outcome: Lanes, other: Lanes) -> Lanes:
    """Two predicates as one."""
    if outcome is None or other is None:
        sure = 0 if how == "and" else 1 if how == "or" else None
        return sure if any(isinstance(v, int) and v == sure for v in (outcome, other)) else None
    return outcome & other if how == "and" else outcome | other if how == "or" else outcome ^ other


def shuffled(mode: str, value: Lanes, by: Lanes, clamp: Lanes) -> Lanes:
    """What a lane gets from another one's register."""
    if value is None or isinstance(value, int):
        return value
    if by is None or not isinstance(clamp, int):
        return None
    segment = clamp >> 8 & 31
    highest = (IDS & segment) | (clamp & 31 & ~segment)
    step = spread(by) & 31
    source = {
        "up": IDS - step, "down": IDS + step, "bfly": IDS ^ step, "idx": (IDS & segment) | (step & ~segment),
    }[mode]  # fmt: skip
    inside = source >= highest if mode == "up" else source <= highest
    return folded(value[np.where(inside, source, IDS) % 32])


def voted(mode: str, predicate: Lanes, active: Any) -> Lanes:
    """What all lanes learn from each other's predicates."""
    if predicate is None:
        return None
    lanes = (spread(predicate) != 0) & active
    if mode == "ballot":
        return int((lanes.astype(np.int64) << IDS).sum())
    return int(lanes.any() if mode == "any" else lanes[active].all())
