"""Control flow of a function: where parted lanes meet again, what loops there are, what registers they carry along."""

from __future__ import annotations

import dataclasses
import itertools
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from kbench.benchmark.work.ptx import REGISTER, Function, Instruction

EXITS = frozenset({"ret", "exit", "trap"})
MEMORY = frozenset({"ld", "ldu", "st", "atom", "red", "cp", "ldmatrix", "stmatrix"})
SIGNALS = frozenset({"volatile", "acquire", "relaxed", "acq_rel"})
MOST_LOOPS = 500
"""Loops looked at, the innermost first."""
MOST_PASSES = 16
"""Passes over a function's code until an analysis has to stand still; compilers' code needs two to five."""


@dataclasses.dataclass(frozen=True, slots=True)
class Loop:
    """Instructions from a label to the last branch back to it."""

    head: int
    last: int
    exits: frozenset[int]
    """Conditional branches that can leave it."""
    waits: bool
    """Whether it reads memory that other threads signal through."""

    def holds(self, at: int) -> bool:
        """Whether an instruction lies within it."""
        return self.head <= at <= self.last


@dataclasses.dataclass(frozen=True, slots=True)
class Block:
    """Instructions that always run together."""

    end: int
    """Index of the branch or exit that ends it, or of the block that follows."""
    leaves: bool
    """Whether a branch or exit ends it."""
    steps: tuple[int, ...]
    """Its instructions that matter for what runs and where memory is accessed; the others need only be counted."""
    loads: bool
    """Whether it waits for global memory."""


@dataclasses.dataclass(frozen=True, slots=True)
class Flow:
    """What executing a function needs to know about its branches."""

    blocks: Mapping[int, Block]
    """By index of the first instruction."""

    targets: Mapping[int, int]
    """Where each branch goes to."""
    meets: Sequence[int]
    """For every instruction, where paths that part there meet again: its immediate post-dominator."""
    loops: Sequence[Loop]
    """Innermost first."""
    loops_by_exit: Mapping[int, Sequence[Loop]]
    """By index of a branch: loops that one of its sides stays in and the other leaves, the innermost first."""
    carried: Mapping[int, frozenset[str]]
    """By a loop's head: registers that are read before they are written."""
    decisive: Mapping[int, frozenset[int]]
    """By a loop's head: comparisons that end it."""
    looked_up: frozenset[int]
    """Accesses whose addresses follow from integers in memory, as those of a gather do."""


def read_flow(function: Function) -> Flow:
    """The control flow of a function."""
    code, end = function.code, len(function.code)
    branches = {at: one.operands[-1] for at, one in enumerate(code) if one.name == "bra" and one.operands}
    targets = {at: function.labels.get(label, end) for at, label in branches.items()}
    following = [_following(at, one, targets, end) for at, one in enumerate(code)]
    loops = _loops(code, targets)
    loops_by_exit: defaultdict[int, list[Loop]] = defaultdict(list)
    for loop in loops:
        for at in loop.exits:
            loops_by_exit[at].append(loop)
    names = _needed_registers(code)
    return Flow(
        _blocks(function, names),
        targets,
        _meeting_points(following),
        loops,
        dict(loops_by_exit),
        _carried(code, following, {loop.head for loop in loops}, names),
        {loop.head: _decisive(code, loop) for loop in loops},
        _looked_up(code),
    )


def is_access(one: Instruction) -> bool:
    """Whether an instruction accesses memory; those of wmma that load and store fragments do."""
    return one.name in MEMORY or (one.name == "wmma" and one.parts[:1] in (("load",), ("store",)))


