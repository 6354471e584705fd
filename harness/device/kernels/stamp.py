"""Stamp: a launch of one thread that writes the GPU's own clock, a second witness of every timed call.

CUDA events leave their times in a page that the driver maps at a fixed address, where machine code can move them. A
stamp lies in memory that machine code can write too, but its tag cannot be made up: it is the SipHash-2-4 of the time,
the stamp's place in its batch and a random number of the batch, under a key that is a constant in the stamp's machine
code. A changed stamp has the wrong tag, and an old one the tag of another batch or place.
"""

from __future__ import annotations

import functools
import secrets
from collections.abc import Sequence
from typing import Any

from kbench.harness.device.driver import Launch, LaunchShape, Parameters
from kbench.harness.device.kernels.own_kernels import OwnKernels, as_word

MOST_STAMPS = 512
"""Stamps of a batch that the table has room for."""
Key = tuple[int, int]
INITIAL = (0x736F6D6570736575, 0x646F72616E646F6D, 0x6C7967656E657261, 0x7465646279746573)
"""What the four words of SipHash's state begin with, before the key is added."""
LENGTH = 23 << 56
"""Top byte of the last block: the hashed bytes are two words and a place of seven bytes."""
SOURCE = r"""
using Word = unsigned long long;

__device__ __forceinline__ Word turned(Word word, int by) { return word << by | word >> (64 - by); }

__device__ __forceinline__ void mix(Word& a, Word& b, Word& c, Word& d) {
    a += b, c += d, b = turned(b, 13) ^ a, d = turned(d, 16) ^ c, a = turned(a, 32);
    c += b, a += d, b = turned(b, 17) ^ c, d = turned(d, 21) ^ a, c = turned(c, 32);
}

extern "C" __global__ void stamp(Word* table, Word nonce, Word place) {
    Word time;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(time) :: "memory");
    Word a = KEYED_0, b = KEYED_1, c = KEYED_2, d = KEYED_3;
    const Word blocks[3] = {nonce, time, place | LENGTH};
    #pragma unroll
    for (int i = 0; i < 3; i++) {
        d ^= blocks[i];
        mix(a, b, c, d), mix(a, b, c, d);
        a ^= blocks[i];
    }
    c ^= 0xff;
    mix(a, b, c, d), mix(a, b, c, d), mix(a, b, c, d), mix(a, b, c, d);
    table[2 * place] = time;
    table[2 * place + 1] = a ^ b ^ c ^ d;
}
"""


@functools.cache
def process_key() -> Key:
    """The key of this process: drawn when first asked for, since processes forked before must not share it."""
    return secrets.randbits(64), secrets.randbits(64)


def siphash(key: Key, blocks: Sequence[Any]) -> Any:
    """SipHash-2-4 of messages that differ in their words.

    Args:
        key: its two words.
        blocks: arrays of unsigned words of eight bytes, one element per message; the last block ends with the length.
    """
    import numpy as np

    # Two words of the state in each array: half as many operations, of which each takes as long for one stamp as for
    # hundreds.
    a_c = np.stack([np.full_like(blocks[0], INITIAL[at] ^ key[0]) for at in (0, 2)])
    b_d = np.stack([np.full_like(blocks[0], INITIAL[at] ^ key[1]) for at in (1, 3)])
    half = np.uint64(32)
    turns = [(left, np.uint64(64) - left) for left in (np.array([[13], [16]], "u8"), np.array([[17], [21]], "u8"))]

    def mix(rounds: int) -> None:
        nonlocal a_c, b_d
        for left, right in turns * rounds:
            a_c += b_d
            b_d = (b_d << left | b_d >> right) ^ a_c
            a_c[0] = a_c[0] << half | a_c[0] >> half
            # The second half of a round does the same with a and c in each other's place.
            a_c = a_c[::-1].copy()

    for block in blocks:
        b_d[1] ^= block
        mix(2)
        a_c[0] ^= block
    a_c[1] ^= np.uint64(0xFF)
    mix(4)
    return np.bitwise_xor.reduce([*a_c, *b_d])


class StampClock:
    """Stamps on a device, in batches: queued in order, read together."""

    def __init__(self, properties: Any, stream: int) -> None:
        """Compile the kernel for a device.

        Args:
            properties: the device's, as torch reports them.
            stream: handle of the stream that stamps are queued on.
        """
        import torch

        state = [word ^ process_key()[at % 2] for at, word in enumerate(INITIAL)]
        named = ", ".join(f"KEYED_{at} = {word:#x}ull" for at, word in enumerate(state))
        constants = f"constexpr unsigned long long LENGTH = {LENGTH:#x}ull, {named};"
        function = OwnKernels(constants + SOURCE, properties).function("stamp")
        self._table = torch.zeros(MOST_STAMPS, 2, dtype=torch.int64, device="cuda")
        self._parameters = Parameters(function, [as_word(self._table.data_ptr()), bytes(8), bytes(8)])
        self._launch = Launch(function, LaunchShape((1, 1, 1), (1, 1, 1)), self._parameters, stream).queue
        self._places = [as_word(place) for place in range(MOST_STAMPS)]
        self._count = self._nonce = 0
        self._unchecked: list[tuple[int, Any]] = []
        """The number of each batch that was read, with its part of the table."""

    def begin(self) -> None:
        """Begin a batch; stamps that were not read are dropped."""
        self._count, self._nonce = 0, secrets.randbits(64)
        self._parameters.set(1, as_word(self._nonce))

    def queue(self) -> int:
        """Queue a stamp; its place in the batch."""
        place = self._count
        self._parameters.set(2, self._places[place])
        self._launch()
        self._count += 1
        return place

    def read(self) -> list[float]:
        """Microseconds from the batch's first stamp to each, true unless `genuine` says otherwise; waits for them."""
        import numpy as np

        stamps = self._table[: self._count].cpu().numpy().view(np.uint64)
        self._unchecked.append((self._nonce, stamps))
        # Nanoseconds since 1970 have more digits than a float.
        since_first: list[float] = ((stamps[:, 0] - stamps[0, 0]).view(np.int64) / 1e3).tolist()
        return since_first

    def genuine(self) -> bool:
        """Whether all stamps that were read since the last time are those that were queued.

        Of all batches together: on the host a hash takes as long for a thousand stamps as for ten.
        """
        import numpy as np

        if not self._unchecked:
            return True
        numbers, tables = zip(*self._unchecked, strict=True)
        self._unchecked = []
        sizes = [len(table) for table in tables]
        times, tags = np.concatenate(tables).T
        nonces = np.repeat(np.array(numbers, dtype=np.uint64), sizes)
        places = np.concatenate([np.arange(size, dtype=np.uint64) for size in sizes])
        return bool((tags == siphash(process_key(), (nonces, times, places | np.uint64(LENGTH)))).all())
