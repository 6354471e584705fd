"""Work as records: totals by class, traffic by buffer, a launch, a plan. And what a warp's trace amounts to."""

from __future__ import annotations

import dataclasses
import math
from collections import defaultdict
from collections.abc import Mapping

from kbench.benchmark.work.lanes import WARP
from kbench.benchmark.work.loops import Trace
from kbench.benchmark.work.memory import SECTOR
from kbench.benchmark.work.pipes import Pipe, fragment_extents, lookups, machine_instructions, pipe_of, tensor_flops
from kbench.benchmark.work.ptx import Function, Instruction

BlockId = tuple[int, int, int]
MOST_LINES = 12
"""Lines of a launch that are kept."""


@dataclasses.dataclass(frozen=True, slots=True)
class Totals:
    """Work by class. Instructions are those of warps, estimated from PTX."""

    alu: float = 0.0
    """Machine instructions by pipe: see `Pipe`."""
    fma: float = 0.0
    special: float = 0.0
    memory: float = 0.0
    tensor: float = 0.0
    control: float = 0.0
    double: float = 0.0
    flops_64: float = 0.0
    """Operations of matrix products, by bits of the factors; 32 is tf32."""
    flops_32: float = 0.0
    flops_16: float = 0.0
    flops_8: float = 0.0
    ptx_instructions: float = 0.0
    load_requests: float = 0.0
    load_bytes: float = 0.0
    """Bytes that lanes asked global memory for."""
    load_sectors: float = 0.0
    """Sectors of 32 bytes that those requests touch."""
    l1_miss_sectors: float = 0.0
    """Those of them that L1 does not hold."""
    store_requests: float = 0.0
    store_bytes: float = 0.0
    store_sectors: float = 0.0
    bulk_load_bytes: float = 0.0
    """Bytes of bulk and tensor-memory copies to shared memory."""
    bulk_store_bytes: float = 0.0
    atomics: float = 0.0
    """Atomic requests to global memory."""
    shared_requests: float = 0.0
    shared_wavefronts: float = 0.0
    """Turns of shared-memory requests, bank conflicts included."""
    barriers: float = 0.0
    waits: float = 0.0
    """Waits for a signal of another thread or of a copy."""
    load_rounds: float = 0.0
    """Times that code between two branches loads from global memory: one wait each, however many loads there are."""
    unknown_branches: float = 0.0
    unknown_addresses: float = 0.0
    uncertain: float = 0.0
    """PTX instructions on one side of a branch that depends on data."""
    lookups: float = 0.0
    """Lookups among the special instructions; 0 in older counts, which did not tell them apart."""

    @property
    def issued(self) -> float:
        """Machine instructions of all pipes."""
        return self.alu + self.fma + self.special + self.memory + self.tensor + self.control + self.double

    @property
    def flops(self) -> float:
        """Operations of matrix products of all types."""
        return self.flops_64 + self.flops_32 + self.flops_16 + self.flops_8

    @property
    def l2_bytes(self) -> float:
        """Bytes that multiprocessors ask L2 for or send there."""
        moved = self.bulk_load_bytes + self.bulk_store_bytes
        return SECTOR * (self.l1_miss_sectors + self.store_sectors) + moved

    def plus(self, other: Totals, times: float = 1.0) -> Totals:
        """The sum of both, the other counted so many times."""
        return Totals(*(mine + times * more for mine, more in zip(values(self), values(other), strict=True)))


NAMES = tuple(field.name for field in dataclasses.fields(Totals))


def values(totals: Totals) -> list[float]:
    """The figures in the order of NAMES."""
    return [getattr(totals, name) for name in NAMES]


@dataclasses.dataclass(frozen=True, slots=True)
class Traffic:
    """What a launch's blocks do to one buffer."""

    nbytes: float
    """The buffer's size."""
    loads: float
    """Bytes that one block loads, each counted once."""
    fetches: float
    """Bytes that it asks L2 for: again where L1 could not keep them."""
    stores: float
    new_share: tuple[float, float, float]
    """Share of those bytes that the next block along an axis of the grid does not touch."""
    far_share: float
    """Share that a block far away does not touch."""
    looked_up: float = 0.0
    """Where addresses follow from values in memory: the share of the loads whose addresses differ; 0 elsewhere."""

    @property
    def common(self) -> bool:
        """Whether several blocks were looked at and all touch the same bytes: DRAM gives those once."""
        return not (any(self.new_share) or self.far_share or self.looked_up or self.stores)


@dataclasses.dataclass(frozen=True, slots=True)
class LineWork:
    """What one line of a kernel's file does in a block."""

    line: int
    issued: float
    """Machine instructions of warps."""
    flops: float
    """Operations of matrix products."""
    l2_bytes: float
    shared_wavefronts: float
    common_bytes: float = 0.0
    """Of `l2_bytes`: loads from buffers of which all blocks read the same."""


