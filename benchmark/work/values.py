"""What operands hold: registers, literals, symbols, special registers and parameters of a warp."""

from __future__ import annotations

import dataclasses
import functools
import math
import re
from collections.abc import Mapping

from kbench.benchmark.work.lanes import IDS, WARP, Lanes, folded, wrapped
from kbench.benchmark.work.memory import Box
from kbench.benchmark.work.ptx import REGISTER, Function, Instruction

PARAMETERS = 0x7000_0000
"""Where parameters lie, as far as their addresses are asked for: 4 KiB each."""
ADDRESS = re.compile(r"\[\s*([%$\w']+)?\s*(?:\+\s*(-?(?:0x[0-9a-fA-F]{1,16}|\d{1,18})))?\s*[\],]")
LITERAL = re.compile(r"-?(?:0[xX][0-9a-fA-F]{1,16}|\d{1,20})U?$")


@functools.lru_cache(maxsize=4096)
def address_parts(operand: str) -> tuple[str, int]:
    """Register or symbol and offset of an address in brackets; no name where it has another form."""
    match = ADDRESS.match(operand)
    return (match[1] or "", int(match[2] or "0", 0)) if match else ("", 0)


@dataclasses.dataclass(frozen=True, slots=True)
class Place:
    """Where a warp is in its launch, and what it was given."""

    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    block_id: tuple[int, int, int]
    warp: int
    arguments: Mapping[str, bytes | int | Box]
    """By parameter name: bytes of a value, an address, or what a tensor map moves at once."""
    cluster: tuple[int, int, int] = (1, 1, 1)


class Values:
    """What the operands of a warp's instructions hold; None is unknown."""

    def __init__(self, function: Function, place: Place) -> None:
        """Parameters and symbols; no register holds anything yet."""
        self.place = place
        self.registers: dict[str, Lanes] = {}
        self.constants: dict[str, Lanes] = {}
        self.boxes: dict[int, Box] = {}
        """Tensor maps by the address of the parameter that holds them."""
        self.symbols: dict[str, int] = dict(function.shared)
        for number, (name, _) in enumerate(function.parameters):
            self.symbols[name] = PARAMETERS + (number << 12)
            held = place.arguments.get(name)
            if isinstance(held, Box):
                self.boxes[self.symbols[name]] = held

    def packed(self, operand: str, kind: str) -> Lanes:
        """Several registers as one wide one, the first lowest."""
        parts = [self.value(name) for name in REGISTER.findall(operand)]
        if not parts or any(part is None for part in parts):
            return None
        bits = int(kind[1:] if kind[1:].isdigit() else 64) // len(parts)
        total: int | Lanes = 0
        for number, part in enumerate(parts):
            low = wrapped(part, f"u{bits}")
            total = total | (low << number * bits)  # type: ignore[operator]
        return wrapped(total, kind)

    def predicate(self, operand: str) -> Lanes:
        """An operand that may be negated."""
        value = self.value(operand.lstrip("!"))
        return value if value is None or operand[0] != "!" else 1 - value

    def value(self, operand: str) -> Lanes:
        """A register, or what never changes."""
        if operand in self.registers:
            return self.registers[operand]
        if operand not in self.constants:
            self.constants[operand] = self._constant(operand)
        return self.constants[operand]

    def _constant(self, operand: str) -> Lanes:
        """A number, a symbol or what a special register holds; none of them changes."""
        if operand[:1] == "%":
            return self._special(operand)
        if LITERAL.match(operand):
            return wrapped(int(operand.rstrip("U"), 16 if "x" in operand.lower() else 10), "s64")
        return self.symbols.get(operand.partition("+")[0])

    def _special(self, name: str) -> Lanes:
        place, axis = self.place, "xyz".find(name[-1])
        if name.startswith("%tid."):
            x, y, _ = place.block
            thread = place.warp * WARP + IDS
            return folded((thread % x, thread // x % y, thread // (x * y))[axis])
        inside = [i % c for i, c in zip(place.block_id, place.cluster, strict=True)]
        simple: dict[str, Lanes] = {
            "%ntid": place.block[axis],
            "%ctaid": place.block_id[axis],
            "%nctaid": place.grid[axis],
            "%cluster_ctaid": inside[axis],
            "%cluster_nctaid": place.cluster[axis],
            "%clusterid": place.block_id[axis] // place.cluster[axis],
            "%nclusterid": -(-place.grid[axis] // place.cluster[axis]),
            "%cluster_ctarank": inside[0] + place.cluster[0] * (inside[1] + place.cluster[1] * inside[2]),
            "%cluster_nctarank": math.prod(place.cluster),
            "%laneid": IDS,
            "%warpid": place.warp,
            "%lanemask_lt": (1 << IDS) - 1,
            "%lanemask_le": (2 << IDS) - 1,
            "%lanemask_eq": 1 << IDS,
        }
        return simple.get(name.partition(".")[0])

    def address(self, operand: str) -> Lanes:
        """An address in brackets."""
        name, offset = address_parts(operand)
        base = self.value(name) if name else None
        return None if base is None else base + offset

    def parameter(self, one: Instruction, where: str) -> list[Lanes]:
        """What a load from a parameter brings."""
        name, start = address_parts(where)
        held = self.place.arguments.get(name)
        if held is None or isinstance(held, Box):
            return [None] * len(one.writes)
        if isinstance(held, int):
            return [held] * len(one.writes)
        size = one.nbytes // max(1, len(one.writes))
        pieces = (held[start + n * size : start + (n + 1) * size] for n in range(len(one.writes)))
        return [wrapped(int.from_bytes(piece, "little"), one.type or "s64") for piece in pieces]
