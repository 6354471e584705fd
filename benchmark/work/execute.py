"""Abstract execution: one warp of a function, integers concrete, floats and loaded values unknown.

What a warp does depends on its integers: indices, trip counts, addresses. They follow from the launch and the warp's
place in it, so they can be computed without a GPU. Divergent branches run one side after the other until they meet
again, as on the machine. Where a branch depends on data, both sides count half; a loop that only data can end is left
when its other ends do not come.
"""

from __future__ import annotations

import dataclasses
import math
from collections import defaultdict
from collections.abc import Mapping

import numpy as np

from kbench.benchmark.work.accesses import Accesses
from kbench.benchmark.work.flow import Flow, is_access
from kbench.benchmark.work.lanes import (
    IDS,
    WARP,
    Lanes,
    Mask,
    chosen,
    compared,
    folded,
    joined,
    result,
    same,
    shifted,
    shuffled,
    spread,
    voted,
    wrapped,
)
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
from kbench.benchmark.work.memory import Footprint
from kbench.benchmark.work.ptx import Function, Instruction
from kbench.benchmark.work.values import Place, Values

MOST_STEPS = 100_000
"""Instructions executed before a warp is given up: endless loops end here."""
MOST_HALVES = 12
"""Unknown branches within one another; deeper ones weigh too little to be looked at."""


class TooLongError(Exception):
    """The warp did not come to an end within MOST_STEPS."""


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
        self.function, self.flow, self.place = function, flow, place
        self.footprint = footprint if footprint is not None else Footprint()
        self.trace = Trace()
        self.values = Values(function, place)
        self.accesses = Accesses(self.values, place, self.trace, self.footprint, contents or {})
        self.alive: Mask = place.warp * WARP + IDS < math.prod(place.block)
        self.turns: defaultdict[int, list[Turn]] = defaultdict(list)
        self.patience: defaultdict[int, int] = defaultdict(int)
        self.log: list[Comparison] = []
        self.decided: set[int] = set()
        """Branches whose outcome was known once."""
        self.undecided: set[int] = set()

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
            self.accesses.begin = path.at
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
        value = self.values.registers.get(one.guard)
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
        before = dict(self.values.registers)
        self._run(self._path(at + 1, meet, path.mask, path.weight / 2), halves + 1)
        first, self.values.registers = self.values.registers, before
        self._run(self._path(target, meet, path.mask, path.weight / 2), halves + 1)
        for name, value in first.items():
            if name not in self.values.registers:
                self.values.registers[name] = value
            elif not same(self.values.registers[name], value):
                self.values.registers[name] = None

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
        turns.append(Turn(dict(self.values.registers), self.trace.copy(), len(self.log)))
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
                self.values.registers = advanced(last, before, first, count, carried)
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
            if is_access(one):
                self.accesses.count(one, at, path.mask, path.weight)
            for name in one.writes:
                self.values.registers[name] = None
            return
        mask, whole = path.mask, path.whole
        if one.guard is not None and not (isinstance(guard, int) and guard):
            mask, whole = mask & (spread(guard) != 0), False
            if not mask.any():
                return
        values = self.accesses.count(one, at, mask, path.weight) if is_access(one) else self._results(one, at, mask)
        for name, value in zip(one.writes, values, strict=False):
            old = self.values.registers.get(name)
            self.values.registers[name] = value if whole or old is None else chosen(mask.astype(int), value, old)

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
            return [voted(mode, self.values.predicate(one.operands[1]), mask) if mode else None]
        if name == "shfl" and len(one.operands) >= 4:
            mode = next((part for part in one.parts if part in ("up", "down", "bfly", "idx")), "idx")
            return [shuffled(mode, *(self.values.value(operand) for operand in one.operands[1:4])), None]
        if len(one.writes) == 1:
            if name == "mov" and len(one.operands) > 1 and one.operands[1][0] == "{":
                return [self.values.packed(one.operands[1], one.type)]
            return [result(one, [self.values.predicate(operand) for operand in one.operands[1:]])]
        if name == "mov" and len(one.operands) == 2:
            whole = self.values.value(one.operands[1])
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
            a, b = (wrapped(self.values.value(operand), signed) for operand in one.operands[1:3])
            self.log.append(Comparison(at, a, b, one.parts[0]))
            outcome = compared(one, a, b)
        if len(one.operands) == 4:
            how = one.parts[1] if len(one.parts) > 2 else "and"
            outcome = joined(how, outcome, self.values.predicate(one.operands[3]))
        return [outcome, None if outcome is None else 1 - outcome]
