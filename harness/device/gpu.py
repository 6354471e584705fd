"""Gpu: which GPU to measure on, or which part of one."""

from __future__ import annotations

import dataclasses
import os
import re

from kbench.schemas import UserError
from kbench.schemas.gpus import partition_name

STEP = 8
"""Partitions come in multiples of this many multiprocessors, which every architecture accepts."""
RULE = (
    f"a partition has a multiple of {STEP} SMs, at least {STEP} and at most the GPU's number rounded down to one;"
    " leave the count out for the whole GPU"
)
FORM = re.compile(r"(?:(\d+)|((?:MIG|GPU)-[^:,\s]+))(?::(\d+))?")


@dataclasses.dataclass(frozen=True, slots=True)
class Gpu:
    """A GPU, or as many of its multiprocessors as are named."""

    index: int = 0
    """As CUDA numbers GPUs; 0 with a uuid, which is then the only one CUDA sees."""
    sms: int | None = None
    """Multiprocessors of the partition; None for the whole GPU."""
    uuid: str | None = None
    """Of a GPU or a MIG instance that is named by its uuid."""

    @classmethod
    def parse(cls, text: str) -> Gpu:
        """A GPU from text such as 0, 0:64 or MIG-….

        Raises:
            UserError: the text has another form, or no partition can have so many multiprocessors.
        """
        found = FORM.fullmatch(text.strip())
        if found is None:
            raise UserError(f"--gpu is {text!r}; give an index such as 0, a partition such as 0:64, or MIG-…")
        index, uuid, sms = found.groups()
        if sms is not None and (int(sms) < STEP or int(sms) % STEP):
            raise UserError(f"--gpu is {text!r}, but {RULE}")
        return cls(int(index or 0), None if sms is None else int(sms), uuid)

    @classmethod
    def of(cls, value: int | str | Gpu) -> Gpu:
        """A GPU from its index or its text."""
        return value if isinstance(value, Gpu) else cls.parse(str(value))

    def __str__(self) -> str:
        return (self.uuid or str(self.index)) + ("" if self.sms is None else f":{self.sms}")

    def named(self, model: str, sm_count: int) -> str:
        """What records call it, given the whole GPU's name and number of multiprocessors."""
        return model if self.sms is None else partition_name(model, self.sms, sm_count)

    def check_size(self, sm_count: int) -> None:
        """Check that a GPU with this many multiprocessors has such a partition.

        Raises:
            UserError: it is too small.
        """
        if self.sms is not None and self.sms > sm_count // STEP * STEP:
            raise UserError(f"--gpu is {str(self)!r} and the GPU has {sm_count} SMs, but {RULE}")

    def visible_index(self) -> int:
        """Its index, after making it visible to CUDA where a uuid names it; call before this process uses CUDA."""
        if self.uuid is not None:
            os.environ["CUDA_VISIBLE_DEVICES"] = self.uuid
        return self.index


FIRST_GPU = Gpu()
"""What is used unless told otherwise."""


def parse_gpus(text: str) -> tuple[Gpu, ...]:
    """GPUs from a list such as 0,1.

    Raises:
        UserError: one has the wrong form, or two are parts of the same GPU, which would disturb each other.
    """
    found = tuple(Gpu.parse(part) for part in text.split(","))
    if len({(gpu.index, gpu.uuid) for gpu in found}) != len(found):
        raise UserError(f"--gpu is {text!r}; give different GPUs, since work on one part disturbs the other")
    return found
