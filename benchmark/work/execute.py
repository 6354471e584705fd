"""Abstract execution: one warp of a function, integers concrete, floats and loaded values unknown.

What a warp does depends on its integers: indices, trip counts, addresses. They follow from the launch and the thread's
place in it, so they can be computed without a GPU. Divergent branches run both ways until they meet again. A loop whose
registers change by the same amounts every few turns is not run to its end: the number of turns left is solved from its
comparisons, and what one period did counts that many times.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from kbench.benchmark.work.lanes import COMPARISONS, IDS, WARP, Lanes, chosen, divided, folded, shifted, spread, wrapped
from kbench.benchmark.work.ptx import Function, Instruction

MOST_STEPS = 200_000
"""Instructions executed before a warp is given up: hostile loops end here."""
PERIODS = (1, 2, 3, 4, 6, 8)
"""Turns after which a loop's registers may have changed by equal amounts: pipelines rotate through as many buffers."""
MOST_TURNS = 1 << 40
ADDRESS = re.compile(r"\[\s*([%$\w']+)?\s*(?:\+\s*(-?\w+))?\s*[\],]")
EXITS = frozenset({"ret", "exit", "trap"})


class TooLongError(Exception):
    """The warp did not come to an end within MOST_STEPS."""


@dataclasses.dataclass(frozen=True, slots=True)
class Place:
    """Where a warp is in its launch, and what it was given."""

    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    block_id: tuple[int, int, int]
    warp: int
    arguments: Mapping[str, bytes | int]
    """By parameter name: bytes of a value, or an address."""
    cluster: tuple[int, int, int] = (1, 1, 1)


@dataclasses.dataclass(slots=True)
class Trace:
    """What a warp did."""

    visits: Counter[int] = dataclasses.field(default_factory=Counter)
    """How often each instruction was issued, by index; fractions where a branch is not known."""
    sectors: defaultdict[int, float] = dataclasses.field(default_factory=lambda: defaultdict(float))
    """Sectors of 32 bytes that each global access asked for."""
    wavefronts: defaultdict[int, float] = dataclasses.field(default_factory=lambda: defaultdict(float))
    """Turns that each shared access took, bank conflicts included."""
    unknown_addresses: Counter[int] = dataclasses.field(default_factory=Counter)
    unknown_branches: Counter[int] = dataclasses.field(default_factory=Counter)
    steps: int = 0

    def plus(self, period: Trace, before: Trace, times: int) -> None:
        """Add what happened between two states of this trace, that many times."""
        for name in ("visits", "sectors", "wavefronts", "unknown_addresses", "unknown_branches"):
            mine, now, then = (getattr(trace, name) for trace in (self, period, before))
            for key, value in now.items():
                more = value - then.get(key, 0)
                if more:
                    mine[key] += times * more

    def copy(self) -> Trace:
        """The state so far."""
        return Trace(
            Counter(self.visits), defaultdict(float, self.sectors), defaultdict(float, self.wavefronts),
            Counter(self.unknown_addresses), Counter(self.unknown_branches), self.steps,
        )  # fmt: skip


@dataclasses.dataclass(slots=True)
class Path:
    """Lanes that run together, and where they meet others again."""

    at: int
    until: int
    mask: np.ndarray
    weight: float


@dataclasses.dataclass(slots=True)
class Turn:
    """The state when a loop's head is reached."""

    registers: dict[str, Lanes]
    trace: Trace
    comparisons: dict[int, tuple[Lanes, Lanes, str]]


def meeting_points(function: Function) -> list[int]:
    """For every instruction, where paths that part there meet again: its immediate post-dominator."""
    code, end = function.code, len(function.code)
    after: list[tuple[int, ...]] = []
    for at, one in enumerate(code):
        if one.name == "bra":
            target = function.labels.get(one.operands[-1], end)
            after.append((target,) if one.guard is None else (target, at + 1))
        elif one.name in EXITS and one.guard is None:
            after.append((end,))
        else:
            after.append((at + 1,))
    # Post-dominators by depth: the usual two-finger walk over a reverse order, repeated until nothing changes.
    order = _reverse_order(after, end)
    rank = {node: number for number, node in enumerate(order)}
    meet: dict[int, int] = {end: end}
    changed = True
    while changed:
        changed = False
        for node in order[1:]:
            known = [n for n in after[node] if n in meet]
            if not known:
                continue
            best = known[0]
            for other in known[1:]:
                a, b = best, other
                while a != b:
                    while rank[a] > rank[b]:
                        a = meet[a]
                    while rank[b] > rank[a]:
                        b = meet[b]
                best = a
            if meet.get(node) != best:
                meet[node], changed = best, True
    return [meet.get(at, end) for at in range(end)]


