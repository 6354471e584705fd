"""Byte sums: a cheap sum over the bytes of each of many tensors, in one launch, so that damage is noticed."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from kbench.harness.device.kernels.own_kernels import RowsFunction

if TYPE_CHECKING:
    from torch import Tensor

ROW = struct.Struct("<2Q")
SOURCE = r"""
struct Row {
    const unsigned char* bytes;
    unsigned long long count;
};
struct Rows { Row row[ROWS]; };

// Of signed words of four bytes, and of the single bytes after them.
extern "C" __global__ void sum_rows(const Rows rows, unsigned long long* sums) {
    const Row row = rows.row[blockIdx.y];
    const unsigned long long step = (unsigned long long)gridDim.x * blockDim.x;
    const unsigned long long first = (unsigned long long)blockIdx.x * blockDim.x + threadIdx.x;
    const unsigned long long words = row.count / 4;
    const unsigned long long wide = (unsigned long long)row.bytes % 16 == 0 ? words / 4 : 0;
    long long sum = 0;
    for (unsigned long long i = first; i < wide; i += step) {
        const int4 four = reinterpret_cast<const int4*>(row.bytes)[i];
        sum += (long long)four.x + four.y + four.z + four.w;
    }
    for (unsigned long long i = 4 * wide + first; i < words; i += step)
        sum += reinterpret_cast<const int*>(row.bytes)[i];
    for (unsigned long long i = 4 * words + first; i < row.count; i += step) sum += row.bytes[i];
    for (int lane = 16; lane > 0; lane >>= 1) sum += __shfl_down_sync(0xffffffffu, sum, lane);
    if (threadIdx.x % 32 == 0 && sum != 0) atomicAdd(&sums[blockIdx.y], (unsigned long long)sum);
}
"""


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
        rows = [ROW.pack(tensor.data_ptr(), nbytes) for tensor, nbytes in zip(whole, sizes, strict=True)]
        sums = torch.zeros(len(whole), dtype=torch.int64, device=whole[0].device)
        self._function.queue(rows, sizes, sums)
        return [int(total) for total in sums.tolist()]


def byte_sums(tensors: Sequence[Tensor]) -> list[int]:
    """The same by torch's own operations, on any device."""
    import torch

    found = []
    for tensor in tensors:
        flat = tensor.reshape(-1).view(torch.uint8)
        whole = flat.numel() // 4 * 4
        total = flat[:whole].view(torch.int32).sum(dtype=torch.int64)
        found.append(total + flat[whole:].sum(dtype=torch.int64) if whole < flat.numel() else total)
    return [int(total) for total in torch.stack(found).tolist()] if found else []