@dataclasses.dataclass(frozen=True, slots=True)
class LaunchWork:
    """What one launch does."""

    function: str
    grid: BlockId
    threads: int
    """Of a block."""
    registers: int
    """Per thread; 0 where it is not known."""
    shared_bytes: int
    """Of a block."""
    stack_bytes: int
    """Of a thread: spilled registers and arrays."""
    per_block: Totals
    """The mean of the blocks."""
    largest: float = 1.0
    """Instructions of the largest block that was looked at, by those of the mean."""
    traffic: tuple[Traffic, ...] = ()
    times: int = 1
    """How often a plan has it."""
    lines: tuple[LineWork, ...] = ()
    """The lines that do most, in their order, where the compiler names lines."""
    error: str | None = None
    """Why nothing was counted."""

    @property
    def blocks(self) -> int:
        """Of the grid."""
        return math.prod(self.grid)

    @property
    def common_bytes(self) -> float:
        """Bytes that one block asks L2 for and every other block too."""
        return sum(one.fetches for one in self.traffic if one.common) if self.blocks > 1 else 0.0

    @property
    def warps(self) -> int:
        """Of a block."""
        return -(-self.threads // WARP)


@dataclasses.dataclass(frozen=True, slots=True)
class Work:
    """What a plan does."""

    launches: tuple[LaunchWork, ...]
    """Equal launches once, with how often they come."""
    fills: int = 0
    copies: int = 0
    fill_bytes: int = 0
    copy_bytes: int = 0
    """Bytes that copies read; they write as many."""

    @property
    def total(self) -> Totals:
        """The work of all launches."""
        total = Totals()
        for launch in self.launches:
            total = total.plus(launch.per_block, launch.times * launch.blocks)
        return total

    @property
    def errors(self) -> tuple[str, ...]:
        """Why launches could not be counted."""
        return tuple(launch.error for launch in self.launches if launch.error is not None)


def by_line(function: Function, trace: Trace) -> dict[int | None, Totals]:
    """A warp's trace as work by class, for each line of the kernel's file; None is code without a line."""
    lines: defaultdict[int | None, defaultdict[str, float]] = defaultdict(lambda: defaultdict(float))
    for at, visits in trace.visits.items():
        one = function.code[at]
        figures = lines[one.line]
        pipe = pipe_of(one)
        figures[pipe.value] += visits * machine_instructions(one)
        if pipe is Pipe.SPECIAL:
            figures["lookups"] += visits * lookups(one)
        if pipe is Pipe.TENSOR:
            bits, operations = tensor_flops(one)
            figures[f"flops_{bits}"] += visits * operations
        if one.name in ("bar", "barrier"):
            figures["barriers"] += visits
        elif one.name == "mbarrier" and {"try_wait", "test_wait"} & set(one.parts):
            figures["waits"] += visits
        _add_memory(figures, one, at, visits, trace)
    return {line: Totals(**figures) for line, figures in lines.items()}


def in_all(trace: Trace, lines: Mapping[int | None, Totals]) -> Totals:
    """The work of all lines of a warp's trace, and what the trace counts for no instruction."""
    total = Totals(
        waits=sum(trace.waits.values()),
        load_rounds=sum(trace.rounds.values()),
        unknown_branches=sum(trace.unknown_branches.values()),
        unknown_addresses=sum(trace.unknown_addresses.values()),
        ptx_instructions=trace.issued,
        uncertain=trace.uncertain,
    )
    for one in lines.values():
        total = total.plus(one)
    return total


def largest_lines(
    lines: Mapping[int | None, Totals], common: Mapping[int | None, float], first: int, times: float
) -> tuple[LineWork, ...]:
    """The lines with the largest shares of any kind of work.

    Args:
        lines: work by line of a compiled text.
        common: bytes that its loads ask for and those of all other blocks too.
        first: the line of the kernel's file on which that text begins.
        times: the mean block's work, by that of the block whose lines these are.
    """
    names = ("issued", "flops", "l2_bytes", "shared_wavefronts")
    whole = {name: sum(getattr(one, name) for one in lines.values()) or 1.0 for name in names}
    numbered = [(line, one) for line, one in lines.items() if line]

    def figures(line: int, one: Totals) -> dict[str, float]:
        return {name: getattr(one, name) for name in names} | {"common_bytes": common.get(line, 0.0)}

    largest = sorted(numbered, key=lambda pair: -max(getattr(pair[1], name) / whole[name] for name in names))
    return tuple(
        LineWork(first + line - 1, **{name: times * figure for name, figure in figures(line, one).items()})
        for line, one in sorted(largest[:MOST_LINES])
    )


def is_store(one: Instruction) -> bool:
    """Whether an access writes global memory."""
    return one.name in ("st", "atom", "red") or one.parts[:1] == ("store",) or stores_in_bulk(one)


def stores_in_bulk(one: Instruction) -> bool:
    """Whether a bulk copy goes from shared to global memory."""
    spaces = [part.partition("::")[0] for part in one.parts] if one.name == "cp" else []
    return "global" in spaces and "shared" in spaces and spaces.index("global") < spaces.index("shared")


def _add_memory(found: defaultdict[str, float], one: Instruction, at: int, visits: float, trace: Trace) -> None:
    if at in trace.copied:
        found["bulk_store_bytes" if stores_in_bulk(one) else "bulk_load_bytes"] += trace.copied[at]
    if at in trace.wavefronts:
        found["shared_requests"] += visits
        found["shared_wavefronts"] += trace.wavefronts[at]
    if at not in trace.sectors:
        return
    if one.name in ("atom", "red"):
        found["atomics"] += visits
    kind = "store" if is_store(one) else "load"
    found[f"{kind}_requests"] += visits * machine_instructions(one)
    found[f"{kind}_sectors"] += trace.sectors[at]
    fragment = math.prod(fragment_extents(one)) if one.name == "wmma" else 0
    found[f"{kind}_bytes"] += visits * (fragment or WARP * (16 if one.name == "cp" else one.nbytes))
    if kind == "load":
        found["l1_miss_sectors"] += trace.fresh[at]
