"""Keyed: sums over the bytes of many tensors, so that damage is noticed, and masks that hide bytes until a call.

What a byte adds depends on where it lies and on keys: nobody can swap or change some without changing the sum. Masking
twice gives the bytes back; a mask depends on a random number and on where a byte lies in its tensor.

The keys are part of the machine code that sums up or masks. Kernels can read all memory of their process, and may find
the parameters of other launches there; code they cannot read, as far as we know. Nor does a sum that lies in memory
tell them anything: it has a pad on it, which depends on the keys, a random number, and what the sum is of.
"""

from __future__ import annotations

import dataclasses
import functools
import secrets
import struct
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from kbench.harness.device.kernels.own_kernels import RowsFunction, cuda_source

if TYPE_CHECKING:
    from torch import Tensor

Words = Any
"""A number of Python's, or an array of unsigned words."""
FACTOR = 0xD6E8FEB86659FD93
WORD = (1 << 64) - 1
SUMS, MASKS = "sums", "masks"
"""What has keys of its own: who sees bytes with a mask and without one must not learn anything about sums."""
PAD, MASK = 1 << 62, 1 << 61
"""Where pads and masks are: no memory is so large."""


@functools.cache
def process_keys(use: str) -> tuple[int, int, int]:
    """Keys of this process for a use: drawn when first asked for, since processes forked before must not share them."""
    first, second, third = (secrets.randbits(64) for _ in range(3))
    return first, second | 1, third | 1


def source(use: str = SUMS) -> str:
    """CUDA C++ that sums over memory, or masks, build on; it contains the keys."""
    first, second, third = process_keys(use)
    constants = {"FIRST": first, "SECOND": second, "THIRD": third, "FACTOR": FACTOR, "PAD": PAD}
    # Not constants of the language: the compiler would put those into memory, where kernels can read them.
    lines = [f"\n#define {name} {value:#x}ull" for name, value in constants.items()]
    return "".join(lines) + "\n" + cuda_source("mixing")


def mixed(values: Tensor, places: Tensor, use: str = SUMS) -> Tensor:
    """Words mixed as on a GPU, by torch's operations: signed words of eight bytes wrap around as unsigned ones do."""
    first, second, third = map(signed, process_keys(use))
    values = (values ^ (places * second + first)) * signed(FACTOR)
    values = (values ^ (values >> 32 & 0xFFFFFFFF)) * third
    return values ^ (values >> 32 & 0xFFFFFFFF)


def pad(nonce: Words, address: Words, count: Words) -> Words:
    """The pad that hides a sum, or each of several."""
    inner = _mixed_words(_mixed_words(nonce, PAD) + address & WORD, PAD + 1)
    return _mixed_words(inner + count & WORD, PAD + 2)


def _mixed_words(values: Words, place: int) -> Words:
    first, second, third = process_keys(SUMS)
    values = (values ^ (first + place * second & WORD)) * FACTOR & WORD
    values = (values ^ values >> 32) * third & WORD
    return values ^ values >> 32


def signed(word: int) -> int:
    """A word of eight bytes as torch counts them."""
    return word - (1 << 64) if word >> 63 else word


def random_words(count: int) -> Tensor:
    """Numbers of eight bytes that nobody can foresee, in host memory."""
    import torch

    # Not by `random`: who sees many of its numbers can tell those to come. An empty buffer makes no tensor.
    return torch.frombuffer(bytearray(secrets.token_bytes(8 * count + 8)), dtype=torch.int64)[:count]


ROW = struct.Struct("<3Q")
PART = 1 << 22
"""Words that torch mixes, or masks, at a time."""
SUMS_SOURCE = cuda_source("byte_sums")


@dataclasses.dataclass(frozen=True, slots=True)
class Seal:
    """Sums of tensors that lie where kernels can change both: the tensors, and the sums with their pads on them.

    Of a tensor that is not contiguous, a contiguous copy is sealed.
    """

    tensors: list[Tensor]
    padded: Tensor
    pads: list[int]

    def sums(self) -> list[int]:
        """The sums that the tensors had when they were sealed; waits for the device."""
        return [(total - pad) & WORD for total, pad in zip(self.padded.tolist(), self.pads, strict=True)]


class ByteSums:
    """The sums on a device."""

    def __init__(self, properties: Any, stream: int) -> None:
        """Compile the kernel; see RowsFunction."""
        self._function = RowsFunction(source() + SUMS_SOURCE, "sum_rows", properties, stream)

    def seal(self, tensors: Sequence[Tensor]) -> Seal:
        """Queue summing up at least one tensor."""
        import torch

        whole = [tensor.contiguous() for tensor in tensors]
        nonce = secrets.randbits(64)
        facts = [(tensor.data_ptr(), tensor.nbytes, nonce) for tensor in whole]
        padded = torch.zeros(len(whole), dtype=torch.int64, device=whole[0].device)
        self._function.queue([ROW.pack(*fact) for fact in facts], [nbytes for _, nbytes, _ in facts], padded)
        return Seal(whole, padded, [pad(nonce, address, nbytes) for address, nbytes, _ in facts])


def sealed_by_torch(tensors: Sequence[Tensor]) -> Seal:
    """A seal by torch's own operations, on any device."""
    import torch

    pads = [secrets.randbits(64) for _ in tensors]
    padded = torch.stack([_sum(tensor) + signed(pad) for tensor, pad in zip(tensors, pads, strict=True)])
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
            total += mixed(part, places).sum()
    return total


MASK_SOURCE = f"#define MASK {MASK:#x}ull\n{cuda_source('mask')}"


class Mask:
    """Masking on a device."""

    def __init__(self, properties: Any, stream: int) -> None:
        """Compile the kernel; see RowsFunction."""
        self._function = RowsFunction(source(MASKS) + MASK_SOURCE, "mask_rows", properties, stream)

    def queue(self, tensors: Sequence[Tensor], nonces: Sequence[int]) -> None:
        """Queue masking contiguous tensors where they lie, each with a number of its own."""
        facts = [(tensor.data_ptr(), tensor.nbytes, nonce) for tensor, nonce in zip(tensors, nonces, strict=True)]
        self._function.queue([ROW.pack(*fact) for fact in facts], [nbytes for _, nbytes, _ in facts])


def mask_by_torch(tensors: Sequence[Tensor], nonces: Sequence[int]) -> None:
    """Mask tensors where they lie by torch's own operations, on any device."""
    import torch

    for tensor, nonce in zip(tensors, nonces, strict=True):
        flat = tensor.view(-1).view(torch.uint8)
        for at in range(0, flat.numel(), 8 * PART):
            part = flat[at : at + 8 * PART]
            words = torch.arange(at // 8, at // 8 - (-part.numel() // 8), dtype=torch.int64, device=tensor.device)
            mask = mixed(torch.full_like(words, signed(nonce)), words + MASK, MASKS)
            part ^= mask.view(torch.uint8)[: part.numel()]