def _reverse_order(after: Sequence[tuple[int, ...]], end: int) -> list[int]:
    before: defaultdict[int, list[int]] = defaultdict(list)
    for node, nexts in enumerate(after):
        for one in nexts:
            before[one].append(node)
    order: list[int] = []
    seen = {end}
    stack: list[tuple[int, Any]] = [(end, iter(before[end]))]
    while stack:
        node, rest = stack[-1]
        for one in rest:
            if one not in seen:
                seen.add(one)
                stack.append((one, iter(before[one])))
                break
        else:
            order.append(node)
            stack.pop()
    return order[::-1]


class Warp:
    """One warp on its way through a function."""

    def __init__(self, function: Function, place: Place, meets: Sequence[int]) -> None:
        """Stand at the first instruction."""
        self.function, self.place, self.meets = function, place, meets
        self.registers: dict[str, Lanes] = {}
        self.trace = Trace()
        width = math.prod(place.block)
        first = place.warp * WARP
        self.alive = first + IDS < width
        self.turns: defaultdict[int, list[Turn]] = defaultdict(list)
        self.comparisons: dict[int, tuple[Lanes, Lanes, str]] = {}

    def run(self) -> Trace:
        """Run to the end.

        Raises:
            TooLongError: it does not come.
        """
        code, end = self.function.code, len(self.function.code)
        stack = [Path(0, end, self.alive.copy(), 1.0)]
        while stack:
            path = stack[-1]
            if path.at >= end or path.at == path.until or not path.mask.any():
                stack.pop()
                continue
            self.trace.steps += 1
            if self.trace.steps > MOST_STEPS:
                raise TooLongError(f"{self.function.name} runs for more than {MOST_STEPS} steps")
            one = code[path.at]
            self.trace.visits[path.at] += path.weight  # type: ignore[assignment]
            if one.name == "bra":
                self._branch(one, path, stack)
            elif one.name in EXITS:
                self._leave(one, path, stack)
            else:
                if one.guard is None:
                    self._do(one, path.at, path.mask, path.weight)
                else:
                    self._do_guarded(one, path)
                path.at += 1
        return self.trace

    def _guard(self, one: Instruction) -> Lanes:
        value = self.registers.get(one.guard or "")
        if value is None or not one.negated:
            return value
        return 1 - value

    def _do_guarded(self, one: Instruction, path: Path) -> None:
        guard = self._guard(one)
        if guard is None:
            self._forget(one)
            if one.name in ("ld", "st", "atom", "red", "cp"):
                self._do(one, path.at, path.mask, path.weight)
                self._forget(one)
            return
        mask = path.mask & spread(guard).astype(bool)
        if mask.any():
            before = {name: self.registers.get(name) for name in self._written(one)}
            self._do(one, path.at, mask, path.weight)
            if not (mask == path.mask).all():
                for name, old in before.items():
                    self.registers[name] = chosen(mask.astype(np.int64), self.registers.get(name), 0 if old is None else old)

    def _branch(self, one: Instruction, path: Path, stack: list[Path]) -> None:
        target, following = self.function.labels.get(one.operands[-1], len(self.function.code)), path.at + 1
        guard: Lanes = 1 if one.guard is None else self._guard(one)
        if guard is None:
            self.trace.unknown_branches[path.at] += 1
            if target <= path.at:
                # Mostly a wait for another thread's signal: as a rule it has come.
                path.at = following
                return
            meet, path.at = self.meets[path.at], self.meets[path.at]
            for start in (following, target):
                if start != meet:
                    stack.append(Path(start, meet, path.mask.copy(), path.weight / 2.0))
            return
        taken = path.mask & spread(guard).astype(bool)
        if not taken.any():
            path.at = following
        elif (taken == path.mask).all():
            if target <= path.at:
                self._turn(target, path)
            path.at = target
        else:
            meet = self.meets[path.at]
            rest = path.mask & ~taken
            path.at = meet
            if target <= following - 1:
                # Lanes that leave a loop wait at its end for those that stay.
                self.turns.pop(target, None)
            for start, mask in ((following, rest), (target, taken)):
                if start != meet:
                    stack.append(Path(start, meet, mask, path.weight))

    def _leave(self, one: Instruction, path: Path, stack: list[Path]) -> None:
        guard: Lanes = 1 if one.guard is None else self._guard(one)
        if guard is None:
            self.trace.unknown_branches[path.at] += 1
            path.at += 1
            return
        gone = path.mask & spread(guard).astype(bool)
        for other in stack:
            other.mask = other.mask & ~gone
        path.at += 1

    def _turn(self, head: int, path: Path) -> None:
        """Note the state at a loop's head, and leave out the turns that repeat."""
        turns = self.turns[head]
        turns.append(Turn(dict(self.registers), self.trace.copy(), self.comparisons))
        self.comparisons = {}
        for period in PERIODS:
            if len(turns) > 2 * period and (count := self._periods_left(turns, period)) > 0:
                last, before = turns[-1], turns[-1 - period]
                for name, value in last.registers.items():
                    old = before.registers.get(name)
                    if value is not None and old is not None:
                        self.registers[name] = _advanced(value, old, count)
                self.trace.plus(last.trace, before.trace, count)
                turns.clear()
                return
        if len(turns) > 2 * PERIODS[-1] + 1:
            turns.pop(0)

    def _periods_left(self, turns: Sequence[Turn], period: int) -> int:
        """How many whole periods a loop still has that are like its last ones; 0 when they differ."""
        last, middle, first = turns[-1], turns[-1 - period], turns[-1 - 2 * period]
        for name, value in last.registers.items():
            a, b = middle.registers.get(name), first.registers.get(name)
            if (value is None) != (a is None) or (a is None) != (b is None and name in first.registers):
                if value is not None or a is not None:
                    return 0
                continue
            if value is not None and a is not None and b is not None and not _affine(value, a, b):
                return 0
        left = MOST_TURNS
        for step in range(period):
            now, then = turns[-1 - step].comparisons, turns[-1 - step - period].comparisons
            if now.keys() != then.keys():
                return 0
            for at, (a, b, relation) in now.items():
                left = min(left, _turns_until_change(a, b, then[at][0], then[at][1], relation))
        # Two periods are run as they are, so that the end comes as it comes.
        return max(0, left - 2) if left < MOST_TURNS else 0

    def _written(self, one: Instruction) -> list[str]:
        if one.name in ("st", "red", "bar", "cp") or not one.operands:
            return []
        return [name for name in re.findall(r"[%$\w']+", one.operands[0]) if not name.isdigit()]

    def _forget(self, one: Instruction) -> None:
        for name in self._written(one):
            self.registers[name] = None

    def _value(self, operand: str) -> Lanes:
        if operand in self.registers:
            return self.registers[operand]
        if operand[0] == "%":
            return self._special(operand)
        if operand[:2] in ("0f", "0d", "0F", "0D"):
            return None
        if operand in self.function.shared:
            return self.function.shared[operand]
        try:
            return int(operand.rstrip("U"), 0)
        except ValueError:
            return self.place.arguments.get(operand) if isinstance(self.place.arguments.get(operand), int) else None  # type: ignore[return-value]

    def _special(self, name: str) -> Lanes:
        place = self.place
        axis = "xyz".find(name[-1]) if "." in name else -1
        thread = place.warp * WARP + IDS
        x, y, _ = place.block
        if name.startswith("%tid."):
            return folded((thread % x, thread // x % y, thread // (x * y))[axis])
        if name.startswith("%ntid."):
            return place.block[axis]
        if name.startswith("%ctaid."):
            return place.block_id[axis]
        if name.startswith("%nctaid."):
            return place.grid[axis]
        if name.startswith("%cluster_ctaid."):
            return place.block_id[axis] % place.cluster[axis]
        if name.startswith("%cluster_nctaid."):
            return place.cluster[axis]
        if name.startswith("%clusterid."):
            return place.block_id[axis] // place.cluster[axis]
        if name == "%cluster_ctarank":
            rank = [place.block_id[n] % place.cluster[n] for n in range(3)]
            return rank[0] + place.cluster[0] * (rank[1] + place.cluster[1] * rank[2])
        return {"%laneid": IDS, "%warpid": place.warp, "%lanemask_lt": (1 << IDS) - 1}.get(name)

    def _do(self, one: Instruction, at: int, mask: np.ndarray, weight: float) -> None:
        if one.name in ("ld", "st", "atom", "red", "cp", "ldmatrix", "stmatrix", "ldu"):
            self._memory(one, at, mask, weight)
            return
        if not one.operands or one.name in ("bar", "barrier", "mbarrier", "fence", "membar", "nanosleep"):
            if one.name == "mbarrier":
                self._forget(one)
            return
        if one.name == "setp":
            self._compare(one, at)
            return
        names = self._written(one)
        if len(names) == 1:
            self.registers[names[0]] = self._result(one)
        else:
            self._several(one, names)

    def _several(self, one: Instruction, names: Sequence[str]) -> None:
        """Instructions with more than one destination: unpacking moves, elections."""
        self._forget(one)
        if one.name == "mov" and len(one.operands) == 2:
            whole = self._value(one.operands[1])
            bits = 64 // len(names) if one.type in ("b64", "u64", "s64") else 32 // len(names)
            for number, name in enumerate(names):
                self.registers[name] = None if whole is None else wrapped(shifted(whole, number * bits, left=False, bits=64), f"u{bits}")
        elif one.name == "elect":
            self.registers[names[-1]] = folded((IDS == 0).astype(np.int64))

    def _compare(self, one: Instruction, at: int) -> None:
        relation, kind = one.parts[0], one.type
        targets = one.operands[0].split("|")
        if kind[:1] == "f" or kind[:2] == "bf":
            outcome: Lanes = None
        else:
            signed = kind if kind[0] in "su" else "u" + kind[1:]
            a, b = (wrapped(self._value(operand), signed) for operand in one.operands[1:3])
            self.comparisons[at] = (a, b, relation)
            outcome = None
            if a is not None and b is not None and relation in COMPARISONS:
                if kind in ("u64", "b64") and relation not in ("eq", "ne"):
                    a, b = (np.asarray(spread(v)).view(np.uint64) for v in (a, b))
                outcome = folded(np.asarray(COMPARISONS[relation](spread(a) if not isinstance(a, np.ndarray) else a, spread(b) if not isinstance(b, np.ndarray) else b)).astype(np.int64))
        if len(one.operands) == 4 and outcome is not None:
            other = one.operands[3]
            extra = self._value(other.lstrip("!"))
            extra = extra if extra is None or not other.startswith("!") else 1 - extra
            joined = one.parts[1] if len(one.parts) > 2 else "and"
            outcome = None if extra is None else (outcome & extra if joined == "and" else outcome | extra if joined == "or" else outcome ^ extra)
        self.registers[targets[0]] = outcome
        if len(targets) > 1:
            self.registers[targets[1]] = None if outcome is None else 1 - outcome

    def _result(self, one: Instruction) -> Lanes:
        name, kind, operands = one.name, one.type, one.operands[1:]
        if kind[:1] == "f" or kind.startswith("bf") or name in UNKNOWN_RESULTS:
            if name == "mov" and operands:
                return self._value(operands[0])
            return None
        values = [self._value(operand) for operand in operands if operand[0] not in "{["]
        if name == "mov" and operands and operands[0][0] == "{":
            return self._packed(operands[0], kind)
        if name == "selp":
            return chosen(values[2], values[0], values[1]) if len(values) == 3 else None
        if any(value is None for value in values) or not values:
            return self._partly_known(name, values)
        return wrapped(_arithmetic(name, one.parts, kind, values), _result_kind(name, one.parts, kind))

    def _partly_known(self, name: str, values: Sequence[Lanes]) -> Lanes:
        """What no unknown operand can change: anding or multiplying with zero."""
        return 0 if name in ("and", "mul") and any(isinstance(v, int) and v == 0 for v in values) else None

    def _packed(self, operand: str, kind: str) -> Lanes:
        parts = [self._value(name) for name in re.findall(r"[%$\w']+", operand)]
        if any(part is None for part in parts):
            return None
        bits = int(kind[1:] or 64) // len(parts)
        total: Lanes = 0
        for number, part in enumerate(parts):
            total = total + (wrapped(part, f"u{bits}") << number * bits)  # type: ignore[operator]
        return wrapped(total, kind)

    def _memory(self, one: Instruction, at: int, mask: np.ndarray, weight: float) -> None:
        where = next((operand for operand in one.operands if operand.startswith("[")), None)
        spaces = {part.partition("::")[0] for part in one.parts}
        if one.name == "ld" and "param" in spaces and where is not None:
            self._load_parameter(one, where)
            return
        if one.name in ("ld", "ldu", "atom", "ldmatrix"):
            self._forget(one)
        if where is None or spaces & {"param", "local", "const"} or "bulk" in spaces:
            return
        if one.name == "cp":
            if "async" not in spaces or "shared" not in spaces:
                return
            where = [operand for operand in one.operands if operand.startswith("[")][-1]
            spaces = {"global"}
        address = self._address(where)
        shared = "shared" in spaces or one.name in ("ldmatrix", "stmatrix")
        if address is None:
            self.trace.unknown_addresses[at] += 1
            wide = self._copied_bytes(one)
            (self.trace.wavefronts if shared else self.trace.sectors)[at] += weight * max(1.0, mask.sum() * wide / (128 if shared else 32))
        elif shared:
            self.trace.wavefronts[at] += weight * _wavefronts(spread(address)[mask], self._copied_bytes(one), one.name)
        else:
            self.trace.sectors[at] += weight * _sectors(spread(address)[mask], self._copied_bytes(one))

    def _copied_bytes(self, one: Instruction) -> int:
        if one.name == "cp":
            return int(self._value(one.operands[2]) or 16) if len(one.operands) > 2 else 16  # type: ignore[arg-type]
        return 16 if one.name in ("ldmatrix", "stmatrix") else one.nbytes

    def _address(self, operand: str) -> Lanes:
        match = ADDRESS.match(operand)
        if match is None:
            return None
        base = self._value(match[1]) if match[1] else 0
        offset = int(match[2], 0) if match[2] else 0
        return None if base is None else base + offset

    def _load_parameter(self, one: Instruction, where: str) -> None:
        match = ADDRESS.match(where)
        names = self._written(one)
        held = self.place.arguments.get(match[1]) if match and match[1] else None
        for number, name in enumerate(names):
            if isinstance(held, int):
                self.registers[name] = held
            elif isinstance(held, bytes) and one.type[:1] != "f":
                size = one.nbytes // len(names)
                start = (int(match[2], 0) if match and match[2] else 0) + number * size
                self.registers[name] = wrapped(int.from_bytes(held[start : start + size], "little"), one.type)
            else:
                self.registers[name] = None


UNKNOWN_RESULTS = frozenset(
    "shfl vote match redux activemask ex2 lg2 sin cos rcp sqrt rsqrt tanh tex mma wgmma wmma createpolicy mapa".split()
)


def _result_kind(name: str, parts: tuple[str, ...], kind: str) -> str:
    if name in ("mul", "mad") and "wide" in parts:
        return f"{kind[0]}{2 * int(kind[1:])}"
    if name == "cvt" and len(parts) >= 2:
        return next((p for p in parts if p[:1] in "sub" and p[1:].isdigit()), kind)
    return kind if kind[:1] in "sub" and kind[1:].isdigit() else "s64"


@functools.cache
def _operand_kind(kind: str) -> str:
    return "u" + kind[1:] if kind[:1] == "b" else kind


def _arithmetic(name: str, parts: tuple[str, ...], kind: str, values: Sequence[Lanes]) -> Lanes:
    """An integer instruction on known values."""
    known: list[Any] = [wrapped(v, _operand_kind(kind)) if kind[1:].isdigit() else v for v in values]
    bits = int(kind[1:]) if kind[1:].isdigit() else 64
    if name in ("mul", "mad"):
        product = known[0] * known[1]
        if "hi" in parts:
            product = (np.multiply(spread(known[0]).astype(object), spread(known[1]).astype(object)) >> bits).astype(np.int64)
            product = folded(product)
        return product + values[2] if name == "mad" else product  # type: ignore[operator]
    if name in ("div", "rem"):
        return divided(known[0], known[1], remainder=name == "rem")
    if name in ("shl", "shr"):
        return shifted(known[0], values[1], left=name == "shl", bits=bits)
    if name in ("min", "max"):
        return folded((np.minimum if name == "min" else np.maximum)(spread(known[0]), spread(known[1])))
    if name == "cvt":
        source = parts[-1]
        return wrapped(values[0], _operand_kind(source)) if source[:1] in "sub" else None
    simple = SIMPLE.get(name)
    return simple(*known) if simple is not None else None


def _bit_field(value: Any, start: Any, length: Any) -> Lanes:
    return folded((spread(value) >> spread(start)) & ((1 << spread(length)) - 1))


SIMPLE: dict[str, Any] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b,
    "not": lambda a: ~a if not isinstance(a, int) or a > 1 else 1 - a,
    "neg": lambda a: -a,
    "abs": abs,
    "mov": lambda a: a,
    "cvta": lambda a: a,
    "bfe": _bit_field,
    "shf": lambda *_: None,
}


def _affine(value: Any, middle: Any, first: Any) -> bool:
    if isinstance(value, int) and isinstance(middle, int) and isinstance(first, int):
        return value - middle == middle - first
    return bool(((spread(value) - spread(middle)) == (spread(middle) - spread(first))).all())


def _advanced(value: Any, before: Any, count: int) -> Lanes:
    if isinstance(value, int) and isinstance(before, int):
        return value + count * (value - before)
    return folded(spread(value) + count * (spread(value) - spread(before)))


def _turns_until_change(a: Any, b: Any, a_before: Any, b_before: Any, relation: str) -> int:
    """Periods until a comparison of two numbers that change evenly comes out differently for a lane."""
    if any(value is None for value in (a, b, a_before, b_before)) or relation not in COMPARISONS:
        return MOST_TURNS
    gap, step = spread(a) - spread(b), (spread(a) - spread(b)) - (spread(a_before) - spread(b_before))
    if not step.any():
        return MOST_TURNS
    compare = COMPARISONS[relation]
    now = compare(gap, 0)
    # The sign of the gap decides, so it changes near the turn where the gap is zero.
    moving = step != 0
    zero = np.where(moving, -gap / np.where(moving, step, 1), np.inf)
    least = MOST_TURNS
    for turns in sorted({max(1, math.floor(z) + d) for z in zero[np.isfinite(zero) & (zero >= 0)] for d in (-1, 0, 1, 2)}):
        if (compare(gap + turns * step, 0) != now).any():
            least = turns
            break
    return least


def _sectors(addresses: np.ndarray, nbytes: int) -> int:
    """Distinct sectors of 32 bytes that the lanes of a request touch."""
    first, last = addresses // 32, (addresses + nbytes - 1) // 32
    return len(set(first.tolist()) | set(last.tolist())) if nbytes <= 32 else int(np.unique(first).size * nbytes // 32)


def _wavefronts(addresses: np.ndarray, nbytes: int, name: str) -> int:
    """Turns of a shared request: words of different rows in one bank take a turn each.

    Wide accesses are served by part of a warp at a time: 16 lanes for 8 bytes, 8 for 16.
    """
    if name in ("ldmatrix", "stmatrix"):
        nbytes = 16
    together = max(1, min(WARP, 128 // max(nbytes, 4)))
    total = 0
    for start in range(0, len(addresses), together):
        words = {int(a) // 4 + n for a in addresses[start : start + together] for n in range(max(1, nbytes // 4))}
        banks = Counter(word % 32 for word in words)
        total += max(banks.values(), default=1)
    return max(total, 1)
