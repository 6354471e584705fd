"""Abstract execution: one warp of a function, integers concrete, floats and loaded values unknown.

What a warp does depends on its integers: indices, trip counts, addresses. They follow from the launch and the warp's
place in it, so they can be computed without a GPU. Divergent branches run one side after the other until they meet
again, as on the machine. Where a branch depends on data, both sides count half; a loop that only data can end is left
when its other ends do not come.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import re
from collections import defaultdict
from collections.abc import Mapping

import numpy as np

from kbench.benchmark.work.arithmetic import compared, joined, result, shuffled, voted
from kbench.benchmark.work.flow import MEMORY, Flow, is_ticket
from kbench.benchmark.work.lanes import IDS, WARP, Lanes, Mask, chosen, folded, same, shifted, spread, wrapped
from kbench.benchmark.work.loops import (
    ENOUGH_TURNS,
    MANY_STEPS,
    PERIODS,
    Comparison,
    Trace,
    Turn,
    about_even,
    advanced,
    periods_left,
)
from kbench.benchmark.work.memory import SECTOR, Box, Footprint, sectors, wavefronts
from kbench.benchmark.work.ptx import REGISTER, Function, Instruction

MOST_STEPS = 100_000
"""Instructions executed before a warp is given up: endless loops end here."""
BUFFER_SHIFT = 36
"""Buffers are taken to lie this many bits apart, the first one so far from zero."""
INTEGERS = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.int64}
MOST_HALVES = 12
"""Unknown branches within one another; deeper ones weigh too little to be looked at."""
PARAMETERS = 0x7000_0000
"""Where parameters lie, as far as their addresses are asked for: 4 KiB each."""
ADDRESS = re.compile(r"\[\s*([%$\w']+)?\s*(?:\+\s*(-?(?:0x[0-9a-fA-F]{1,16}|\d{1,18})))?\s*[\],]")
LITERAL = re.compile(r"-?(?:0[xX][0-9a-fA-F]{1,16}|\d{1,20})U?$")


@functools.lru_cache(maxsize=4096)
def address_parts(operand: str) -> tuple[str, int]:
    """Register or symbol and offset of an address in brackets; no name where it has another form."""
    match = ADDRESS.match(operand)
    return (match[1] or "", int(match[2] or "0", 0)) if match else ("", 0)


@functools.lru_cache(maxsize=1024)
def spaces_of(parts: tuple[str, ...]) -> frozenset[str]:
    """Parts of an opcode without what follows two colons: shared::cta is shared."""
    return frozenset(part.partition("::")[0] for part in parts)


class TooLongError(Exception):
    """The warp did not come to an end within MOST_STEPS."""


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


@dataclasses.dataclass(slots=True)
class Path:
    """Lanes that run together, and where they meet others again."""

    at: int
    until: int
    mask: Mask
    weight: float
    whole: bool
    """Whether these are all lanes that still run."""


class Warp:
    """One warp on its way through a function."""

    def __init__(
        self,
        function: Function,
        flow: Flow,
        place: Place,
        footprint: Footprint | None = None,
        contents: Mapping[int, bytes] | None = None,
    ) -> None:
        """Stand at the first instruction.

        Args:
            function: what to run.
            flow: its control flow.
            place: where the warp is in its launch.
            footprint: what other warps of the block touched.
            contents: what buffers hold, by number, where that is known.
        """
        self.function, self.flow, self.place, self.contents = function, flow, place, contents or {}
        self.footprint = footprint if footprint is not None else Footprint()
        self.trace = Trace()
        self.registers: dict[str, Lanes] = {}
        self.constants: dict[str, Lanes] = {}
        self.alive: Mask = place.warp * WARP + IDS < math.prod(place.block)
        self.turns: defaultdict[int, list[Turn]] = defaultdict(list)
        self.patience: defaultdict[int, int] = defaultdict(int)
        self.log: list[Comparison] = []
        self.decided: set[int] = set()
        """Branches whose outcome was known once."""
        self.undecided: set[int] = set()
        self.boxes: dict[int, Box] = {}
        self.begin = 0
        """Where the code that runs together begins."""
        self.symbols: dict[str, int] = dict(function.shared)
        for number, (name, _) in enumerate(function.parameters):
            self.symbols[name] = PARAMETERS + (number << 12)
            held = place.arguments.get(name)
            if isinstance(held, Box):
                self.boxes[self.symbols[name]] = held

    def run(self) -> Trace:
        """Run to the end.

        Raises:
            TooLongError: the end does not come.
        """
        self._run(self._path(0, len(self.function.code), self.alive, 1.0), 0)
        for start, block in self.flow.blocks.items():
            visits = self.trace.visits.get(start, 0.0)
            for at in range(start, block.end + block.leaves) if visits else ():
                self.trace.visits[at] = visits
        return self.trace

    def _path(self, at: int, until: int, mask: Mask, weight: float) -> Path:
        return Path(at, until, mask.copy(), weight, bool((mask == self.alive).all()))

    def _run(self, start: Path, halves: int) -> None:
        """Run block by block; visits are counted where a block begins."""
        code, end, trace = self.function.code, len(self.function.code), self.trace
        stack = [start]
        while stack:
            path = stack[-1]
            if path.at >= end or path.at == path.until or not path.mask.any():
                stack.pop()
                continue
            block = self.flow.blocks[path.at]
            issued = path.weight * (block.end + block.leaves - path.at)
            trace.visits[path.at] += path.weight
            if block.loads:
                trace.rounds[path.at] += path.weight
            trace.issued += issued
            trace.uncertain += issued if halves else 0.0
            trace.steps += 1 + len(block.steps)
            if trace.steps > MOST_STEPS:
                raise TooLongError(f"{self.function.name} runs for more than {MOST_STEPS} steps")
            self.begin = path.at
            for at in block.steps:
                self._step(code[at], at, path)
            path.at = block.end
            if block.leaves and code[block.end].name == "bra":
                self._branch(code[block.end], path, stack, halves)
            elif block.leaves:
                self._leave(code[block.end], path, stack)

    def _guard(self, one: Instruction) -> Lanes:
        if one.guard is None:
            return 1
        value = self.registers.get(one.guard)
        return value if value is None or not one.negated else 1 - value

    # Branches.

    def _branch(self, one: Instruction, path: Path, stack: list[Path], halves: int) -> None:
        at, target = path.at, self.flow.targets.get(path.at, len(self.function.code))
        guard = self._guard(one)
        if guard is None:
            self._unknown_branch(path, target, halves)
            return
        if one.guard is not None:
            self.decided.add(at)
        taken = path.mask & (spread(guard) != 0)
        if not taken.any():
            path.at = at + 1
            self._left(at, path.at)
        elif (taken == path.mask).all():
            path.at = target
            self._left(at, target)
            if target <= at:
                self._turn(target, path)
        else:
            # Lanes that leave a loop wait behind it for those that stay.
            self.turns.pop(target, None)
            path.at = self.flow.meets[at]
            for start, mask in ((at + 1, path.mask & ~taken), (target, taken)):
                if start != path.at:
                    stack.append(self._path(start, path.at, mask, path.weight))

    def _left(self, at: int, to: int) -> None:
        """Forget the turns of loops that a branch leaves, for they may be entered again."""
        for loop in self.flow.loops_by_exit.get(at, ()):
            if not loop.holds(to):
                self.turns.pop(loop.head, None)

    def _unknown_branch(self, path: Path, target: int, halves: int) -> None:
        at, meet = path.at, self.flow.meets[path.at]
        if at in self.flow.loops_by_exit:
            loop = self.flow.loops_by_exit[at][0]
            (self.trace.waits if loop.waits else self.trace.unknown_branches)[at] += path.weight
            inside, outside = (target, at + 1) if loop.holds(target) else (at + 1, target)
            others = loop.exits - {at}
            stay = bool(others & self.decided) or (at not in self.undecided and bool(others))
            self.undecided.add(at)
            path.at = inside if stay else outside
            self._left(at, path.at)
            if stay and inside <= at:
                self._turn(inside, path)
            return
        self.trace.unknown_branches[at] += path.weight
        path.at = meet
        if halves >= MOST_HALVES:
            return
        before = dict(self.registers)
        self._run(self._path(at + 1, meet, path.mask, path.weight / 2), halves + 1)
        first, self.registers = self.registers, before
        self._run(self._path(target, meet, path.mask, path.weight / 2), halves + 1)
        for name, value in first.items():
            if name not in self.registers:
                self.registers[name] = value
            elif not same(self.registers[name], value):
                self.registers[name] = None

    def _leave(self, one: Instruction, path: Path, stack: list[Path]) -> None:
        guard = self._guard(one)
        path.at += 1
        if guard is None:
            self.trace.unknown_branches[path.at - 1] += path.weight
            return
        gone = path.mask & (spread(guard) != 0)
        if path.weight == 1.0:
            self.alive = self.alive & ~gone
        for other in stack:
            other.mask = other.mask & ~gone
            other.whole = bool((other.mask == self.alive).all())

    def _turn(self, head: int, path: Path) -> None:
        """Note the state at a loop's head, and leave out the turns that repeat.

        A loop in which nothing repeats is looked at again when it has run twice as long.
        """
        if self.trace.steps < self.patience[head]:
            return
        turns, carried = self.turns[head], self.flow.carried.get(head, frozenset())
        turns.append(Turn(dict(self.registers), self.trace.copy(), len(self.log)))
        full = len(turns) > 2 * PERIODS[-1] + 1
        costly = len(turns) >= ENOUGH_TURNS and self.trace.steps - turns[-ENOUGH_TURNS].trace.steps > MANY_STEPS
        for period in PERIODS:
            if len(turns) <= 2 * period:
                break
            count = periods_left(turns, period, carried, self.log, path.mask)
            about = period == 1 and costly and about_even(turns)
            if not count and (about or (full and period == PERIODS[-1])):
                count = periods_left(turns, period, carried, self.log, path.mask, self.flow.decisive[head])
            if count > 0:
                last, before, first = turns[-1], turns[-1 - period], turns[-1 - 2 * period]
                self.registers = advanced(last, before, first, count, carried)
                fresh = sum(self.trace.fresh.values())
                self.trace.repeat(before.trace, count)
                self.footprint.pass_by(sum(self.trace.fresh.values()) - fresh)
                turns.clear()
                return
        if full:
            turns.clear()
            self.patience[head] = 2 * self.trace.steps

    # Instructions.

    def _step(self, one: Instruction, at: int, path: Path) -> None:
        guard = self._guard(one)
        if guard is None:
            if one.name in MEMORY:
                self._memory(one, at, path.mask, path.weight)
            for name in one.writes:
                self.registers[name] = None
            return
        mask, whole = path.mask, path.whole
        if one.guard is not None and not (isinstance(guard, int) and guard):
            mask, whole = mask & (spread(guard) != 0), False
            if not mask.any():
                return
        values = self._memory(one, at, mask, path.weight) if one.name in MEMORY else self._results(one, at, mask)
        for name, value in zip(one.writes, values, strict=False):
            old = self.registers.get(name)
            self.registers[name] = value if whole or old is None else chosen(mask.astype(int), value, old)

    def _results(self, one: Instruction, at: int, mask: Mask) -> list[Lanes]:
        """What an instruction writes, for each of its destinations."""
        name, unknown = one.name, [None] * len(one.writes)
        if name == "setp":
            return self._compare(one, at)
        if name == "mbarrier":
            # A wait ends when the signal comes; waiting costs time but no work.
            return [1] if "try_wait" in one.parts or "test_wait" in one.parts else list(unknown)
        if name == "elect":
            elected = folded(np.equal(IDS, mask.argmax()).astype(int))
            return [int(mask.argmax()), elected] if len(one.writes) > 1 else [elected]
        if name == "activemask":
            return [voted("ballot", 1, mask)]
        if name == "vote" and len(one.operands) > 1:
            mode = next((part for part in one.parts if part in ("any", "all", "ballot")), "")
            return [voted(mode, self._predicate(one.operands[1]), mask) if mode else None]
        if name == "shfl" and len(one.operands) >= 4:
            mode = next((part for part in one.parts if part in ("up", "down", "bfly", "idx")), "idx")
            return [shuffled(mode, *(self._value(operand) for operand in one.operands[1:4])), None]
        if len(one.writes) == 1:
            if name == "mov" and len(one.operands) > 1 and one.operands[1][0] == "{":
                return [self._packed(one.operands[1], one.type)]
            return [result(one, [self._predicate(operand) for operand in one.operands[1:]])]
        if name == "mov" and len(one.operands) == 2:
            whole = self._value(one.operands[1])
            bits = (64 if one.type.endswith("64") else 32) // len(one.writes)
            if whole is not None and bits:
                parts = (shifted(whole, n * bits, left=False, bits=64) for n in range(len(one.writes)))
                return [wrapped(part, f"u{bits}") for part in parts]
        return list(unknown)

    def _compare(self, one: Instruction, at: int) -> list[Lanes]:
        kind = one.type
        if len(one.operands) < 3 or not one.parts:
            return [None, None]
        outcome: Lanes = None
        if kind[:1] in "sub" and kind[:2] != "bf":
            signed = kind if kind[:1] in "su" else "u" + kind[1:]
            a, b = (wrapped(self._value(operand), signed) for operand in one.operands[1:3])
            self.log.append(Comparison(at, a, b, one.parts[0]))
            outcome = compared(one, a, b)
        if len(one.operands) == 4:
            how = one.parts[1] if len(one.parts) > 2 else "and"
            outcome = joined(how, outcome, self._predicate(one.operands[3]))
        return [outcome, None if outcome is None else 1 - outcome]

    def _packed(self, operand: str, kind: str) -> Lanes:
        """Several registers as one wide one, the first lowest."""
        parts = [self._value(name) for name in REGISTER.findall(operand)]
        if not parts or any(part is None for part in parts):
            return None
        bits = int(kind[1:] if kind[1:].isdigit() else 64) // len(parts)
        total: int | Lanes = 0
        for number, part in enumerate(parts):
            low = wrapped(part, f"u{bits}")
            total = total | (low << number * bits)  # type: ignore[operator]
        return wrapped(total, kind)

    # Operands.

    def _predicate(self, operand: str) -> Lanes:
        value = self._value(operand.lstrip("!"))
        return value if value is None or operand[0] != "!" else 1 - value

    def _value(self, operand: str) -> Lanes:
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

    # Memory.

    def _memory(self, one: Instruction, at: int, mask: Mask, weight: float) -> list[Lanes]:
        """Count an access; what a load of a parameter brings is known."""
        places = [operand for operand in one.operands if operand[0] == "["]
        spaces = spaces_of(one.parts)
        unknown: list[Lanes] = [None] * len(one.writes)
        if not places or spaces & {"local", "const"}:
            return unknown
        if "param" in spaces:
            return self._parameter(one, places[0]) if one.name == "ld" else unknown
        if one.name == "cp":
            if "bulk" in spaces:
                self._bulk(one, at, places, int(mask.sum()) * weight)
                return unknown
            if len(places) < 2:
                return unknown
            self._shared(at, self._address(places[0]), self._width(one), mask, weight)
        where, nbytes = self._address(places[-1] if one.name == "cp" else places[0]), self._width(one)
        if one.name != "cp" and ("shared" in spaces or one.name in ("ldmatrix", "stmatrix")):
            if one.name in ("ldmatrix", "stmatrix"):
                matrices = next((int(part[1:]) for part in one.parts if part in ("x1", "x2", "x4")), 1)
                mask = mask & np.less(IDS, 8 * matrices)
            self._shared(at, where, nbytes, mask, weight)
            return self._exchanged(one, where, mask) if one.name in ("ld", "st") else unknown
        trace = self.trace
        if where is None:
            count = max(1.0, float(mask.sum()) * nbytes / SECTOR)
            trace.unknown_addresses[at] += weight
            for counts in (trace.sectors, trace.fresh, trace.unique):
                counts[at] += weight * count
            return unknown
        addresses = spread(where)[mask]
        request = sectors(addresses, nbytes)
        cached = one.name in ("ld", "ldu") or (one.name == "cp" and "ca" in one.parts)
        buffer = trace.buffers[at] = int(addresses[0]) >> BUFFER_SHIFT
        missing, unique = self.footprint.touch(buffer, request, cached=cached)
        trace.sectors[at] += weight * len(request)
        trace.fresh[at] += weight * missing
        trace.unique[at] += weight * unique
        if is_ticket(one):
            return [self._ticket(one, mask)]
        return self._loaded(one, where, mask) if one.name in ("ld", "ldu") else unknown

    def _ticket(self, one: Instruction, mask: Mask) -> Lanes:
        """The count that a block is told: blocks come in their order, again and again."""
        step, (x, y, _), (i, j, k) = self._value(one.operands[-1]), self.place.grid, self.place.block_id
        if not isinstance(step, int) or mask.sum() != 1:
            return None
        return step * (i + x * (j + y * k) + self._times_before() * math.prod(self.place.grid))

    def _times_before(self) -> int:
        """How often the warp has been here before."""
        return max(0, round(self.trace.visits[self.begin]) - 1)

    def _exchanged(self, one: Instruction, where: Lanes, mask: Mask) -> list[Lanes]:
        """Numbers that threads of the block leave for one another, one by one; the rest of shared memory is unknown."""
        if one.name == "st":
            value = self._value(one.operands[-1]) if one.type[:1] in "sub" else None
            place = where if isinstance(where, int) or where is None else int(where[mask.argmax()])
            if place is not None and (mask.sum() == 1 or (isinstance(where, int) and isinstance(value, int))):
                number = value if value is None or isinstance(value, int) else int(value[mask.argmax()])
                self.footprint.numbers.setdefault(place, []).append((self.place.warp, number))
            return []
        told = self.footprint.numbers.get(where) if isinstance(where, int) and len(one.writes) == 1 else None
        if not told:
            return [None] * len(one.writes)
        # Another warp's loop is further on: its numbers are read in the order in which it left them.
        turn = len(told) - 1 if told[-1][0] == self.place.warp else min(self._times_before(), len(told) - 1)
        return [told[turn][1]]

    def _loaded(self, one: Instruction, where: Lanes, mask: Mask) -> list[Lanes]:
        """What a load brings from a buffer whose contents are known."""
        unknown: list[Lanes] = [None] * len(one.writes)
        addresses = spread(where) if where is not None else IDS
        held = self.contents.get((int(addresses[mask.argmax()]) >> BUFFER_SHIFT) - 1)
        if held is None or one.type[:1] not in "sub" or one.type[:2] == "bf":
            return unknown
        size = one.nbytes // max(1, len(one.writes))
        offsets = addresses & (1 << BUFFER_SHIFT) - 1
        if size not in INTEGERS or (offsets[mask] + one.nbytes > len(held)).any():
            return unknown
        values = np.frombuffer(held, dtype=INTEGERS[size], count=len(held) // size)
        places = np.where(mask, offsets, 0) // size
        return [wrapped(folded(values[places + n].astype(np.int64)), one.type) for n in range(len(one.writes))]

    def _shared(self, at: int, where: Lanes, nbytes: int, mask: Mask, weight: float) -> None:
        if where is None:
            self.trace.unknown_addresses[at] += weight
            self.trace.wavefronts[at] += weight * max(1.0, float(mask.sum()) * nbytes / 128)
        else:
            self.trace.wavefronts[at] += weight * wavefronts(spread(where)[mask], nbytes)

    def _width(self, one: Instruction) -> int:
        if one.name == "cp":
            size = self._value(one.operands[2]) if len(one.operands) > 2 else 16
            return size if isinstance(size, int) and 0 < size <= 16 else 16
        return 16 if one.name in ("ldmatrix", "stmatrix") else one.nbytes

    def _bulk(self, one: Instruction, at: int, places: list[str], times: float) -> None:
        """Count a bulk copy: bytes of its size operand, or of the box of its tensor map.

        A box stands in the footprint as one sector, whose number follows from its coordinates.
        """
        size = next((self._value(operand) for operand in one.operands if operand[0] != "["), None)
        nbytes = size if isinstance(size, int) and 0 < size < 1 << 20 else 0
        ends = [self._address(operand) for operand in places]
        buffer, begin = max((end >> BUFFER_SHIFT, end) for end in (*ends, 0) if isinstance(end, int))
        if "tensor" in one.parts:
            nbytes, buffer, begin = 0, 0, 0
            for place, end in zip(places, ends, strict=True):
                box = self.boxes.get(end) if isinstance(end, int) else None
                if box is None:
                    continue
                corner = tuple(self._value(name) for name in REGISTER.findall(place)[1:])
                nbytes, buffer = box.nbytes, box.buffer
                begin = hash((buffer, *(c if isinstance(c, int) else None for c in corner)))
        self.trace.copied[at] += times * nbytes
        if buffer and nbytes:
            _, unique = self.footprint.touch(buffer, {begin}, cached=False)
            self.trace.buffers[at] = buffer
            self.trace.unique[at] += times * unique * nbytes / SECTOR

    def _address(self, operand: str) -> Lanes:
        name, offset = address_parts(operand)
        base = self._value(name) if name else None
        return None if base is None else base + offset

    def _parameter(self, one: Instruction, where: str) -> list[Lanes]:
        name, start = address_parts(where)
        held = self.place.arguments.get(name)
        if held is None or isinstance(held, Box):
            return [None] * len(one.writes)
        if isinstance(held, int):
            return [held] * len(one.writes)
        size = one.nbytes // max(1, len(one.writes))
        pieces = (held[start + n * size : start + (n + 1) * size] for n in range(len(one.writes)))
        return [wrapped(int.from_bytes(piece, "little"), one.type or "s64") for piece in pieces]
