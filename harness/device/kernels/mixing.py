"""Mixing: what a word of memory adds to a sum, or what hides it; nobody can foresee that without keys of this process.

The keys are part of the machine code that sums up or masks. Kernels can read all memory of their process, and may find
the parameters of other launches there; code they cannot read, as far as we know. Nor does a sum that lies in memory
tell them anything: it has a pad on it, which depends on the keys, a random number, and what the sum is of.
"""

from __future__ import annotations

import functools
import secrets
from typing import TYPE_CHECKING, Any

from kbench.harness.device.kernels.own_kernels import cuda_source

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
    """The same by torch's own operations: signed words of eight bytes wrap around as unsigned ones do."""
    first, second, third = map(signed, process_keys(use))
    values = (values ^ (places * second + first)) * signed(FACTOR)
    values = (values ^ (values >> 32 & 0xFFFFFFFF)) * third
    return values ^ (values >> 32 & 0xFFFFFFFF)


def pad(nonce: Words, address: Words, count: Words) -> Words:
    """What hides a sum, or each of several."""
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