def _looked_up(code: Sequence[Instruction]) -> frozenset[int]:
    """Accesses at addresses that follow from loaded values, found by following those through registers."""
    reads = [set(REGISTER.findall(" ".join(one.operands[bool(one.writes) :]))) for one in code]
    loads = [one.name in ("ld", "ldu") and one.type[:1] in "sub" and "param" not in one.parts for one in code]
    follows = set[str]()
    for _ in range(MOST_PASSES):
        before = len(follows)
        for one, inputs, loaded in zip(code, reads, loads, strict=True):
            if loaded or (one.name not in MEMORY and not follows.isdisjoint(inputs)):
                follows.update(one.writes)
        if len(follows) == before:
            break
    places = (" ".join(operand for operand in one.operands if operand[0] == "[") for one in code)
    inside = [not follows.isdisjoint(REGISTER.findall(place)) for place in places]
    return frozenset(at for at, one in enumerate(code) if inside[at] and is_access(one))


def _decisive(code: Sequence[Instruction], loop: Loop) -> frozenset[int]:
    guards = {code[at].guard for at in loop.exits}
    inside = range(loop.head, loop.last + 1)
    return frozenset(at for at in inside if code[at].name == "setp" and not guards.isdisjoint(code[at].writes))


def _needed_registers(code: Sequence[Instruction]) -> set[str]:
    """Registers that branches, guards of memory accesses and addresses depend on."""
    writers: defaultdict[str, list[Instruction]] = defaultdict(list)
    for one in code:
        for name in one.writes:
            writers[name].append(one)
    pending: list[str] = []
    for one in code:
        if one.guard is not None and (is_access(one) or one.name == "bra" or one.name in EXITS):
            pending.append(one.guard)
        if is_access(one):
            every = one.name == "cp" or shares_number(one, writers) or is_ticket(one)
            inputs = one.operands if every else [operand for operand in one.operands if operand[0] == "["]
            inputs = [*inputs, one.operands[-1]] if one.name == "wmma" else inputs
            pending.extend(name for operand in inputs for name in REGISTER.findall(operand))
    needed: set[str] = set()
    while pending:
        name = pending.pop()
        if name in needed:
            continue
        needed.add(name)
        for one in writers[name]:
            pending.extend([one.guard] if one.guard else [])
            if not is_access(one):
                pending.extend(other for operand in one.operands[1:] for other in REGISTER.findall(operand))
    return needed


def is_ticket(one: Instruction) -> bool:
    """Whether an instruction counts in global memory and is told the count: who comes last, what tile is next."""
    return one.name == "atom" and "global" in one.parts and "add" in one.parts and one.type[:1] in ("s", "u")


def shares_number(one: Instruction, writers: Mapping[str, Sequence[Instruction]]) -> bool:
    """Whether a store gives an integer to other threads of the block. Triton stores floats as bits, so of those only
    tickets count."""
    if one.name != "st" or not any(part.startswith("shared") for part in one.parts) or len(one.operands) != 2:
        return False
    bits = one.type[:1] == "b" and one.operands[1][0] != "{"
    return one.type[:1] in ("s", "u") or (bits and any(is_ticket(w) for w in writers.get(one.operands[1], ())))


def _reads_global(one: Instruction) -> bool:
    return one.name in ("ld", "ldu", "atom") and not any(p.startswith(("shared", "param", "local")) for p in one.parts)


def _blocks(function: Function, names: set[str]) -> dict[int, Block]:
    code, end = function.code, len(function.code)
    leaving = {at for at, one in enumerate(code) if one.name == "bra" or one.name in EXITS}
    starts = sorted({0, *function.labels.values(), *(at + 1 for at in leaving)} - {end})
    matters = [(is_access(one) and "param" not in one.parts) or not names.isdisjoint(one.writes) for one in code]
    blocks: dict[int, Block] = {}
    for start, stop in itertools.pairwise([*starts, end]):
        leaves = stop - 1 in leaving
        last = stop - 1 if leaves else stop
        steps = tuple(at for at in range(start, last) if matters[at])
        blocks[start] = Block(last, leaves, steps, any(_reads_global(code[at]) for at in steps))
    return blocks


