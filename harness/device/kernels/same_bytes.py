"""Same bytes: whether memory holds what it should, many places in one launch."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from kbench.harness.device.kernels.own_kernels import RowsFunction

if TYPE_CHECKING:
    from torch import Tensor

Claim = tuple["Tensor", "Tensor | int"]
"""A contiguous tensor, and one of the same size with the same bytes, or the byte it is filled with."""
ROW = struct.Struct("<4Q")
SOURCE = r"""
struct Row {
    const unsigned char* one;
    const unsigned char* other;
    unsigned long long fill, bytes;
};
struct Rows { Row row[ROWS]; };

extern "C" __global__ void compare_rows(const Rows rows, unsigned char* same) {
    const Row row = rows.row[blockIdx.y];
    const unsigned long long step = (unsigned long long)gridDim.x * blockDim.x;
    const unsigned long long first = (unsigned long long)blockIdx.x * blockDim.x + threadIdx.x;
    const bool aligned = (((unsigned long long)row.one | (unsigned long long)row.other) & 15) == 0;
    const unsigned long long words = aligned ? row.bytes / 16 : 0;
    const unsigned int filled = (unsigned int)row.fill * 0x01010101u;
    bool differs = false;
    for (unsigned long long i = first; i < words; i += step) {
        const uint4 a = reinterpret_cast<const uint4*>(row.one)[i];
        uint4 b = make_uint4(filled, filled, filled, filled);
        if (row.other != nullptr) b = reinterpret_cast<const uint4*>(row.other)[i];
        differs |= a.x != b.x || a.y != b.y || a.z != b.z || a.w != b.w;
    }
    for (unsigned long long i = 16 * words + first; i < row.bytes; i += step)
        differs |= row.one[i] != (row.other != nullptr ? row.other[i] : (unsigned char)row.fill);
    if (differs) same[blockIdx.y] = 0;
}
"""


class SameBytes:
    """The comparison on a device."""

    def __init__(self, properties: Any, stream: int) -> None:
        """Compile it; see RowsFunction."""
        self._function = RowsFunction(SOURCE, "compare_rows", properties, stream)

    def queue(self, claims: Sequence[Claim]) -> Tensor:
        """Queue checking some claims; whether each holds."""
        import torch

        same = torch.ones(len(claims), dtype=torch.bool, device=claims[0][0].device)
        self._function.queue([_row(*claim) for claim in claims], [_nbytes(one) for one, _ in claims], same)
        return same


def _nbytes(tensor: Tensor) -> int:
    return tensor.numel() * tensor.element_size()


def _row(one: Tensor, other: Tensor | int) -> bytes:
    address, fill = (0, other) if isinstance(other, int) else (other.data_ptr(), 0)
    return ROW.pack(one.data_ptr(), address, fill, _nbytes(one))


def same_bytes(claims: Sequence[Claim]) -> Tensor:
    """The same by torch's own operations, on any device."""
    import torch

    return torch.stack([_holds(one, other) for one, other in claims])


def _holds(one: Tensor, other: Tensor | int) -> Tensor:
    import torch

    if isinstance(other, int):
        return (one.reshape(-1).view(torch.uint8) == other).all()
    return torch.eq(*_as_words(one, other)).all()


def _as_words(one: Tensor, other: Tensor) -> tuple[Tensor, Tensor]:
    """Two tensors of one type as words of eight bytes, or as bytes where that is not possible."""
    import torch

    wide = torch.int64 if one.numel() * one.element_size() % 8 == 0 else torch.uint8
    if one.data_ptr() % 8 or other.data_ptr() % 8 or one.numel() == 0:
        wide = torch.uint8
    return one.reshape(-1).view(wide), other.reshape(-1).view(wide)
