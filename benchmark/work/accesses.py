"""Memory accesses of a warp: their cost is counted, and what they bring is known where an integer can be followed."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping

import numpy as np

from kbench.benchmark.work.flow import is_ticket
from kbench.benchmark.work.lanes import IDS, WARP, Lanes, Mask, folded, spread, wrapped
from kbench.benchmark.work.loops import Trace
from kbench.benchmark.work.memory import SECTOR, Footprint, sectors, wavefronts
from kbench.benchmark.work.pipes import fragment_extents
from kbench.benchmark.work.ptx import REGISTER, Instruction
from kbench.benchmark.work.values import Place, Values

BUFFER_SHIFT = 36
"""Buffers are taken to lie this many bits apart, the first one so far from zero."""
INTEGERS = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.int64}


@functools.lru_cache(maxsize=1024)
def spaces_of(parts: tuple[str, ...]) -> frozenset[str]:
    """Parts of an opcode without what follows two colons: shared::cta is shared."""
    return frozenset(part.partition("::")[0] for part in parts)


class Accesses:
    """The memory accesses of one warp."""

    def __init__(
        self, values: Values, place: Place, trace: Trace, footprint: Footprint, contents: Mapping[int, bytes]
    ) -> None:
        """None so far.

        Args:
            values: what operands hold.
            place: where the warp is in its launch.
            trace: where accesses are counted.
            footprint: what other warps of the block touched.
            contents: what buffers hold, by number, where that is known.
        """
        self.values, self.place, self.trace, self.footprint, self.contents = values, place, trace, footprint, contents
        self.begin = 0
        """Where the code that runs together begins."""

    def count(self, one: Instruction, at: int, mask: Mask, weight: float) -> list[Lanes]:
        """Count an access; what a load of a parameter brings is known."""
        places = [operand for operand in one.operands if operand[0] == "["]
        spaces = spaces_of(one.parts)
        unknown: list[Lanes] = [None] * len(one.writes)
        if not places or spaces & {"local", "const"}:
            return unknown
        if "param" in spaces:
            return self.values.parameter(one, places[0]) if one.name == "ld" else unknown
        if one.name == "cp":
            if "bulk" in spaces:
                self._bulk(one, at, places, mask, weight)
                return unknown
            if len(places) < 2:
                return unknown
            self._shared(at, self.values.address(places[0]), self._width(one), mask, weight)
            # A copy of no bytes fills shared memory with zeros: masks of tiles come so.
            size = self.values.value(one.operands[3]) if len(one.operands) > 3 else None
            mask = mask & (spread(size) != 0) if size is not None else mask
            if not mask.any():
                return unknown
        where, nbytes = self.values.address(places[-1] if one.name == "cp" else places[0]), self._width(one)
        if one.name == "wmma":
            where, nbytes, mask = self._fragment(one, where, mask)
        addresses = spread(where)[mask] if where is not None else None
        # Addresses without a space may be of shared memory, which lies below all buffers.
        inside = "global" not in spaces and addresses is not None and int(addresses[0]) < 1 << BUFFER_SHIFT
        if one.name != "cp" and ("shared" in spaces or inside or one.name in ("ldmatrix", "stmatrix")):
            if one.name in ("ldmatrix", "stmatrix"):
                matrices = next((int(part[1:]) for part in one.parts if part in ("x1", "x2", "x4")), 1)
                mask = mask & np.less(IDS, 8 * matrices)
            self._shared(at, where, nbytes, mask, weight)
            return self._exchanged(one, where, mask) if one.name in ("ld", "st") else unknown
        trace = self.trace
        if addresses is None:
            count = max(1.0, float(mask.sum()) * nbytes / SECTOR)
            trace.unknown_addresses[at] += weight
            trace.sectors[at] += weight * count
            trace.fresh[at] += weight * count
            trace.unique[at, 0] += weight * count
            trace.fetched[at, 0] += weight * count * SECTOR
            return unknown
        cached = one.name in ("ld", "ldu", "wmma") or (one.name == "cp" and "ca" in one.parts)
        buffers = addresses >> BUFFER_SHIFT
        for buffer in {int(buffers[0])} if (buffers == buffers[0]).all() else set(buffers.tolist()):
            request = sectors(addresses[buffers == buffer], nbytes)
            missing, unique = self.footprint.touch(buffer, request, cached=cached)
            trace.sectors[at] += weight * len(request)
            trace.fresh[at] += weight * missing
            trace.unique[at, buffer] += weight * unique
            trace.fetched[at, buffer] += weight * missing * SECTOR
        if is_ticket(one):
            return [self._ticket(one, mask)]
        return self._loaded(one, where, mask) if one.name in ("ld", "ldu") else unknown

    def _fragment(self, one: Instruction, where: Lanes, mask: Mask) -> tuple[Lanes, int, Mask]:
        """Addresses of a fragment's pieces of 16 bytes, as far as a warp has lanes, and how long each is.

        A fragment is a tile in memory whose rows lie a stride apart, the same for all lanes.
        """
        rows, row_bytes = fragment_extents(one)
        stride = self.values.value(one.operands[-1])
        nbytes = max(1, rows * row_bytes // WARP)
        if where is None or not isinstance(stride, int):
            return None, nbytes, np.ones(WARP, dtype=bool)
        first = int(spread(where)[mask.argmax()])
        along, row = np.divmod(IDS, rows)
        return first + row * stride * one.nbytes + along * nbytes, nbytes, IDS < WARP

    def _ticket(self, one: Instruction, mask: Mask) -> Lanes:
        """The count that a block is told: blocks come in their order, again and again."""
        step, (x, y, _), (i, j, k) = self.values.value(one.operands[-1]), self.place.grid, self.place.block_id
        if not isinstance(step, int) or mask.sum() != 1:
            return None
        return step * (i + x * (j + y * k) + self._times_before() * math.prod(self.place.grid))

    def _times_before(self) -> int:
        """How often the warp has been here before."""
        return max(0, round(self.trace.visits[self.begin]) - 1)

    def _exchanged(self, one: Instruction, where: Lanes, mask: Mask) -> list[Lanes]:
        """Numbers that threads of the block leave for one another, one by one; the rest of shared memory is unknown."""
        if one.name == "st":
            value = self.values.value(one.operands[-1]) if one.type[:1] in "sub" else None
            place = where if isinstance(where, int) or where is None else int(where[mask.argmax()])
            if place is not None and (mask.sum() == 1 or (isinstance(where, int) and isinstance(value, int))):
                number = value if value is None or isinstance(value, int) else int(value[mask.argmax()])
                self.footprint.numbers.setdefault(place, []).append((self.place.warp, number))
            return []
        numbers = self.footprint.numbers.get(where) if isinstance(where, int) and len(one.writes) == 1 else None
        if not numbers:
            return [None] * len(one.writes)
        # Another warp's loop is further on: its numbers are read in the order in which it left them.
        turn = len(numbers) - 1 if numbers[-1][0] == self.place.warp else min(self._times_before(), len(numbers) - 1)
        return [numbers[turn][1]]

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
            size = self.values.value(one.operands[2]) if len(one.operands) > 2 else 16
            return size if isinstance(size, int) and 0 < size <= 16 else 16
        return 16 if one.name in ("ldmatrix", "stmatrix") else one.nbytes

    def _bulk(self, one: Instruction, at: int, places: list[str], mask: Mask, weight: float) -> None:
        """Count a bulk copy: bytes of its size operand, or of its tensor map's box, for every lane that starts one.

        A box stands in the footprint as one sector, whose number follows from its coordinates.
        """
        size = next((self.values.value(operand) for operand in one.operands if operand[0] != "["), None)
        ends = [self.values.address(operand) for operand in places]
        for lane in np.flatnonzero(mask).tolist():
            nbytes = _of_lane(size, lane) or 0
            nbytes = nbytes if 0 < nbytes < 1 << 20 else 0
            begin = max([0, *(_of_lane(end, lane) or 0 for end in ends)])
            buffer = begin >> BUFFER_SHIFT
            if "tensor" in one.parts:
                nbytes, buffer, begin = 0, 0, 0
                for place, end in zip(places, ends, strict=True):
                    box = self.values.boxes.get(end) if isinstance(end, int) else None
                    if box is None:
                        continue
                    corner = tuple(self.values.value(name) for name in REGISTER.findall(place)[1:])
                    nbytes, buffer = box.nbytes, box.buffer
                    begin = hash((buffer, *(c if isinstance(c, int) else None for c in corner)))
            self.trace.copied[at] += weight * nbytes
            if nbytes:
                _, unique = self.footprint.touch(buffer, {begin}, cached=False) if buffer else (1, 1)
                self.trace.unique[at, buffer] += weight * unique * nbytes / SECTOR
                self.trace.fetched[at, buffer] += weight * nbytes


def _of_lane(value: Lanes, lane: int) -> int | None:
    """What one lane's register holds."""
    return value if value is None or isinstance(value, int) else int(value[lane])