def _following(at: int, one: Instruction, targets: Mapping[int, int], end: int) -> tuple[int, ...]:
    if one.name == "bra" and at in targets:
        return (targets[at],) if one.guard is None else (targets[at], at + 1)
    return (end,) if one.name in EXITS and one.guard is None else (at + 1,)


def _loops(code: Sequence[Instruction], targets: Mapping[int, int]) -> list[Loop]:
    last: dict[int, int] = {}
    for at, target in targets.items():
        if target <= at:
            last[target] = max(at, last.get(target, 0))
    loops: list[Loop] = []
    branches = sorted(at for at in targets if code[at].guard is not None)
    for head, end in sorted(last.items(), key=lambda span: span[1] - span[0])[:MOST_LOOPS]:
        inside = [at for at in branches if head <= at <= end]
        exits = frozenset(at for at in inside if (head <= targets[at] <= end) != (at < end))
        waits = any(one.name in ("ld", "atom") and SIGNALS & set(one.parts) for one in code[head : end + 1])
        loops.append(Loop(head, end, exits, waits))
    return loops


def _meeting_points(following: Sequence[tuple[int, ...]]) -> list[int]:
    """Immediate post-dominators: the usual walk of two fingers over a reverse order, until nothing changes."""
    end = len(following)
    order = _reverse_order(following)
    rank = {node: number for number, node in enumerate(order)}
    meet: dict[int, int] = {end: end}
    for _ in range(MOST_PASSES):
        changed = False
        for node in order[1:]:
            known = [n for n in following[node] if n in meet]
            best = known[0]
            for other in known[1:]:
                while best != other:
                    while rank[best] > rank[other]:
                        best = meet[best]
                    while rank[other] > rank[best]:
                        other = meet[other]
            if meet.get(node) != best:
                meet[node], changed = best, True
        if not changed:
            break
    return [meet.get(at, end) for at in range(end)]


def _reverse_order(following: Sequence[tuple[int, ...]]) -> list[int]:
    """Instructions from the end backwards, each after one that follows it."""
    before: defaultdict[int, list[int]] = defaultdict(list)
    for node, nexts in enumerate(following):
        for one in nexts:
            before[one].append(node)
    end = len(following)
    order: list[int] = []
    seen = {end}
    stack: list[tuple[int, Iterator[int]]] = [(end, iter(before[end]))]
    while stack:
        node, rest = stack[-1]
        unseen = next((one for one in rest if one not in seen), None)
        if unseen is None:
            order.append(node)
            stack.pop()
        else:
            seen.add(unseen)
            stack.append((unseen, iter(before[unseen])))
    return order[::-1]


def _carried(
    code: Sequence[Instruction], following: Sequence[tuple[int, ...]], heads: set[int], names: set[str]
) -> dict[int, frozenset[str]]:
    """Needed registers alive at loop heads, by the usual backward analysis; sets of registers are bits of a number."""
    if not heads:
        return {}
    bits = {name: 1 << number for number, name in enumerate(sorted(names))}
    reads, keeps = [], []
    for one in code:
        inputs = {name for operand in one.operands[bool(one.writes) :] for name in REGISTER.findall(operand)}
        # A guarded write may leave the old value.
        inputs |= {one.guard, *one.writes} if one.guard else set()
        reads.append(sum(bits[name] for name in inputs if name in bits))
        keeps.append(~sum(bits[name] for name in set(one.writes) if name in bits))
    alive = [0] * (len(code) + 1)
    for _ in range(MOST_PASSES):
        changed = False
        for at in range(len(code) - 1, -1, -1):
            after = 0
            for successor in following[at]:
                after |= alive[successor]
            now = (after & keeps[at]) | reads[at]
            if now != alive[at]:
                alive[at], changed = now, True
        if not changed:
            break
    return {head: frozenset(name for name, bit in bits.items() if alive[head] & bit) for head in heads}
