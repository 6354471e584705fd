"""Same bytes: whether memory holds what it should, many places in one launch."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from kbench.harness.device.kernels.own_kernels import RowsFunction, cuda_source

if TYPE_CHECKING:
    from torch import Tensor

Claim = tuple["Tensor", "Tensor | int"]
"""A contiguous tensor, and one of the same size with the same bytes, or the byte it is filled with."""
ROW = struct.Struct("<4Q")
SOURCE = cuda_source("same_bytes")


class SameBytes:
    """The comparison on a device."""

    def __init__(self, properties: Any, stream: int) -> None:
        """Compile it; see RowsFunction."""
        self._function = RowsFunction(SOURCE, "compare_rows", properties, stream)

    def queue(self, claims: Sequence[Claim]) -> Tensor:
        """Queue checking some claims; whether each holds."""
        import torch

        same = torch.ones(len(claims), dtype=torch.bool, device=claims[0][0].device)
        self._function.queue([_row(*claim) for claim in claims], [one.nbytes for one, _ in claims], same)
        return same


def _row(one: Tensor, other: Tensor | int) -> bytes:
    address, fill = (0, other) if isinstance(other, int) else (other.data_ptr(), 0)
    return ROW.pack(one.data_ptr(), address, fill, one.nbytes)


def same_bytes(claims: Sequence[Claim]) -> Tensor:
    """Whether each claim holds, by torch's own operations on any device."""
    import torch

    return torch.stack([_holds(one, other) for one, other in claims])


def _holds(one: Tensor, other: Tensor | int) -> Tensor:
    import torch

    if isinstance(other, int):
        return (one.reshape(-1).view(torch.uint8) == other).all()
    # As words of eight bytes, or as bytes where that is not possible.
    narrow = one.nbytes % 8 or one.data_ptr() % 8 or other.data_ptr() % 8 or one.numel() == 0
    words = torch.uint8 if narrow else torch.int64
    return torch.eq(one.reshape(-1).view(words), other.reshape(-1).view(words)).all()
