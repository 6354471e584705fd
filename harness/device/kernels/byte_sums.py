"""Byte sums: a keyed sum over the bytes of each of many tensors, in one launch, so that damage is noticed.

What a byte adds depends on where it lies and on the key: nobody can swap or change some without changing the sum.
"""

from __future__ import annotations

import functools
import secrets
import struct
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from kbench.harness.device.kernels.own_kernels import FACTOR, MIXED, RowsFunction

if TYPE_CHECKING:
    from torch import Tensor

ROW = struct.Struct("<3Q")
PART = 1 << 22
"""Words that torch mixes at a time."""
SOURCE = (
    MIXED
    + r"""
struct Row {
    const unsigned char* bytes;
    Word count, key;
};
struct Rows { Row row[ROWS]; };

__device__ Word word_at(const unsigned char* from) {
    Word word = 0;
    for (int i = 0; i < 8; ++i) word |= (Word)from[i] << 8 * i;
    return word;
}

// Of pairs of words of eight bytes, and of the single bytes after them.
extern "C" __global__ void sum_rows(const Rows rows, Word* sums) {
    const Row row = rows.row[blockIdx.y];
    const Word step = (Word)gridDim.x * blockDim.x;
    const Word first = (Word)blockIdx.x * blockDim.x + threadIdx.x;
    const Word pairs = row.count / 16;
    const bool aligned = (Word)row.bytes % 16 == 0;
    Word sum = 0;
    for (Word i = first; i < pairs; i += step) {
        const unsigned char* from = row.bytes + 16 * i;
        const ulonglong2 two = aligned ? *reinterpret_cast<const ulonglong2*>(from)
                                       : make_ulonglong2(word_at(from), word_at(from + 8));
        sum += mixed(two.x, row.key, 16 * i) + mixed(two.y, row.key, 16 * i + 8);
    }
    for (Word i = 16 * pairs + first; i < row.count; i += step) sum += mixed(row.bytes[i], row.key, i);
    for (int lane = 16; lane > 0; lane >>= 1) sum += __shfl_down_sync(0xffffffffu, sum, lane);
    if (threadIdx.x % 32 == 0 && sum != 0) atomicAdd(&sums[blockIdx.y], sum);
}
"""
)


@functools.cache
def key() -> int:
    """The key of this process: drawn when first asked for, since processes forked before that must not share it."""
    return secrets.randbits(63)


class ByteSums:
    """The sums on a device."""

    def __init__(self, properties: Any, stream: int) -> None:
        """Compile the kernel; see RowsFunction."""
        self._function = RowsFunction(SOURCE, "sum_rows", properties, stream)

    def of(self, tensors: Sequence[Tensor]) -> list[int]:
        """The sum of each; waits once."""
        import torch

        if not tensors:
            return []
        # Held until the sums are there: some may be copies.
        whole = [tensor.contiguous() for tensor in tensors]
        sizes = [tensor.numel() * tensor.element_size() for tensor in whole]
        rows = [ROW.pack(tensor.data_ptr(), nbytes, key()) for tensor, nbytes in zip(whole, sizes, strict=True)]
        sums = torch.zeros(len(whole), dtype=torch.int64, device=whole[0].device)
        self._function.queue(rows, sizes, sums)
        return [int(total) for total in sums.tolist()]


def byte_sums(tensors: Sequence[Tensor]) -> list[int]:
    """Such sums by torch's own operations, on any device."""
    import torch

    found = [_sum(tensor) for tensor in tensors]
    return [int(total) for total in torch.stack(found).tolist()] if found else []


def _sum(tensor: Tensor) -> Tensor:
    import torch

    flat = tensor.reshape(-1).view(torch.uint8)
    flat = flat if flat.storage_offset() % 8 == 0 else flat.clone()
    wide = flat.numel() // 16 * 16
    total = torch.zeros((), dtype=torch.int64, device=tensor.device)
    for values, first, step in ((flat[:wide].view(torch.int64), 0, 8), (flat[wide:].to(torch.int64), wide, 1)):
        for at in range(0, values.numel(), PART):
            part = values[at : at + PART]
            places = torch.arange(at, at + part.numel(), dtype=torch.int64, device=tensor.device) * step + first
            total += _mixed(part, places).sum()
    return total


def _mixed(values: Tensor, places: Tensor) -> Tensor:
    """As on the device; signed words of eight bytes wrap around as unsigned ones do."""
    factor = FACTOR - (1 << 64)
    values = (values ^ key() ^ (places + 1) * (key() | 1)) * factor
    values = (values ^ (values >> 32 & 0xFFFFFFFF)) * factor
    return values ^ (values >> 32 & 0xFFFFFFFF)
