"""What of a plan's accesses crosses L2 and memory, derived from what its blocks do to each buffer.

A plan begins with none of its data in L2, as measured calls do. L2 has two halves. A multiprocessor asks its own half,
which asks the other one for lines of the other half's memory and then keeps them too, so part of what is read crosses
twice and lies in L2 twice. Memory gives every byte once, and again where too much came between two uses. What is
written leaves L2 when later bytes need its place; what is still there when the plan ends never does.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

from kbench.benchmark.work.gpus import Gpu, resident_blocks
from kbench.benchmark.work.memory import SECTOR
from kbench.benchmark.work.totals import LaunchWork, Traffic, Work

OTHER_HALF = 0.5
"""Chance that an address belongs to the half of L2 that a multiprocessor is not joined to."""
FOR_READS = 1 / (1 + OTHER_HALF)
"""Share of L2 that different bytes can fill while they are read: half of the lines lie there twice."""
KEPT, DIRTY = 0.8, 0.535
"""Shares of L2: that the last bytes moved fill, and that written lines fill at most. Fitted on the profiler's counts of
bytes written; nearby values fit about as well (docs/results/work.md)."""
PART = 1 / 64
"""Launches that touch less of a buffer do so on purpose. Those that touch more touch all of it, though the block that
was executed may be one that masks cut short, and its bytes times the number of blocks a small part."""
SWEEPS = 2.0
"""Reads of a buffer, by its size, from which blocks read it anew; up to there neighbours share their edges."""
APART = 0.5
"""Share of its bytes that a neighbour does not touch, from which blocks are taken to have parts of their own."""

MOST_PASSES = 1e6
"""More than a block makes; counted work may come from anyone."""


@dataclasses.dataclass(frozen=True, slots=True)
class Crossing:
    """Bytes of a launch, with all of its repeats."""

    l2: float = 0.0
    """Read from and written to L2, those that pass from one half to the other twice."""
    dram_read: float = 0.0
    dram_written: float = 0.0

    @property
    def dram(self) -> float:
        """Read and written."""
        return self.dram_read + self.dram_written


@dataclasses.dataclass(frozen=True, slots=True)
class _Use:
    """What a whole launch does to one buffer."""

    one: Traffic
    read: float
    """Different bytes that it loads."""
    asked: float
    """Bytes that its blocks load, counted once per block."""
    written: float
    """Different bytes that it stores."""
    sent: float
    """Bytes that its blocks store."""


def dram_bytes(launch: LaunchWork, gpu: Gpu) -> float:
    """Bytes that cross to memory in one run of a launch alone."""
    return _Caches(gpu).run(dataclasses.replace(launch, times=1)).dram


def crossings(work: Work, gpu: Gpu) -> tuple[Crossing, ...]:
    """What crosses in each launch of a plan, one after another: later ones find in L2 what earlier ones left there."""
    caches = _Caches(gpu)
    return tuple(caches.run(launch) for launch in work.launches)


class _Caches:
    """L2 while a plan runs."""

    def __init__(self, gpu: Gpu) -> None:
        self.gpu, self.room = gpu, gpu.l2_bytes * KEPT
        self.dirty = 0.0
        """Bytes that are written and have not left."""
        self.held: list[tuple[float, float]] = []
        """Sizes of buffers used last, and how much of each is there, the last one at the end.

        Totals do not name buffers, so one of the same size is taken to be the same.
        """

    def run(self, launch: LaunchWork) -> Crossing:
        """What crosses in a launch; repeats after the second are like the second."""
        uses = _uses(launch)
        together = min(launch.blocks, resident_blocks(launch, self.gpu) * self.gpu.multiprocessors)
        # Spilled registers, and what is stored at addresses that could not be followed.
        elsewhere = float(launch.stack_bytes * launch.threads * together)
        if not any(use.sent for use in uses):
            elsewhere += _stored(launch)
        reads = [_read(use, uses, launch, self.gpu) for use in uses]
        first = self._moved(uses, reads, elsewhere)
        again = self._moved(uses, reads, elsewhere) if launch.times > 1 else (0.0, 0.0)
        read, written = (one + (launch.times - 1) * more for one, more in zip(first, again, strict=True))
        return Crossing(launch.times * _l2_bytes(launch, uses, reads, self.gpu), read, written)

    def _moved(self, uses: Sequence[_Use], reads: Sequence[float], elsewhere: float) -> tuple[float, float]:
        """Bytes read from memory and written to it in one run."""
        held, read = list(self.held), 0.0
        for use, nbytes in zip(uses, reads, strict=True):
            there = next((one for one in reversed(held) if one[0] == use.one.nbytes > 0), None)
            if nbytes and there is not None:
                held.remove(there)
                # Of a buffer that lies there in part, the part that is read next always left last.
                nbytes -= use.read if there[1] >= use.read else 0.0
            read += nbytes
        stored = elsewhere + sum(use.written for use in uses)
        written = self._written(read, stored)
        self._remember(uses)
        return read, written

    def _written(self, read: float, stored: float) -> float:
        """Written bytes that leave L2 in a run: what stays is the stored part of what was moved last."""
        moved = read + stored
        left = self.dirty + stored
        if left + read > self.room:
            kept = min(1.0, self.room / moved)
            left = stored * kept + self.dirty * max(0.0, 1 - moved / self.room)
        left = min(left, self.gpu.l2_bytes * DIRTY)
        written, self.dirty = self.dirty + stored - left, left
        return written

    def _remember(self, uses: Sequence[_Use]) -> None:
        for use in sorted(uses, key=lambda use: use.written > 0):
            again = next((one for one in self.held if one[0] == use.one.nbytes), None)
            if again is not None and not use.written:
                self.held.remove(again)
            self.held.append((use.one.nbytes, max(use.read, use.written)))
        room = self.room
        for number, (_, nbytes) in enumerate(reversed(self.held)):
            room -= nbytes
            if room < 0:
                self.held = self.held[len(self.held) - number :]
                break


def _uses(launch: LaunchWork) -> list[_Use]:
    blocks, bulk = launch.blocks, _in_bulk(launch)
    uses = []
    for one in launch.traffic:
        asked, sent = blocks * (one.fetches if bulk else one.loads), blocks * one.stores
        apart = one.far_share > 0 or max(one.new_share) > 0
        read = _different(one.nbytes, asked, apart=apart or bulk)
        if one.looked_up and asked < one.nbytes and not bulk:
            # What a lookup leaves out is left out on purpose.
            read = one.looked_up * asked
        uses.append(_Use(one, read, asked, _different(one.nbytes, sent, apart=apart), sent))
    return uses


def _in_bulk(launch: LaunchWork) -> bool:
    """Whether most loads are bulk copies.

    Those bypass L1, and boxes whose corners are not known look alike: what a block asks for is what it reads, and
    which other blocks read the same is less certain.
    """
    return launch.per_block.bulk_load_bytes > SECTOR * launch.per_block.l1_miss_sectors


def _different(nbytes: float, touched: float, *, apart: bool) -> float:
    """Different bytes of a buffer among those that all blocks touch, where some touch others than the rest do."""
    if not nbytes:
        return touched
    return nbytes if apart and touched >= PART * nbytes else min(nbytes, touched)


def _read(use: _Use, uses: Sequence[_Use], launch: LaunchWork, gpu: Gpu) -> float:
    """Bytes of a buffer that memory gives in one run that begins without them.

    Bytes are read again from memory as far as what is moved since their last use does not fit into L2. How long that
    is follows from the axis of the grid along which blocks share them.
    """
    one, blocks = use.one, launch.blocks
    room = gpu.l2_bytes * FOR_READS
    if not use.read or not use.asked:
        return 0.0
    together = min(blocks, resident_blocks(launch, gpu) * gpu.multiprocessors)
    bulk = _in_bulk(launch)
    if use.asked <= SWEEPS * use.read:
        # Every block has its own part. Where it reads that several times, the parts of all blocks lie between.
        passes = (
            math.floor(min(MOST_PASSES, one.fetches / one.loads) + 0.01) - 1
            if max(one.new_share) >= APART and not bulk
            else 0
        )
        between = min(
            sum(max(each.read, each.written) for each in uses),
            together * sum(t.loads + t.stores for t in launch.traffic),
        )
        return use.read + passes * min(use.read, use.asked) * _missing(between, room)
    shared, sweep, missing = 1 - use.read / use.asked, use.read / use.asked, 0.0
    axes = [axis for axis in range(3) if launch.grid[axis] > 1]
    walks = blocks <= together and len(axes) == 1 and one.new_share[axes[0]] >= APART
    for number, axis in enumerate([] if walks else axes):
        part = min(shared, 1 - one.new_share[axis])
        shared -= part
        # Neighbours along the first axis run at the same time. Further on, a run of the axes before lies between, or
        # a sweep over the part of the buffer that belongs to one step of the axes behind.
        if number:
            behind = math.prod(launch.grid[a] for a in axes[number + 1 :] if one.new_share[a] >= APART)
            missing += part * _missing(_moved(uses, max(math.prod(launch.grid[:axis]) / blocks, sweep / behind)), room)
    # Blocks that all run at once and have parts of their own walk over the buffer again and again. Of others that seem
    # to share nothing with their neighbours, it is those of other warps that do.
    if walks or bulk:
        missing += min(shared, 1.0 if walks else 1 - one.far_share) * _missing(_moved(uses, sweep), room)
    return use.read + use.asked * missing


def _moved(uses: Sequence[_Use], share: float) -> float:
    """Different bytes that such a share of a launch moves."""
    return sum(min(max(use.read, use.written), share * (use.asked + use.sent)) for use in uses)


def _missing(between: float, room: float) -> float:
    """Share of bytes that are gone when so many others have passed: replacement is not in order, so some stay."""
    return max(0.0, 1 - room / between) if between > 0 else 0.0


def _l2_bytes(launch: LaunchWork, uses: Sequence[_Use], reads: Sequence[float], gpu: Gpu) -> float:
    """Bytes that cross L2 in one run, as the profiler counts them: both times where they pass between the halves."""
    block, blocks = launch.per_block, launch.blocks
    loaded = blocks * (SECTOR * block.l1_miss_sectors + block.bulk_load_bytes)
    fetched = blocks * sum(use.one.fetches for use in uses)
    # L1 outlives blocks: what fits there beside another such buffer is fetched once per multiprocessor.
    l1_room = (gpu.shared_bytes - resident_blocks(launch, gpu) * launch.shared_bytes) / 2
    total = max(0.0, loaded - fetched)
    for use, from_memory in zip(uses, reads, strict=True):
        asked = blocks * use.one.fetches * (min(1.0, loaded / fetched) if fetched else 0.0)
        if 0 < use.one.nbytes <= l1_room and not _in_bulk(launch):
            asked = min(asked, use.one.nbytes * min(blocks, gpu.multiprocessors))
        readers = max(1.0, asked / from_memory) if from_memory else 0.0
        # A line comes to the other half unless all of its readers are joined to its own.
        total += asked + from_memory * (1 - OTHER_HALF**readers)
    spilled = blocks * launch.stack_bytes * launch.threads
    return total + (1 + OTHER_HALF) * (_stored(launch) + spilled) + spilled


def _stored(launch: LaunchWork) -> float:
    return launch.blocks * (SECTOR * launch.per_block.store_sectors + launch.per_block.bulk_store_bytes)
