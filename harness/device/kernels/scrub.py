"""Scrub: overwrites memory that a launch may find as the previous one left it: on chip, on its stack, in its buffers.

It can take a fingerprint of what it overwrites. Beside it, copies of many variables at once, and fills.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any

from kbench.harness.device.driver import Launch, LaunchShape, Parameters, Queue
from kbench.harness.device.kernels import keyed
from kbench.harness.device.kernels.own_kernels import OwnKernels, as_word, cuda_source

LOCAL_BYTES = (512, 4096, 32_768)
"""Stack sizes that have a scrubbing function; a kernel with a larger stack keeps what it wrote there."""
BLOCK, WARPS_TO_FILL = 256, 2048
FILL_BLOCK, FILL_ELEMENTS, FILL_BYTES = 128, 8, 16
"""Threads of a fill's block, and what each writes: so many elements, and no fewer bytes, as torch's fills have it. What
one leaves in the L2 for the next launch depends on this: a kernel that adds into 16 MB of zeros took 4 % longer when
each thread had written half as much."""
REGIONS = 4
"""Stretches of memory that one launch overwrites."""
REGION = struct.Struct("<2Q")
PARTS = 8
"""Stretches of memory that one fingerprint is of."""
NOT_WATCHED = bytes(PARTS * REGION.size + 24)
"""No fingerprint is wanted."""
Region = tuple[int, int]
"""Address and bytes of a stretch of memory."""
FILL_WORDS = {16: "ulonglong2", 8: "unsigned long long", 4: "unsigned int", 2: "unsigned short", 1: "unsigned char"}
"""The type that a fill stores, by its width in bytes."""
SOURCE = cuda_source("scrub")


class Scrubber:
    """Functions that overwrite global memory, and shared and local memory on every multiprocessor of a device."""

    def __init__(self, properties: Any, count: int, stream: int, poison: int) -> None:
        """Compile them for a device.

        Args:
            properties: the device's, as torch reports them.
            count: multiprocessors that work runs on.
            stream: handle of the stream everything is queued on.
            poison: the byte that memory is overwritten with, unless told otherwise.
        """
        shared = int(properties.shared_memory_per_block_optin)
        names = [f"scrub_local<{size}>" for size in LOCAL_BYTES]
        fills = {width: f"fill<{word}>" for width, word in FILL_WORDS.items()}
        counts = f"constexpr int REGIONS = {REGIONS}, PARTS = {PARTS};"
        own = OwnKernels(counts + keyed.source() + SOURCE, properties, [*names, *fills.values()])
        self._copy, self._stream = own.function("copy_rows"), stream
        self._fills = {width: own.function(name) for width, name in fills.items()}
        everywhere, word, self._poison = own.function("scrub"), bytes([poison] * 4), poison
        # Enough shared memory that only one block fits on a multiprocessor; twice as many blocks reach them all.
        shape = LaunchShape((2 * count, 1, 1), (1024, 1, 1), shared)
        self._given = Parameters(everywhere, [bytes(REGIONS * REGION.size), NOT_WATCHED, as_word(shared // 4), word])
        self._everywhere = Launch(everywhere, shape, self._given, stream)
        full = LaunchShape((count * WARPS_TO_FILL // BLOCK, 1, 1), (BLOCK, 1, 1))
        self._local: dict[int, Launch] = {}
        for size, name in zip(LOCAL_BYTES, names, strict=True):
            function = own.function(name)
            self._local[size] = Launch(function, full, Parameters(function, [as_word(1), word]), stream)

    def copying(self, table: int, rows: int) -> Queue:
        """A function that queues copying memory row by row of a table on the device: to, from, bytes."""
        shape = LaunchShape((rows, 1, 1), (32, 1, 1))
        return Launch(self._copy, shape, Parameters(self._copy, [as_word(table)]), self._stream).queue

    def filling(self, address: int, nbytes: int, pattern: bytes) -> Queue:
        """A function that queues a fill with a repeated pattern of 1, 2, 4, 8 or 16 bytes.

        It is a launch, as torch's own fills are; the driver's fills begin and end sooner, by most of a microsecond,
        and they have no pattern of eight bytes.
        """
        width = next(width for width in self._fills if address % width == 0)
        each = max(FILL_ELEMENTS * len(pattern), FILL_BYTES)
        blocks = max(1, -(-nbytes // (each * FILL_BLOCK)))
        function, shape = self._fills[width], LaunchShape((blocks, 1, 1), (FILL_BLOCK, 1, 1))
        arguments = [as_word(address), pattern * (16 // len(pattern)), as_word(nbytes), as_word(each // width)]
        return Launch(function, shape, Parameters(function, arguments), self._stream).queue

    def watching(self, parts: Sequence[Region]) -> bytes:
        """The request for a fingerprint of some stretches while they are overwritten, packed.

        A random number, and the address that it is added to, must be appended.
        """
        assert len(parts) <= PARTS
        return _packed(parts, PARTS) + as_word(len(parts))

    def overwriting(self, regions: Sequence[Region], local_bytes: int = 0) -> Callable[..., None]:
        """A function that queues overwriting some stretches, all shared memory, and stacks of that size per thread.

        It takes `watched`: what `watching` returned, a random number of eight bytes, and the address of eight bytes
        that the fingerprint is added to, with the pad of that number on it; and `byte`: what memory other than stacks
        is overwritten with, the poison if not given.
        """
        parameters, everywhere, poison = self._given, self._everywhere.queue, self._poison
        rows = [_packed(regions[at : at + REGIONS], REGIONS) for at in range(0, max(len(regions), 1), REGIONS)]
        covering = next((size for size in LOCAL_BYTES if size >= local_bytes), LOCAL_BYTES[-1])
        stack = self._local[covering].queue if local_bytes else None

        def overwrite(watched: bytes = NOT_WATCHED, byte: int = poison) -> None:
            assert watched is NOT_WATCHED or len(rows) == 1, "a fingerprint has one pad on it"
            parameters.set(1, watched)
            parameters.set(3, bytes((byte,)) * 4)
            for some in rows:
                parameters.set(0, some)
                everywhere()
            if stack is not None:
                stack()

        return overwrite


def _packed(regions: Sequence[Region], room: int) -> bytes:
    """Stretches of memory as the functions take them."""
    return b"".join(REGION.pack(*region) for region in regions).ljust(room * REGION.size, b"\0")
