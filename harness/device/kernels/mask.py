"""Mask: bytes that only the keys of this process can make out, many tensors in one launch.

Masking twice gives the bytes back. What the mask is depends on a random number and on where a byte lies in its tensor.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from kbench.harness.device.kernels import mixing
from kbench.harness.device.kernels.own_kernels import RowsFunction, cuda_source

if TYPE_CHECKING:
    from torch import Tensor

ROW = struct.Struct("<3Q")
PART = 1 << 22
"""Words that torch masks at a time."""
SOURCE = f"#define MASK {mixing.MASK:#x}ull\n{cuda_source('mask')}"


class Mask:
    """Masking on a device."""

    def __init__(self, properties: Any, stream: int) -> None:
        """Compile the kernel; see RowsFunction."""
        self._function = RowsFunction(mixing.source(mixing.MASKS) + SOURCE, "mask_rows", properties, stream)

    def queue(self, tensors: Sequence[Tensor], nonces: Sequence[int]) -> None:
        """Queue masking contiguous tensors where they lie, each with a number of its own."""
        facts = [(tensor.data_ptr(), tensor.nbytes, nonce) for tensor, nonce in zip(tensors, nonces, strict=True)]
        self._function.queue([ROW.pack(*fact) for fact in facts], [nbytes for _, nbytes, _ in facts])


def mask_by_torch(tensors: Sequence[Tensor], nonces: Sequence[int]) -> None:
    """The same by torch's own operations, on any device."""
    import torch

    for tensor, nonce in zip(tensors, nonces, strict=True):
        flat = tensor.view(-1).view(torch.uint8)
        for at in range(0, flat.numel(), 8 * PART):
            part = flat[at : at + 8 * PART]
            words = torch.arange(at // 8, at // 8 - (-part.numel() // 8), dtype=torch.int64, device=tensor.device)
            mask = mixing.mixed(torch.full_like(words, mixing.signed(nonce)), words + mixing.MASK, mixing.MASKS)
            part ^= mask.view(torch.uint8)[: part.numel()]
