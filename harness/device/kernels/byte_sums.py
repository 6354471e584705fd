"""Byte sums: a keyed sum over the bytes of each of many tensors, in one launch, so that damage is noticed.

What a byte adds depends on where it lies and on keys: nobody can swap or change some without changing the sum.
"""

from __future__ import annotations

import dataclasses
import secrets
import struct
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from kbench.harness.device.kernels import mixing
from kbench.harness.device.kernels.own_kernels import RowsFunction, cuda_source

if TYPE_CHECKING:
    from torch import Tensor

ROW = struct.Struct("<3Q")
PART = 1 << 22
"""Words that torch mixes at a time."""
SOURCE = cuda_source("byte_sums")


@dataclasses.dataclass(frozen=True, slots=True)
class Seal:
    """Sums of tensors that lie where kernels can change both: the tensors, and the sums with their pads on them.

    Of a tensor that is not contiguous, a contiguous copy is sealed.
    """

    tensors: list[Tensor]
    padded: Tensor
    pads: list[int]

    def sums(self) -> list[int]:
        """What the tensors had when they were sealed; waits for the device."""
        return [(total - pad) & mixing.WORD for total, pad in zip(self.padded.tolist(), self.pads, strict=True)]


class ByteSums:
    """The sums on a device."""

    def __init__(self, properties: Any, stream: int) -> None:
        """Compile the kernel; see RowsFunction."""
        self._function = RowsFunction(mixing.source() + SOURCE, "sum_rows", properties, stream)

    def seal(self, tensors: Sequence[Tensor]) -> Seal:
        """Queue summing up at least one tensor."""
        import torch

        whole = [tensor.contiguous() for tensor in tensors]
        nonce = secrets.randbits(64)
        facts = [(tensor.data_ptr(), tensor.nbytes, nonce) for tensor in whole]
        padded = torch.zeros(len(whole), dtype=torch.int64, device=whole[0].device)
        self._function.queue([ROW.pack(*fact) for fact in facts], [nbytes for _, nbytes, _ in facts], padded)
        return Seal(whole, padded, [mixing.pad(nonce, address, nbytes) for address, nbytes, _ in facts])


def sealed_by_torch(tensors: Sequence[Tensor]) -> Seal:
    """Such a seal by torch's own operations, on any device."""
    import torch

    pads = [secrets.randbits(64) for _ in tensors]
    padded = torch.stack([_sum(tensor) + mixing.signed(pad) for tensor, pad in zip(tensors, pads, strict=True)])
    return Seal([*tensors], padded, pads)


def intact(seals: Sequence[Seal], seal: Callable[[Sequence[Tensor]], Seal]) -> bool:
    """Whether all that was sealed is as it was; waits for the device.

    Args:
        seals: made earlier.
        seal: makes one now.
    """
    import torch

    if not seals:
        return True
    tensors = [tensor for one in seals for tensor in one.tensors]
    # As one, to wait for it once.
    then = Seal(tensors, torch.cat([one.padded for one in seals]), [pad for one in seals for pad in one.pads])
    return seal(tensors).sums() == then.sums()


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
            total += mixing.mixed(part, places).sum()
    return total
